"""Examples with outputs for the tests of the page, and texts that try to leave their place."""

from support.factories import a_task

from grue.leaderboard.examples import Output, ShownExample, TaskExamples
from grue.records import Example

HOSTILE_TEXTS = (
    "</script><script>alert(1)</script>",
    "<!--<script><img src=x onerror=alert(1)>",
    '");alert(1);("\\',
    "a\u2028b\u2029c\u202ed\u200fe\x00f\x1b[2J\tg\nh",
    "${alert(1)}`{{ 7*7 }}&amp;&lt;",
    "x" * 5_000,
)


def some_examples(text: str = "", count: int = 12) -> TaskExamples:
    """Examples of the task "stories" with the outputs of nlpo, ppo and a system without; all texts `text`, if given."""
    return TaskExamples(
        suite="mini",
        task="stories",
        hash=a_task("stories").hash,
        split="test",
        of=1000,
        systems=(("nlpo", 1), ("ppo", 1), ("oracle", 0)),
        metrics=("meteor",),
        examples=tuple(
            ShownExample(
                Example(f"stories-{i}", text or f"Tell story {i}.", (text or f"A tale of {i}.", "Another.")),
                drawn=i % 2 == 0,
                difference=0.25 + i / 20,
                outputs=(
                    Output(text or f"nlpo wrote {i}", False, (0.13 + i / 100,)),
                    Output(text or f"{'nlpo' if i == 3 else 'ppo'} wrote {i}", True, (0.5,)),
                    None,
                ),
            )
            for i in range(count)
        ),
    )
