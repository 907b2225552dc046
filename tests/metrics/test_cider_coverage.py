"""CIDEr against pycocoevalcap, and the coverage of concepts by hand."""

import random

import pytest
from pycocoevalcap.cider.cider import Cider

from grue.errors import ConfigError, DataError
from grue.metrics.registry import make_metric
from grue.records import Example

SOME_WORDS = "the a dog cat runs sleeps in on field mat red , . The A"
WORDS = SOME_WORDS.split()


def draw(seed, count):
    generator = random.Random(seed)

    def text():
        return " ".join(generator.choice(WORDS) for _ in range(generator.randrange(13)))

    examples = [Example(str(i), "", tuple(text() for _ in range(generator.randint(1, 4)))) for i in range(count)]
    return examples, [text() for _ in examples]


def cider(examples, texts, prepared, **options):
    metric = make_metric("cider", **options)
    metric.prepare(prepared)
    statistics = metric.statistics(examples, texts)
    return metric.corpus(statistics), list(metric.per_example(statistics))


@pytest.mark.parametrize("count", [1, 2, 50, 200])
def test_cider_is_pycocoevalcaps(count):
    examples, texts = draw(count, count)
    references = {e.id: list(e.references) for e in examples}
    answers = {e.id: [text] for e, text in zip(examples, texts, strict=True)}
    mean, each = Cider().compute_score(references, answers)
    corpus, values = cider(examples, texts, examples, tokenizer="whitespace")
    assert corpus == pytest.approx(mean, abs=1e-12)
    assert values == pytest.approx(list(each), abs=1e-12)


def test_cider_keeps_the_prepared_frequencies():
    examples, texts = draw(5, 60)
    _, whole = cider(examples, texts, examples)
    for index in (0, 17, 59):
        _, alone = cider(examples[index : index + 1], texts[index : index + 1], examples)
        assert alone == [whole[index]], "a reward does not depend on its batch"
    unseen = Example("new", "", ("a dog runs in the field",))
    _, (value,) = cider([unseen], ["a dog runs in the field"], examples)
    assert value == pytest.approx(10.0)


def test_cider_of_copies_and_strangers():
    examples = [Example("a", "", ("a dog runs in the field",)), Example("b", "", ("two cats sleep on a mat",))]
    corpus, values = cider(examples, ["a dog runs in the field", "quite another thing"], examples)
    assert values == [pytest.approx(10.0), 0.0]
    assert corpus == pytest.approx(5.0)


def test_cider_wants_to_be_prepared():
    with pytest.raises(ConfigError, match=r"call prepare\(examples\) first"):
        make_metric("cider").statistics([Example("a", "", ("b",))], ["b"])


@pytest.mark.parametrize(
    ("concepts", "text", "expected"),
    [
        (["dog", "run", "field"], "The dogs ran through the fields.", 1.0),
        (["leaf"], "Leaves fall.", 1.0),
        (["leave"], "She leaves.", 1.0),
        (["child", "woman", "mouse"], "Children and women see mice", 1.0),
        (["ski", "mountain"], "a man skiing down", 0.5),
        (["stand", "look"], "He stood there, looking.", 1.0),
        (["car"], "a caring nurse", 0.0),
        (["sing"], "rings", 0.0),
        (["dog", "dog", "cat"], "a dog", 0.5),
        (["Dog"], "DOGS!", 1.0),
        (["dog", "cat"], "", 0.0),
        (["horse"], "a horse-drawn cart", 1.0),
        (["dog"], "the dog's bone", 1.0),
        (["happy"], "the happiest day", 1.0),
        (["selfie", "wetsuit"], "a selfie in wetsuits", 1.0),  # words that WordNet does not have
        (["shear"], "a sheep is shorn", 1.0),
        (["bu"], "a bus", 0.0),
        (["frisbee", "catch"], "caught it", 0.5),
        (["hot dog"], "He eats two Hot Dogs.", 1.0),
        (["hot dog"], "He eats two hot-dogs.", 1.0),
        (["hot dog", "eat"], "a hot day, the dog eats", 0.5),
        (["hot dog"], "dog hot", 0.0),
        (["hot dog"], "it is hot", 0.0),
        (["ice\u00a0cream  truck"], "ice cream trucks", 1.0),
        (["dog's"], "The dog's bone.", 1.0),
        (["dog's"], "The dogs ran.", 0.0),
        (["can't", "cannot"], "They can't, and cannot.", 1.0),
        (["cafe\u0301"], "two caf\u00e9s", 1.0),
        (["caf\u00e9"], "a cafe\u0301", 1.0),
        (["caf\u00e9"], "a cafe", 0.0),
        (["dog", " "], "a dog", 0.5),
    ],
)
def test_coverage(concepts, text, expected):
    example = Example("a", "", (), {"concepts": concepts})
    metric = make_metric("coverage")
    metric.prepare([example])
    assert metric.per_example(metric.statistics([example], [text]))[0] == expected


def test_coverage_without_concepts():
    with pytest.raises(DataError) as error:
        make_metric("coverage").prepare([Example("e9", "", ())])
    assert str(error.value) == (
        "The example 'e9' has no concepts in its meta, which coverage needs; take another metric."
    )
