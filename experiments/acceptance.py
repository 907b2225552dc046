"""Whether a board can tell methods apart: `python experiments/acceptance.py [--board leaderboard/mini.json]`.

With `--table`, instead: preference of each system on each task, bold where it is decidedly above the start. With
`--draws`: the public test beside the fresh draws of the rows' records, one seed a task.

Five measures, with targets that were set before the third edition's rows were made (docs/background/protocol.md):

- M2: no task brings more than 40 % of a method's gain over its start, and leaving a task out changes no decided sign.
- M3: on five of seven tasks a quarter of all pairs of methods are decided, after Holm over the pairs of the task.
- M4: two halves of the seeds rank the methods alike: Kendall's τ of .8, without IMDB too.
- M5: controls that learn nothing from the reward are above the best method on one task at most.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from grue.leaderboard.board import Board, Row
from grue.leaderboard.lineage import are_pairs, starts_on
from grue.leaderboard.places import contrast
from grue.leaderboard.published import read_board
from grue.records import LOOKUPS
from grue.stats.correlation import kendall
from grue.stats.intervals import mean
from grue.stats.paired import LEVEL, Contrast, holm, judge_seeds
from grue.submissions.trust.draw import Gap
from grue.submissions.trust.record import read_trust

ROOT = Path(__file__).parent.parent
START = "supervised"
PICKED = f"{START}+best-of-"
"""A control's name: the best of several samples of the start. All that does not begin from the start is one, too."""
PEOPLE = "oracle"
SHARE, DECIDED, TASKS, TAU = 0.4, 0.25, 5, 0.8


def main() -> None:
    """Print the measures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--board", type=Path, default=ROOT / "leaderboard" / "mini.json")
    parser.add_argument("--table", action="store_true", help="the table of docs/background/findings.md")
    parser.add_argument("--draws", action="store_true", help="what the records of verified rows say of fresh draws")
    asked = parser.parse_args()
    if asked.draws:
        print(*draws(ROOT / "submissions" / "mini"), sep="\n")
        return
    board = read_board(asked.board)
    if asked.table:
        print(*table(board), sep="\n")
        return
    rows = [row for row in board.rows if row.standing in ("ranked", "partial") and not row.system.startswith(PICKED)]
    methods = [row for row in rows if row.system == START or row.system.startswith(f"{START}+")]
    tasks = [task.name for task in board.tasks if all(task.name in row.cells for row in methods)]
    if len(tasks) < len(board.tasks):
        print(f"On {', '.join(tasks)} alone: on the others some have no results.")
    print(f"{len(methods)} methods: {', '.join(row.system for row in methods)}.\n")
    for measure in (shares(methods, tasks), left_out(board, methods, tasks), decided(board, methods, tasks)):
        print(*measure, "", sep="\n")
    print(*halves(methods, tasks), "", sep="\n")
    print(*controls(board, methods, tasks), sep="\n")


def table(board: Board) -> Iterator[str]:
    """Yield systems by their mean; bold where one is decidedly above the start, Holm over a task's ranked pairs."""
    tasks = [task.name for task in board.tasks]
    ranked = [row for row in board.rows if row.standing == "ranked"]
    beside = [row for row in board.rows if row.system == "zero-shot" or row.system.startswith(PICKED)]
    yield "| preference | mean | " + " | ".join(f"`{task}`" for task in tasks) + " |"
    yield "|---|" + "---|" * (len(tasks) + 1)
    cells = []
    for task in tasks:
        lookups = [row for row in board.rows if row.system in LOOKUPS and task in row.cells]
        best = max(lookups, key=lambda row: preference(row, task))
        cells.append(f"{preference(best, task):.1f} (`{best.system}`)")
    yield f"| best lookup | – | {' | '.join(cells)} |"
    above = {task: signs(board, ranked, [task]) for task in tasks}
    for row in sorted(beside + ranked, key=lambda row: mean([preference(row, task) for task in tasks])):
        values = {task: preference(row, task) for task in tasks}
        sign = {
            task: above[task].get((row.system, START), 0) - above[task].get((START, row.system), 0) for task in tasks
        }
        cells = [f"**{value:.1f}**" if sign[task] == 1 else f"{value:.1f}" for task, value in values.items()]
        yield f"| `{row.system}` | {mean(list(values.values())):.1f} | {' | '.join(cells)} |"


def draws(folder: Path) -> Iterator[str]:
    """Yield preference on the public test and on fresh draws: by task, and each row's lead over the start."""
    gaps: dict[str, dict[str, Gap]] = {}
    for path in sorted(folder.glob("*.trust.json")):
        system = path.name.removesuffix(".trust.json")
        if trust := read_trust(folder / system):
            gaps[system] = {run.task: run.fresh.gaps["preference"] for run in trust.reruns if run.fresh}
    for task in gaps[START]:
        yield f"{task}: public − fresh {mean([row[task].value for row in gaps.values()]):+.1f} over {len(gaps)} rows"
    for of in (START, f"{START}_x2"):
        yield f"\n| lead over {of} | public | fresh |\n|---|---|---|"
        for system, row in gaps.items():
            public = mean([gap.public - gaps[of][task].public for task, gap in row.items()])
            fresh = mean([gap.fresh - gaps[of][task].fresh for task, gap in row.items()])
            yield f"| {system} | {public:+.1f} | {fresh:+.1f} |"


def by_seed(row: Row, task: str) -> Mapping[int, float]:
    """Return preference by seed, in points."""
    estimate = row.cells[task].preference
    assert estimate is not None, "rows that are ranked have one"
    return estimate.by_seed


def preference(row: Row, task: str) -> float:
    """Return the mean over seeds, in points."""
    return mean(list(by_seed(row, task).values()))


def shares(methods: Sequence[Row], tasks: Sequence[str]) -> Iterator[str]:
    """Yield, for each method that began from the start, which share of its gain each task brings."""
    start = next(row for row in methods if row.system == START)
    yield "| M2: share of the gain over the start | gain | " + " | ".join(tasks) + " | largest |"
    yield "|---|---|" + "---|" * len(tasks) + "---|"
    for row in methods:
        gains = np.array([preference(row, task) - preference(start, task) for task in tasks])
        if row is start or gains.sum() <= 0:
            continue
        of = gains / gains.sum()
        cells = " | ".join(f"{share:.0%}" for share in of)
        verdict = "" if of.max() <= SHARE else " above 40 %"
        yield f"| {row.system} | {gains.mean():+.2f} | {cells} | {of.max():.0%}{verdict} |"


def contrasts(board: Board, a: Row, b: Row, tasks: Sequence[str]) -> list[Contrast]:
    """Return two rows on tasks; seeds that began from the same weights are pairs."""
    starts = starts_on(board.rows)
    return [
        contrast(by_seed(a, task), by_seed(b, task), are_pairs(a.cells[task], b.cells[task], starts.get(task, {})))
        for task in tasks
    ]


def signs(board: Board, methods: Sequence[Row], tasks: Sequence[str]) -> dict[tuple[str, str], int]:
    """Return 1 or -1 for each pair whose difference of means is decided, 0 for the others."""
    pairs = list(combinations(methods, 2))
    judged = [judge_seeds(contrasts(board, a, b, tasks)) for a, b in pairs]
    sure = [p < 1 - LEVEL for p in holm([each.p for each in judged])]
    found = (int(np.sign(each.value)) if is_sure else 0 for each, is_sure in zip(judged, sure, strict=True))
    return {(a.system, b.system): sign for (a, b), sign in zip(pairs, found, strict=True)}


def left_out(board: Board, methods: Sequence[Row], tasks: Sequence[str]) -> Iterator[str]:
    """Yield what becomes of the decided pairs without each task; nothing for a single one."""
    if len(tasks) == 1:
        return
    all_signs = signs(board, methods, tasks)
    count = sum(map(abs, all_signs.values()))
    yield f"| M2: {count} of {len(all_signs)} pairs decided; without … | decided still | other sign | newly decided |"
    yield "|---|---|---|---|"
    for task in tasks:
        others = signs(board, methods, [name for name in tasks if name != task])
        still = sum(1 for pair, sign in all_signs.items() if sign and others[pair] == sign)
        turned = sum(1 for pair, sign in all_signs.items() if sign and others[pair] == -sign)
        new = sum(1 for pair, sign in all_signs.items() if not sign and others[pair])
        yield f"| {task} | {still} | {turned} | {new} |"


def decided(board: Board, methods: Sequence[Row], tasks: Sequence[str]) -> Iterator[str]:
    """Yield the share of pairs of methods that each task decides by itself."""
    by_task = {task: signs(board, methods, [task]) for task in tasks}
    share = {task: sum(map(abs, found.values())) / len(found) for task, found in by_task.items()}
    reached = sum(value >= DECIDED for value in share.values())
    cells = ", ".join(f"{task} {value:.0%}" for task, value in share.items())
    yield f"M3: decided pairs of {len(methods)} methods: {cells}. With a quarter: {reached} tasks, of {TASKS}."


def halves(methods: Sequence[Row], tasks: Sequence[str]) -> Iterator[str]:
    """Yield how far two halves of the seeds rank the methods alike, over all ways to halve them."""
    for label, chosen in (("all tasks", tasks), ("without imdb", [task for task in tasks if task != "imdb"])):
        scores = np.array([[_seeds(row, task) for task in chosen] for row in methods]).mean(axis=1)
        seeds = range(scores.shape[1])
        taus = []
        for half in combinations(seeds, len(seeds) // 2):
            rest = [seed for seed in seeds if seed not in half]
            two = scores[:, half].mean(axis=1), scores[:, rest].mean(axis=1)
            taus.append(float(kendall(*two, np.ones((1, len(methods))))[0]))
        yield (
            f"M4, {label}: halves of {len(seeds)} seeds rank {len(methods)} methods with a τ of {mean(taus):.2f} on "
            f"average, {min(taus):.2f} at least; {TAU} is asked for."
        )


def _seeds(row: Row, task: str) -> list[float]:
    return [score for _, score in sorted(by_seed(row, task).items())]


def controls(board: Board, methods: Sequence[Row], tasks: Sequence[str]) -> Iterator[str]:
    """Yield the best control beside the best method of each task."""
    names = {row.system for row in methods}
    others = [row for row in board.rows if row.system not in {*names, PEOPLE}]
    above = []
    yield "| M5 | best method | | best control | |"
    yield "|---|---|---|---|---|"
    for task in tasks:
        best = max(methods, key=lambda row: preference(row, task))
        having = [row for row in others if task in row.cells and row.cells[task].preference is not None]
        if not having:
            continue
        control = max(having, key=lambda row: preference(row, task))
        if preference(control, task) > preference(best, task):
            above.append(task)
        yield (
            f"| {task} | {best.system} | {preference(best, task):.1f} "
            f"| {control.system} | {preference(control, task):.1f} |"
        )
    yield f"\nControls are above on {len(above)}: {', '.join(above) or 'none'}; one is allowed."


if __name__ == "__main__":
    main()
