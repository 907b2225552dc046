"""Two logs of other harnesses: the tests against scipy's and by simulation, what is read, and what is refused."""

import json

import numpy as np
import pytest
from scipy import stats
from support.commands import grue, printed_json
from support.official import zipped

from grue import files
from grue.errors import ConfigError, DataError, UnknownName
from grue.exchange import logged_scores
from grue.exchange.logged_scores import Logged, compare_logs, read_scores

OF_NO_SCORE = {"target": "a", "arguments": [], "resps": [], "filtered_resps": [], "doc_hash": "f"}


def inspect_log(path, samples):
    """A .json of inspect_ai, from (id, epoch, scores, metadata)."""
    listed = [
        {**{"id": name, "epoch": epoch, "input": "x", "output": {}, "metadata": meta},
         "scores": {key: {"value": value} for key, value in scores.items()}}
        for name, epoch, scores, meta in samples
    ]  # fmt: skip
    path.write_text(json.dumps({"status": "success", "eval": {}, "samples": listed}))
    return path


def numbers(path, values, clusters=None):
    clusters = clusters or [f"c{n}" for n in range(len(values))]
    rows = zip(values, clusters, strict=True)
    return inspect_log(path, [(n, 1, {"f1": float(value)}, {"topic": topic}) for n, (value, topic) in enumerate(rows)])


@pytest.fixture
def compared(monkeypatch):
    """Compare values that are in no file."""

    def call(x, y, clusters=(), **options):
        documents = {str(n): {"topic": topic} for n, topic in enumerate(clusters)}
        logs = {
            side: Logged({"f1": {str(n): float(value) for n, value in enumerate(values)}}, documents, {})
            for side, values in (("a", x), ("b", y))
        }
        monkeypatch.setattr(logged_scores, "read_scores", logs.__getitem__)
        (found,) = compare_logs("a", "b", **options)
        return found

    return call


def test_examples_are_paired(compared):
    dice = np.random.default_rng(1)
    hard = dice.normal(0, 1, 40)
    x, y = hard + dice.normal(0.3, 0.5, 40), hard + dice.normal(0, 0.5, 40)
    found = compared(x, y)
    assert found.p == pytest.approx(stats.ttest_rel(x, y).pvalue) == found.p_holm
    low, high = stats.ttest_rel(x, y).confidence_interval()
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))
    assert found.error == pytest.approx(stats.sem(x - y))
    assert found.unpaired == pytest.approx(np.hypot(stats.sem(x), stats.sem(y))) and found.unpaired > 1.5 * found.error


def test_equal_clusters_give_the_t_test_of_their_means(compared):
    x = np.random.default_rng(3).normal(0.2, 1, 60)
    found = compared(x, np.zeros(60), [f"t{n % 12}" for n in range(60)], cluster="topic")
    assert found.p == pytest.approx(stats.ttest_1samp([x[n::12].mean() for n in range(12)], 0).pvalue)


@pytest.mark.parametrize(
    ("sizes", "spread", "least", "most"), [((20,) * 10, 0.5, 0.01, 0.095), ((200, *(20,) * 9), 1, 0, 0.06)]
)
def test_clusters_are_what_varies_and_unequal_ones_are_not_called_sure(compared, sizes, spread, least, most):
    """Of 400 pairs of equal systems one in twenty is called different; by single examples a third would be.

    Of unequal sizes .02 are, by 10,000 draws; the usual error of clusters calls .2.
    """
    dice, topics = np.random.default_rng(6), np.repeat(np.arange(len(sizes)).astype(str), sizes)
    zeros, called = np.zeros(len(topics)), []
    for _ in range(400):
        values = np.repeat(dice.normal(0, spread, len(sizes)), sizes) + dice.normal(0, 1, len(topics))
        called.append([compared(values, zeros, topics, cluster=cluster).p < 0.05 for cluster in ("topic", None)])
    by_cluster, by_example = np.mean(called, axis=0)
    assert least <= by_cluster <= most and by_example > 0.2


def test_equal_differences_are_judged_by_their_signs(compared):
    for count, p in ((2, 0.5), (6, 1 / 32)):
        assert compared([1] * count, [0] * count).p == p
    assert compared([1] * 6, [1] * 6).p == 1


def test_what_is_found_four_times_in_five(compared):
    dice = np.random.default_rng(4)
    size = compared(dice.normal(0, 1, 50), np.zeros(50)).found
    hits = [compared(dice.normal(size, 1, 50), np.zeros(50)).p < 0.05 for _ in range(200)]
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
    samples.append({**samples[0], "id": "q3", "error": {"message": "no"}})
    members = {f"samples/{n}.json": json.dumps(sample).encode() for n, sample in enumerate(samples)}
    (tmp_path / "a.eval").write_bytes(zipped({"header.json": b'{"status": "success"}', **members}))
    assert read_scores(tmp_path / "a.eval").scores == logged.scores


def test_a_chat_is_the_same_question_in_both_logs_whatever_ids_inspect_gives_its_messages(tmp_path):
    paths = [numbers(tmp_path / f"{name}.json", values) for name, values in (("a", [1, 1, 0]), ("b", [1, 0, 0]))]
    for path in paths:
        log = json.loads(path.read_text())
        for n, sample in enumerate(log["samples"]):
            sample["input"] = [{"id": f"{path.stem}{n}", "role": "user", "content": "What is red?"}]
        path.write_text(json.dumps(log))
    assert compare_logs(*paths)[0].examples == 3


def test_logs_of_lm_eval(tmp_path):
    lines = [
        {**OF_NO_SCORE, "doc_id": n, "doc": {"subject": "law"}, "filter": of, "acc": n % 2, "exact_match": 1.0}
        for n in range(3)
        for of in ("none", "strict")
    ]
    files.write_jsonl(tmp_path / "samples_x.jsonl", lines)
    logged = read_scores(tmp_path / "samples_x.jsonl")
    assert logged.scores == {
        "acc": {"0": 0, "1": 1, "2": 0},
        "exact_match": {"0": 1, "1": 1, "2": 1},
        "acc,strict": {"0": 0, "1": 1, "2": 0},
        "exact_match,strict": {"0": 1, "1": 1, "2": 1},
    }
    assert logged.documents["1"] == {"subject": "law"}


def test_the_command(tmp_path):
    dice = np.random.default_rng(5)
    y = dice.normal(0, 1, 30)
    a, b = numbers(tmp_path / "a.json", y + 0.5 + dice.normal(0, 0.3, 30)), numbers(tmp_path / "b.json", y)
    said = grue("compare", a, b).output
    assert "A is higher" in said and "four times in five" in said
    (score,) = printed_json("compare", a, b, "--cluster", "topic")["scores"]
    assert score["clusters"] == 30 and score["p_holm"] < 0.001
    assert "too close to call" in grue("compare", a, a).output


def test_bad_input(tmp_path, refused):
    def log(name, *samples):
        return inspect_log(tmp_path / f"{name}.json", samples)

    b = [("x", 1, {"s": 1}, {}), ("y", 1, {"s": 0}, {})]
    a, b, other = log("a", *b, ("z", 1, {"s": 0}, {})), log("b", *b), log("c", ("x", 1, {"t": 1}, {}))
    one = log("d", *((n, 1, {"s": 1}, {"topic": "law"}) for n in range(3)))
    twice = log("g", ("x", 1, {"s": 1}, {}), ("x", 1, {"s": 0}, {}))
    words = log("e", ("x", 1, {"s": "well"}, {}))
    asked = tmp_path / "h.json"
    samples = json.loads(b.read_text())
    samples["samples"][1]["input"] = "another question"
    asked.write_text(json.dumps(samples))
    files.write_jsonl(tmp_path / "f.jsonl", [{"id": 1}])
    assert compare_logs(a, b, common=True)[0].examples == 2
    for error, first, second, options in (
        (DataError, a, b, {}),
        (UnknownName, a, b, {"scores": ["f1"], "common": True}),
        (UnknownName, a, a, {"cluster": "topic"}),
        (ConfigError, a, other, {}),
        (DataError, other, other, {}),
        (DataError, one, one, {"cluster": "topic"}),
        (DataError, twice, twice, {}),
        (DataError, b, asked, {}),
        (DataError, words, words, {}),
        (DataError, tmp_path / "f.jsonl", tmp_path / "f.jsonl", {}),
    ):
        with refused(error):
            compare_logs(first, second, **options)
    refused.command("compare", b, b, "--task", "imdb", "--axis", "naturalness", code=2)
    refused.command("compare", "ppo", "nlpo", "--score", "s", code=2)
