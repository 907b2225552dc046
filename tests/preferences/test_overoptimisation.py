"""The study of over-optimisation: its settings can be run, its figures follow from what was scored, and it resumes."""

import importlib
import math
import sys
from dataclasses import replace

import pytest
from support.paths import ROOT

from grue import files
from grue.errors import ConfigError
from grue.evaluation.rewards import check_reward
from grue.preferences.annotators import parse_noise
from grue.preferences.settings import reward_settings
from grue.runs.recipes import make_config
from grue.runs.request import canonical
from grue.task_files import load_task


@pytest.fixture(scope="module")
def driver():
    sys.path.insert(0, str(ROOT / "experiments"))
    yield importlib.import_module("overoptimisation")
    sys.path.remove(str(ROOT / "experiments"))


@pytest.fixture
def work(driver, tmp_path):
    study = files.load_toml(ROOT / "experiments/overoptimisation.toml", driver.Study)
    return driver.Work(study, load_task("imdb"), study.gold["imdb"], tmp_path, tmp_path)


def test_what_is_written_down_can_be_run(work):
    study = work.study
    for name in ("imdb", "narrativeqa"):
        task = load_task(name)
        check_reward(study.gold[name], task)
        config = make_config(task, canonical(study.algorithm), study.policy)
        assert config.updates % config.validate_every == 0 and config.validation_examples == study.held_out
    assert reward_settings(study.reward).epochs == study.reward["epochs"]
    assert str(parse_noise(study.noise)) == study.noise
    assert max(study.pairs) <= study.prompts * math.comb(study.samples, 2) / 2  # repeated texts make fewer


def test_best_of_n_is_read_off_what_was_scored(driver, work, tmp_path):
    found = {"gold": [[0.0, 1.0], [0.5, 0.1]], "proxy": [[2.0, 1.0], [1.0, 3.0]]}  # the proxy likes the worse ones
    files.write_json(tmp_path / "best-of-100-1.json", found)
    start, two = driver.picked(work, tmp_path / "none", tmp_path / "none", 100, 1)
    assert (start.at, start.kl, start.gold, start.proxy) == (1, 0.0, pytest.approx(0.4), pytest.approx(1.75))
    assert (two.at, two.gold, two.proxy) == (2, pytest.approx(0.05), pytest.approx(2.5))
    assert two.kl == pytest.approx(math.log(2) - 0.5)


def test_an_interrupted_part_adds_up_and_a_finished_one_keeps_its_figures(work, tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    work.seconds["a part"] = [5.0, 2.0]
    with pytest.raises(KeyboardInterrupt):
        work.timed(3, "a part", False, interrupted)
    assert files.read_json(tmp_path / "seconds-3.json")["a part"][0] >= 5.0
    assert work.timed(3, "a part", True, lambda: 3) == 3 and work.seconds["a part"][0] < 6.0


def of_seed(driver, seed, gold, picked):
    """Gold rewards at updates 0, 4, 8 and so on, and of the best of 1, 2, 4 and so on."""
    made = [
        driver.ProxyPoint("policy", 100, seed, float(i), value, 2.0, 4 * i, 90.0 - 10 * i)
        for i, value in enumerate(gold)
    ]
    made += [
        driver.ProxyPoint("best-of-n", 100, seed, float(i), value, 2.0, 2**i, None) for i, value in enumerate(picked)
    ]
    return driver.SeedPoints({"100": {"accuracy": 0.6 + 0.1 * seed}}, {}, tuple(made))


def test_the_table_says_how_far_gold_falls_from_its_best(driver):
    one = of_seed(driver, 1, [0.5, 0.9, 0.6], [0.5, 0.7, 0.6])
    other = of_seed(driver, 2, [0.5, 0.7, 0.5], [0.5, 0.8, 0.6])
    line = driver.table(driver.Found("imdb", {"pairs": [100]}, {"1": one, "2": other})).splitlines()[-1]
    # two seeds that differ by d have an interval of ± 12.706 d / 2
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "100", "0.75 ± 0.64", "0.500 ± 0.000", "0.800 ± 1.271 after 4", "0.550 ± 0.635", "-0.250 ± 0.635", "2.0 ± 0.0", "90.0 ± 0.0 → 70.0 ± 0.0", "0.750 ± 0.635 (n = 2), 0.600 ± 0.000 (n = 4)"
    ]  # fmt: skip
    never_falls = driver.Found("imdb", {"pairs": [100]}, {"1": of_seed(driver, 1, [0.5, 0.9], [0.5, 0.7])})
    assert "| 0.900 after 4 | 0.900 | – | 1.0 | 90.0 → 80.0 | 0.700 (n = 2) |" in driver.table(never_falls)


def test_seeds_whose_points_are_there_are_not_run_again(driver, work, tmp_path, monkeypatch, refused):
    pytest.importorskip("matplotlib")
    path, run = tmp_path / "points.json", []

    def fake(work, seed):
        run.append(seed)
        return of_seed(driver, seed, [0.5, 0.9], [0.5, 0.7])

    def carry_out(**changes):
        return driver.carry_out(replace(work, study=replace(work.study, **changes)), path)

    monkeypatch.setattr(driver, "points_of", fake)
    carry_out(seeds=(2,))
    found = carry_out(seeds=(1, 2))
    assert run == [2, 1] and [*files.read_json(path)["seeds"]] == ["1", "2"] == sorted(found.seeds)
    assert (tmp_path / "points.png").read_bytes()[:4] == b"\x89PNG"
    with refused(ConfigError):
        carry_out(noise="none")


def test_points_become_curves_in_the_order_of_training_and_equal_ones_an_equal_picture(driver, tmp_path):
    made = [("best-of-n", 100, 1, 2), ("policy", 1000, 1, 0), ("policy", 1000, 2, 0), ("policy", 100, 1, 0)]
    made += [("policy", 100, 1, 8), ("policy", 100, 1, 4), ("best-of-n", 100, 1, 1)]
    points = [driver.ProxyPoint(how, pairs, seed, at / 8 - 1e-9, 0.5, 0.1, at) for how, pairs, seed, at in made]
    curves = driver.curves_of(points)
    assert [(one.how, one.pairs, [point.at for point in one.points]) for one in curves] == [
        ("policy", 100, [0, 4, 8]), ("policy", 1000, [0]), ("policy", 1000, [0]), ("best-of-n", 100, [1, 2])
    ]  # fmt: skip
    for name in ("a.png", "b.png"):
        driver.draw_proxies(curves, "imdb: sentiment", tmp_path / name)
    first = (tmp_path / "a.png").read_bytes()
    assert first[:4] == b"\x89PNG" and first == (tmp_path / "b.png").read_bytes()
