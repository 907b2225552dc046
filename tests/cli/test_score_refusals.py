"""What `grue score` cannot be asked, and the options that reach its metrics: each refusal says what to do instead."""

import json

import pytest
from support.score_cli import fails, grue, own_files, plain, scores

from grue.cli.score import parse_metric_settings
from grue.errors import ConfigError

WHAT = (
    "Say what to score against: one of --task NAME, --examples FILE or --references FILE (in Python task, own_examples or "
    "references)."
)


@pytest.fixture
def mine(tmp_path):
    """Predictions and examples of one's own."""
    return own_files(tmp_path)


@pytest.mark.parametrize(
    "against",
    [
        [],
        ["--task", "commongen", "--examples", "e.jsonl"],
        ["--task", "commongen", "--references", "r.txt"],
        ["--examples", "e.jsonl", "--references", "r.txt"],
    ],
)
def test_exactly_one_thing_to_score_against(against):
    fails(grue("score", "p.jsonl", "--metrics", "ter", *against), 2, WHAT)


@pytest.mark.parametrize("against", [["--examples", "e.jsonl"], ["--references", "r.txt"]])
def test_examples_of_ones_own_have_no_default_metrics(against):
    message = (
        "Without a task there are no default metrics: name them with --metrics, such as meteor,rougeL, or "
        'metrics=["meteor", "rougeL"] in Python.'
    )
    fails(grue("score", "p.jsonl", *against), 2, message)


@pytest.mark.parametrize("against", [["--task", "commongen"], ["--references", "r.txt"]])
def test_no_metric_at_all(against):
    message = "--metrics ' , ' names no metric; write names such as meteor,rougeL."
    fails(grue("score", "p.jsonl", *against, "--metrics", " , "), 2, message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--metrics", "rogueL"],
            "There is no metric 'rogueL'. Did you mean 'rougeL'? Also near: rouge2, rouge1. `grue metrics",
        ),
        (["--metrics", "ter", "--set", "ter"], "--set ter: write KEY=VALUE"),
        (["--metrics", "ter", "--set", "case=1"], "--set case: write METRIC.OPTION=VALUE, such as --set bertscore.lay"),
        (["--metrics", "ter", "--set", ".case=1"], "--set .case: write METRIC.OPTION=VALUE"),
        (["--metrics", "ter", "--set", "ter.=1"], "--set ter.: write METRIC.OPTION=VALUE"),
        (
            ["--metrics", "ter", "--set", "chrf.order=1"],
            "There are options for 'chrf', which is not computed. Computed: ter.",
        ),
        (
            ["--metrics", "ter", "--set", "terr.case_sensitive=true"],
            "There are options for 'terr', which is not computed. Did you mean 'ter'? Computed: ter.",
        ),
        (
            ["--metrics", "ter", "--set", "ter.case=true"],
            "The metric 'ter' has no option 'case'. Known: case_sensitive.",
        ),
        (
            ["--metrics", "ter", "--set", "ter.case_sensitive=yes"],
            "The metric 'ter': the option 'case_sensitive' must be true or false, found 'yes'.",
        ),
        (
            ["--metrics", "cider", "--set", "cider.tokenizer=word"],
            "There is no tokenizer 'word'. Did you mean 'words'?",
        ),
        (["--metrics", "bertscore"], "The metric 'bertscore' needs the option 'model'; set it in the task file's opt"),
        (
            ["--metrics", "evaluate:"],
            "'evaluate:' lacks the metric's name or path: write evaluate:exact_match, for example.",
        ),
    ],
)
def test_metrics_and_options_that_cannot_be(mine, arguments, message):
    result = grue("score", mine[0], "--examples", mine[1], *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stdout == ""


def test_options_reach_their_metric(tmp_path):
    predictions, references = plain(tmp_path / "p.txt", "The cat sat.\n"), plain(tmp_path / "r.txt", "the cat sat .\n")
    arguments = ["score", predictions, "--references", references, "--metrics", "ter,bleu1", "--json"]
    assert scores(grue(*arguments)) == {"ter": 50.0, "bleu1": pytest.approx(1 / 3 * 2.718281828459045 ** (-1 / 3))}
    settings = ["--set", "ter.case_sensitive=true", "--set", "bleu1.tokenizer=words"]
    assert scores(grue(*arguments, *settings)) == {"ter": 75.0, "bleu1": pytest.approx(3 / 4)}


def test_a_name_with_dots_and_colons_keeps_its_options():
    settings = [
        "evaluate:/tmp/a.b/m.py.key=f1",
        "perplexity:policy_on_references.stride=16",
        'sacrebleu.tokenize="none"',
    ]
    assert parse_metric_settings(settings) == {
        "evaluate:/tmp/a.b/m.py": {"key": "f1"},
        "perplexity:policy_on_references": {"stride": 16},
        "sacrebleu": {"tokenize": "none"},
    }
    assert parse_metric_settings(["sacrebleu.tokenize=none"]) == {"sacrebleu": {"tokenize": "none"}}
    with pytest.raises(ConfigError, match="--set stride: write METRIC"):
        parse_metric_settings(["stride=16"])


def test_a_metric_that_looks_at_no_text_can_be_asked_for(mine):
    name = "perplexity:policy_on_references"
    result = grue(
        *("score", mine[0], "--examples", mine[1], "--metrics", name, "--json"),
        *("--set", f"{name}.model=mini:causal", "--set", f"{name}.stride=16"),
    )
    assert scores(result)[name] > 1
    assert json.loads(result.stdout)["per_example"] == {}


@pytest.mark.parametrize("size", [0, -1])
@pytest.mark.parametrize(("name", "options"), [("sentiment", ["label=1"]), ("perplexity", [])])
def test_a_batch_of_nothing(mine, name, options, size):
    model = {"sentiment": "mini:sentiment", "perplexity": "mini:causal"}[name]
    settings = [f"model={model}", f"batch_size={size}", *options]
    result = grue(
        *("score", mine[0], "--examples", mine[1], "--metrics", name),
        *(part for setting in settings for part in ("--set", f"{name}.{setting}")),
    )
    fails(result, 2, f"The option batch_size must be at least 1, found {size}.")


def test_a_tokenizer_whose_package_is_missing(mine, monkeypatch):
    from sacrebleu.metrics.bleu import BLEU

    def refuse(self, *arguments, **options):
        raise RuntimeError("\nJapanese tokenization requires extra dependencies.\n\n    pip install sacrebleu[ja]\n")

    monkeypatch.setattr(BLEU, "__init__", refuse)
    arguments = ["--metrics", "sacrebleu", "--set", "sacrebleu.tokenize=ja-mecab"]
    fails(
        grue("score", mine[0], "--examples", mine[1], *arguments),
        3,
        "sacrebleu's tokenizer 'ja-mecab' cannot run here: Japanese tokenization requires extra dependencies. "
        "pip install sacrebleu[ja]",
    )
