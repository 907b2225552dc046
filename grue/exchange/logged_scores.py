"""Two logs of another harness, compared on what it scored: which system is better, and how sure is that?

The same examples were given to both, so their differences are what counts: an example that is hard for both adds no
noise. D is the mean of the differences, epochs averaged. Examples are independent, or else clusters of them are
(questions about one text, variants of one problem), and their sums vary (Miller, "Adding error bars to evals", 2024).

p is Student's t. With clusters of unequal sizes the usual error is too small: each sum is weighed up by its share (CR2,
Bell & McCaffrey 2002), and the degrees of freedom are one less than the effective number of clusters (Carter et al.
2017). If all differences are equal there is nothing to estimate an error from, and p is that of their signs.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from grue.data.archives import File, json_values
from grue.errors import ConfigError, DataError, UnknownName, escaped, instead
from grue.exchange.inspect_log import read_samples
from grue.stats.intervals import Interval, student_t_p, student_t_quantile
from grue.stats.paired import LEVEL, holm

ENDINGS = (".eval", ".json", ".jsonl")
POWER = 0.8
LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
"""What inspect_ai writes instead of numbers (correct, incorrect, partial, no answer), as its metrics count it."""
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
        asked: Id → what was asked, as a text to compare; empty where the log does not say.
    """

    scores: Mapping[str, Mapping[str, float]]
    documents: Mapping[str, Mapping[str, Any]]
    asked: Mapping[str, str]


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
    """
    of_a, of_b = read_scores(a), read_scores(b)
    if other := next((key for key, text in of_a.asked.items() if of_b.asked.get(key, text) != text), None):
        raise DataError(
            f"{a} and {b} ask different things by the id '{escaped(other)}': compare logs of one task, of one version."
        )
    shared = [name for name in of_a.scores if name in of_b.scores]
    scores = list(dict.fromkeys(scores))
    for name in scores:
        for path, logged in ((a, of_a), (b, of_b)):
            if name not in logged.scores:
                raise UnknownName(f"{path} has no score {name!r}.{instead(name, logged.scores)}")
    chosen = scores or shared
    if not chosen:
        raise ConfigError(
            f"{a} has the scores {', '.join(of_a.scores)} and {b} {', '.join(of_b.scores)}: none is in both."
        )
    found = [_compared(name, a, b, of_a, of_b, cluster, common) for name in chosen]
    corrected = holm([one.p for one in found])
    return [replace(one, p_holm=p_holm) for one, p_holm in zip(found, corrected, strict=True)]


def _compared(
    name: str, a: Path, b: Path, of_a: Logged, of_b: Logged, cluster: str | None, common: bool
) -> ScoreCompared:
    """Return a score's comparison, whose p is not corrected yet."""
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
    units: list[str] = []  # the cluster of each example
    for identity in ids if cluster is not None else ():
        document = of_a.documents[identity]
        if document.get(str(cluster)) in (None, ""):
            known = instead(str(cluster), [key for key, value in document.items() if value is not None])
            raise UnknownName(f"{a}: the example '{escaped(identity)}' has no {cluster!r}.{known}")
        units.append(str(document[str(cluster)]))
    count = len(set(units)) if units else len(ids)
    if count < 2:
        raise DataError(f"{name}: all examples are of one cluster of {cluster!r}; nothing says how clusters differ.")
    value = float(differences.mean())
    error, degrees = _error(differences, units)
    unpaired = math.hypot(_error(x, units)[0], _error(y, units)[0])
    quantile = student_t_quantile((1 + LEVEL) / 2, degrees)
    if error > abs(value) * 1e-12:
        p = float(student_t_p(np.array([abs(value) / error]), np.array([degrees]))[0])
    else:
        p = 2.0 ** (1 - count) if value else 1.0
    return ScoreCompared(
        name=name,
        a=float(x.mean()),
        b=float(y.mean()),
        value=value,
        interval=Interval(value - error * quantile, value + error * quantile),
        error=error,
        unpaired=unpaired,
        p=p,
        p_holm=p,
        found=error * (quantile + student_t_quantile(POWER, degrees)),
        examples=len(ids),
        clusters=count if units else None,
    )


def _error(values: "np.ndarray[Any, np.dtype[np.float64]]", units: Sequence[str]) -> tuple[float, float]:
    """Return the standard error of a mean of [N] values, and its degrees of freedom; empty `units` are of one each."""
    sums: dict[str, float] = defaultdict(float)
    sizes: dict[str, int] = defaultdict(int)
    for unit, value in zip(units or map(str, range(len(values))), values - values.mean(), strict=True):
        sums[unit] += float(value)
        sizes[unit] += 1
    shares = np.array(list(sizes.values())) / len(values)
    squares = np.array(list(sums.values())) ** 2 / (1 - shares) / len(values) ** 2
    return math.sqrt(float(squares.sum())), max(1.0, 1 / float((shares**2).sum()) - 1)


# --- reading ---------------------------------------------------------------------------------------------------------


def is_log(name: str) -> bool:
    """Whether an argument is the file of a log."""
    return name.endswith(ENDINGS) and Path(name).is_file()


def read_scores(path: Path) -> Logged:
    """Return the scores of a log."""
    lines = _of_lm_eval(path) if path.suffix == ".jsonl" else _of_inspect(path)
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    documents: dict[str, Mapping[str, Any]] = {}
    asked: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    for identity, turn, text, document, scores in lines:
        if (identity, turn) in seen or asked.setdefault(identity, text) != text:
            raise DataError(
                f"{path}: the example '{escaped(identity)}' is in it twice. Give one log of one task; what was joined "
                "from several cannot be told apart."
            )
        seen.add((identity, turn))
        documents[identity] = document
        for name, value in scores:
            values[name][identity].append(value)
    if not values:
        raise DataError(f"{path}: no example has a score that is a number.")
    means = {name: {key: float(np.mean(of)) for key, of in by_id.items()} for name, by_id in values.items()}
    return Logged(means, documents, asked)


Line = tuple[str, str, str, Mapping[str, Any], Iterable[tuple[str, float]]]
"""Id, epoch or filter, what was asked, what the log has besides, and the scores of an example."""


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
        asked = json.dumps([_without_ids(sample.get("input")), sample.get("target")], sort_keys=True)
        besides = document if isinstance(document, dict) else {}
        yield str(sample["id"]), str(sample.get("epoch", 1)), asked, besides, list(_numbers(values))


def _without_ids(source: Any) -> Any:
    """Return what was asked without the ids of a chat's messages, which inspect draws anew in every evaluation."""
    if not isinstance(source, list):
        return source
    return [{**turn, "id": None} if isinstance(turn, dict) else turn for turn in source]


def _of_lm_eval(path: Path) -> Iterator[Line]:
    for where, line in json_values(File(path)):
        if not isinstance(line, dict) or "doc_id" not in line:
            raise DataError(f"{where}: no sample of lm-evaluation-harness: it has no doc_id.")
        of_filter = str(line.get("filter", "none"))
        suffix = "" if of_filter == "none" else f",{of_filter}"
        named = [(f"{name}{suffix}", value) for name, value in line.items() if name not in OF_LM_EVAL]
        document = line.get("doc")
        asked = json.dumps([document, line.get("target")], sort_keys=True)
        besides = document if isinstance(document, dict) else {}
        yield str(line["doc_id"]), of_filter, asked, besides, list(_numbers(named))


def _numbers(values: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield the values that are numbers, those of a dictionary by NAME/KEY."""
    for name, value in values:
        if isinstance(value, dict):
            yield from _numbers((f"{name}/{key}", one) for key, one in value.items())
        elif isinstance(value, str):
            with suppress(ValueError):  # a score that is a text, such as a reason
                number = LETTERS[value] if value in LETTERS else float(value)
                if math.isfinite(number):
                    yield name, number
        elif isinstance(value, bool | int | float) and math.isfinite(value):
            yield name, float(value)
