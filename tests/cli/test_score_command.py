"""`grue score` as its user meets it: what is printed, where, and with which exit code."""

import gzip
import math
from dataclasses import replace

import pandas
import pytest
from support.commands import grue, printed_json
from support.own_task import small_task
from support.score_cli import ANSWERS, MINE, lines, own_files, plain, scores

from grue import files
from grue.api.score import score
from grue.cli.score import parse_metric_settings
from grue.errors import ConfigError, DataError, SubmissionError
from grue.records import Example

POLICY = "perplexity:policy_on_references"
PAIR = [Example("a", "", ("the cat",)), Example("b", "", ("a dog",))]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Arguments that name predictions and examples of one's own in the working directory."""
    monkeypatch.chdir(tmp_path)
    own_files(tmp_path)
    return "p.jsonl", "--examples", "e.jsonl"


# --- examples of one's own -------------------------------------------------------------------------------------------


def test_a_table_of_scores(mine, refused):
    result = grue("score", *mine, "--metrics", "rouge1,ter,distinct1, coverage")
    # rouge1: 1 and ½. ter: no edit of 3½ words, and 1 of 2. Five words, each once. coverage: sat is sit, dogs are dog.
    assert result.stderr == ""
    refused.message(result.stdout)
    assert [line.split()[-1] for line in result.stdout.splitlines()[1:3]] == ["0.7500", "18.1818"]


def test_json_says_all_that_decides_a_value(mine):
    scored = printed_json("score", *mine, "--metrics", "rouge1,distinct3")
    assert [(s["metric"], s["axis"], s["direction"], s["n"]) for s in scored["scores"]] == [
        ("rouge1", "none", "higher", 2),
        ("distinct3", "none", "higher", 2),
    ]
    assert scored["scores"][0]["signature"] == "rouge1|tok:a-z0-9|stem:porter|refs:best"
    assert (scored["ids"], scored["per_example"]) == (["a", "b"], {"rouge1": [1.0, 0.5]})
    assert scored["counts"] == {"expected": 2, "scored": 2, "empty": 0, "truncated": 0}
    assert set(scored["hashes"]) == {"examples", "references", "prompts", "predictions"}
    assert (scored["preference"], scored["naturalness"], scored["errors"]) == (None, None, [])
    # A metric named twice is computed once, and names come from the environment.
    assert list(scores(*mine, "--metrics", "ter, ,ter,")) == ["ter"]
    assert list(scores("p.jsonl", GRUE_EXAMPLES="e.jsonl", GRUE_METRICS="ter")) == ["ter"]


def test_values_of_the_examples_are_written_but_not_over_what_is_read(mine, tmp_path, refused):
    command = ("score", *mine, "--metrics", "rouge1,distinct3,ter", "--per-example")
    grue(*command, "rows.jsonl")
    assert [line for _, line in files.read_jsonl(tmp_path / "rows.jsonl")] == [
        {"id": "a", "rouge1": 1.0, "ter": 0.0},
        {"id": "b", "rouge1": 0.5, "ter": 50.0},
    ]
    (tmp_path / "link").symlink_to("p.jsonl")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for output, code in (("p.jsonl", 2), ("link", 2), ("e.jsonl", 2), ("p.jsonl/rows", 3)):
        refused.command(*command, output, code=code)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_examples_that_cannot_be_read_or_lack_what_a_metric_needs(mine, tmp_path, refused):
    for records in (
        [],
        [{"id": "a"}],
        [MINE[0], MINE[0]],
        [{"id": "a", "references": [], "text": "x"}],
        [{**each, "references": []} for each in MINE],
        [{**each, "meta": {"concepts": "cat sit"}} for each in MINE],
    ):
        lines(tmp_path / "e.jsonl", *records)
        refused.command("score", *mine, "--metrics", "ter,coverage", code=3)


def test_what_has_no_ids_is_paired_in_order(mine, tmp_path, refused):
    def bare(path, records):
        return lines(tmp_path / path, *({key: one[key] for key in one if key != "id"} for one in records))

    examples, answers = bare("mine.jsonl", MINE), bare("answers.jsonl", reversed(ANSWERS))
    texts = plain(tmp_path / "answers.txt", "".join(f"{one['text']}\n" for one in reversed(ANSWERS)))
    wanted = scores(*mine, "--metrics", "rouge1,ter")
    for given in (answers, texts):
        assert scores(given, "--examples", examples, "--metrics", "rouge1,ter") == wanted
    refused.command("score", answers, *mine[1:], "--metrics", "ter", code=1)
    packed = plain(tmp_path / "p.jsonl.gz", gzip.compress((tmp_path / "p.jsonl").read_bytes()))
    assert scores(packed, *mine[1:], "--metrics", "rouge1") == {"rouge1": 0.75}


@pytest.mark.parametrize(
    "asked",
    [
        "--metrics ter",
        "--metrics ter --task commongen --examples e.jsonl",
        "--examples e.jsonl",
        "--metrics , --task commongen",
    ],
)
def test_exactly_one_thing_to_score_against_and_metrics_are_needed(mine, asked, refused):
    refused.command("score", "p.jsonl", *asked.split(), code=2)


@pytest.mark.parametrize(
    "asked",
    [
        "rogueL",
        "ter --set chrf.order=1",
        "evaluate:",
        "sentiment --set sentiment.model=mini:sentiment --set sentiment.label=1 --set sentiment.batch_size=0",
    ],
)
def test_metrics_and_options_that_cannot_be(mine, asked, refused):
    refused.command("score", *mine, "--metrics", *asked.split(), code=2)


def test_a_name_with_dots_and_colons_keeps_its_options(refused):
    settings = ["evaluate:/tmp/a.b/m.py.key=f1", f"{POLICY}.stride=16", 'sacrebleu.tokenize="none"']
    assert parse_metric_settings(settings) == {
        "evaluate:/tmp/a.b/m.py": {"key": "f1"},
        POLICY: {"stride": 16},
        "sacrebleu": {"tokenize": "none"},
    }
    assert parse_metric_settings(["sacrebleu.tokenize=none"]) == {"sacrebleu": {"tokenize": "none"}}
    with refused(ConfigError):
        parse_metric_settings(["stride=16"])


def test_a_tokenizer_whose_package_is_missing(mine, monkeypatch, refused):
    def refuse(self, *arguments, **options):
        raise RuntimeError("\nJapanese tokenization requires extra dependencies.\n\n    pip install sacrebleu[ja]\n")

    monkeypatch.setattr("sacrebleu.metrics.bleu.BLEU.__init__", refuse)
    options = ("--metrics", "sacrebleu", "--set", "sacrebleu.tokenize=ja-mecab")
    refused.command("score", *mine, *options, code=3)


# --- plain text ------------------------------------------------------------------------------------------------------


@pytest.fixture
def plainly(tmp_path, monkeypatch):
    """Score `p.txt`, of this content, against `1.txt` and so on, and return what `--json` prints."""
    monkeypatch.chdir(tmp_path)

    def command(metrics, predictions, *references):
        plain(tmp_path / "p.txt", predictions)
        paths = [plain(tmp_path / f"{place}.txt", text) for place, text in enumerate(references, 1)]
        given = [part for path in paths for part in ("--references", path.name)]
        return "score", "p.txt", *given, "--metrics", metrics

    return command


def values(command):
    return {one["metric"]: one["value"] for one in printed_json(*command)["scores"]}


def test_plain_text_with_several_references(plainly):
    texts = ("the cat sat\ndogs ran\n", "a cat sat\ndogs run", "the cat sat\nx y z\n")
    one = values(plainly("ter,rouge1", *texts[:2]))
    assert one == {"ter": pytest.approx(100 * 2 / 5), "rouge1": pytest.approx((2 / 3 + 1 / 2) / 2)}
    both = values(plainly("ter,rouge1", *texts))
    assert both == {"ter": pytest.approx(100 * 1 / 5.5), "rouge1": pytest.approx((1 + 1 / 2) / 2)}


def test_lines_end_at_line_feeds_only_and_an_empty_one_is_an_empty_text(plainly):
    """Signs that Unicode calls line ends stand in real texts; a carriage return before a line feed is none of it."""
    text = "a\u2028b\u0085c\x0bd\x0ce\rf\ndogs ran\n"
    assert values(plainly("chrf,ter", text, text.replace("\n", "\r\n"))) == {"chrf": pytest.approx(100.0), "ter": 0.0}
    assert values(plainly("ter", b"\xef\xbb\xbfthe cat\n", "the cat\n")) == {"ter": 0.0}  # a mark of the encoding
    scored = printed_json(*plainly("rouge1", "\nb\n\n", "a\nb\nc\n"))
    assert (scored["per_example"], scored["counts"]["empty"]) == ({"rouge1": [0.0, 1.0, 0.0]}, 2)
    assert scored["ids"] == ["1", "2", "3"]


def test_a_blank_line_among_several_references_is_a_missing_one(plainly):
    """BLEU as sacrebleu 2.6.0 gives it for references that are None; an empty one would lift the brevity penalty."""
    first, second = "the cat sat on the old mat today\nx y\n", "\nx z w\n"
    command = plainly("bleu1,sacrebleu", "the cat sat on\nx\n", first, second)
    told = "1 of 2 examples have a blank reference beside others: it counts as missing, as in sacreBLEU."
    # Five words, all of them right; the references have 8 + 2. exp(1 - 10/5); and for sacreBLEU the same.
    assert values(command) == {"bleu1": pytest.approx(math.exp(-1)), "sacrebleu": pytest.approx(100 * math.exp(-1))}
    assert printed_json(*command)["notes"] == [told]
    assert grue(*command).stdout.endswith(f"\n  Note: {told}\n")


HINDI, CHINESE = "पुस्तकालय बंद है", "图书馆今天关门"


@pytest.mark.parametrize(
    ("metric", "texts", "note"),
    [
        ("rouge1", ["the dog ran", HINDI], "rouge1 sees nothing of the references of 1 of 2 examples"),
        (
            "rouge1",
            ["the dog ran", f"2024 {HINDI}"],
            "rouge1 reads only a–z and 0–9 and leaves out most letters of 1 of 2",
        ),
        ("rougeL", ["the dog ran", "the 2nd cafés, 5.2 %", "42"], ""),
        ("sacrebleu", [CHINESE, "天关"], "tokenize=zh"),
        ("cider", ["the dog ran in the street"], "cider sees nothing of the references of 1 of 1 examples"),
        ("chrf", ["the dog", ""], "1 of 2 examples have only blank references, which no text can match."),
        ("chrf", ["the dog", ""], "1 of 2 predictions are blank."),
        (
            "meteor",
            ["the dog", f"{CHINESE}了"],
            "meteor compares words between blanks, and 1 of 2 references lack",
        ),
        ("cider", ["the dog", f"{CHINESE}了"], "cider compares words between blanks, and 1 of 2 references lack"),
        ("bleu1", ["the dog", f"{CHINESE}了"], "bleu1 compares words between blanks, and 1 of 2 references lack"),
        ("ter", ["the dog", f"{CHINESE}了"], "ter compares words between blanks, and 1 of 2 references lack"),
        ("meteor,cider,bleu1,ter,chrf", ["the dog", "图书馆 今天 关门 了 吗 朋友"], ""),
        ("meteor,chrf,ter,sacrebleu,bleu4", ["the dog ran off today", HINDI], ""),
    ],
)
def test_a_metric_that_sees_nothing_of_references_is_told(plainly, metric, texts, note):
    content = "".join(f"{text}\n" for text in texts)
    shown = grue(*plainly(metric, content, content)).stdout
    assert note in shown if note else "Note" not in shown, shown


def test_lines_of_json_are_no_plain_text(plainly, refused):
    json_lines = '\ufeff{"id": "1", "text": "a cat"}\n\n {"id": "2", "text": "b"}\r\n'
    refused.command(*plainly("ter", json_lines, "a cat\nb\n"), code=3)
    refused.command(*plainly("ter", "a cat\nb\n", json_lines), code=3)
    for line in ('{"a cat"', '["a", "b"]', '"a"', '{"a":' * 5000, "7"):  # which only looks like JSON
        text = f'{{"text": "a"}}\n{line}\n'
        assert values(plainly("ter", text, text)) == {"ter": 0.0}


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        (3, ("a\nb\n", "a\nb\n", "a\nb\nc\n")),
        (1, ("a\nb\n", "a\nb\nc\n")),
        (3, ("a\n", "")),
        (3, ("a\n", b"a\xff\n")),
    ],
)
def test_files_of_different_lengths_and_damaged_ones_are_refused(plainly, code, texts, refused):
    refused.command(*plainly("ter", *texts), code=code)


COPIES = [{"id": "a", "text": "the cat sits"}, {"id": "b", "text": "a dog runs"}]
"""The first references of `small_task`."""


def test_a_task_has_metrics_of_its_own_and_some_of_them_make_no_axis(tmp_path):
    command = ("score", lines(tmp_path / "p.jsonl", *COPIES), "--task", small_task(tmp_path))
    scored = printed_json(*command)
    assert (scored["task"], scored["suite"], scored["split"]) == ("commongen", "own", "test")
    axes = {one["metric"]: one["axis"] for one in scored["scores"]}
    assert [axes[name] for name in ("meteor", "spice_lite", "distinct1")] == ["preference", "naturalness", "diversity"]
    assert scored["preference"] > 50 and scored["counts"]["scored"] == 2
    some = printed_json(*command, "--metrics", "coverage,chrf")
    assert [(one["metric"], one["axis"]) for one in some["scores"]] == [("coverage", "preference"), ("chrf", "none")]
    assert some["scores"][1]["value"] == pytest.approx(100.0)
    assert some["preference"] is None, "not all of the axis"
    first = [*command[:1], lines(tmp_path / "first.jsonl", COPIES[0]), *command[2:], "--limit", 1]
    assert printed_json(*first)["ids"] == ["a"], "the answers that `grue generate --limit 1` writes"


# --- in Python -------------------------------------------------------------------------------------------------------


def test_predictions_and_examples_of_python_are_held_to_what_those_of_a_file_are(refused):
    half = "y \ud800"  # of a surrogate pair
    for given in (
        [{"text": "x"}, "y"],
        ["x", {"id": "b", "text": 3}],
        ["x", None],
        {"a": "x", "b": 3},
        {"a": "x", "b": half},
    ):
        with refused(SubmissionError):
            score(given, own_examples=PAIR, metrics=["rouge1"])
    twice = [Example("1", "p", (text,), {}) for text in "ab"]
    bare, cut = [Example("1", "p", "the cat", {})], [Example("1", "p", (half,), {})]
    for examples in (bare, [("1", "p", ["a"], {})], twice, cut, []):
        with refused(DataError):
            score(["a"] * len(examples), own_examples=examples, metrics=["rouge1"])
    for given in (pandas.DataFrame({"id": ["a", "b"], "text": ["x", "y"]}), None):  # two columns, two examples
        with refused(SubmissionError):
            score(given, own_examples=PAIR, metrics=["rouge1"])


def test_predictions_of_python_are_given_as_what_is_at_hand(refused):
    texts = {"a": "the cat", "b": "no"}
    records = [{"id": name, "text": text} for name, text in reversed(texts.items())]
    column = pandas.Series(texts)
    several = (texts, list(texts.values()), (text for text in texts.values()), records, iter(records))
    for given in (*several, column, column.to_numpy(), column.to_numpy("U9")):
        assert score(given, own_examples=PAIR, metrics=["rouge1"]).per_example == {"rouge1": (1.0, 0.0)}
    assert score(["a b"], own_examples=[Example("1", "p", ["a b"], {})], metrics=["rouge1"]).scores[0].value == 1
    shown = repr(
        score(["the cat"] * 99, own_examples=[replace(PAIR[0], id=str(n)) for n in range(99)], metrics=["rouge1"])
    )
    assert "Score(metric='rouge1', axis='none', value=1.0" in shown and len(shown) < 400
    with refused(ConfigError):
        score(["x", "y"], own_examples=PAIR, metrics="rouge1")
    with refused(ConfigError):
        score(["x", "y"], own_examples=PAIR, metrics=[len])
