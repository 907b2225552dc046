"""PARENT and the two halves of ToTTo against the published definition by loops, and against values by hand."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU
from support import oracles
from support.paths import ROOT

from grue.errors import ConfigError, DataError, UnknownName
from grue.metrics.registry import make_metric
from grue.records import Example

WORDS = "anna won the red cup in 1999 , beat two rivals and met oslo's mayor twice - ( final ) %".split()
CELLS = "anna|oslo|1999|red cup|two rivals|the final|12 %|-|mayor of oslo".split("|")


def tabled(name, references, table, highlighted, **meta):
    return Example(name, "", tuple(references), {"table": table, "highlighted": highlighted, **meta})


def values(name, examples, texts, **options):
    metric = make_metric(name, **options)
    metric.prepare(examples[::2])
    return metric.per_example(metric.statistics(examples, texts)).tolist()


def draw(count=100, longest=12):
    """Tables, one to three references, and texts of which some copy a reference or the table."""
    generator = random.Random(8)

    def text():
        return " ".join(generator.choice(WORDS) for _ in range(generator.randrange(longest)))

    examples, texts = [], []
    for index in range(count):
        table = [generator.choice(CELLS) for _ in range(generator.randrange(2, 7))]
        references = [text() for _ in range(generator.randint(1, 3))]
        kind = generator.random()
        examples.append(tabled(str(index), references, [*table, "", " "], table[-3:], overlap=kind < 0.5))
        texts.append(references[0] if kind < 0.2 else " ".join(table) if kind < 0.4 else text())
    return examples, texts


def by_loops(examples, texts, filling=0):
    """(precision, recall, F1) of each text; words are already apart in what is drawn, but for oslo's and 12 %."""

    def split(text):
        return text.split()

    found = []
    for example, text in zip(examples, texts, strict=True):
        references = [*example.references, *["<null>"] * (filling - len(example.references))]
        table, highlighted = (
            [split(each) for each in example.meta[key] if split(each)] for key in ("table", "highlighted")
        )
        found.append(oracles.parent(split(text), [split(reference) for reference in references], table, highlighted))
    return found


@pytest.mark.parametrize(("name", "part"), [("parent_precision", 0), ("parent_recall", 1), ("parent", 2)])
def test_parent_is_the_definition(name, part):
    examples, texts = draw()
    expected = [each[part] for each in by_loops(examples, texts)]
    assert values(name, examples, texts, tokenizer="whitespace") == pytest.approx(expected, abs=1e-9)
    assert len({round(value, 3) for value in expected}) > 30, "the tables tell texts apart"


def test_values_do_not_depend_on_the_order_of_sets_of_strings():
    code = "import test_tables as t; print([value.hex() for value in t.values('parent_precision', *t.draw(30, 80))])"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_the_parts_belong_to_one_reference():
    """F1 is that of precision and recall, which are those of the reference with the best F1."""
    examples, texts = draw()
    parts = [values(name, examples, texts) for name in ("parent_precision", "parent_recall", "parent")]
    for precision, recall, f1 in zip(*parts, strict=True):
        assert 0 <= precision <= 1
        assert 0 < recall <= 1
        assert f1 == pytest.approx(2 * precision * recall / (precision + recall + 1e-8), abs=1e-12)


def test_parent_by_hand():
    # Precision: both words and the pair are the reference's, no triple and no four: (1·1·1e-5·1e-5)^¼.
    # Recall: all that the table backs is said, and the reference says all that is highlighted: 1.
    example = tabled("a", ["a b"], ["a"], ["a"])
    precision = 10**-2.5
    assert values("parent_precision", [example], ["a b"]) == [pytest.approx(precision)]
    assert values("parent_recall", [example], ["a b"]) == [pytest.approx(1.0)]
    assert values("parent", [example], ["a b"]) == [pytest.approx(2 * precision / (precision + 1))]


def test_what_the_table_backs_is_right():
    """Of "a b c d e" the reference has nothing; the table has the words a and b."""
    example = tabled("a", ["v w x y z"], ["a", "b"], ["a"])
    shares = [2 / 5, (1 + 1 / 2) / 4, (2 / 3 + 1 / 3) / 3, (2 / 4 + 1 / 4) / 2]
    product = shares[0] * shares[1] * shares[2] * shares[3]
    assert values("parent_precision", [example], ["a b c d e"]) == [pytest.approx(product**0.25)]
    # The reference says nothing that the table backs, so that the table alone asks to be recalled.
    assert values("parent_recall", [example], ["a b c d e"]) == [pytest.approx(1.0)]
    assert values("parent_recall", [example], ["b c d e"]) == [pytest.approx(1e-5)]


def test_case_and_signs():
    example = tabled("a", ["Anna won, twice."], ["Anna"], ["anna"])
    assert values("parent", [example], ["anna won , twice ."]) == values("parent", [example], ["Anna won, TWICE."])
    split = values("parent", [example], ["anna won , twice ."], tokenizer="whitespace")
    assert split != values("parent", [example], ["anna won , twice ."])


@pytest.mark.parametrize("name", ["parent", "parent_precision", "parent_overlap", "parent:rl4lms"])
@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_is_the_worst(name, text):
    assert values(name, [tabled("a", ["a b"], ["a"], ["a"], overlap=True)], [text]) == [0.0]


def test_filling_up_with_null_rewards_copies_of_the_table():
    """The trap of the official script's three references, which RL4LMs trained with."""
    table = ["anna berg", "oslo city hall", "1999 cup final"]
    example = tabled("a", ["she beat two rivals before lunch"], table, table)
    copied, said = " ".join(table), "she beat two rivals before lunch"
    assert values("parent:rl4lms", [example], [copied]) == [pytest.approx(1.0, abs=1e-6)]
    assert values("parent:rl4lms", [example], [said])[0] < 0.2
    three = tabled("b", [*example.references] * 3, table, table)
    assert values("parent:rl4lms", [three], [copied]) == values("parent", [example], [copied])


def test_parent_of_rl4lms_is_the_definition_with_null():
    examples, texts = draw()
    separate = [e for e in examples if not any("'" in text for text in (*e.references, *e.meta["table"]))]
    chosen = [text for e, text in zip(examples, texts, strict=True) if e in separate and "'" not in text]
    kept = [e for e, text in zip(examples, texts, strict=True) if e in separate and "'" not in text]
    assert len(kept) > 15

    def null(text):  # 13a splits the sign and the word
        return text.replace("<null>", "< null >")

    spelt = [Example(e.id, "", (*e.references, *[null("<null>")] * (3 - len(e.references))), e.meta) for e in kept]
    expected = [f1 for *_, f1 in by_loops(spelt, chosen)]
    assert values("parent:rl4lms", kept, chosen) == pytest.approx(expected, abs=1e-9)


def test_another_table_under_the_same_id():
    """What is remembered of an example is of its table, too: modules of `evaluate` number examples from 0."""
    one, other = (tabled("0", ["a dog ran"], [word], [word]) for word in ("dog", "cat"))
    metric = make_metric("parent")
    metric.prepare([one])
    found = [metric.per_example(metric.statistics([each], ["a dog"]))[0] for each in (one, other, one)]
    alone = [values("parent", [each], ["a dog"])[0] for each in (one, other)]
    assert alone[0] != alone[1]
    assert found == [alone[0], alone[1], alone[0]]


# --- the halves ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("half", "overlap"), [("overlap", True), ("nonoverlap", False)])
def test_the_halves(half, overlap):
    examples, texts = draw()
    members = [index for index, example in enumerate(examples) if example.meta["overlap"] is overlap]
    parent, bleu = (
        make_metric(f"parent_{half}", tokenizer="whitespace"),
        make_metric(f"sacrebleu_{half}", lowercase=True),
    )
    statistics = parent.statistics(examples, texts)
    expected = [by_loops([examples[index]], [texts[index]])[0][2] for index in members]
    assert parent.corpus(statistics) == pytest.approx(sum(expected) / len(expected), abs=1e-9)
    assert parent.per_example(statistics).tolist() == values("parent", examples, texts, tokenizer="whitespace")
    assert statistics[:, 0].sum() == len(members)
    columns = [[r[i] if i < len(r) else None for r in (examples[m].references for m in members)] for i in range(3)]
    library = BLEU(lowercase=True).corpus_score([texts[index] for index in members], columns).score
    assert bleu.corpus(bleu.statistics(examples, texts)) == pytest.approx(library, abs=1e-9)
    assert parent.signature.startswith(f"parent_{half}|parent|")
    assert parent.signature.endswith(f"|only:overlap={str(overlap).lower()}")


def test_a_half_without_examples():
    examples = [tabled("a", ["a"], ["a"], ["a"], overlap=True)]
    metric = make_metric("parent_nonoverlap")
    with pytest.raises(DataError) as error:
        metric.corpus(metric.statistics(examples, ["a"]))
    assert str(error.value) == "parent_nonoverlap: none of the 1 examples has overlap = False."


@pytest.mark.parametrize("meta", [{}, {"overlap": None}, {"overlap": "true"}, {"overlap": 1}])
def test_an_example_of_neither_half(meta):
    example = Example("x7", "", ("a",), {"table": ["a"], "highlighted": ["a"], **meta})
    with pytest.raises(DataError) as error:
        make_metric("sacrebleu_overlap").statistics([example], ["a"])
    assert str(error.value) == (
        "The example 'x7' has no overlap (true or false) in its meta, which sacrebleu_overlap needs; "
        "mend its data format, or leave this metric out."
    )


# --- tables that are none --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["table", "highlighted"])
@pytest.mark.parametrize("found", [None, [], ["", " \n"]])
def test_no_table(missing, found):
    meta = {"table": ["a"], "highlighted": ["a"], missing: found}
    if found is None:
        del meta[missing]
    with pytest.raises(DataError) as error:
        make_metric("parent").prepare([Example("x7", "", ("a",), meta)])
    assert str(error.value) == (
        f"The example 'x7' has no values under '{missing}' in its meta, which parent needs; take another metric."
    )


@pytest.mark.parametrize("found", ["anna berg", 3, {"cell": "anna"}])
def test_a_table_that_is_no_list(found):
    with pytest.raises(DataError) as error:
        make_metric("parent").prepare([tabled("x7", ["a"], found, ["a"])])
    assert str(error.value) == (
        f"The example 'x7' has {found!r} as table in its meta, but parent needs a list there; mend its data format."
    )


def test_no_reference():
    with pytest.raises(DataError) as error:
        make_metric("parent").prepare([tabled("x7", [], ["a"], ["a"])])
    assert str(error.value) == (
        "The example 'x7' has no reference, which parent needs; score a split with references or take another metric."
    )


def test_options_that_nobody_knows():
    with pytest.raises(UnknownName, match="There is no tokenizer '13'"):
        make_metric("parent", tokenizer="13")
    with pytest.raises(ConfigError, match=r"The metric 'parent:rl4lms' has no option 'tokenizer'\. It has none\."):
        make_metric("parent:rl4lms", tokenizer="13a")


def test_values_need_not_be_strings():
    assert values("parent", [tabled("a", ["in 1999"], [1999], [1999])], ["in 1999"]) == values(
        "parent", [tabled("a", ["in 1999"], ["1999"], ["1999"])], ["in 1999"]
    )
