"""Papers' tables as printed, with a column's deviations from GRUE's metric in footnotes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grue.render.figure_2 import paper_scores
from grue.render.text import UNKNOWN, printable
from grue.submissions.reported import Figure, Publication, Reported, ReportedTable

ARROWS = {"higher": "↑", "lower": "↓", "none": ""}
REFERENCE = """\
@inproceedings{ramamurthy2023,
  title = {Is Reinforcement Learning (Not) for Natural Language
           Processing: Benchmarks, Baselines, and Building Blocks
           for Natural Language Policy Optimization},
  author = {Rajkumar Ramamurthy and Prithviraj Ammanabrolu and
            Kiant{\\'e} Brantley and Jack Hessel and Rafet Sifa and
            Christian Bauckhage and Hannaneh Hajishirzi and
            Yejin Choi},
  booktitle = {International Conference on Learning Representations},
  year = {2023},
  url = {https://arxiv.org/abs/2210.01241}
}"""


@dataclass(frozen=True, slots=True)
class PaperColumn:
    """A printed metric.

    Attributes:
        note: The number of its footnote, 0 without one.
        widest: The longest ± of the column, as padding for rows without one; empty if there is none.
    """

    name: str
    arrow: str
    note: int
    widest: str


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A printed table as text.

    Attributes:
        facts: Split and seeds, in words.
        columns: The heads of the figures, after algorithm, reward and variant.
        rows: Three texts, and a mean with its ± for each column.
        notes: The footnotes, numbered from 1.
    """

    source: Publication
    title: str
    facts: str
    note: str
    columns: tuple[PaperColumn, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], ...]
    notes: tuple[str, ...]


def paper_tables(reported: Sequence[Reported], task: str) -> list[PaperTable]:
    """Return the papers' tables on a task, in the papers' order."""
    return [_table(paper.source, table) for paper in reported for table in paper.tables if table.task == task]


@dataclass(frozen=True, slots=True)
class Summary:
    """A paper's mean scores: algorithms by tasks.

    Attributes:
        columns: Tasks, with the number of their footnote, 0 without one.
        rows: An algorithm and a text for each task: 100 × the mean of its best row.
        notes: The footnotes, numbered from 1.
    """

    source: Publication
    columns: tuple[tuple[str, int], ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    notes: tuple[str, ...]


def summaries(reported: Sequence[Reported], tasks: Iterable[str]) -> list[Summary]:
    """Return the summary of each source that has one: see `grue.render.figure_2.paper_scores`."""
    names = list(tasks)
    return [_summary(paper, names) for paper in reported if paper_scores(paper)]


def _summary(paper: Reported, tasks: Sequence[str]) -> Summary:
    scores = {(score.algorithm, score.task): score for score in paper_scores(paper)}
    doubts = {task: score.doubt for (_, task), score in scores.items() if score.doubt}
    notes = tuple(dict.fromkeys(doubts[task] for task in tasks if task in doubts))
    shown = {key: f"{100 * score.score:.1f}" for key, score in scores.items()}
    return Summary(
        source=paper.source,
        columns=tuple((task, notes.index(doubts[task]) + 1 if task in doubts else 0) for task in tasks),
        rows=tuple(
            (printable(name), tuple(shown.get((name, task), UNKNOWN) for task in tasks))
            for name in dict.fromkeys(algorithm for algorithm, _ in scores)
        ),
        notes=tuple(map(printable, notes)),
    )


def _table(source: Publication, table: ReportedTable) -> PaperTable:
    notes = tuple(dict.fromkeys(column.deviation for column in table.columns if column.deviation))
    figures = {c.name: [row.figures.get(c.name) for row in table.rows] for c in table.columns}
    texts = [_column(figures[column.name]) for column in table.columns]
    split = "split not stated" if table.split == "not stated" else f"{table.split} split"
    seeds = "seeds not stated" if table.seeds is None else f"{table.seeds} seed{'s' if table.seeds != 1 else ''}"
    return PaperTable(
        source=source,
        title=printable(table.table),
        facts=printable(f"{split}, {seeds}"),
        note=printable(table.note),
        columns=tuple(
            PaperColumn(
                printable(c.name),
                ARROWS[c.direction],
                notes.index(c.deviation) + 1 if c.deviation else 0,
                max((spread for _, spread in column), key=len, default=""),
            )
            for c, column in zip(table.columns, texts, strict=True)
        ),
        rows=tuple(
            (tuple(map(printable, (row.algorithm, row.reward, row.variant))), tuple(column[i] for column in texts))
            for i, row in enumerate(table.rows)
        ),
        notes=tuple(map(printable, notes)),
    )


def _column(figures: Sequence[Figure | None]) -> list[tuple[str, str]]:
    """Return means and ± with the most decimals of the column, so that they align."""
    printed = [figure for figure in figures if figure is not None]
    decimals = max((_decimals(figure.mean) for figure in printed), default=0)
    spread = max((_decimals(figure.sd) for figure in printed if figure.sd is not None), default=0)
    width = max((len(f"{figure.sd:.{spread}f}") for figure in printed if figure.sd is not None), default=0)
    return [
        (UNKNOWN if figure is None else f"{figure.mean:z.{decimals}f}", _spread(figure, spread, width))
        for figure in figures
    ]


def _spread(figure: Figure | None, decimals: int, width: int) -> str:
    """Return "± 0.03", padded with spaces as wide as a digit."""
    if figure is None or figure.sd is None:
        return ""
    return f"±\u00a0{f'{figure.sd:.{decimals}f}':\u2007>{width}}"


def _decimals(value: float) -> int:
    return len(f"{value:.6f}".rstrip("0").partition(".")[2])
