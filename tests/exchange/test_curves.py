"""Two sets of learning curves: the tests against scipy's, their error rates, what is read, and what is refused."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from grue import files
from grue.cli.main import main
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
    p = [
        stats.ttest_ind(after, before, equal_var=False).pvalue
        for before, after in zip(sums(old), sums(new), strict=True)
    ]
    assert [test.p for test in compared.tests] == pytest.approx(p)
    assert [test.p_holm for test in compared.tests] == pytest.approx(holm_of_two(p))
    assert [test.value for test in compared.tests] == pytest.approx(
        [np.mean(b) - np.mean(a) for a, b in zip(sums(old), sums(new), strict=True)]
    )
    assert compared.steps == (0, 1, 2, 3, 4, 5) and compared.means[0][0] == pytest.approx(
        np.mean([c[0] for c in old.values()])
    )


def holm_of_two(p):
    low = min(1.0, 2 * min(p))
    return [low if one == min(p) else max(low, one) for one in p]


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
    verdicts = [compare_curves(drawn(dice, seeds), drawn(dice, seeds), "reward").verdict for _ in range(600)]
    assert verdicts.count("worse") / 600 < 0.045 and verdicts.count("better") / 600 < 0.045
    # Seeds have a standard deviation of 1, and of .15 besides by the noise of five steps: the difference that is found.
    many = compare_curves(drawn(dice, 200), drawn(dice, 200), "reward").tests[0]
    degrees = 2 * (seeds - 1)
    spread = np.hypot(1, 1 / 3 / np.sqrt(5))
    found = (stats.t.ppf(0.975, degrees) + stats.t.ppf(0.8, degrees)) * spread * np.sqrt(2 / seeds)
    few = np.median(
        [compare_curves(drawn(dice, seeds), drawn(dice, seeds), "reward").tests[0].found for _ in range(300)]
    )
    assert few == pytest.approx(found, rel=0.15) and many.found < found / 4
    hit = sum(
        compare_curves(drawn(dice, seeds), drawn(dice, seeds, rise=found / 3), "r").tests[0].p < 0.05
        for _ in range(400)
    )
    assert least < hit / 400 < 0.9


# --- reading ---------------------------------------------------------------------------------------------------------


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_jsonl(path, lines)


def test_logs_of_grue_of_transformers_and_of_others(tmp_path):
    lines = [
        {"update": 0, "validation/preference": 1.5},
        {"update": 1, "seconds": 2},
        {"update": 1, "validation/preference": 2},
    ]
    write(tmp_path / "a/seed-1/train.jsonl", [*lines, {"finished": True}])
    write(
        tmp_path / "c/seed-2/figures.jsonl",
        [{"step": 0, "validation/preference": 3}, {"step": 1, "validation/preference": 4}],
    )
    for step in (2, 10):
        history = [{"step": n, "reward": n / 2} for n in range(0, step + 1, 2)]
        (tmp_path / f"b/run/checkpoint-{step}").mkdir(parents=True)
        files.write_json(
            tmp_path / f"b/run/checkpoint-{step}/trainer_state.json",
            {"log_history": [*history, {"step": step, "loss": 1}]},
        )
    read = read_curves(tmp_path / "a", "validation/preference")
    assert list(read.values()) == [{0: 1.5, 1: 2}]
    assert list(read_curves(tmp_path / "c", "validation/preference").values()) == [{0: 3, 1: 4}]
    (state,) = read_curves(tmp_path / "b", "reward").values()
    assert state == {0: 0, 2: 1, 4: 2, 6: 3, 8: 4, 10: 5}
    for n in (1, 2):
        with (tmp_path / f"{n}.csv").open("w", newline="", encoding="utf-8-sig") as file:
            csv.writer(file).writerows([["Step", "reward"], [0, n], [1, ""], [2, n + 1]])
    assert list(read_curves(tmp_path / "*.csv", "reward").values()) == [{0: 1, 2: 2}, {0: 2, 2: 3}]


def test_a_run_is_one_log(tmp_path):
    """The trainer_state.json of a run and of its checkpoints are one; seeds are in the order of their numbers."""
    for seed in (10, 9, 2):
        for place in ("checkpoint-1", "checkpoint-2", "."):
            (tmp_path / f"seed-{seed}" / place).mkdir(parents=True, exist_ok=True)
            history = [{"step": n, "reward": seed, "grad_norm": float("nan")} for n in range(3)]
            (tmp_path / f"seed-{seed}" / place / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    read = read_curves(tmp_path, "reward")
    assert [curve[0] for curve in read.values()] == [2, 9, 10] and all("checkpoint" not in name for name in read)
    (tmp_path / "x.jsonl").write_bytes(
        b'\xef\xbb\xbf{"step": 0, "reward": 1}\n\n{"step": 1, "reward": 2}\n{"step": 2, "rew'
    )
    assert list(read_curves(tmp_path / "x.jsonl", "reward").values()) == [{0: 1, 1: 2}]


def test_without_noise_the_seeds_are_permuted():
    flat = {"a": {0: 1.0, 1: 1.0}, "b": {0: 1.0, 1: 1.0}}
    lower = {"c": {0: 1.0, 1: 0.9}, "d": {0: 1.0, 1: 0.9}}
    assert [test.p for test in compare_curves(flat, lower, "reward").tests] == [pytest.approx(2 / 6)] * 2
    assert [test.p for test in compare_curves(flat, lower, "reward", paired=True).tests] == [0.5, 0.5]
    assert [test.p for test in compare_curves(flat, flat, "reward").tests] == [1, 1]


def command(*arguments):
    return CliRunner().invoke(main, ["tools", "curves", *map(str, arguments)], prog_name="grue")


def test_the_command(tmp_path):
    dice = np.random.default_rng(0)
    for side, rise in (("old", 0), ("same", 0), ("slow", -0.8)):
        for n, curve in enumerate(drawn(dice, 4, rise=rise, noise=0.2).values()):
            write(
                tmp_path / f"{side}/{n}/figures.jsonl",
                [{"step": step, "reward": value} for step, value in curve.items()],
            )
    same = command(tmp_path / "old", tmp_path / "same", "--figure", "reward")
    assert same.exit_code == 0 and "no difference found: a difference of " in same.output
    slow = command(tmp_path / "old", tmp_path / "slow", "--figure", "reward")
    assert slow.exit_code == 1 and "worse: whole curve and end, beyond what seeds explain" in slow.output
    data = json.loads(command(tmp_path / "old", tmp_path / "slow", "--figure", "reward", "--json").output)
    assert data["verdict"] == "worse" and len(data["old"]) == 4 and data["tests"][0]["seeds"] in (2, 3)


def test_bad_input(tmp_path, refused):
    curve = {0: 1.0, 1: 2.0}
    with refused(DataError):
        compare_curves({"a": curve}, {"b": curve, "c": curve}, "reward")
    with refused(DataError):
        compare_curves({"a": curve, "b": curve}, {"c": {**curve, 2: 3.0}, "d": curve}, "reward")
    with refused(DataError):
        compare_curves({"a": {0: 1.0}, "b": {0: 1.0}}, {"c": {0: 1.0}, "d": {0: 1.0}}, "reward")
    with refused(DataError):
        compare_curves({"a": curve, "b": curve}, {"c": curve, "d": curve, "e": curve}, "reward", paired=True)
    log = tmp_path / "x" / "figures.jsonl"
    write(log, [{"step": 0, "reward": 1}, {"step": 0, "reward": 2}])
    with refused(DataError):
        read_curves(log, "reward")
    with refused(UnknownName):
        read_curves(log, "rewards")
    write(log, [{"step": 0, "reward": "high"}])
    with refused(DataError):
        read_curves(log, "reward")
    write(log, [{"reward": 1}])
    with refused(UnknownName):
        read_curves(log, "reward")
    (tmp_path / "wide.csv").write_text("step,reward\n0,1,5\n")
    with refused(DataError):
        read_curves(tmp_path / "wide.csv", "reward")
    write(tmp_path / "two/figures.jsonl", [{"step": 0, "reward": 1}])
    (tmp_path / "two/checkpoint-1").mkdir()
    files.write_json(tmp_path / "two/checkpoint-1/trainer_state.json", {"log_history": [{"step": 0, "reward": 1}]})
    with refused(DataError):
        read_curves(tmp_path / "two", "reward")
    (tmp_path / "none").mkdir()
    for place in ("none", "nowhere", "none/*.csv"):
        with refused(DataError):
            read_curves(tmp_path / place, "reward")
    files.write_json(tmp_path / "state.json", [])
    with refused(DataError):
        read_curves(tmp_path / "state.json", "reward")
