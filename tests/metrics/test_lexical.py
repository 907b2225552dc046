"""What the reference implementations (test_oracles_lexical.py) do not say of BLEU, TER, CIDEr, coverage and PARENT."""

import os
import subprocess
import sys

import pytest
from support.metric_texts import META, drawn, prepared, scored, value
from support.paths import ROOT

from grue.errors import ConfigError, DataError, Unavailable
from grue.metrics.registry import make_metric
from grue.records import Example


def test_options_that_change_values_are_in_the_signature(refused):
    assert make_metric("bleu4").signature.endswith("|reflen:shortest"), "the suite's figures do not change"
    assert make_metric("bleu4", reference_length="closest").signature.endswith("|reflen:closest")
    assert make_metric("ter").signature != make_metric("ter", case_sensitive=True).signature
    with refused(ConfigError):
        make_metric("bleu4", reference_length="closet")


def test_cider_keeps_the_prepared_frequencies(refused):
    examples, texts = drawn(60, seed=5)
    metric = prepared("cider", examples)
    whole = metric.statistics(examples, texts)[:, 0].tolist()
    assert [metric.statistics([e], [t])[0, 0] for e, t in zip(examples, texts, strict=True)] == whole
    unseen = Example("new", "", ("a dog runs in the field",))
    assert metric.statistics([unseen], unseen.references)[0, 0] == pytest.approx(10.0)
    beside = metric.statistics([unseen, *examples], ["two cats", *texts])[:, 0].tolist()
    assert beside == [0.0, *whole], "what was not prepared changes nothing of the others"
    strangers = [unseen, Example("b", "", ("two cats sleep on a mat",))]
    values, mean = scored("cider", strangers, [*unseen.references, "quite another thing"])
    assert (values, mean) == ([pytest.approx(10.0), 0.0], pytest.approx(5.0))
    with refused(ConfigError):
        make_metric("cider").statistics([unseen], ["b"])


@pytest.mark.parametrize(
    ("concepts", "text", "expected"),
    [
        ("dog, run, field", "The dogs ran through the fields.", 1.0),
        ("leaf", "Leaves fall.", 1.0),
        ("child, woman, mouse", "Children and women see mice", 1.0),
        ("car", "a caring nurse", 0.0),
        ("dog, dog, cat", "a dog", 0.5),
        ("Dog", "DOGS!", 1.0),
        ("horse", "a horse-drawn cart", 1.0),
        ("selfie, wetsuit", "a selfie in wetsuits", 1.0),  # words that WordNet does not have
        ("shear", "a sheep is shorn", 1.0),
        ("bu", "a bus", 0.0),
        ("hot dog", "He eats two hot-dogs.", 1.0),
        ("hot dog, eat", "a hot day, the dog eats", 0.5),
        ("hot dog", "dog hot", 0.0),
        ("ice\u00a0cream  truck", "ice cream trucks", 1.0),
        ("dog's", "The dog's bone.", 1.0),
        ("dog's", "The dogs ran.", 0.0),
        ("can't, cannot", "They can't, and cannot.", 1.0),
        ("cafe\u0301", "two caf\u00e9s", 1.0),
        ("caf\u00e9", "a cafe", 0.0),
        ("dog,  ", "a dog", 0.5),
    ],
)
def test_coverage(concepts, text, expected):
    assert value("coverage", [], text, {**META, "concepts": concepts.split(", ")}) == expected


# --- PARENT and the halves of ToTTo ----------------------------------------------------------------------------------


def test_parent_does_not_depend_on_the_order_of_sets_of_strings():
    code = (
        "from support.metric_texts import drawn, scored\n"
        "print([value.hex() for value in scored('parent_precision', *drawn(30))[0]])"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environments = ({**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path} for seed in ("1", "2"))
    first, second = (subprocess.check_output([sys.executable, "-c", code], env=one, text=True) for one in environments)
    assert first == second
    assert len(set(first.split())) > 10


def test_the_first_score_of_a_process_moves_no_random_numbers_of_the_users():
    seed = "import random, numpy, torch, grue; random.seed(0), numpy.random.seed(0), torch.manual_seed(0)\n"
    draw = "print(random.random(), numpy.random.random(), torch.rand(1).item())"
    score = "grue.score(['a dog runs'] * 4, 'commongen', limit=4)\n"
    programs = (seed + draw, seed + score + draw)
    before, after = (subprocess.check_output([sys.executable, "-c", each], text=True, cwd=ROOT) for each in programs)
    assert before == after


def test_another_table_under_the_same_id():
    """What is remembered of an example is of its table, too: modules of `evaluate` number examples from 0."""
    one, other = (Example("0", "", ("a dog ran",), {"table": [word], "highlighted": [word]}) for word in ("dog", "cat"))
    metric = make_metric("parent")
    metric.prepare([one])
    found = [metric.per_example(metric.statistics([each], ["a dog"]))[0] for each in (one, other, one)]
    alone = [value("parent", ["a dog ran"], "a dog", each.meta) for each in (one, other)]
    assert alone[0] != alone[1]
    assert found == [alone[0], alone[1], alone[0]]


def test_the_halves_of_totto(refused):
    for half in ("overlap", "nonoverlap"):
        metric = make_metric(f"parent_{half}", tokenizer="whitespace")
        assert metric.signature.startswith(f"parent_{half}|parent|")
        assert metric.signature.endswith(f"|only:overlap={str(half == 'overlap').lower()}")
    example = Example("x7", "", ("a",), {"table": ["a"], "highlighted": ["a"], "overlap": True})
    with refused(Unavailable):
        metric.corpus(metric.statistics([example], ["a"]))


TABLE = {"table": ["a"], "highlighted": ["a"]}


@pytest.mark.parametrize(
    ("name", "meta"),
    [
        *(("sacrebleu_overlap", TABLE | more) for more in ({}, {"overlap": None}, {"overlap": "true"}, {"overlap": 1})),
        *(("parent", TABLE | {key: value}) for key in TABLE for value in ([], ["", " \n"])),
        *(("parent", {key: ["a"]}) for key in TABLE),
        *(("parent", TABLE | {"table": found}) for found in ("anna berg", 3, {"cell": "anna"})),
    ],
    ids=str,
)
def test_an_example_of_neither_half_and_tables_that_are_none(name, meta, refused):
    example = Example("x7", "", ("a",), meta)
    with refused(DataError):
        metric = make_metric(name)
        metric.prepare([example])
        metric.statistics([example], ["a"])


def test_options_that_nobody_knows(refused):
    with refused(ConfigError):
        make_metric("parent", tokenizer="13")
    with refused(ConfigError):
        make_metric("parent:rl4lms", tokenizer="13a")
