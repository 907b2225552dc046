"""The paper's questions to people, answered from the means that it prints: which side is higher on which axis.

    python experiments/human_signs.py

Tables 9, 14, 20, 25 and 34 print means and Krippendorff's α, Table 2 a tick or a cross a question. Of several rows on a
side (PPO and NLPO, with and without a KL penalty) the one with the highest mean of both axes counts. No variance is
printed, so that neither ANOVA nor Tukey's HSD can be computed again.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from grue.submissions.reported import ReportedRow, read_reported

ROOT = Path(__file__).parent.parent
TASKS = ("imdb", "commongen", "cnn_dailymail", "totto", "dailydialog")
QUESTIONS = {
    "RL > Sup": (("PPO", "NLPO"), ("Supervised",)),
    "Sup+RL > Sup": (("Supervised + PPO", "Supervised + NLPO"), ("Supervised",)),
    "Sup+NLPO > Sup+PPO": (("Supervised + NLPO",), ("Supervised + PPO",)),
}
PRINTED = {
    "RL > Sup": (True, False, False, False, True),
    "Sup+RL > Sup": (True, False, True, True, False),
    "Sup+NLPO > Sup+PPO": (True, True, True, True, True),
}
"""Table 2 of version 3, rows "(human)", in the order of `TASKS`."""


def human_rows(task: str) -> tuple[tuple[str, ...], list[tuple[str, Mapping[str, float]]]]:
    """Return the two axes of a task's human study, and (system, axis → mean) of its rows."""
    reported = next(one for one in read_reported(ROOT / "submissions", "grue") if one.source.key == "ramamurthy2023")
    for table in reported.tables:
        names = [c.name for c in table.columns if c.name.startswith("human_") and not c.name.endswith("_alpha")]
        if table.task == task and names:
            return tuple(names), [(row.algorithm, _means(row, names)) for row in table.rows]
    raise LookupError(task)


def _means(row: ReportedRow, names: list[str]) -> Mapping[str, float]:
    return {name: row.figures[name].mean for name in names}


def gaps(task: str, question: str) -> Mapping[str, float]:
    """Return axis → the better side's mean less the other's, and "mean" → that of both axes."""
    axes, rows = human_rows(task)
    best = [
        max((means for name, means in rows if name in side), key=lambda means: sum(means.values()))
        for side in QUESTIONS[question]
    ]
    found = {axis.removeprefix("human_"): best[0][axis] - best[1][axis] for axis in axes}
    return {**found, "mean": sum(found.values()) / len(found)}


def table() -> Iterator[str]:
    """Yield the lines of the table: differences, and whether the sign of their mean is Table 2's."""
    yield "| question | task | coherence | other axis | mean | Table 2 | agrees |"
    yield "|---|---|---|---|---|---|---|"
    for question in QUESTIONS:
        for task, printed in zip(TASKS, PRINTED[question], strict=True):
            found = gaps(task, question)
            coherence, (axis, other) = found["coherence"], next(one for one in found.items() if one[0] != "coherence")
            agrees = "yes" if (found["mean"] > 0) == printed else "no"
            figures = f"{coherence:+.2f} | {axis} {other:+.2f} | {found['mean']:+.3f}"
            yield f"| {question} | {task} | {figures} | {'✓' if printed else '✗'} | {agrees} |"


if __name__ == "__main__":
    print("\n".join(table()))
