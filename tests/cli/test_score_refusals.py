"""What `grue score` cannot be asked, and the options that reach its metrics: each refusal says what to do instead."""

import pytest
from support.commands import printed_json
from support.score_cli import own_files, plain, scores

from grue.cli.score import parse_metric_settings
from grue.errors import ConfigError

POLICY = "perplexity:policy_on_references"


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    """Predictions and examples of one's own in the working directory."""
    monkeypatch.chdir(tmp_path)
    own_files(tmp_path)


@pytest.mark.parametrize(
    "asked",
    [
        "--metrics ter",
        "--metrics ter --task commongen --examples e.jsonl",
        "--metrics ter --task commongen --references r.txt",
        "--metrics ter --examples e.jsonl --references r.txt",
        "--examples e.jsonl",
        "--references r.txt",
        "--metrics , --task commongen",
        "--metrics , --references r.txt",
    ],
)
def test_exactly_one_thing_to_score_against_and_metrics_are_needed(asked, refused):
    refused.command("score", "p.jsonl", *asked.split(), code=2)


@pytest.mark.parametrize(
    "asked",
    [
        "rogueL",
        "ter --set ter",
        "ter --set case=1",
        "ter --set .case=1",
        "ter --set ter.=1",
        "ter --set chrf.order=1",
        "ter --set terr.case_sensitive=true",
        "ter --set ter.case=true",
        "ter --set ter.case_sensitive=yes",
        "cider --set cider.tokenizer=word",
        "bertscore",
        "evaluate:",
        "sentiment --set sentiment.model=mini:sentiment --set sentiment.label=1 --set sentiment.batch_size=0",
        "perplexity --set perplexity.model=mini:causal --set perplexity.batch_size=-1",
    ],
)
def test_metrics_and_options_that_cannot_be(asked, refused):
    refused.command("score", "p.jsonl", "--examples", "e.jsonl", "--metrics", *asked.split(), code=2)


def test_options_reach_their_metric(tmp_path):
    plain(tmp_path / "p.txt", "The cat sat.\n"), plain(tmp_path / "r.txt", "the cat sat .\n")
    command = ("p.txt", "--references", "r.txt", "--metrics", "ter,bleu1")
    assert scores(*command) == {"ter": 50.0, "bleu1": pytest.approx(1 / 3 * 2.718281828459045 ** (-1 / 3))}
    settings = ("--set", "ter.case_sensitive=true", "--set", "bleu1.tokenizer=words")
    assert scores(*command, *settings) == {"ter": 75.0, "bleu1": pytest.approx(3 / 4)}


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


def test_a_metric_that_looks_at_no_text_can_be_asked_for():
    options = ("--set", f"{POLICY}.model=mini:causal", "--set", f"{POLICY}.stride=16")
    scored = printed_json("score", "p.jsonl", "--examples", "e.jsonl", "--metrics", POLICY, *options)
    assert (scored["scores"][0]["metric"], scored["per_example"]) == (POLICY, {})
    assert scored["scores"][0]["value"] > 1


def test_a_tokenizer_whose_package_is_missing(monkeypatch, refused):
    def refuse(self, *arguments, **options):
        raise RuntimeError("\nJapanese tokenization requires extra dependencies.\n\n    pip install sacrebleu[ja]\n")

    monkeypatch.setattr("sacrebleu.metrics.bleu.BLEU.__init__", refuse)
    options = ("--metrics", "sacrebleu", "--set", "sacrebleu.tokenize=ja-mecab")
    refused.command("score", "p.jsonl", "--examples", "e.jsonl", *options, code=3)
