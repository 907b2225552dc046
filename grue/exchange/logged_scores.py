"""Two logs of another harness, compared on what it scored: which system is better, and how sure is that?

The same examples were given to both, so their differences are what counts: an example that is hard for both adds no
noise. D is the mean of the differences, epochs averaged. Examples are independent, or else clusters of them are
(questions about one text, variants of one problem), and their sums vary (Miller, "Adding error bars to evals", 2024). p
is Student's t with one degree of freedom less than there are of these.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from grue.errors import ConfigError, DataError, UnknownName, escaped, instead
from grue.exchange import foreign_json
from grue.exchange.inspect_log import read_samples
from grue.stats.intervals import Interval, student_t_p, student_t_quantile
from grue.stats.paired import LEVEL, holm

ENDINGS = (".eval", ".json", ".jsonl")
POWER = 0.8
LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""What inspect_ai's scorers write for correct, incorrect, partial and no answer, as its metrics count them."""
OF_LM_EVAL = frozenset(
    "doc_id doc target arguments resps filtered_resps filter metrics doc_hash prompt_hash target_hash".split()
)
"""The keys of a line of lm-evaluation-harness that are no metrics."""


@dataclass(frozen=True, slots=True)
class Logged:
    """What a log says of its examples.

    Attributes:
        scores: Score → id → its mean over epochs, as far as it is a number.
        documents: Id → what the log has besides, where a cluster may be named.
    """

    scores: Mapping[str, Mapping[str, float]]
    documents: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ScoreCompared:
    """A score of two logs.

    Attributes:
        value: A's mean minus B's, on the score's own scale.
        error: Standard error of `value`; `unpaired` is what it would be if the examples had been different ones.
        p_holm: Corrected for the number of scores.
        found: The true difference that so many examples find four times in five.
        clusters: How many there are; None without.
    """

    name: str
    a: float
    b: float
    value: float
    interval: Interval
    error: float
    unpaired: float
    p: float
    p_holm: float
    found: float
    examples: int
    clusters: int | None


def compare_logs(
    a: Path, b: Path, *, scores: Sequence[str] = (), cluster: str | None = None, common: bool = False
) -> list[ScoreCompared]:
    """Compare two logs of inspect_ai (.eval, .json) or of lm-evaluation-harness (samples_….jsonl).

    Args:
        scores: Which to compare. [default: those that both logs have]
        cluster: The key of an example's metadata (lm-eval: of its document) that examples of one cluster share.
        common: Leave out the examples that only one log has.

    Raises:
        DataError: A log cannot be read, or the logs have other examples or fewer than two.
        UnknownName: A log has no such score, or an example no such key.
        ConfigError: The logs have no score in common.
    """
    of_a, of_b = read_scores(a), read_scores(b)
    shared = [name for name in of_a.scores if name in of_b.scores]
    for name in scores:
        for path, logged in ((a, of_a), (b, of_b)):
            if name not in logged.scores:
                raise UnknownName(f"{path} has no score {name!r}.{instead(name, logged.scores)}")
    chosen = list(scores) or shared
    if not chosen:
        raise ConfigError(
            f"{a} has the scores {', '.join(of_a.scores)} and {b} {', '.join(of_b.scores)}: none is in both."
        )
    found = [_compared(name, a, b, of_a, of_b, cluster, common) for name in chosen]
    corrected = holm([one[-1] for one in found])
    return [ScoreCompared(**fields, p=p, p_holm=p_holm) for (fields, p), p_holm in zip(found, corrected, strict=True)]


def _compared(
    name: str, a: Path, b: Path, of_a: Logged, of_b: Logged, cluster: str | None, common: bool
) -> tuple[dict[str, Any], float]:
    """Return the fields of a score's comparison, and its p."""
    one, other = of_a.scores[name], of_b.scores[name]
    ids = [identity for identity in one if identity in other]
    if not common and (len(ids) < len(one) or len(ids) < len(other)):
        lacking = next(iter((one.keys() ^ other.keys()) - set(ids)))
        raise DataError(
            f"{name}: {a} has {len(one)} examples with it and {b} {len(other)}, of which {len(ids)} are the same; "
            f"'{escaped(lacking)}' is in one alone. Compare on those that both have with --common."
        )
    if len(ids) < 2:
        raise DataError(f"{name}: {len(ids)} examples in common; a difference needs two at least.")
    x, y = (np.array([values[identity] for identity in ids]) for values in (one, other))
    differences = x - y
    units = _units(ids, of_a.documents, cluster, a)
    value, error = float(differences.mean()), _error(differences, units)
    unpaired = math.hypot(_error(x, units), _error(y, units))
    count = len(set(units)) if units else len(ids)
    if count < 2:
        raise DataError(f"{name}: all examples are of one cluster of {cluster!r}; nothing says how clusters differ.")
    half = error * student_t_quantile((1 + LEVEL) / 2, count - 1) if error else 0.0
    p = float(student_t_p(np.array([abs(value) / error]), np.array([count - 1.0]))[0]) if error else float(value == 0)
    found = (student_t_quantile((1 + LEVEL) / 2, count - 1) + student_t_quantile(POWER, count - 1)) * error
    fields = {
        **{"name": name, "a": float(x.mean()), "b": float(y.mean()), "value": value, "error": error},
        **{"interval": Interval(value - half, value + half), "unpaired": unpaired, "found": found},
        **{"examples": len(ids), "clusters": count if units else None},
    }
    return fields, p


def _units(
    ids: Sequence[str], documents: Mapping[str, Mapping[str, Any]], cluster: str | None, path: Path
) -> list[str]:
    """Return the cluster of each example; empty without clusters."""
    if cluster is None:
        return []
    for identity in ids:
        if documents[identity].get(cluster) in (None, ""):
            known = instead(cluster, [key for key, value in documents[identity].items() if value is not None])
            raise UnknownName(f"{path}: the example '{escaped(identity)}' has no {cluster!r}.{known}")
    return [str(documents[identity][cluster]) for identity in ids]


def _error(values: "np.ndarray[Any, np.dtype[np.float64]]", units: Sequence[str]) -> float:
    """Return the standard error of a mean of [N] values, of independent examples or of independent clusters."""
    rest = values - values.mean()
    if units:
        sums: dict[str, float] = defaultdict(float)
        for unit, value in zip(units, rest, strict=True):
            sums[unit] += float(value)
        rest = np.array(list(sums.values()))
    count = len(rest)
    return math.sqrt(float((rest**2).sum()) * count / max(1, count - 1)) / len(values)


# --- reading ---------------------------------------------------------------------------------------------------------


def is_log(name: str) -> bool:
    """Whether an argument is the file of a log."""
    return name.endswith(ENDINGS) and Path(name).is_file()


def read_scores(path: Path) -> Logged:
    """Return the scores of a log.

    Raises:
        DataError: It cannot be read, is no log, or has no score that is a number.
    """
    lines = _of_lm_eval(path) if path.suffix == ".jsonl" else _of_inspect(path)
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    documents: dict[str, Mapping[str, Any]] = {}
    for identity, document, scores in lines:
        documents[identity] = document
        for name, value in scores:
            values[name][identity].append(value)
    if not values:
        raise DataError(f"{path}: no example has a score that is a number.")
    means = {name: {key: float(np.mean(of)) for key, of in by_id.items()} for name, by_id in values.items()}
    return Logged(means, documents)


Line = tuple[str, Mapping[str, Any], Iterable[tuple[str, float]]]


def _of_inspect(path: Path) -> Iterator[Line]:
    for where, sample in read_samples(path):
        if not isinstance(sample, dict) or "id" not in sample:
            raise DataError(f"{where}: no sample of inspect: expected id, epoch and scores.")
        if sample.get("error"):
            continue  # inspect counts it in no mean
        scores = sample.get("scores")
        listed = scores.items() if isinstance(scores, dict) else ()
        values = [(name, score["value"]) for name, score in listed if isinstance(score, dict) and "value" in score]
        document = sample.get("metadata")
        yield str(sample["id"]), document if isinstance(document, dict) else {}, list(_numbers(values))


def _of_lm_eval(path: Path) -> Iterator[Line]:
    for where, line in foreign_json.read_lines(path):
        if not isinstance(line, dict) or "doc_id" not in line:
            raise DataError(f"{where}: no sample of lm-evaluation-harness: it has no doc_id.")
        of_filter = str(line.get("filter", "none"))
        named = [(name if of_filter == "none" else f"{name},{of_filter}", value) for name, value in line.items()
                 if name not in OF_LM_EVAL]  # fmt: skip
        document = line.get("doc")
        yield str(line["doc_id"]), document if isinstance(document, dict) else {}, list(_numbers(named))


def _numbers(values: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield the values that are numbers, those of a dictionary by NAME/KEY."""
    for name, value in values:
        if isinstance(value, dict):
            yield from _numbers((f"{name}/{key}", one) for key, one in value.items())
        elif isinstance(value, str):
            if value in LETTERS:
                yield name, LETTERS[value]
        elif isinstance(value, bool | int | float) and math.isfinite(value):
            yield name, float(value)
