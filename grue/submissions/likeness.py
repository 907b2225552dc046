"""Suspicious predictions: copied or repeated texts, few distinct texts, or better scores than the references'."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from grue.records import Example, Prediction
from grue.stats.intervals import satterthwaite_interval
from grue.submissions.problems import Problem, error, warning
from grue.tasks import Generation

NEARLY_ALL = 0.9  # share of equal texts between two runs; sampled runs on the board share under a tenth
FEW_DISTINCT = 0.25  # distinct texts for each example
MANY_VERBATIM = 0.5  # share of texts that are a reference, word for word
MANY_EMPTY = 0.1
MANY_TRUNCATED = 0.9
HARDLY = 0.05  # points of preference, 0–100, that count as no difference

Fingerprint = frozenset[int]
"""Identifies a run's texts: one hash for each example and its text."""


def fingerprint(predictions: Sequence[Prediction]) -> Fingerprint:
    """Return the fingerprint of predictions; order, case and white space do not matter."""
    return frozenset(hash((prediction.id, _normal(prediction.text))) for prediction in predictions)


def check_twins(runs: Mapping[Path, Fingerprint]) -> Iterator[Problem]:
    """Yield the seeds of a system and task that share all or nearly all texts with an earlier seed."""
    paths = sorted(runs)
    for index, path in enumerate(paths):
        for earlier in paths[:index]:
            shared = _shared(runs[path], runs[earlier])
            if shared == 1:
                yield error(17, path, f"has the same texts as {earlier.name}.")
                break
            if shared >= NEARLY_ALL:
                yield warning(38, path, f"{shared:.0%} of its texts are those of {earlier.name}.")
                break


def check_copies(
    runs: Mapping[Path, Fingerprint], others: Mapping[Path, Fingerprint], kept: Collection[Path] = ()
) -> Iterator[Problem]:
    """Yield the runs that share all or nearly all texts with another system's run.

    Args:
        kept: Predictions, of either side, made by the policy that training started from, as validation never improved.
    """
    for path in sorted(runs):
        shared = {other: _shared(runs[path], others[other]) for other in sorted(others)}
        closest = max(shared, key=lambda other: shared[other], default=None)
        if closest is None or shared[closest] < NEARLY_ALL:
            continue
        whose = f"{closest.parent.parent.name}, {closest.name}"
        if shared[closest] == 1 and path in kept:
            yield warning(45, path, f"has the same texts as {whose}.")
        elif shared[closest] == 1 and closest not in kept:
            yield error(18, path, f"has the same texts as {whose}.")
        elif shared[closest] == 1:
            continue  # the other run is the copy, and is reported
        else:
            yield warning(38, path, f"{shared[closest]:.0%} of its texts are those of {whose}.")


def check_texts(
    path: Path, examples: Sequence[Example], predictions: Sequence[Prediction], decoding: Generation
) -> Iterator[Problem]:
    """Yield what is suspicious about the texts of one run; `predictions` are in the order of the examples."""
    texts = [_normal(prediction.text) for prediction in predictions]
    distinct = len(set(texts))
    if distinct < FEW_DISTINCT * len(texts):
        yield warning(32, path, f"{distinct:,} distinct texts for {len(texts):,} examples.")
    verbatim = sum(
        text in {_normal(reference) for reference in example.references}
        for example, text in zip(examples, texts, strict=True)
    )
    if verbatim >= MANY_VERBATIM * len(texts):
        yield warning(33, path, f"{verbatim:,} of {len(texts):,} texts are a reference, word for word.")
    empty = sum(not text for text in texts)
    if empty >= MANY_EMPTY * len(texts):
        yield warning(35, path, f"{empty:,} of {len(texts):,} texts are empty.")
    truncated = sum(prediction.truncated for prediction in predictions)
    all_of_one_length = decoding.min_new_tokens == decoding.max_new_tokens  # then every text is cut off
    if truncated >= MANY_TRUNCATED * len(texts) and not all_of_one_length:
        yield warning(35, path, f"{truncated:,} of {len(texts):,} texts were cut off at the length limit.")


def check_against_references(folder: Path, preferences: Sequence[float], references: float | None) -> Iterator[Problem]:
    """Yield a warning if a system beats the references by more than its seeds explain.

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
        yield warning(
            34, folder, f"preference {sum(preferences) / len(preferences):.2f}; the references get {references:.2f}."
        )


def _shared(one: Fingerprint, other: Fingerprint) -> float:
    return len(one & other) / max(len(one), len(other), 1)


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()
