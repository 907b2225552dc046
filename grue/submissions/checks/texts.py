"""Suspicious texts of a system: copied, memorised or repeated ones, too even or too good scores."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev

from grue.records import Example, Prediction, unseen
from grue.stats.intervals import satterthwaite_interval
from grue.submissions.checks.likeness import SketchedRun, limit
from grue.submissions.checks.sketch import Shelf, bare, equal, near
from grue.submissions.problems import Problem, error, review, warning
from grue.tasks import Generation

FEW_DISTINCT = 0.25  # distinct texts for each example
MANY_EMPTY = 0.1
MANY_TRUNCATED = 0.9
HARDLY = 0.05  # points of preference, 0–100, that count as no difference
FAR = 5.0  # points of preference above the best row from which a leap is possible
LETTERS = 25  # characters of a text for each token that the task allows; a token of the paper's models has 4
EVEN = 0.1  # of the spread that as many different texts have at least
POINTS = 10.0  # standard deviation of one text's preference that is assumed for that, 0–100

_MOST_TRAINING = 50_000  # examples that are compared with


@dataclass(frozen=True)
class Known:
    """What a system's texts are compared with: a task's examples and its training split.

    Attributes:
        examples: Of the evaluation split.
        training: Empty if it is not available here.
    """

    examples: Sequence[Example]
    training: Sequence[Example]

    @cached_property
    def references(self) -> Mapping[str, tuple[str, ...]]:
        """Example id → its references, bare."""
        return {example.id: tuple(filter(None, map(bare, example.references))) for example in self.examples}

    @cached_property
    def trained(self) -> Shelf:
        """The references of the training split."""
        texts = (bare(text) for example in self.training[:_MOST_TRAINING] for text in example.references)
        return Shelf.of(filter(None, texts))

    def sources(self, predictions: Sequence[Prediction]) -> "Sources":
        """Return how many of a run's texts come from references."""
        drawn = [(prediction.id, bare(one.text)) for prediction in predictions for one in prediction.draws]
        texts = [text for _, text in drawn]
        own = [self.references.get(identity, ()) for identity, _ in drawn]
        copied = near(texts, own)
        memorised = self.trained.near(texts) & ~copied
        return Sources(float(copied.mean()), float(memorised.mean())) if texts else Sources()


@dataclass(frozen=True, slots=True)
class Sources:
    """Shares of a run's texts, 0–1.

    Attributes:
        copied: Near-copies of one of their example's references.
        memorised: Near-copies of references of the training split, but of none of their example's.
    """

    copied: float = 0.0
    memorised: float = 0.0


def check_characters(path: Path, predictions: Sequence[Prediction]) -> Iterator[Problem]:
    """Yield the characters of a run's texts that cannot be seen, and may deceive who reads them."""
    found = [signs for prediction in predictions for one in prediction.draws if (signs := unseen(one.text))]
    if found:
        named = ", ".join(f"U+{ord(sign):04X}" for sign in sorted(set().union(*found))[:5])
        yield error(46, path, f"{len(found):,} text{'s have' if len(found) > 1 else ' has'} {named}.")


def check_lengths(
    path: Path, examples: Sequence[Example], predictions: Sequence[Prediction], most_tokens: int, is_reference: bool
) -> Iterator[Problem]:
    """Yield if a text is far longer than the task allows.

    Args:
        predictions: In the order of the examples.
        most_tokens: The task's `max_new_tokens`.
        is_reference: Whether the system stands among the references, which may hand in the prompt.
    """
    for example, prediction in zip(examples, predictions, strict=True):
        given = (*example.references, example.prompt) if is_reference else example.references
        most = max([LETTERS * most_tokens, *map(len, given)])
        if (longest := max(len(one.text) for one in prediction.draws)) > most:
            yield error(47, path, f"{prediction.id}: {longest:,} characters, more than {most:,}.")
            return


def check_texts(path: Path, predictions: Sequence[Prediction], decoding: Generation) -> Iterator[Problem]:
    """Yield what is suspicious about the texts of one run as such."""
    drawn = [one for prediction in predictions for one in prediction.draws]
    texts = [bare(one.text) for one in drawn]
    distinct = len(set(texts))
    if distinct < FEW_DISTINCT * len(predictions):
        yield warning(32, path, f"{distinct:,} distinct texts for {len(predictions):,} examples.")
    empty = sum(not text for text in texts)
    if empty >= MANY_EMPTY * len(texts):
        yield warning(35, path, f"{empty:,} of {len(texts):,} texts are empty.")
    truncated = sum(one.truncated for one in drawn)
    all_of_one_length = decoding.min_new_tokens == decoding.max_new_tokens  # then every text is cut off
    if truncated >= MANY_TRUNCATED * len(texts) and not all_of_one_length:
        yield warning(35, path, f"{truncated:,} of {len(texts):,} texts were cut off at the length limit.")


def check_sources(path: Path, found: Sources, usual: Sources) -> Iterator[Problem]:
    """Yield if too many texts of a run come from references, of the evaluation or of the training split.

    Args:
        usual: The highest shares among other systems.
    """
    if found.copied >= limit(usual.copied):
        yield review(
            33, path, f"{found.copied:.0%} of its texts are near-copies of a reference{_beside(usual.copied)}."
        )
    if found.memorised >= limit(usual.memorised):
        said = f"{found.memorised:.0%} of its texts are near-copies of references of the training split"
        yield review(51, path, f"{said}{_beside(usual.memorised)}.")


def _beside(usual: float) -> str:
    return f"; of other systems' {usual:.0%}" if usual else "; no other system here has so many"


def check_against_references(folder: Path, preferences: Sequence[float], references: float | None) -> Iterator[Problem]:
    """Yield if a system beats the references by more than its seeds explain.

    Args:
        folder: The system's folder of the task.
        preferences: One per seed, 0–100.
        references: The preference of the references themselves; None if the task has none.
    """
    if references is None or not preferences:
        return
    interval = satterthwaite_interval({folder.name: preferences})
    least = min(preferences) if interval is None else interval.low
    if least > references + HARDLY:
        yield review(34, folder, f"preference {fmean(preferences):.2f}; the references get {references:.2f}.")


def check_leap(
    folder: Path, preferences: Sequence[float], best: float | None, references: float | None
) -> Iterator[Problem]:
    """Yield if a system is far above every other one: more than half of what was left to the references.

    Args:
        preferences: One per seed, 0–100.
        best: The highest preference of another competing system; None if there is none.
        references: The preference of the references; None if the task has none.
    """
    if not preferences or best is None:
        return
    above = fmean(preferences) - best
    left = max(0.0, (100.0 if references is None else references) - best)
    if above > max(FAR, left / 2):
        yield review(50, folder, f"preference {fmean(preferences):.2f}; the best of the other systems gets {best:.2f}.")


def check_spread(folder: Path, runs: Sequence[SketchedRun], preferences: Sequence[float]) -> Iterator[Problem]:
    """Yield if the scores of seeds differ far less than their texts do.

    If d of n texts differ between two seeds, and the preference of a text has a standard deviation of s, that of a run
    has s √d / n at least. Less than `EVEN` of that has a probability below 1 in 1,000 with five seeds.

    Args:
        preferences: Of the same runs, in any order.
    """
    if len(preferences) < 3 or len(runs) != len(preferences):
        return
    first = runs[0]
    n = len(first.sketch.slots)
    differing = n * (1 - fmean(equal(first.sketch, other.sketch) for other in runs[1:]))
    expected = POINTS * math.sqrt(differing) / max(n, 1)
    if stdev(preferences) < EVEN * expected:
        yield review(
            49,
            folder,
            f"standard deviation {stdev(preferences):.4f} over {len(preferences)} seeds, whose texts differ on "
            f"{differing / n:.0%} of the examples; expected {expected:.2f} or so.",
        )
