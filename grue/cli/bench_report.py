"""The report of `grue bench`, in Markdown."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from grue.cli.console import UNKNOWN, ends, p_value
from grue.leaderboard.board import Board, Estimate, Row
from grue.leaderboard.budgets import calls_of, differ
from grue.leaderboard.pairs import SystemPair, all_pairs, common_tasks, rank_ranges
from grue.records import BASELINES
from grue.sweep.fair import TunedRate


def report(board: Board, choices: Sequence[TunedRate]) -> str:
    """Return what a comparison found: scores, pairs, what is not decided, and how learning rates were chosen."""
    rows = sorted((row for row in board.rows if row.cells), key=_by_mean)
    tasks = common_tasks(rows)
    lines = [f"# {board.suite}: {', '.join(row.system for row in rows)}", ""]
    lines += [*_scores(rows, tasks), ""]
    compared = [row for row in rows if row.system not in BASELINES]
    pairs = all_pairs(board.rows, compared)
    lines += ["## Every two", "", *_pairs(pairs), "", *_undecided(pairs), ""]
    lines += [*_order(compared, tasks), *_budgets(rows), *_rates(choices)]
    lines += [f"- {note}" for note in board.notes]
    return "\n".join(lines).rstrip("\n") + "\n"


def _by_mean(row: Row) -> float:
    reached = [cell.preference.mean for cell in row.cells.values() if cell.preference is not None]
    return -sum(reached) / len(reached) if reached else 0.0


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _scores(rows: Sequence[Row], tasks: Sequence[str]) -> Iterator[str]:
    """Yield preference and naturalness of each task, means over seeds."""
    yield "Preference / naturalness, 0–100, means over seeds:"
    yield ""
    cells = []
    for row in rows:
        each = [row.cells[task] for task in tasks]
        scores = [(_value(cell.preference), _value(cell.naturalness)) for cell in each]
        means = [(_mean(values) for values in zip(*scores, strict=True))] if len(tasks) > 1 else []
        seeds = str(max(len(cell.seeds) for cell in each))
        cells.append([row.system, seeds, *(" / ".join(map(_figure, pair)) for pair in (*means, *scores))])
    yield from _table(["system", "seeds", *(["mean"] if len(tasks) > 1 else []), *tasks], cells)


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}"


def _pairs(pairs: Sequence[SystemPair]) -> Iterator[str]:
    head = ("A − B", "difference", "95 % interval", "p (t)", "p (signs)", "p (Holm)", "decided")
    rows = [
        (
            f"{pair.a} − {pair.b}",
            f"{pair.value:+.1f}",
            ends(pair.interval, "+.1f"),
            p_value(pair.p),
            UNKNOWN if pair.p_signs is None else p_value(pair.p_signs),
            p_value(pair.p_holm),
            "yes" if pair.is_decided else "no",
        )
        for pair in pairs
    ]
    yield from _table(head, rows)


def _undecided(pairs: Sequence[SystemPair]) -> Iterator[str]:
    """Yield what the seeds cannot decide, and how many would."""
    open_pairs = [pair for pair in pairs if not pair.is_decided]
    if not open_pairs:
        yield "Every difference is decided."
        return
    yield f"{len(open_pairs)} of {len(pairs)} differences are not decided:"
    yield ""
    for pair in open_pairs:
        needed = (
            f"about {pair.seeds} seeds each would find a true difference of this size four times in five"
            if pair.seeds
            else "how many seeds would is unknown, or more than a thousand"
        )
        yield f"- {pair.a} − {pair.b}, {pair.value:+.1f}: {needed}."


def _order(rows: Sequence[Row], tasks: Sequence[str]) -> Iterator[str]:
    """Yield how far the order depends on single tasks."""
    if len(tasks) < 2:
        return
    moved = [place for place in rank_ranges(rows) if {*place.without.values()} != {place.rank}]
    said = [f"{place.system} {min(place.without.values())} to {max(place.without.values())}" for place in moved]
    yield f"Ranks by the mean when one task is left out: {'; '.join(said) or 'the same'}."
    yield ""


def _budgets(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the reward calls of a run, where methods differ in them."""
    for task, calls in calls_of(rows).items():
        known = {rows[place].system: count for place, count in calls.items() if count is not None}
        if known and differ(max(known.values()), min(known.values())):
            listed = ", ".join(f"{name} {count:,.0f}" for name, count in known.items())
            yield f"**Unequal budgets** on {task}, reward calls of a run: {listed}."
            yield ""


def _rates(choices: Sequence[TunedRate]) -> Iterator[str]:
    """Yield how each learning rate was chosen."""
    if not choices:
        return
    yield "## Learning rates"
    yield ""
    yield "Chosen on validation, with a seed that no result has; the preference that each reached:"
    yield ""
    rows = [
        (
            Path(choice.source).stem,
            choice.algorithm,
            f"{choice.rate:g}",
            ", ".join(f"{rate:g}: {value:.1f}" for rate, value in choice.reached.items()),
        )
        for choice in choices
    ]
    yield from _table(("task", "method", "chosen", "tried"), rows)
    yield ""
