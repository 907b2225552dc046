"""PARENT and the two halves of ToTTo, beside the published definition by loops (test_oracles_lexical.py)."""

import os
import subprocess
import sys

import pytest
from support.metric_texts import value
from support.paths import ROOT

from grue.errors import ConfigError, DataError, Unavailable, UnknownName
from grue.metrics.registry import make_metric
from grue.records import Example


def score(name, references, text, table, highlighted=None, **options):
    return value(name, references, text, {"table": table, "highlighted": highlighted or table}, **options)


def test_values_do_not_depend_on_the_order_of_sets_of_strings():
    code = (
        "from support.metric_texts import drawn, scored\n"
        "print([value.hex() for value in scored('parent_precision', *drawn(30))[0]])"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environments = ({**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path} for seed in ("1", "2"))
    first, second = (subprocess.check_output([sys.executable, "-c", code], env=one, text=True) for one in environments)
    assert first == second
    assert len(set(first.split())) > 10


def test_another_table_under_the_same_id():
    """What is remembered of an example is of its table, too: modules of `evaluate` number examples from 0."""
    one, other = (Example("0", "", ("a dog ran",), {"table": [word], "highlighted": [word]}) for word in ("dog", "cat"))
    metric = make_metric("parent")
    metric.prepare([one])
    found = [metric.per_example(metric.statistics([each], ["a dog"]))[0] for each in (one, other, one)]
    alone = [score("parent", ["a dog ran"], "a dog", [word]) for word in ("dog", "cat")]
    assert alone[0] != alone[1]
    assert found == [alone[0], alone[1], alone[0]]


def test_the_halves(refused):
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
    with refused(UnknownName):
        make_metric("parent", tokenizer="13")
    with refused(ConfigError):
        make_metric("parent:rl4lms", tokenizer="13a")
