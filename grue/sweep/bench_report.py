"""What `grue bench` found: verdicts, scores, every two systems, what is not decided and what would decide it."""

from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from grue.leaderboard.board import Board, Estimate, Row
from grue.leaderboard.budgets import calls_of, differ
from grue.leaderboard.pairs import SystemPair, common_tasks, rank_ranges
from grue.records import BASELINES
from grue.render.figures import ends, figure, p_value
from grue.render.layout import TextTable, plain_table
from grue.render.report import DrawnDifference, Part
from grue.render.text import listed
from grue.sweep.fair import TWICE, TunedRate


def compared_rows(board: Board, left_out: Container[str] = BASELINES) -> list[Row]:
    """Return the rows whose differences are tested, the highest mean first."""
    return [row for row in _ordered(board) if row.system not in left_out]


def title_of(board: Board) -> str:
    """Return the report's title."""
    return f"Comparison on {board.suite}: {', '.join(common_tasks(_ordered(board)))}"


def parts_of(
    board: Board,
    pairs: Sequence[SystemPair],
    naturalness: Sequence[SystemPair],
    choices: Sequence[TunedRate],
    about: str,
) -> list[Part]:
    """Return the report of a comparison.

    `pairs` are every two of `compared_rows`, in their order.
    """
    rows, tested = _ordered(board), {name for pair in pairs for name in (pair.a, pair.b)}
    compared = [row for row in rows if row.system in tested]
    tasks = common_tasks(rows)
    drawn = [DrawnDifference(pair.value, pair.interval, pair.is_decided) for pair in pairs]
    return [
        *([Part(lines=(about,))] if about else []),
        Part(items=tuple(_verdicts(compared, pairs, naturalness)), lines=tuple(_controls(compared))),
        Part("Scores", table=_scores(rows, tasks), lines=(SCALES, *_order(compared, tasks), *_budgets(rows))),
        Part("Every two", table=_pairs(pairs, tasks), drawn=drawn, lines=tuple(_tests(pairs))),
        *([Part("Not decided", items=undecided)] if (undecided := tuple(_undecided(pairs))) else []),
        *([Part("Learning rates", table=_rates(choices), lines=(CHOSEN,))] if choices else []),
        *([Part("Notes", items=tuple(board.notes))] if board.notes else []),
    ]


SCALES = "Preference / naturalness, 0–100, means over seeds."
CHOSEN = "Chosen on validation, with a seed that no result has, by the preference that each reached."


def _ordered(board: Board) -> list[Row]:
    def mean(row: Row) -> float:
        return _mean([_value(cell.preference) for cell in row.cells.values()]) or 0.0

    return sorted((row for row in board.rows if row.cells), key=mean, reverse=True)


# --- verdicts --------------------------------------------------------------------------------------------------------


def _verdicts(rows: Sequence[Row], pairs: Sequence[SystemPair], naturalness: Sequence[SystemPair]) -> Iterator[str]:
    """Yield a sentence for each system: what it is better than, at what cost in naturalness, and what is open."""
    less = {(pair.a, pair.b) if pair.value < 0 else (pair.b, pair.a) for pair in naturalness if pair.is_decided}
    tasks = common_tasks(rows, "naturalness")
    reached = {row.system: _mean([_value(row.cells[task].naturalness) for task in tasks]) for row in rows}
    if not any(pair.is_decided for pair in pairs):
        yield f"No difference is decided: {rows[0].system} has the highest mean, which chance alone may explain."
        return

    def cost(*names: str) -> str:
        low, high = (figure(reached[name], ".1f") for name in names)
        return f", at a lower naturalness: {low} against {high}"

    for row in rows:
        own = [pair for pair in pairs if row.system in (pair.a, pair.b)]
        others = [(pair.b, pair.value, pair) if pair.a == row.system else (pair.a, -pair.value, pair) for pair in own]
        better = [
            f"{name} ({_signed(value)}{cost(row.system, name) if (row.system, name) in less else ''})"
            for name, value, pair in others
            if pair.is_decided and value > 0
        ]
        still = [f"{name} ({_signed(value)})" for name, value, pair in others if not pair.is_decided]
        above = f"is better than {listed(better)}" if better else "" if still else "is worse than every other system"
        open_ = f"is not decided against {listed(still)}" if still else ""
        yield f"{row.system} {', and '.join(filter(None, (above, open_)))}."


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _controls(rows: Sequence[Row]) -> Iterator[str]:
    names = sorted(row.system for row in rows)
    told = [f"{name}, the start trained for twice as long" for name in names if name.startswith(TWICE)]
    told += [f"{name}, the best of several samples of the start" for name in names if "+best-of-" in name]
    if told:
        than = "both" if len(told) > 1 else "it"
        yield f"Controls: {'; '.join(told)}. A method not better than {than} has not shown that its rewards help."


# --- tables ----------------------------------------------------------------------------------------------------------


def _scores(rows: Sequence[Row], tasks: Sequence[str]) -> TextTable:
    """Return preference and naturalness of each task, means over seeds."""
    cells = []
    for row in rows:
        each = [row.cells[task] for task in tasks]
        scores = [(_value(cell.preference), _value(cell.naturalness)) for cell in each]
        means = [tuple(_mean(values) for values in zip(*scores, strict=True))] if len(tasks) > 1 else []
        seeds = str(max(len(cell.seeds) for cell in each))
        cells.append(
            [row.system, seeds, *(" / ".join(figure(one, ".1f") for one in pair) for pair in (*means, *scores))]
        )
    return plain_table(["system", "seeds", *(["mean"] if len(tasks) > 1 else []), *tasks], cells)


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.mean


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _over_examples(pairs: Sequence[SystemPair]) -> bool:
    return any(pair.examples is not None for pair in pairs)


def _pairs(pairs: Sequence[SystemPair], tasks: Sequence[str]) -> TextTable:
    with_signs = _with_signs(pairs)
    over_seeds = not _over_examples(pairs)
    head = (
        *("A", "B", "A − B", "95 % interval"),
        *(["test"] if over_seeds else []),
        *("p", *(["p, signs"] if with_signs else []), "Holm p", "decided"),
    )
    rows = [
        (
            pair.a,
            pair.b,
            f"{pair.value:+.1f}",
            ends(pair.interval, "+.1f"),
            *(
                ["paired" if len(pair.paired) == len(tasks) else "mixed" if pair.paired else "Welch"]
                if over_seeds
                else []
            ),
            p_value(pair.p),
            *([p_value(pair.p_signs)] if with_signs else []),
            p_value(pair.p_holm),
            "yes" if pair.is_decided else "no",
        )
        for pair in pairs
    ]
    decided = [(i, j) for i, pair in enumerate(pairs) if pair.is_decided for j in (2, len(head) - 1)]
    return plain_table(head, rows, left=(0, 1), strong=decided)


def _tests(pairs: Sequence[SystemPair]) -> Iterator[str]:
    if _over_examples(pairs):
        yield "p: the randomisation test over examples, with seeds as a second source of chance."
    else:
        signs = " p, signs: the exact sign-flip test; – where seeds are no pairs." if _with_signs(pairs) else ""
        yield (
            "p: Student's t over seeds, the examples as given; paired where seed k of both began from the same "
            f"trained model, else Welch's (mixed: both, by task).{signs}"
        )
    number = f"all {len(pairs)} pairs" if len(pairs) > 1 else "this pair alone"
    yield (
        f"Holm p corrects p for {number}; a pair is decided where it is below .05. Differences are of the mean "
        "preference over tasks."
    )


def _with_signs(pairs: Sequence[SystemPair]) -> bool:
    return any(pair.p_signs is not None for pair in pairs)


def _undecided(pairs: Sequence[SystemPair]) -> Iterator[str]:
    """Yield what is not decided, and how many seeds or examples would."""
    for pair in pairs:
        if pair.is_decided:
            continue
        if pair.seeds or pair.examples:
            count = f"{pair.seeds} seeds each" if pair.seeds else f"{pair.examples:,} examples a task"
            needed = f"about {count} would decide a true difference of this size four times in five"
        elif pair.interval.half_width == float("inf"):
            needed = "one seed decides nothing; take at least three, such as --seeds 1-3"
        else:
            needed = "how many seeds would is unknown, or more than a thousand"
        yield f"{pair.a} − {pair.b}, {_signed(pair.value)}: {needed}."


def _order(rows: Sequence[Row], tasks: Sequence[str]) -> Iterator[str]:
    """Yield how far the order depends on single tasks."""
    if len(tasks) > 1:
        moved = [place for place in rank_ranges(rows) if {*place.without.values()} != {place.rank}]
        said = [f"{place.system} {min(place.without.values())} to {max(place.without.values())}" for place in moved]
        yield f"Ranks by the mean when one task is left out: {'; '.join(said) or 'the same'}."


def _budgets(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the reward calls of a run, where methods differ in them."""
    for task, calls in calls_of(rows).items():
        known = {rows[place].system: count for place, count in calls.items() if count is not None}
        if known and differ(max(known.values()), min(known.values())):
            listed = ", ".join(f"{name} {count:,.0f}" for name, count in known.items())
            yield f"Unequal budgets on {task}, reward calls of a run: {listed}."


def _rates(choices: Sequence[TunedRate]) -> TextTable:
    """Return how each learning rate was chosen."""
    rows = [
        (
            Path(choice.source).stem,
            choice.algorithm,
            f"{choice.rate:g}",
            ", ".join(f"{rate:g}: {value:.1f}" for rate, value in choice.reached.items()),
        )
        for choice in choices
    ]
    return plain_table(("task", "method", "chosen", "tried"), rows, left=(0, 1))
