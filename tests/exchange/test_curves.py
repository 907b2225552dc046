"""Two sets of learning curves: the tests against scipy's, their error rates, what is read, and what is refused."""

import csv
import json

import numpy as np
import pytest
from scipy import stats
from support.commands import grue

from grue import files
from grue.errors import DataError, UnknownName
from grue.exchange.curves import compare_curves, read_curves


def drawn(dice, seeds, rise=0.0, late=0.0, noise=1.0):
    """Curves that rise from 10, each with an offset of its seed; `late` lowers the end alone."""
    return {
        f"log-{n}": {
            step: 10 + (1 + rise) * step + offset * (step > 0) - late * (step == 5) + dice.normal(0, noise / 3)
            for step in range(6)
        }
        for n, offset in enumerate(dice.normal(0, noise, seeds))
    }


def sums(side):
    whole = [np.mean([curve[step] for step in (1, 2, 3, 4, 5)]) for curve in side.values()]
    return whole, [curve[5] for curve in side.values()]


def test_both_numbers_are_tested_over_seeds_and_corrected():
    dice = np.random.default_rng(3)
    old, new = drawn(dice, 4), drawn(dice, 5, rise=-0.3)
    compared = compare_curves(old, new, "reward")
    both = list(zip(sums(old), sums(new), strict=True))
    p = [stats.ttest_ind(after, before, equal_var=False).pvalue for before, after in both]
    low = min(1.0, 2 * min(p))
    assert [test.p for test in compared.tests] == pytest.approx(p)
    assert [test.p_holm for test in compared.tests] == pytest.approx([max(low, one) for one in p])
    assert [test.value for test in compared.tests] == pytest.approx([np.mean(new) - np.mean(old) for old, new in both])
    assert compared.steps == (0, 1, 2, 3, 4, 5)
    assert compared.means[0][0] == pytest.approx(np.mean([curve[0] for curve in old.values()]))


def test_pairs_are_tested_as_pairs():
    dice = np.random.default_rng(5)
    old = drawn(dice, 5, noise=5)
    new = {
        name: {step: value - 0.5 * (step > 0) + dice.normal(0, 0.05) for step, value in curve.items()}
        for name, curve in old.items()
    }
    paired, plain = (compare_curves(old, new, "reward", paired=pairs) for pairs in (True, False))
    p = [stats.ttest_rel(after, before).pvalue for before, after in zip(sums(old), sums(new), strict=True)]
    assert [test.p for test in paired.tests] == pytest.approx(p)
    assert (paired.verdict, plain.verdict) == ("worse", "no difference found")
    assert compare_curves(old, new, "loss", paired=True, lower=True).verdict == "better"


def test_a_fall_at_the_end_alone_is_seen():
    dice = np.random.default_rng(7)
    compared = compare_curves(drawn(dice, 6, noise=0.3), drawn(dice, 6, late=3, noise=0.3), "reward")
    assert compared.verdict == "worse" and compared.tests[1].p_holm < 0.001 < compared.tests[0].p_holm


@pytest.mark.parametrize(("seeds", "least"), [(3, 0.63), (5, 0.72)])
def test_how_often_an_unchanged_trainer_is_called_worse_and_a_changed_one_found(seeds, least):
    """Of 600, 2.5 % may be called worse, and 4.5 % would be three standard errors more.

    What is said to be found four times in five is found 8 times in 10 with five seeds, and 7 times with three, whose
    degrees of freedom are estimated too.
    """
    dice = np.random.default_rng(seeds)
    compared = [compare_curves(drawn(dice, seeds), drawn(dice, seeds), "reward") for _ in range(600)]
    verdicts = [each.verdict for each in compared]
    assert verdicts.count("worse") / 600 < 0.045 and verdicts.count("better") / 600 < 0.045
    # Seeds have a standard deviation of 1, and of .15 besides by the noise of five steps: the difference that is found.
    degrees, spread = 2 * (seeds - 1), np.hypot(1, 1 / 3 / np.sqrt(5))
    found = (stats.t.ppf(0.975, degrees) + stats.t.ppf(0.8, degrees)) * spread * np.sqrt(2 / seeds)
    assert np.median([each.tests[0].found for each in compared]) == pytest.approx(found, rel=0.15)
    assert compare_curves(drawn(dice, 200), drawn(dice, 200), "reward").tests[0].found < found / 4
    changed = (compare_curves(drawn(dice, seeds), drawn(dice, seeds, rise=found / 3), "r") for _ in range(400))
    assert least < sum(each.tests[0].p < 0.05 for each in changed) / 400 < 0.9


# --- reading ---------------------------------------------------------------------------------------------------------


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_jsonl(path, lines)


def test_logs_of_grue_of_transformers_and_of_others(tmp_path):
    lines = [{"update": n, "validation/preference": value} for n, value in enumerate((1.5, 2))]
    write(tmp_path / "a/seed-1/train.jsonl", [lines[0], {"update": 1, "seconds": 2}, lines[1], {"finished": True}])
    write(tmp_path / "c/seed-2/figures.jsonl", [{"step": n, "validation/preference": 3 + n} for n in range(2)])
    for folder in "ac":
        (curve,) = read_curves(tmp_path / folder, "validation/preference").values()
        assert curve == ({0: 1.5, 1: 2} if folder == "a" else {0: 3, 1: 4})
    for n in (1, 2):
        with (tmp_path / f"{n}.csv").open("w", newline="", encoding="utf-8-sig") as file:
            csv.writer(file).writerows([["Step", "reward"], [0, n], [1, ""], [2, n + 1]])
    assert list(read_curves(tmp_path / "*.csv", "reward").values()) == [{0: 1, 2: 2}, {0: 2, 2: 3}]
    cut = b'\xef\xbb\xbf{"step": 0, "reward": 1}\n\n{"step": 1, "reward": 2}\n{"step": 2, "rew'
    (tmp_path / "x.jsonl").write_bytes(cut)
    assert list(read_curves(tmp_path / "x.jsonl", "reward").values()) == [{0: 1, 1: 2}]
    (tmp_path / "whole.jsonl").write_text('{"step": 0, "reward": 1, "text": "a\u2028b"}\n{"step": 1, "reward": 2}')
    assert list(read_curves(tmp_path / "whole.jsonl", "reward").values()) == [{0: 1, 1: 2}], "no line end, but the end"


def test_a_run_is_one_log(tmp_path):
    """The trainer_state.json of a run and of its checkpoints are one; seeds are in the order of their numbers."""
    for seed, places in ((10, (2, 10, "")), (9, (1, 2, "")), (2, (2, 10))):
        for place in places:
            folder = tmp_path / f"seed-{seed}" / (f"checkpoint-{place}" if place else "")
            folder.mkdir(parents=True, exist_ok=True)
            history = [{"step": n, "reward": seed, "grad_norm": float("nan")} for n in range(1 + (place or 11))]
            (folder / "trainer_state.json").write_text(json.dumps({"log_history": [*history, {"loss": 1}]}))
    read = read_curves(tmp_path, "reward")
    assert [curve[0] for curve in read.values()] == [2, 9, 10] and [len(curve) for curve in read.values()] == [
        11,
        12,
        12,
    ]


def test_without_noise_the_seeds_are_permuted():
    flat = {"a": {0: 1.0, 1: 1.0}, "b": {0: 1.0, 1: 1.0}}
    lower = {"c": {0: 1.0, 1: 0.9}, "d": {0: 1.0, 1: 0.9}}
    assert [test.p for test in compare_curves(flat, lower, "reward").tests] == [pytest.approx(2 / 6)] * 2
    assert [test.p for test in compare_curves(flat, lower, "reward", paired=True).tests] == [0.5, 0.5]
    assert [test.p for test in compare_curves(flat, flat, "reward").tests] == [1, 1]
    for paired in (False, True):  # so many seeds as are said to decide do, and one less does not
        seeds = compare_curves(flat, lower, "reward", paired=paired).tests[0].seeds
        for n, verdict in ((seeds - 1, "no difference found"), (seeds, "worse")):
            sides = ({f"{name}{k}": curve for k in range(n)} for name, curve in (("a", flat["a"]), ("c", lower["c"])))
            assert compare_curves(*sides, "reward", paired=paired).verdict == verdict


def test_the_command(tmp_path):
    dice = np.random.default_rng(0)
    for side, rise in (("old", 0), ("same", 0), ("slow", -0.8)):
        for n, curve in enumerate(drawn(dice, 4, rise=rise, noise=0.2).values()):
            lines = [{"step": step, "reward": value} for step, value in curve.items()]
            write(tmp_path / f"{side}/{n}/figures.jsonl", lines)

    def beside_old(side, *more, code):
        return grue("tools", "curves", tmp_path / "old", tmp_path / side, "--figure", "reward", *more, code=code).output

    assert "no difference found: a difference of " in beside_old("same", code=0)
    for side, value in (("flat", 1), ("lower", 0)):
        for n in range(2):
            write(tmp_path / f"{side}/{n}/figures.jsonl", [{"step": step, "reward": value} for step in range(3)])
    told = grue("tools", "curves", tmp_path / "flat", tmp_path / "lower", "--figure", "reward", code=0).stdout
    assert "no noise to go by where seeds do not differ; to decide -1 takes 5 seeds a side." in told
    assert "worse: whole curve and end, beyond what seeds explain" in beside_old("slow", code=1)
    data = json.loads(beside_old("slow", "--json", code=1))
    assert data["verdict"] == "worse" and len(data["old"]) == 4 and data["tests"][0]["seeds"] in (2, 3)


def test_bad_input(tmp_path, refused):
    curve, short = {0: 1.0, 1: 2.0}, {0: 1.0}
    one, two = {"a": curve}, {"b": curve, "c": curve}
    for old, new, options in (
        (one, two, {}),
        (two, {"c": {**curve, 2: 3.0}, "d": curve}, {}),
        ({"a": short, "b": short}, {"c": short, "d": short}, {}),
        (two, {**one, **two}, {"paired": True}),
    ):
        with refused(DataError):
            compare_curves(old, new, "reward", **options)
    log = tmp_path / "x" / "figures.jsonl"
    for lines, figure, error in (
        ([{"step": 0, "reward": 1}, {"step": 0, "reward": 2}], "reward", DataError),
        ([{"step": 0, "reward": 1}], "rewards", UnknownName),
        ([{"step": 0, "reward": "high"}], "reward", DataError),
        ([{"reward": 1}], "reward", UnknownName),
    ):
        write(log, lines)
        with refused(error):
            read_curves(log, figure)
    (tmp_path / "wide.csv").write_text("step,reward\n0,1,5\n")
    write(tmp_path / "two/figures.jsonl", [{"step": 0, "reward": 1}])
    (tmp_path / "two/checkpoint-1").mkdir()
    files.write_json(tmp_path / "two/checkpoint-1/trainer_state.json", {"log_history": [{"step": 0, "reward": 1}]})
    (tmp_path / "none").mkdir()
    files.write_json(tmp_path / "state.json", [])
    for place in ("wide.csv", "two", "none", "nowhere", "none/*.csv", "state.json"):
        with refused(DataError):
            read_curves(tmp_path / place, "reward")
