"""Published figures come out of `grue score` on the real data; skipped where the slices are not beside the project."""

import json
from pathlib import Path

import pytest
from support.commands import printed_json
from support.paths import REAL

WMT = REAL / "wmt16"
TOTTO = REAL / "totto" / "official_eval_sample"


def here(folder):
    return pytest.mark.skipif(not folder.is_dir(), reason=f"the slices of real data are not here: no folder {folder}")


def scored(*arguments):
    """Return what `grue score` says of predictions, and metric → value."""
    found = printed_json("score", *arguments)
    return found, {score["metric"]: score["value"] for score in found["scores"]}


@here(WMT)
@pytest.mark.parametrize(("commit", "published"), [("ef690b3", 39.3), ("ce0a251", 39.4)])
def test_wmt16_bleu_of_two_systems(commit, published):
    """BLEU that Mozilla published beside the outputs of its models."""
    system = WMT / "system_outputs" / f"newstest2016.bergamot-base-memory.{commit}.de"
    assert float(Path(f"{system}.bleu").read_text()) == published
    found, values = scored(system, "--references", WMT / "newstest2016.de", "--metrics", "sacrebleu")
    assert found["counts"]["scored"] == 2999 and round(values["sacrebleu"], 1) == published


@pytest.fixture
def totto(tmp_path):
    """The official sample as predictions and examples."""
    rows = [json.loads(line) for line in (TOTTO / "dev_sample.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = (TOTTO / "output_sample.txt").read_text(encoding="utf-8").splitlines()
    predictions, examples = tmp_path / "predictions.jsonl", tmp_path / "examples.jsonl"
    predictions.write_text(
        "".join(json.dumps({"id": str(r["example_id"]), "text": t}) + "\n" for r, t in zip(rows, texts, strict=True))
    )
    examples.write_text("".join(json.dumps(example_of(row)) + "\n" for row in rows))
    return predictions, examples


def example_of(row):
    def kept(values):
        return [value.strip().replace("|", "-") for value in values if value.strip()]

    titles = kept([row["table_page_title"], row["table_section_title"]])
    cells = kept(cell["value"] for line in row["table"] for cell in line)
    highlighted = kept(row["table"][line][column]["value"] for line, column in row["highlighted_cells"])
    return {
        "id": str(row["example_id"]),
        "references": [annotation["final_sentence"] for annotation in row["sentence_annotations"]],
        "meta": {
            "table": [*cells, *titles, *kept([row["table_section_text"]])],
            "highlighted": [*highlighted, *titles],
            "overlap": row["overlap_subset"],
        },
    }


@here(TOTTO)
def test_totto_bleu_of_the_official_sample(totto):
    predictions, examples = totto
    names = ("sacrebleu", "sacrebleu_overlap", "sacrebleu_nonoverlap")
    lower = [part for name in names for part in ("--set", f"{name}.lowercase=true")]
    found, values = scored(predictions, "--examples", examples, "--metrics", ",".join(names), *lower)
    assert [round(values[name], 2) for name in names] == [45.55, 37.15, 58.26]
    assert [each["n"] for each in found["scores"]] == [5, 3, 2]


@here(TOTTO)
def test_totto_parent_of_the_official_unit_test(totto, tmp_path):
    """The figures that language/totto/eval_pipeline_test.py asserts, texts split at blanks."""
    predictions, examples = totto
    names = ("parent_precision", "parent_recall", "parent")
    blanks = [part for name in names for part in ("--set", f"{name}.tokenizer=whitespace")]
    rows = tmp_path / "rows.jsonl"
    asked = ("--examples", examples, "--metrics", ",".join(names), *blanks, "--per-example", rows)
    _, values = scored(predictions, *asked)
    assert [round(100 * values[name], 1) for name in names] == [66.1, 40.4, 48.1]
    found = [json.loads(line)["parent"] for line in rows.read_text().splitlines()]
    assert [round(100 * each, 1) for each in found] == [68.4, 63.2, 51.9, 7.8, 48.9]
