"""Two logs of other harnesses: the tests against scipy's and by simulation, what is read, and what is refused."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from support.official import zipped

from grue import files
from grue.cli.main import main
from grue.errors import ConfigError, DataError, UnknownName
from grue.exchange.logged_scores import compare_logs, read_scores


def inspect_log(path, samples):
    """A .json of inspect_ai, from (id, epoch, scores, metadata)."""
    listed = [
        {
            "id": name,
            "epoch": epoch,
            "input": "x",
            "output": {},
            "scores": {k: {"value": v} for k, v in scores.items()},
            "metadata": meta,
        }
        for name, epoch, scores, meta in samples
    ]
    path.write_text(json.dumps({"status": "success", "eval": {}, "samples": listed}))
    return path


def numbers(path, values, clusters=None):
    clusters = clusters or [f"c{n}" for n in range(len(values))]
    rows = [
        (n, 1, {"f1": float(value)}, {"topic": topic})
        for n, (value, topic) in enumerate(zip(values, clusters, strict=True))
    ]
    return inspect_log(path, rows)


def test_examples_are_paired(tmp_path):
    dice = np.random.default_rng(1)
    hard = dice.normal(0, 1, 40)
    x, y = hard + dice.normal(0.3, 0.5, 40), hard + dice.normal(0, 0.5, 40)
    (found,) = compare_logs(numbers(tmp_path / "a.json", x), numbers(tmp_path / "b.json", y))
    assert found.p == pytest.approx(stats.ttest_rel(x, y).pvalue) == found.p_holm
    low, high = stats.ttest_rel(x, y).confidence_interval()
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    assert found.error == pytest.approx(stats.sem(x - y))
    assert found.unpaired == pytest.approx(np.hypot(stats.sem(x), stats.sem(y))) and found.unpaired > 1.5 * found.error


def test_clusters_are_what_varies(tmp_path):
    """Ten clusters of 20 questions each: of 300 pairs of equal systems, one in twenty is called different, not a third."""
    dice, called = np.random.default_rng(2), []
    topics = [f"t{n // 20}" for n in range(200)]
    for _ in range(300):
        shared = np.repeat(dice.normal(0, 0.5, 10), 20)
        a = numbers(tmp_path / "a.json", shared + dice.normal(0, 1, 200), topics)
        b = numbers(tmp_path / "b.json", np.zeros(200), topics)
        called.append([compare_logs(a, b, cluster=cluster)[0].p < 0.05 for cluster in ("topic", None)])
    by_cluster, by_example = np.mean(called, axis=0)
    assert 0.01 < by_cluster < 0.095 and by_example > 0.2


def test_equal_clusters_give_the_t_test_of_their_means(tmp_path):
    dice = np.random.default_rng(3)
    x = dice.normal(0.2, 1, 60)
    topics = [f"t{n % 12}" for n in range(60)]
    (found,) = compare_logs(
        numbers(tmp_path / "a.json", x, topics), numbers(tmp_path / "b.json", np.zeros(60), topics), cluster="topic"
    )
    means = [x[n::12].mean() for n in range(12)]
    assert found.p == pytest.approx(stats.ttest_1samp(means, 0).pvalue)


def test_unequal_clusters_are_not_called_sure(tmp_path):
    """One cluster of 200 and nine of 20: of 400 pairs of equal systems, at most one in twenty is called different."""
    dice, called = np.random.default_rng(6), 0
    topics = ["big"] * 200 + [f"t{n // 20}" for n in range(180)]
    sizes = [200] + [20] * 9
    b = numbers(tmp_path / "b.json", np.zeros(380), topics)
    for _ in range(400):
        values = np.repeat(dice.normal(0, 1, 10), sizes) + dice.normal(0, 1, 380)
        called += compare_logs(numbers(tmp_path / "a.json", values, topics), b, cluster="topic")[0].p < 0.05
    assert called <= 24  # .02 are, by 10,000 draws; the usual error of clusters calls .2


def test_equal_differences_are_judged_by_their_signs(tmp_path):
    for count, p in ((2, 0.5), (6, 1 / 32)):
        a, b = numbers(tmp_path / "a.json", [1] * count), numbers(tmp_path / "b.json", [0] * count)
        assert compare_logs(a, b)[0].p == p
    assert compare_logs(a, a)[0].p == 1


def test_what_is_found_four_times_in_five(tmp_path):
    dice = np.random.default_rng(4)
    size = compare_logs(
        numbers(tmp_path / "a.json", dice.normal(0, 1, 50)), numbers(tmp_path / "b.json", np.zeros(50))
    )[0].found
    hits = [
        compare_logs(numbers(tmp_path / "a.json", dice.normal(size, 1, 50)), tmp_path / "b.json")[0].p < 0.05
        for _ in range(200)
    ]
    assert 0.65 < np.mean(hits) < 0.92  # the spread of 50 examples is estimated


def test_logs_of_inspect(tmp_path):
    rows = [
        ("q1", 1, {"choice": "C", "parts": {"x": 1, "y": 0.5}, "said": "long"}, {}),
        ("q1", 2, {"choice": "I", "parts": {"x": 0, "y": 0.5}, "said": "none"}, {}),
        ("q2", 1, {"choice": "P", "parts": {"x": True, "y": 1}, "said": "text"}, {}),
        ("q2", 2, {"choice": "N", "parts": {"x": False, "y": 1}, "said": "text"}, {}),
    ]
    logged = read_scores(inspect_log(tmp_path / "a.json", rows))
    assert logged.scores == {
        "choice": {"q1": 0.5, "q2": 0.25},
        "parts/x": {"q1": 0.5, "q2": 0.5},
        "parts/y": {"q1": 0.5, "q2": 1},
    }
    samples = json.loads((tmp_path / "a.json").read_text())["samples"]
    samples.append(
        {
            "id": "q3",
            "epoch": 1,
            "input": "",
            "output": {},
            "error": {"message": "no"},
            "scores": {"choice": {"value": "C"}},
        }
    )
    members = {f"samples/{n}.json": json.dumps(sample).encode() for n, sample in enumerate(samples)}
    (tmp_path / "a.eval").write_bytes(zipped({"header.json": b'{"status": "success"}', **members}))
    assert read_scores(tmp_path / "a.eval").scores == logged.scores


def test_logs_of_lm_eval(tmp_path):
    lines = [
        {"doc_id": n, "doc": {"subject": "law"}, "target": "a", "arguments": [], "resps": [], "filtered_resps": [], "filter": of, "acc": n % 2, "exact_match": 1.0, "doc_hash": "f"}
        for n in range(3)
        for of in ("none", "strict")
    ]  # fmt: skip
    files.write_jsonl(tmp_path / "samples_x.jsonl", lines)
    logged = read_scores(tmp_path / "samples_x.jsonl")
    assert logged.scores == {
        "acc": {"0": 0, "1": 1, "2": 0},
        "exact_match": {"0": 1, "1": 1, "2": 1},
        "acc,strict": {"0": 0, "1": 1, "2": 0},
        "exact_match,strict": {"0": 1, "1": 1, "2": 1},
    }
    assert logged.documents["1"] == {"subject": "law"}


def command(*arguments):
    return CliRunner().invoke(main, ["compare", *map(str, arguments)], prog_name="grue")


def test_the_command(tmp_path):
    dice = np.random.default_rng(5)
    y = dice.normal(0, 1, 30)
    a, b = numbers(tmp_path / "a.json", y + 0.5 + dice.normal(0, 0.3, 30)), numbers(tmp_path / "b.json", y)
    done = command(a, b)
    assert done.exit_code == 0 and "A is higher" in done.output and "four times in five" in done.output
    data = json.loads(command(a, b, "--cluster", "topic", "--json").output)
    assert data["scores"][0]["clusters"] == 30 and data["scores"][0]["p_holm"] < 0.001
    assert "too close to call" in command(a, a).output


def test_bad_input(tmp_path, refused):
    a = inspect_log(tmp_path / "a.json", [("x", 1, {"s": 1}, {}), ("y", 1, {"s": 0}, {}), ("z", 1, {"s": 0}, {})])
    b = inspect_log(tmp_path / "b.json", [("x", 1, {"s": 1}, {}), ("y", 1, {"s": 0}, {})])
    with refused(DataError):
        compare_logs(a, b)
    assert compare_logs(a, b, common=True)[0].examples == 2
    with refused(UnknownName):
        compare_logs(a, b, scores=["f1"], common=True)
    with refused(UnknownName):
        compare_logs(a, a, cluster="topic")
    other = inspect_log(tmp_path / "c.json", [("x", 1, {"t": 1}, {})])
    with refused(ConfigError):
        compare_logs(a, other)
    with refused(DataError):
        compare_logs(other, other)
    one = inspect_log(tmp_path / "d.json", [(n, 1, {"s": 1}, {"topic": "law"}) for n in range(3)])
    with refused(DataError):
        compare_logs(one, one, cluster="topic")
    twice = inspect_log(tmp_path / "g.json", [("x", 1, {"s": 1}, {}), ("x", 1, {"s": 0}, {})])
    with refused(DataError):
        compare_logs(twice, twice)
    asked = json.loads(b.read_text())
    asked["samples"][1]["input"] = "another question"
    (tmp_path / "h.json").write_text(json.dumps(asked))
    with refused(DataError):
        compare_logs(b, tmp_path / "h.json")
    refused.command("compare", b, b, "--task", "imdb", "--axis", "naturalness", code=2)
    words = inspect_log(tmp_path / "e.json", [("x", 1, {"s": "well"}, {})])
    with refused(DataError):
        compare_logs(words, words)
    files.write_jsonl(tmp_path / "f.jsonl", [{"id": 1}])
    with refused(DataError):
        compare_logs(tmp_path / "f.jsonl", tmp_path / "f.jsonl")
    refused.command("compare", "ppo", "nlpo", "--score", "s", code=2)
