"""`grue metrics` as its user meets it."""

import json

from click.testing import CliRunner

from grue.cli.main import main
from grue.metrics.card import FAMILIES
from grue.metrics.registry import CARDS, METRICS


def fails(result, code, message):
    assert (result.exit_code, result.stderr, result.stdout) == (code, f"Error: {message}\n", "")


def grue(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_list_names_every_metric_once():
    result = grue("metrics", "list")
    assert result.exit_code == 0
    printed = result.stdout.splitlines()
    assert [line for line in printed if not line.startswith("  ")] == [
        *FAMILIES.values(),
        "Any metric of the library evaluate: evaluate:NAME",
        "A function of your own: MODULE:FUNCTION",
    ]
    assert sorted(line.split()[0] for line in printed if line.startswith("  ")) == sorted(CARDS)
    assert "  ter                             ↓ 0–∞        Snover et al. 2006; sacrebleu 2.6" in printed
    assert "  bertscore                       ↑ −1–1       Zhang et al. 2020; bert-score 0.3.13" in printed


def test_the_list_as_json():
    records = json.loads(grue("metrics", "list", "--json").stdout)
    assert [record["name"] for record in records] == list(CARDS)
    ter = next(record for record in records if record["name"] == "ter")
    assert (ter["range"], ter["direction"], ter["family"], ter["needs"]) == (
        [0, None],
        "lower",
        "overlap",
        "references",
    )
    bleurt = next(record for record in records if record["name"] == "bleurt")
    assert bleurt["range"] == [None, None]


def test_the_list_has_metrics_of_other_packages(monkeypatch):
    monkeypatch.setitem(METRICS._things, "theirs", lambda strength=3: None)
    assert "From other packages\n  theirs\n" in grue("metrics", "list").stdout
    assert json.loads(grue("metrics", "list", "--json").stdout)[-1] == {"name": "theirs"}
    assert grue("metrics", "show", "theirs").stdout.startswith("theirs\n  options\n    strength: ")


def test_showing_a_metric():
    result = grue("metrics", "show", "bleurt")
    assert result.exit_code == 0
    assert result.stdout == (
        "bleurt\n"
        "  Score of a regression model that reads reference and text; mean over references by default.\n"
        "  Checkpoints are different metrics: the signature names the one used.\n"
        "\n"
        "  range    −∞–∞, higher is better\n"
        "  source   Sellam et al. 2020; BERT-type checkpoints converted for transformers\n"
        "  needs    references\n"
        "  options\n"
        "    model: str (required)\n"
        "    revision: str = ''\n"
        "    batch_size: int = 32\n"
        "    multi_ref: str = 'mean'\n"
    )


def test_showing_a_metric_without_options_and_needs():
    assert "options" not in grue("metrics", "show", "meteor").stdout
    assert "  needs    nothing but the texts\n" in grue("metrics", "show", "distinct1").stdout


def test_showing_a_metric_as_json():
    record = json.loads(grue("metrics", "show", "ter", "--json").stdout)
    assert record["definition"] == CARDS["ter"].definition
    assert record["options"] == [{"name": "case_sensitive", "type": "bool", "default": False}]
    record = json.loads(grue("metrics", "show", "sentiment", "--json").stdout)
    assert record["options"][:2] == [{"name": "model", "type": "str"}, {"name": "label", "type": "int"}]
    assert json.loads(grue("metrics", "show", "evaluate:rouge", "--json").stdout)["name"] == "evaluate:rouge"


def test_showing_what_is_not_there():
    fails(
        grue("metrics", "show", "rogue1"),
        2,
        "There is no metric 'rogue1'. Did you mean 'rouge1'? `grue metrics list` lists them.",
    )
