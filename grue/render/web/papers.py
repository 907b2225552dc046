"""Papers' tables as printed, with a column's deviations from GRUE's metric in footnotes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grue.render.figure_2 import DOUBTS, paper_scores
from grue.render.text import UNKNOWN
from grue.submissions.reported import Figure, Publication, Reported, ReportedTable

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


def paper_tables(reported: Sequence[Reported], task: str) -> list[tuple[Publication, ReportedTable]]:
    """Return the papers' tables on a task, in the papers' order."""
    return [(paper.source, table) for paper in reported for table in paper.tables if table.task == task]


def facts_of(table: ReportedTable) -> str:
    """Return split and seeds, in words."""
    split = "split not stated" if table.split == "not stated" else f"{table.split} split"
    seeds = "seeds not stated" if table.seeds is None else f"{table.seeds} seed{'s' if table.seeds != 1 else ''}"
    return f"{split}, {seeds}"


def cells_of(table: ReportedTable) -> dict[str, list[tuple[str, str]]]:
    """Return column → the mean and the ± of each row."""
    return {column.name: _printed([row.figures.get(column.name) for row in table.rows]) for column in table.columns}


def _printed(figures: Sequence[Figure | None]) -> list[tuple[str, str]]:
    """Return means and ± with the most decimals of the column, so that they align; a ± is padded to the widest."""
    means = [figure.mean for figure in figures if figure is not None]
    spreads = [figure.sd for figure in figures if figure is not None and figure.sd is not None]
    decimals, rest = (max(map(_decimals, values), default=0) for values in (means, spreads))
    width = max((len(f"{value:.{rest}f}") for value in spreads), default=0)
    return [
        (
            UNKNOWN if figure is None else f"{figure.mean:z.{decimals}f}",
            "" if figure is None or figure.sd is None else f"±\u00a0{f'{figure.sd:.{rest}f}':\u2007>{width}}",
        )
        for figure in figures
    ]


def _decimals(value: float) -> int:
    return len(f"{value:.6f}".rstrip("0").partition(".")[2])


@dataclass(frozen=True, slots=True)
class Summary:
    """A paper's mean scores, 0–1, of an algorithm's best row: algorithm → task → mean.

    `doubts` says why a task's may be of other metrics than the paper's.
    """

    source: Publication
    rows: Mapping[str, Mapping[str, float]]
    doubts: Mapping[str, str]


def summaries(reported: Sequence[Reported], tasks: Iterable[str]) -> list[Summary]:
    """Return the summary of each source that has one: see `grue.render.figure_2.paper_scores`."""
    doubts = {task: DOUBTS[task] for task in tasks if task in DOUBTS}
    scored = ((paper.source, paper_scores(paper)) for paper in reported)
    return [Summary(source, scores, doubts) for source, scores in scored if scores]
