"""What the reference implementations do not say of BLEU, chrF, CIDEr and coverage."""

import pytest
from support.metric_texts import META, drawn, prepared, scored, value

from grue.errors import ConfigError
from grue.metrics.registry import make_metric
from grue.records import Example


def test_the_length_of_a_reference_is_one_of_two(refused):
    assert make_metric("bleu4").signature.endswith("|reflen:shortest"), "the suite's figures do not change"
    assert make_metric("bleu4", reference_length="closest").signature.endswith("|reflen:closest")
    with refused(ConfigError):
        make_metric("bleu4", reference_length="closet")


def test_case_counts_in_ter_if_asked_for():
    found = [value("ter", ["a B c D"], "A b C d", case_sensitive=sensitive) for sensitive in (False, True)]
    assert found == [0.0, 100.0]
    assert make_metric("ter").signature != make_metric("ter", case_sensitive=True).signature


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
        ("leave", "She leaves.", 1.0),
        ("child, woman, mouse", "Children and women see mice", 1.0),
        ("ski, mountain", "a man skiing down", 0.5),
        ("car", "a caring nurse", 0.0),
        ("sing", "rings", 0.0),
        ("dog, dog, cat", "a dog", 0.5),
        ("Dog", "DOGS!", 1.0),
        ("horse", "a horse-drawn cart", 1.0),
        ("dog", "the dog's bone", 1.0),
        ("happy", "the happiest day", 1.0),
        ("selfie, wetsuit", "a selfie in wetsuits", 1.0),  # words that WordNet does not have
        ("shear", "a sheep is shorn", 1.0),
        ("bu", "a bus", 0.0),
        ("hot dog", "He eats two Hot Dogs.", 1.0),
        ("hot dog", "He eats two hot-dogs.", 1.0),
        ("hot dog, eat", "a hot day, the dog eats", 0.5),
        ("hot dog", "dog hot", 0.0),
        ("hot dog", "it is hot", 0.0),
        ("ice\u00a0cream  truck", "ice cream trucks", 1.0),
        ("dog's", "The dog's bone.", 1.0),
        ("dog's", "The dogs ran.", 0.0),
        ("can't, cannot", "They can't, and cannot.", 1.0),
        ("cafe\u0301", "two caf\u00e9s", 1.0),
        ("caf\u00e9", "a cafe\u0301", 1.0),
        ("caf\u00e9", "a cafe", 0.0),
        ("dog,  ", "a dog", 0.5),
    ],
)
def test_coverage(concepts, text, expected):
    assert value("coverage", [], text, {**META, "concepts": concepts.split(", ")}) == expected
