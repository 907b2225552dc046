"""The tables of experiments/sizes.py, as docs/background/validity.md shows them."""

import json
from itertools import combinations

import pytest
from support.late import late
from support.paths import ROOT

from grue.task_files import load_task

sizes, stats = late("sizes"), late("scipy.stats")

KEPT, TASKS = ROOT / "experiments/sizes", ["imdb", "narrativeqa"]


def by_system(name, task, axis):
    found = {}
    for run in json.loads((KEPT / f"{name}.json").read_text())["runs"]:
        if run["task"] == task:
            found.setdefault(run["system"], {})[run["seed"]] = run["figures"][axis]
    return {system: [values[seed] for seed in sorted(values)] for system, values in found.items()}


def read():
    return [sizes.files.load_json(KEPT / f"{name}.json", sizes.Figures) for name in (sizes.LARGER, sizes.SMALLER)]


def test_the_page_says_how_far_the_orders_of_the_figures_that_are_kept_agree():
    page = (ROOT / "docs/background/validity.md").read_text(encoding="utf-8")
    _, *of_tasks = "\n".join(sizes.tables(*read())).split("### ")
    assert [table.partition("\n")[0] for table in of_tasks] == TASKS
    for table in of_tasks:
        assert table.rpartition("|\n")[2].strip() in page, "python experiments/sizes.py prints them"


@pytest.mark.filterwarnings("ignore:Precision loss")  # a system whose seeds agree
@pytest.mark.parametrize("axis", ["preference", "naturalness"])
@pytest.mark.parametrize("task", TASKS)
def test_the_orders_are_compared_as_scipy_does(task, axis):
    both = [by_system(name, task, axis) for name in ("mini", "smaller")]
    systems = list(both[0])
    means = [[sum(each[system]) / len(each[system]) for system in systems] for each in both]
    tau = stats.kendalltau(*means).statistic
    sure = []
    for each in both:
        found = set()
        for a, b in combinations(systems, 2):
            paired = a.startswith("supervised") and b.startswith("supervised")
            test = stats.ttest_rel if paired else lambda x, y: stats.ttest_ind(x, y, equal_var=False)
            if test(each[a], each[b]).pvalue < 0.05:
                found.add((a, b))
        sure.append(found)
    said = sizes.agreement(task, systems, axis, *read())
    assert said.startswith(
        f"Kendall's τ {tau:.2f}; of {len(systems) * (len(systems) - 1) // 2} pairs {len(sure[0])} are decided with the "
        f"larger, {len(sure[1])} with the smaller, {len(sure[0] & sure[1])} with both, "
    )


def test_the_larger_size_of_the_board_s_systems_is_the_board_s():
    kept = by_system("mini", "narrativeqa", "preference")
    for system, values in kept.items():
        folder = ROOT / "submissions/mini" / system / "narrativeqa"
        handed_in = [json.loads((folder / f"seed-{seed}.result.json").read_text())["preference"] for seed in (1, 2)]
        assert values == pytest.approx(handed_in, rel=1e-5), system


@pytest.mark.parametrize(("task", "model"), [("imdb", "mini:causal-s"), ("narrativeqa", "mini:seq2seq-s")])
def test_a_task_of_the_smaller_size_differs_in_its_backbone_alone(tmp_path, task, model):
    written, shipped = load_task(str(sizes.write_task(task, tmp_path))), load_task(task)
    assert (written.suite, written.backbone.model) == ("smaller", model)
    for name in ("data", "prompt", "metrics", "decoding", "rollout", "recipes", "reward"):
        assert getattr(written, name) == getattr(shipped, name)
