"""`grue score` as its user meets it: what is printed, where, and with which exit code; and what it loads."""

import gzip
import json
import math
import subprocess
import sys

import pytest
from support.paths import ROOT
from support.score_cli import ANSWERS, MINE, fails, grue, lines, own_files, plain, scores

from grue.api.score import score
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError, SubmissionError
from grue.records import Example
from grue.task_files import load_task


@pytest.fixture
def mine(tmp_path):
    """Predictions and examples of one's own."""
    return own_files(tmp_path)


# --- examples of one's own -------------------------------------------------------------------------------------------


def test_a_table_of_scores(mine):
    predictions, examples = mine
    result = grue("score", predictions, "--examples", examples, "--metrics", "rouge1,ter,distinct1, coverage")
    assert result.exit_code == 0
    assert result.stderr == ""
    # rouge1: 1 and ½. ter: no edit of 3½ words, and 1 of 2. Five words, each once. coverage: sat is sit, dogs are dog.
    assert result.stdout == (
        "  metric               value   0–100  counts towards\n"
        "  rouge1 ↑            0.7500\n"
        "  ter ↓              18.1818\n"
        "  distinct1           1.0000          diversity\n"
        "  coverage ↑          1.0000\n"
    )


def test_json_says_all_that_decides_a_value(mine):
    predictions, examples = mine
    result = grue("score", predictions, "--examples", examples, "--metrics", "rouge1,distinct3", "--json")
    scored = json.loads(result.stdout)
    assert [(s["metric"], s["axis"], s["direction"], s["n"]) for s in scored["scores"]] == [
        ("rouge1", "none", "higher", 2),
        ("distinct3", "none", "higher", 2),
    ]
    assert scored["scores"][0]["signature"] == "rouge1|tok:a-z0-9|stem:porter|refs:best"
    assert scored["ids"] == ["a", "b"]
    assert scored["per_example"] == {"rouge1": [1.0, 0.5]}
    assert scored["counts"] == {"expected": 2, "scored": 2, "empty": 0, "truncated": 0}
    assert set(scored["hashes"]) == {"examples", "references", "prompts", "predictions"}
    assert (scored["preference"], scored["naturalness"], scored["errors"]) == (None, None, [])


def test_values_of_the_examples(mine, tmp_path):
    predictions, examples = mine
    rows = tmp_path / "rows.jsonl"
    result = grue(
        "score", predictions, "--examples", examples, "--metrics", "rouge1,distinct3,ter", "--per-example", rows
    )
    assert result.exit_code == 0
    assert [json.loads(line) for line in rows.read_text().splitlines()] == [
        {"id": "a", "rouge1": 1.0, "ter": 0.0},
        {"id": "b", "rouge1": 0.5, "ter": 50.0},
    ]


def test_values_that_cannot_be_written(mine, tmp_path):
    predictions, examples = mine
    result = grue(
        "score", predictions, "--examples", examples, "--metrics", "rouge1", "--per-example", predictions / "rows"
    )
    assert result.exit_code == 3
    assert "cannot be written" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.jsonl", "p.jsonl"]


def test_values_are_not_written_over_what_is_read(mine, tmp_path):
    predictions, examples = mine
    before = (predictions.read_bytes(), examples.read_bytes())
    (tmp_path / "link").symlink_to(predictions)
    for output, read in ((predictions, predictions), (tmp_path / "link", predictions), (examples, examples)):
        result = grue("score", predictions, "--examples", examples, "--metrics", "rouge1", "--per-example", output)
        assert result.exit_code == 2
        assert result.stderr == (
            f"Error: {output}: is read as {read}, and would be lost; name another file to write.\n"
        )
    assert (predictions.read_bytes(), examples.read_bytes()) == before


def test_a_metric_named_twice_is_computed_once(mine):
    predictions, examples = mine
    found = scores(grue("score", predictions, "--examples", examples, "--metrics", "ter, ,ter,", "--json"))
    assert list(found) == ["ter"]


def test_names_come_from_the_environment(mine):
    predictions, examples = mine
    assert list(scores(grue("score", predictions, "--json", GRUE_EXAMPLES=str(examples), GRUE_METRICS="ter"))) == [
        "ter"
    ]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (ANSWERS[:1], "1 missing ('a')"),
        ([*ANSWERS, {"id": "c", "text": ""}], "1 unknown ('c')"),
        ([*ANSWERS, ANSWERS[0]], "1 given more than once ('b')"),
        ([{"id": "c", "text": ""}], "2 missing ('a', 'b'); 1 unknown ('c')"),
    ],
)
def test_ids_that_do_not_fit(mine, tmp_path, answers, message):
    predictions = lines(tmp_path / "other.jsonl", *answers)
    result = grue("score", predictions, "--examples", mine[1], "--metrics", "ter")
    assert result.exit_code == 1
    assert f"2 examples: {message}. Write exactly one prediction for each example" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "contains no example; write one JSON object per line."),
        ([{"id": "a"}], "line 1: the key 'references' is missing."),
        ([{"id": "a", "references": "x"}], "line 1: references: expected a list, found str 'x'."),
        (
            [{"id": "a", "references": [], "text": "x"}],
            "line 1: unknown key 'text'. Known: id, prompt, references, meta.",
        ),
        ([MINE[0], MINE[0]], "line 2: the id 'a' is repeated; ids must be distinct."),
    ],
)
def test_examples_that_cannot_be_read(mine, tmp_path, records, message):
    examples = lines(tmp_path / "mine.jsonl", *records)
    result = grue("score", mine[0], "--examples", examples, "--metrics", "ter")
    assert result.exit_code == 3
    assert result.stderr.startswith(f"Error: {examples}")
    assert result.stderr.endswith(f"{message}\n")


def test_what_has_no_ids_is_paired_in_order(mine, tmp_path):
    def bare(path, records):
        return lines(tmp_path / path, *({key: one[key] for key in one if key != "id"} for one in records))

    examples, answers = bare("mine.jsonl", MINE), bare("answers.jsonl", reversed(ANSWERS))
    texts = tmp_path / "answers.txt"
    texts.write_text("".join(f"{one['text']}\n" for one in reversed(ANSWERS)))
    wanted = scores(grue("score", mine[0], "--examples", mine[1], "--metrics", "rouge1,ter", "--json"))
    for given in (answers, texts):
        assert scores(grue("score", given, "--examples", examples, "--metrics", "rouge1,ter", "--json")) == wanted
    fails(
        grue("score", answers, "--examples", mine[1], "--metrics", "ter"),
        1,
        "The predictions do not fit the 2 examples: 2 missing ('a', 'b'); 2 unknown ('1', '2'). "
        "Write exactly one prediction for each example; an empty text is allowed.",
    )


def test_an_example_without_what_a_metric_needs(mine, tmp_path):
    bare = lines(tmp_path / "bare.jsonl", *({"id": each["id"], "references": []} for each in MINE))
    fails(
        grue("score", mine[0], "--examples", bare, "--metrics", "ter"),
        3,
        "The example 'a' has no reference, which ter needs; score a split with references or take another metric.",
    )
    fails(
        grue("score", mine[0], "--examples", bare, "--metrics", "coverage"),
        3,
        "The example 'a' has no concepts in its meta, which coverage needs; take another metric.",
    )
    listed = lines(tmp_path / "listed.jsonl", *({**each, "meta": {"concepts": "cat sit"}} for each in MINE))
    fails(
        grue("score", mine[0], "--examples", listed, "--metrics", "coverage"),
        3,
        "The example 'a' has 'cat sit' as concepts in its meta, but coverage needs a list there; mend its data format.",
    )


# --- plain text ------------------------------------------------------------------------------------------------------


def test_plain_text_with_several_references(tmp_path):
    predictions = plain(tmp_path / "p.txt", "the cat sat\ndogs ran\n")
    references = [plain(tmp_path / "1.txt", "a cat sat\ndogs run"), plain(tmp_path / "2.txt", "the cat sat\nx y z\n")]
    arguments = ["score", predictions, "--references", references[0], "--metrics", "ter,rouge1", "--json"]
    assert scores(grue(*arguments)) == {"ter": pytest.approx(100 * 2 / 5), "rouge1": pytest.approx((2 / 3 + 1 / 2) / 2)}
    both = grue(*arguments, "--references", references[1])
    assert scores(both) == {"ter": pytest.approx(100 * 1 / 5.5), "rouge1": pytest.approx((1 + 1 / 2) / 2)}
    assert json.loads(both.stdout)["ids"] == ["1", "2"]


def test_lines_end_at_line_feeds_only(tmp_path):
    """Signs that Unicode calls line ends stand in real texts; a carriage return before a line feed is none of it."""
    text = "a\u2028b\u0085c\x0bd\x0ce\rf\ndogs ran\n"
    predictions = plain(tmp_path / "p.txt", text)
    references = plain(tmp_path / "r.txt", text.replace("\n", "\r\n"))
    result = grue("score", predictions, "--references", references, "--metrics", "chrf,ter", "--json")
    assert scores(result) == {"chrf": pytest.approx(100.0), "ter": 0.0}
    assert json.loads(result.stdout)["counts"]["scored"] == 2


def test_an_empty_line_is_an_empty_text(tmp_path):
    predictions = plain(tmp_path / "p.txt", "\nb\n\n")
    references = plain(tmp_path / "r.txt", "a\nb\nc\n")
    result = grue("score", predictions, "--references", references, "--metrics", "rouge1", "--json")
    assert json.loads(result.stdout)["per_example"] == {"rouge1": [0.0, 1.0, 0.0]}
    assert json.loads(result.stdout)["counts"]["empty"] == 2


def test_a_blank_line_among_several_references_is_a_missing_one(tmp_path):
    """BLEU as sacrebleu 2.6.0 gives it for references that are None; an empty one would lift the brevity penalty."""
    predictions = plain(tmp_path / "p.txt", "the cat sat on\nx\n")
    first = plain(tmp_path / "1.txt", "the cat sat on the old mat today\nx y\n")
    second = plain(tmp_path / "2.txt", "\nx z w\n")
    arguments = ("score", predictions, "--references", first, "--references", second, "--metrics", "bleu1,sacrebleu")
    told = "1 of 2 examples have a blank reference beside others: it counts as missing, as in sacreBLEU."
    result = grue(*arguments, "--json")
    # Five words, all of them right; the references have 8 + 2. exp(1 - 10/5); and for sacreBLEU the same.
    assert scores(result) == {"bleu1": pytest.approx(math.exp(-1)), "sacrebleu": pytest.approx(100 * math.exp(-1))}
    assert json.loads(result.stdout)["notes"] == [told]
    assert grue(*arguments).stdout.endswith(f"\n  Note: {told}\n")


HINDI = "पुस्तकालय बंद है"


@pytest.mark.parametrize(
    ("texts", "metric", "note"),
    [
        (
            [HINDI, "图书馆今天关门", "المكتبة مغلقة"],
            "rougeL",
            "rougeL sees nothing of the references of 3 of 3 examples",
        ),
        (["the dog ran", HINDI], "rouge1", "rouge1 sees nothing of the references of 1 of 2 examples"),
        (["图书馆今天关门", "天关"], "sacrebleu", "tokenize=zh"),
        (
            ["the dog ran off today", "图书馆今天关门"],
            "sacrebleu",
            "sacrebleu sees nothing of the references of 1 of 2",
        ),
        (["the dog ran in the street"], "cider", "cider sees nothing of the references of 1 of 1 examples"),
        (["the dog", ""], "chrf", "1 of 2 examples have only blank references, which no text can match."),
        (["the dog", ""], "chrf", "1 of 2 predictions are blank."),
        (["the dog ran off today", HINDI], "meteor,chrf,ter,sacrebleu,bleu4", ""),
        (["dog", "für", "the dog ran off"], "rouge2,bleu4,cider", ""),  # too short for some n-grams
    ],
)
def test_a_metric_that_sees_nothing_of_references_is_told(tmp_path, texts, metric, note):
    path = plain(tmp_path / "p.txt", "".join(f"{text}\n" for text in texts))
    result = grue("score", path, "--references", path, "--metrics", metric)
    assert result.exit_code == 0
    assert note in result.stdout if note else "Note" not in result.stdout, result.stdout


def test_packed_predictions_of_ones_own_examples(mine, tmp_path):
    predictions, examples = mine
    packed = plain(tmp_path / "p.jsonl.gz", gzip.compress(predictions.read_bytes()))
    found = scores(grue("score", packed, "--examples", examples, "--metrics", "rouge1", "--json"))
    assert found == {"rouge1": 0.75}


def test_a_mark_of_the_encoding_is_no_text(tmp_path):
    predictions = plain(tmp_path / "p.txt", b"\xef\xbb\xbfthe cat\n")
    references = plain(tmp_path / "r.txt", "the cat\n")
    assert scores(grue("score", predictions, "--references", references, "--metrics", "ter", "--json")) == {"ter": 0.0}


@pytest.mark.parametrize("place", ["p.txt", "r.txt"])
def test_lines_of_json_are_no_plain_text(tmp_path, place):
    plain(tmp_path / "p.txt", "a cat\nb\n")
    plain(tmp_path / "r.txt", "a cat\nb\n")
    plain(tmp_path / place, '\ufeff{"id": "1", "text": "a cat"}\n\n {"id": "2", "text": "b"}\r\n')
    asked = ["score", tmp_path / "p.txt", "--references", tmp_path / "r.txt", "--metrics", "ter"]
    fails(
        grue(*asked),
        3,
        f"{tmp_path / place}: its lines are JSON objects, and --references is for plain text. "
        'For {"id", "text"} lines give --examples FILE, of {"id", "references"} lines (own_examples="FILE" in Python).',
    )


@pytest.mark.parametrize("line", ['{"a cat"', '["a", "b"]', '"a"', '{"a":' * 5000, "7"])
def test_a_text_that_only_looks_like_json_is_scored(tmp_path, line):
    texts = plain(tmp_path / "p.txt", f'{{"text": "a"}}\n{line}\n')
    assert scores(grue("score", texts, "--references", texts, "--metrics", "ter", "--json")) == {"ter": 0.0}


def test_files_of_different_lengths(tmp_path):
    two, three = plain(tmp_path / "2.txt", "a\nb\n"), plain(tmp_path / "3.txt", "a\nb\nc\n")
    fails(
        grue("score", two, "--references", two, "--references", three, "--metrics", "ter"),
        3,
        f"{three} has 3 lines, but {two} has 2; references need one line for each prediction.",
    )
    for given, references, told in ((two, three, "2 lines, but {} has 3"), (three, two, "3 lines, but {} has 2")):
        fails(
            grue("score", given, "--references", references, "--metrics", "ter"),
            1,
            f"{given}: {told.format(references)}; write one prediction for each reference.",
        )


def test_empty_and_damaged_files(tmp_path):
    some, empty = plain(tmp_path / "p.txt", "a\n"), plain(tmp_path / "empty.txt", "")
    damaged, missing = plain(tmp_path / "d.txt", b"a\xff\n"), tmp_path / "none.txt"
    fails(
        grue("score", some, "--references", empty, "--metrics", "ter"),
        3,
        f"{empty} is empty; references need one line for each prediction.",
    )
    assert grue("score", empty, "--references", some, "--metrics", "ter").exit_code == 1
    fails(grue("score", some, "--references", damaged, "--metrics", "ter"), 3, f"{damaged}: not valid UTF-8 at byte 1.")
    fails(
        grue("score", missing, "--references", some, "--metrics", "ter"),
        3,
        f"{missing}: cannot be read: No such file or directory.",
    )


# --- a task ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """The first references of mini CommonGen's test split, as predictions."""
    examples = load_examples(load_task("commongen"), "test").examples
    path = tmp_path_factory.mktemp("copies") / "p.jsonl"
    return lines(path, *({"id": example.id, "text": example.references[0]} for example in examples))


@pytest.fixture
def needs_spice(tmp_path):
    """Mini CommonGen with SPICE in spice_lite's place, in a suite of one's own."""
    folder = tmp_path / "own"
    folder.mkdir()
    text = (ROOT / "tasks" / "mini" / "commongen.toml").read_text(encoding="utf-8")
    assert '"spice_lite"' in text
    changed = text.replace('"spice_lite"', '"spice"').replace('suite = "mini"', 'suite = "own"')
    (folder / "commongen.toml").write_text(changed, encoding="utf-8")
    return folder


def test_a_task_has_metrics_of_its_own(copies):
    result = grue("score", copies, "--task", "commongen", "--json")
    scored = json.loads(result.stdout)
    assert (scored["task"], scored["suite"], scored["split"]) == ("commongen", "mini", "test")
    axes = {score["metric"]: score["axis"] for score in scored["scores"]}
    assert axes["meteor"] == "preference"
    assert axes["spice_lite"] == "naturalness"
    assert axes["distinct1"] == "diversity"
    assert scored["preference"] > 50
    assert scored["counts"]["scored"] == 1000


def test_some_metrics_of_a_task_and_others(copies):
    result = grue("score", copies, "--task", "commongen", "--metrics", "coverage,chrf", "--json")
    scored = json.loads(result.stdout)
    assert [(score["metric"], score["axis"]) for score in scored["scores"]] == [
        ("coverage", "preference"),
        ("chrf", "none"),
    ]
    assert scored["scores"][1]["value"] == pytest.approx(100.0)
    assert scored["preference"] is None, "not all of the axis"


@pytest.mark.parametrize("options", [[], ["--set", "cider.tokenizer=treebank"]])
def test_what_this_machine_cannot_compute_is_told_and_left_out(copies, needs_spice, options):
    result = grue(
        *("score", copies, "--task", "commongen", "--suite", needs_spice, "--json", *options), GRUE_SPICE_JAVA="no-java"
    )
    assert result.exit_code == 0
    assert result.stderr.startswith("Not scored by spice: spice cannot run here:\n- There is no program 'no-java'; ")
    scored = json.loads(result.stdout)
    assert "spice" not in {score["metric"] for score in scored["scores"]}
    assert scored["preference"] > 50
    assert scored["naturalness"] is None
    assert [error.split(":")[0] for error in scored["errors"]] == ["spice"]


def test_what_was_asked_for_and_cannot_be_computed_is_an_error(copies):
    result = grue("score", copies, "--task", "commongen", "--metrics", "ter,spice", GRUE_SPICE_JAVA="no-java")
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: spice cannot run here:\n")
    assert result.stdout == ""


# --- what is loaded --------------------------------------------------------------------------------------------------


def test_no_model_library_is_loaded(copies):
    score = ["score", str(copies), "--task", "commongen"]
    commands = [
        score,
        [*score, "--metrics", "chrf,parent_precision", "--set", "chrf.x=1"],
        ["metrics", "list"],
        ["metrics", "show", "rougeL"],
        ["metrics", "show", "evaluate:rouge"],
    ]
    code = f"""
import sys
from click.testing import CliRunner
from grue.cli.main import main
for command in {commands}:
    result = CliRunner().invoke(main, command)
    assert result.exit_code in (0, 2) and "Traceback" not in result.output, result.output
    assert not {{"torch", "transformers", "datasets", "evaluate"}} & set(sys.modules), command
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_in_python_what_is_no_text_and_no_list_of_names_is_told():
    examples = [Example("a", "", ("the cat",)), Example("b", "", ("a dog",))]
    for given, told in (
        ([{"text": "x"}, "y"], r"predictions\[0\]: the key 'id' is missing"),
        (["x", {"id": "b", "text": 3}], r"predictions\[1\]: text: expected a string, found int 3"),
        (["x", None], r"predictions\[1\]: expected a text, a grue.Prediction or \{.*\}, found None"),
        ({"a": "x", "b": 3}, r"predictions\['b'\]: expected a text, found 3"),
    ):
        with pytest.raises(SubmissionError, match=told):
            score(given, own_examples=examples, metrics=["rouge1"])
    with pytest.raises(ConfigError, match=r"metrics='rouge1': give a list of names, such as \['rouge1'\]"):
        score(["x", "y"], own_examples=examples, metrics="rouge1")


def test_predictions_of_python_are_given_as_what_is_at_hand():
    examples = [Example("a", "", ("the cat",)), Example("b", "", ("a dog",))]
    texts = {"a": "the cat", "b": "no"}
    lines = [{"id": name, "text": text} for name, text in reversed(texts.items())]
    for given in (texts, list(texts.values()), (text for text in texts.values()), lines, iter(lines)):
        assert score(given, own_examples=examples, metrics=["rouge1"]).per_example == {"rouge1": (1.0, 0.0)}


def test_what_is_shown_of_scores_is_short():
    shown = repr(score(["a"] * 99, own_examples=[Example(str(n), "", ("a",)) for n in range(99)], metrics=["rouge1"]))
    assert "Score(metric='rouge1', axis='none', value=1.0" in shown and len(shown) < 400


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([Example("1", "p", "the cat", {})], r"own_examples\[0\]: references: expected a list, found str 'the cat'"),
        ([("1", "p", ["a"], {})], r"own_examples\[0\]: expected a grue.Example, found \('1'"),
        ([Example("1", "p", ("a",), {}), Example("1", "p", ("b",), {})], r"own_examples\[1\]: the id '1' is repeated"),
        ([Example("1", "p", ("a \ud800",), {})], r"own_examples\[0\]: no file can hold it: .*surrogates"),
        ([], "own_examples is empty; there is nothing to score against"),
    ],
)
def test_examples_of_python_are_held_to_what_those_of_a_file_are(examples, message):
    with pytest.raises(DataError, match=message):
        score(["a"] * len(examples), own_examples=examples, metrics=["rouge1"])


def test_references_may_be_a_list():
    assert score(["a b"], own_examples=[Example("1", "p", ["a b"], {})], metrics=["rouge1"]).scores[0].value == 1


def test_half_of_a_surrogate_pair_is_no_text():
    with pytest.raises(SubmissionError, match=r"predictions\['1'\]: the character 2 is half of a surrogate pair"):
        score({"1": "a \ud800"}, own_examples=[Example("1", "p", ("a",), {})], metrics=["rouge1"])
