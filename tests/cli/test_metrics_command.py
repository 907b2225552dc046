"""`grue metrics` as its user meets it."""

from support.commands import grue, printed_json

from grue.metrics.card import CARDS, FAMILIES
from grue.metrics.registry import METRICS


def test_the_list_names_every_metric_once_and_those_of_other_packages(monkeypatch):
    printed = grue("metrics", "list").stdout.splitlines()
    assert [line for line in printed if not line.startswith("  ")] == [
        *FAMILIES.values(),
        "Any metric of the library evaluate: evaluate:NAME",
        "A function of your own: MODULE:FUNCTION",
    ]
    assert sorted(line.split()[0] for line in printed if line.startswith("  ")) == sorted(CARDS)
    assert "  ter                             ↓ 0–∞        Snover et al. 2006; sacrebleu 2.6" in printed
    assert "  bertscore                       ↑ −1–1       Zhang et al. 2020; bert-score 0.3.13" in printed
    monkeypatch.setitem(METRICS._things, "theirs", lambda strength=3: None)
    assert "From other packages\n  theirs\n" in grue("metrics", "list").stdout
    *records, theirs = printed_json("metrics", "list")
    assert (theirs, [record["name"] for record in records]) == ({"name": "theirs"}, list(CARDS))
    ter, bleurt = ({record["name"]: record for record in records}[name] for name in ("ter", "bleurt"))
    about = [ter[key] for key in ("range", "direction", "family", "needs")]
    assert about == [[0, None], "lower", "overlap", "references"] and bleurt["range"] == [None, None]
    assert grue("metrics", "show", "theirs").stdout.startswith("theirs\n  options\n    strength: any = 3")


def test_a_metric_is_shown(refused):
    refused.message(grue("metrics", "show", "bleurt").stdout)
    assert "options" not in grue("metrics", "show", "meteor").stdout
    assert "  needs    nothing but the texts\n" in grue("metrics", "show", "distinct1").stdout
    refused.command("metrics", "show", "rogue1", code=2)
    ter, sentiment, rouge = (printed_json("metrics", "show", name) for name in ("ter", "sentiment", "evaluate:rouge"))
    assert (ter["definition"], rouge["name"]) == (CARDS["ter"].definition, "evaluate:rouge")
    assert ter["options"] == [{"name": "case_sensitive", "type": "bool", "default": False}]
    assert sentiment["options"][:2] == [{"name": "model", "type": "str"}, {"name": "label", "type": "int"}]
