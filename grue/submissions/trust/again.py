"""Predictions of a run that was made again, beside those of the row: what is seen, as a line and for the record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grue.errors import SubmissionError
from grue.evaluation.evaluate import evaluate
from grue.evaluation.predictions import read_predictions
from grue.evaluation.systems import System
from grue.lm.device import scoring_device
from grue.provenance import code_version, machine, package_versions
from grue.submissions.trust.agreement import equal_share
from grue.submissions.trust.ladder import Scores, Seen
from grue.submissions.trust.rows import Target, scores_of

MOST_AT_ONCE = 1024  # prompts in a batch
MOST_THREADS = 64


@dataclass(frozen=True, slots=True)
class Witness:
    """Who looks, when, and with what.

    Attributes:
        grue: Version and commit of the code.
    """

    by: str
    date: str
    grue: Mapping[str, str]
    machine: str
    packages: Mapping[str, str]


def witness(by: str, date: str) -> Witness:
    """Return a witness at this machine."""
    import torch

    code = code_version()
    kind = machine(str(scoring_device()), torch.get_num_threads())
    return Witness(by, date, {key: code[key] for key in ("version", "commit")}, kind, package_versions())


def answer_again(
    target: Target, system: System, folder: Path, progress: Callable[[int, int], None]
) -> tuple[float, Scores]:
    """Draw predictions into `folder`, in the row's batches; return the share that is the row's, and their scores.

    Raises:
        DataError: Data, or predictions, cannot be read.
        SubmissionError: The row's predictions do not fit the examples.
    """
    then = target.read()
    said = target.result.determinism.get("batch_size")
    size = said if type(said) is int and 0 < said <= MOST_AT_ONCE else 64
    result = evaluate(target.task, system, folder, batch_size=size, search=False, progress=progress)
    now = {one.id: one for one in read_predictions(folder / "predictions.jsonl")}
    return equal_share(then, [now[one.id] for one in then]), scores_of(result)


def threads_of(found: Sequence[Target]) -> int | None:
    """Return with how many threads a row was made, since sums depend on it; None if it does not say."""
    said = [one.result.determinism.get("threads") for one in found]
    return next((one for one in said if type(one) is int and 0 < one <= MOST_THREADS), None)


def weights_of(target: Target) -> str:
    """Return what identifies the weights behind the row's predictions; empty if it does not say."""
    said = target.result.system.get("weights")
    return said if isinstance(said, str) else ""


def seen(target: Target, by: Witness, **what: Any) -> Seen:
    """Return what was seen of a run of the row."""
    return Seen(
        task=target.task.name,
        seed=target.seed,
        by=by.by,
        date=by.date,
        grue=by.grue,
        machine=by.machine,
        packages=by.packages,
        of=target.basis,
        then=scores_of(target.result),
        weights_then=weights_of(target),
        **what,
    )


def describe(one: Seen) -> str:
    """Return what was seen as a line."""
    axes = [
        f"{axis} {getattr(one.then, axis):.2f} → {getattr(one.now, axis):.2f}{_expected(one, axis)}"
        for axis in ("preference", "naturalness")
        if getattr(one.then, axis) is not None and getattr(one.now, axis) is not None
    ]
    weights = "equal weights" if one.weights_then == one.weights_now else "other weights"
    known = [weights] if one.weights_then else []
    parts = [*known, f"{one.equal_texts:.1%} equal texts", *axes]
    return f"{one.task} seed {one.seed}: {one.verdict} ({'; '.join(parts)})"


def _expected(one: Seen, axis: str) -> str:
    low, high = (one.intervals or {}).get(axis, (None, None))
    return "" if low is None else f", expected {low:.2f} to {high:.2f}"


def refuse_failed(found: list[Seen]) -> None:
    """Refuse a row of which a run did not pass.

    Raises:
        SubmissionError: One did not.
    """
    failed = [f"{one.task} seed {one.seed} is {one.verdict}" for one in found if not one.passed]
    if failed:
        raise SubmissionError(f"Not {found[0].rung}: {'; '.join(failed)}.")
