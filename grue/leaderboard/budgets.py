"""How many texts the reward scored, and whether systems that were trained with one used equally many.

The whole run counts, since the kept update was picked among all of its updates.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from statistics import fmean, median_high, median_low

from grue.leaderboard.board import Cell, Row
from grue.leaderboard.trained_on import names_no_reward
from grue.records import BASELINES, Entry
from grue.submissions.checks.claims import amounts, costs_of

TOLERANCE = 0.1
"""Two budgets count as equal if the larger is at most this share above the smaller."""
WITHIN = f"{100 * TOLERANCE:g} %"

_WITHOUT_REWARD = frozenset({"supervised", *BASELINES})

Calls = Mapping[str, Mapping[int, float | None]]
"""Task → place of a row → reward calls of a run, mean over seeds; None if unknown."""


def differ(calls: float, other: float) -> bool:
    """Whether two numbers of reward calls count as different."""
    return max(calls, other) > (1 + TOLERANCE) * min(calls, other)


def calls_of(rows: Sequence[Row]) -> Calls:
    """Return the reward calls of the rows that were trained with a reward."""
    calls: dict[str, dict[int, float | None]] = {}
    for i, row in enumerate(rows):
        for task, cell in row.cells.items():
            if _was_rewarded(row, cell):
                calls.setdefault(task, {})[i] = _mean(cell)
    return calls


def _was_rewarded(row: Row, cell: Cell) -> bool:
    """Whether training had a reward, not only best-of-n."""
    stated = [count for spent in (cell.training, cell.whole) for count in spent.get("reward_calls", {}).values()]
    trained = bool({*(cell.algorithms or (row.about.algorithm,))} - _WITHOUT_REWARD) or any(stated)
    return bool(cell.rewards) and row.standing != "reference" and trained


def _mean(cell: Cell) -> float | None:
    """Return the mean over the seeds that did not fail; None if one of them is unknown or 0, which is impossible."""
    calls = cell.whole.get("reward_calls", {})
    by_seed = [calls.get(seed, 0.0) for seed in cell.seeds if seed not in cell.failed]
    return fmean(by_seed) if by_seed and all(by_seed) else None


def ratios(calls: Calls) -> dict[int, dict[str, float]]:
    """Return place of a row → task → its reward calls over the median of the others, if others are known.

    Of two middle values the nearer counts, so that among three rows one outlier does not make the other two outliers.
    """
    by_row: dict[int, dict[str, float]] = {}
    for task, of_task in calls.items():
        counts = {i: count for i, count in of_task.items() if count is not None}
        for i, count in counts.items():
            if other_counts := [other for beside, other in counts.items() if beside != i]:
                middles = [count / middle(other_counts) for middle in (median_low, median_high)]
                by_row.setdefault(i, {})[task] = min(middles, key=lambda ratio: abs(log(ratio)))
    return by_row


def budget_notes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield whether the rows that were trained with a reward had equally many calls; nothing for a single row."""
    calls = calls_of(rows)
    if max((len(of_task) for of_task in calls.values()), default=0) < 2:
        return
    by_row = ratios(calls)
    unlike = {i: far for i, of_task in by_row.items() if (far := _unlike(of_task))}
    parts = []
    if unlike:
        names = []
        for i, ((task, ratio), *rest) in ((i, far.items()) for i, far in unlike.items()):
            where = f" on {task}" if len(calls) > 1 else ""
            more = f" and on {len(rest)} more" if rest else ""
            names.append(f"{_name(rows, i)} ({ratio:,.2f} times{where}{more})")
        parts.append(f"more than {WITHIN} off the others' median: {', '.join(sorted(names))}")
    elif by_row:
        parts.append(f"at most {WITHIN} off the others' median: {_names(rows, by_row)}")
    if unknown := {i for of_task in calls.values() for i, count in of_task.items() if count is None}:
        parts.append(f"not known: {_names(rows, unknown)}")
    yield f"Reward calls of a whole training run are {'; '.join(parts)}."


def _unlike(of_task: Mapping[str, float]) -> dict[str, float]:
    """Return the ratios that differ from 1, the farthest first."""
    far = {task: ratio for task, ratio in of_task.items() if differ(ratio, 1.0)}
    return dict(sorted(far.items(), key=lambda item: -abs(log(item[1]))))


def _names(rows: Sequence[Row], places: Iterable[int]) -> str:
    return ", ".join(sorted(_name(rows, i) for i in places))


def _name(rows: Sequence[Row], place: int) -> str:
    """Return a row's name, with its status and standing if another row has the same name."""
    row = rows[place]
    twins = sum(other.system == row.system for other in rows) > 1
    standing = row.status if row.standing == "ranked" else f"{row.status}, {row.standing}"
    return f"{row.system} ({standing})" if twins else row.system


def unlike_calls(a: str, b: str, tasks: Mapping[str, tuple[Sequence[Entry], Sequence[Entry]]]) -> Iterator[str]:
    """Yield on which tasks two systems that were trained with a reward state different numbers of reward calls."""
    differing, unknown = [], []
    for task, (ours, theirs) in tasks.items():
        if not (_rewarded(ours) and _rewarded(theirs)):
            continue
        first, second = _stated(ours), _stated(theirs)
        if first is None or second is None:
            unknown.append(task)
        elif differ(first, second):
            differing.append(f"{task} {first:,.0f} and {second:,.0f} ({first / second:,.2f} times)")
    if differing:
        listed = ", ".join(differing)
        yield f"Reward calls of a whole training run of {a} and {b} differ by more than {WITHIN}: {listed}."
    if unknown:
        yield f"Reward calls of a whole training run are not stated by both systems on {', '.join(unknown)}."


def _rewarded(entries: Sequence[Entry]) -> bool:
    trained = {str(entry.result.system.get("algorithm", "")) for entry in entries} - _WITHOUT_REWARD
    return bool(trained) and any(
        entry.result.system.get("reward") or names_no_reward(entry.result) for entry in entries
    )


def _stated(entries: Sequence[Entry]) -> float | None:
    """Return the mean reward calls of the whole run over the complete results; None if one does not state them."""
    results = [entry.result for entry in entries if entry.result.status == "complete"]
    counts = [amounts(costs_of(result)[1]).get("reward_calls", 0.0) for result in results]
    return fmean(counts) if counts and all(counts) else None
