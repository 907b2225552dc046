"""How fluent the references of a task of the suite small are to its judge, and how varied.

The first is `typical` and `reference` of the task's perplexity, the second the range of its `ttr`: their mean, and
three standard deviations below.

    python experiments/human_fluency.py commongen FOLDER

FOLDER holds the task's data in the original layout. Of each example of the evaluation split, the first reference is
read, cut to as many tokens as a response may have. `perplexity:bounded` depends on its `typical`; the number that is
printed is the one that is its own value, as nearly as there is one.
"""

import math
from pathlib import Path

import click
import numpy as np

from grue.data.load import load_examples
from grue.lm.chat import cut_text
from grue.lm.load import load_tokenizer
from grue.metrics.diversity import ttr
from grue.metrics.neural.perplexity import TextLosses
from grue.metrics.perplexity import LEAST, MOST
from grue.task_files import load_task
from grue.tasks import Prompt


@click.command()
@click.argument("task")
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.option("--judge", help="The language model. [default: the task's backbone]")
@click.option("--split", help="[default: the task's evaluation split]")
@click.option("--limit", type=int, default=500, show_default=True, help="Examples that are read at most.")
def main(task: str, folder: Path, judge: str | None, split: str | None, limit: int) -> None:
    """Print the perplexity of the references of TASK, and their share of distinct words."""
    of_task = load_task(task, "small")
    judge = judge or of_task.backbone.model
    tokenizer, room = load_tokenizer(judge), Prompt(of_task.decoding.max_new_tokens, "right")
    found = load_examples(of_task, split or of_task.data.evaluation, folder).examples
    examples = [one for one in found if one.references][:limit]
    context = next(int(spec.options["context"]) for spec in of_task.metrics if "context" in spec.options)
    texts = [cut_text(tokenizer, one.references[0], room) for one in examples]
    losses, tokens = TextLosses("perplexity", judge, "", 16, context).statistics(examples, texts).T
    each = losses / tokens
    varied = ttr().statistics(examples, texts)
    plain = math.exp(losses.sum() / tokens.sum())
    steps = np.linspace(each.min(), each.max(), 100_001)
    typical = float(min(steps, key=lambda step: abs(bounded(each, step) - step)))
    spread = each.std(ddof=1) / math.sqrt(len(each))
    click.echo(
        f"{task}: {math.exp(typical):.1f} (± {100 * spread:.0f} %, one standard error), of {len(each)} references of "
        f"{tokens.mean():.0f} tokens; not bounded, by tokens: {plain:.1f}; "
        f"ttr {varied.mean():.3f} ± {varied.std(ddof=1):.3f} over texts"
    )


def bounded(each: "np.ndarray[tuple[int], np.dtype[np.float64]]", typical: float) -> float:
    """Return the logarithm of `perplexity:bounded` of texts with these mean losses."""
    above = each - typical
    above = np.where(above < -math.log(LEAST), -above, above)
    return float((typical + np.minimum(above, math.log(MOST))).mean())


if __name__ == "__main__":
    main()
