"""What holds for every metric whatever the texts are: bounds, a copy is best, neither order nor preparing matters.

Hypothesis draws the texts: words that a text and its references share, and any characters at all, controls, emoji and
lone surrogates among them. Its draws do not depend on chance, and every metric is given each of them; a failure names
the metric in the last note of the falsifying example.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from support import tiny_bert

from grue.errors import ConfigError
from grue.metrics.metric import OfCorpusOnly
from grue.metrics.registry import CARDS, make_metric
from grue.records import Example

ASKING_MODELS = ("spice", "perplexity:policy_on_references")
METRICS = [
    name
    for name, card in CARDS.items()
    if card.family in ("overlap", "captions", "tables", "rl4lms") and name not in ASKING_MODELS
]
DIVERSITY = [name for name, card in CARDS.items() if card.family == "diversity"]
PRINTED = ["meteor:rl4lms", "rouge1:rl4lms", "rouge2:rl4lms", "rougeL:rl4lms", "rougeLsum:rl4lms"]
PARENT = [name for name in METRICS if name.startswith("parent")]

ROUGE = [name for name in METRICS if name.startswith("rouge") and not name.endswith(":rl4lms")]
NEVER_LOWERED = [
    *ROUGE,
    *("meteor", "chrf", "chrfpp", "parent", "parent_overlap", "rouge_l_max:rl4lms"),
    *("bleu1", "bleu2", "bleu3", "bleu4"),  # more n-grams count, and the shortest reference gets no longer
    "rouge:rl4lms",  # the first reference alone counts
]
"""Metrics whose value of a text another reference cannot lower.

It can lower sacreBLEU, whose closest reference may become a longer one; CIDEr, a mean over references; spice_lite,
which wants what all of them say; PARENT's precision and recall, which are those of the reference with the best F1; and
what RL4LMs made of a list of references, one long text.
"""


def drawn(examples):
    """Settings under which Hypothesis draws that many examples, not by chance and however long each takes."""
    return settings(
        max_examples=examples, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )


# --- texts -----------------------------------------------------------------------------------------------------------

COMMON = (
    "the The a dog dogs ran running car auto big happily happy isn't 3.5 U.S. well-known . , ! ? ' \" - ( )".split()
)
ODD = [
    "größe",
    "東京",
    "🙂",
    "👩‍🚀",
    "שלום",
    "مرحبا",
    "\x00",
    "\x07",
    "\x1c",
    "\x85",
    "\u2028",
    "\r",
    "\n",
    "\ud800",
    "x" * 40,
]
VALUES = ["the dog", "big car", "3.5", "U.S.", "ran"]
CHARACTERS = st.characters()  # every code point, lone surrogates too
WORD = st.sampled_from(COMMON) | st.sampled_from(COMMON) | st.sampled_from(ODD) | st.text(CHARACTERS, max_size=3)
TEXT = (
    st.lists(WORD, max_size=12).map(" ".join)
    | st.lists(WORD, max_size=12).map(" ".join)
    | st.text(CHARACTERS, max_size=25)
    | st.sampled_from(["", " ", "\n\t", "\u2028"])
)
REFERENCES = st.lists(TEXT, min_size=1, max_size=3).map(tuple)


@st.composite
def a_meta(draw, overlap=True):
    highlighted = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
    table = [*highlighted, *draw(st.lists(st.sampled_from(VALUES), max_size=2))]
    return {"concepts": ["dog", "run", "car"], "table": table, "highlighted": highlighted, "overlap": overlap}


@st.composite
def a_text(draw, references):
    """Any text, or one that has to do with the references: a copy, a part, the words in another order."""
    words = draw(st.sampled_from(references)).split(" ")
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return " ".join(words)
    if kind == 1:
        return " ".join(words[draw(st.integers(0, len(words))) :])
    if kind == 2:
        return " ".join(draw(st.permutations(words)))
    return draw(TEXT)


@st.composite
def a_set(draw):
    """Two to five examples with a text each; the first has overlap with training, the second has not."""
    examples, texts = [], []
    for index in range(draw(st.integers(2, 5))):
        references = draw(REFERENCES)
        examples.append(Example(f"e{index}", "", references, draw(a_meta(overlap=index != 1))))
        texts.append(draw(a_text(references)))
    return examples, texts


@st.composite
def alone(draw):
    """An example with one reference, and a text."""
    references = (draw(TEXT),)
    return Example("e", "", references, draw(a_meta())), draw(a_text(references))


# --- metrics ---------------------------------------------------------------------------------------------------------


def prepared(name, examples, **options):
    metric = make_metric(name, **options)
    metric.prepare(examples)
    return metric


def each(names: Iterable[str]) -> Iterator[str]:
    """Yield the names, and note each, so that a failure tells which of them it is about."""
    for name in names:
        note(f"metric: {name}")
        yield name


def value(metric, example, text):
    return float(metric.per_example(metric.statistics([example], [text]))[0])


def near(expected, tolerance=1e-9):
    return pytest.approx(expected, abs=tolerance, rel=tolerance)


# --- (a) bounds ------------------------------------------------------------------------------------------------------


def assert_bounded(name, values, tolerance=1e-9):
    low, high = CARDS[name].range
    for found in values:
        assert abs(found) < float("inf")
        assert low - tolerance <= found <= high + tolerance


@drawn(30)
@given(drawn_set=a_set())
def test_values_are_within_the_range_of_the_card(drawn_set):
    examples, texts = drawn_set
    for name in each(METRICS):
        metric = prepared(name, examples)
        statistics = metric.statistics(examples, texts)
        assert_bounded(name, [*metric.per_example(statistics), metric.corpus(statistics)])


@drawn(12)
@given(drawn_set=a_set())
def test_diversity_is_within_the_range_of_the_card(drawn_set):
    examples, texts = drawn_set
    for name in each(DIVERSITY):
        metric = prepared(name, examples)
        assert_bounded(name, [metric.corpus(metric.statistics(examples, texts))])


# --- (b) a copy is best ----------------------------------------------------------------------------------------------


@drawn(30)
@given(drawn_pair=alone())
def test_no_text_is_better_than_a_copy_of_the_only_reference(drawn_pair):
    """METEOR's penalty for chunks is smallest, not 0, for a copy; CIDEr's clipped cosines are at most those of a copy."""
    example, text = drawn_pair
    others = [Example("o1", "", ("a big car ran .",)), Example("o2", "", ("happy dogs",))]  # for CIDEr's frequencies
    for name in each(name for name in METRICS if name not in (*PRINTED, *PARENT, "coverage")):
        metric = prepared(name, [example, *others] if name == "cider" else [example])
        sign = 1 if metric.direction == "higher" else -1
        assert sign * value(metric, example, example.references[0]) >= sign * value(metric, example, text) - 1e-9


@drawn(60)
@given(drawn_pair=alone())
def test_no_text_is_better_than_what_rl4lms_took_for_the_reference(drawn_pair):
    example, text = drawn_pair
    for name in each(PRINTED):
        metric = prepared(name, [example])
        copy = value(metric, example, str(list(example.references)))
        assert copy >= max(value(metric, example, text), value(metric, example, example.references[0])) - 1e-9


@drawn(40)
@given(references=REFERENCES, chosen=st.integers(0, 2))
def test_a_copy_of_any_reference_is_perfect(references, chosen):
    """Or worth nothing, where the metric sees no word, or no pair of words, in it; a short copy may miss n-gram orders."""
    copy = references[chosen % len(references)]
    example = Example("e", "", references)
    for name in each([*ROUGE, "bleu4", "sacrebleu", "chrf", "chrfpp", "ter", "rouge_l_max:rl4lms"]):
        found = value(prepared(name, [example]), example, copy)
        unseen = not copy.strip() or name.startswith("rouge")
        assert found == (0.0 if name == "ter" else near(CARDS[name].range[1])) or (found == 0.0 and unseen)


@drawn(60)
@given(words=st.lists(st.sampled_from("dog ran car big happy".split()), min_size=1, max_size=12))
def test_meteor_of_a_copy_by_its_length(words):
    example = Example("e", "", (" ".join(words),))
    assert value(prepared("meteor", [example]), example, " ".join(words)) == near(1 - 0.5 / len(words) ** 3)


@drawn(60)
@given(drawn_pair=alone(), more=REFERENCES)
def test_meteor_of_several_references_is_best_for_a_copy_of_one(drawn_pair, more):
    example, text = drawn_pair
    example = Example("e", "", example.references + more)
    metric = prepared("meteor", [example])
    copied = max(value(metric, example, reference) for reference in example.references)
    assert copied >= value(metric, example, text) - 1e-9


@drawn(60)
@given(meta=a_meta(), words=st.lists(st.sampled_from(["dog", "ran", "car", "happily", "."]), min_size=4, max_size=10))
def test_parent_of_a_copy(meta, words):
    """A copy need not be best: saying more of the table can win more recall than it loses precision.

    But one of four words or more is precise, and if the reference says all that is highlighted it is perfect.
    """
    short, full = " ".join(words), " ".join([*words, *meta["highlighted"]])
    assert value(prepared("parent_precision", []), Example("e", "", (short,), meta), short) == near(1)
    for name in each(name for name in PARENT if name != "parent:rl4lms"):
        example = Example("e", "", (full,), {**meta, "overlap": name != "parent_nonoverlap"})
        assert value(prepared(name, []), example, full) == near(1, 1e-8)  # F1 has 1e-8 below


def test_parent_can_prefer_more_of_the_table_to_a_copy():
    meta = {"table": ["dog", "cat", "big car"], "highlighted": ["dog", "cat"]}
    example = Example("e", "", ("a dog ran home",), meta)
    metric = prepared("parent", [example])
    assert value(metric, example, "a dog ran home cat") > value(metric, example, "a dog ran home")


@drawn(40)
@given(references=REFERENCES, meta=a_meta())
def test_parent_rl4lms_is_perfect_for_a_copy_of_the_table(references, meta):
    """The "<null>" that fills up the references leaves everything to the table, whatever people wrote."""
    meta = {**meta, "highlighted": ["the dog", "big car"], "table": ["the dog", "big car", "ran"]}
    example = Example("e", "", references[:2], meta)
    assert value(prepared("parent:rl4lms", [example]), example, "the dog big car") == near(1, 1e-8)


# --- (c) order -------------------------------------------------------------------------------------------------------


@drawn(20)
@given(drawn_set=a_set(), data=st.data())
def test_order_does_not_matter(drawn_set, data):
    examples, texts = drawn_set
    order = data.draw(st.permutations(range(len(texts))))
    permuted = [examples[index] for index in order]
    for name in each(METRICS):
        metric, other = prepared(name, examples), prepared(name, permuted)
        statistics = metric.statistics(examples, texts)
        found = other.statistics(permuted, [texts[index] for index in order])
        assert other.corpus(found) == near(metric.corpus(statistics))
        assert list(other.per_example(found)) == near([metric.per_example(statistics)[index] for index in order])


@drawn(10)
@given(drawn_set=a_set(), data=st.data())
def test_diversity_does_not_depend_on_the_order(drawn_set, data):
    """All but msttr, whose windows go over the texts in their order."""
    examples, texts = drawn_set
    order = data.draw(st.permutations(range(len(texts))))
    for name in each(name for name in DIVERSITY if name != "msttr"):
        metric = make_metric(name)
        expected = metric.corpus(metric.statistics(examples, texts))
        found = metric.statistics([examples[index] for index in order], [texts[index] for index in order])
        assert metric.corpus(found) == near(expected)


# --- (d) another reference -------------------------------------------------------------------------------------------


@st.composite
def with_another(draw):
    """An example, the same with another reference at any place, and a text."""
    references, meta = draw(REFERENCES), draw(a_meta())
    place = draw(st.integers(0, len(references)))
    more = (*references[:place], draw(TEXT), *references[place:])
    return Example("e", "", references, meta), Example("m", "", more, meta), draw(a_text(more))


@drawn(50)
@given(drawn_triple=with_another())
def test_another_reference_never_lowers_the_value(drawn_triple):
    fewer, more, text = drawn_triple
    behind = Example("m", "", (*fewer.references, *more.references))
    for name in each(NEVER_LOWERED):
        metric = make_metric(name)
        found = value(metric, behind if name == "rouge:rl4lms" else more, text)
        assert found >= value(metric, fewer, text) - 1e-9


@drawn(100)
@given(drawn_triple=with_another())
def test_another_reference_never_adds_edits(drawn_triple):
    """Edits, not TER: they are counted against the references' mean length."""
    fewer, more, text = drawn_triple
    metric = make_metric("ter")
    assert metric.statistics([more], [text])[0, 0] <= metric.statistics([fewer], [text])[0, 0]


@pytest.mark.parametrize(
    ("name", "text", "references", "another"),
    [
        ("sacrebleu", "a b c d e f g h", ("a b c d e f",), "r s t u v w x y z"),
        ("cider", "a happy dog", ("a happy dog",), "big car"),
        ("spice_lite", "A dog barks.", ("A dog barks.",), "A cat sleeps."),
        ("rouge1:rl4lms", "a dog", ("a dog",), "big car"),
        ("meteor:rl4lms", "a dog", ("a dog",), "big car"),
    ],
)
def test_another_reference_can_lower_the_value(name, text, references, another):
    fewer, more = Example("f", "", references), Example("m", "", (*references, another))
    metric = prepared(name, [fewer, Example("o", "", ("the cars ran",))])
    assert value(metric, more, text) < value(metric, fewer, text)


# --- (e) preparing ---------------------------------------------------------------------------------------------------


@drawn(15)
@given(drawn_set=a_set())
def test_preparing_changes_nothing(drawn_set):
    examples, texts = drawn_set
    for name in each(name for name in METRICS if name != "cider"):
        fresh = make_metric(name).statistics(examples, texts)
        assert prepared(name, examples).statistics(examples, texts).tolist() == fresh.tolist()
        assert prepared(name, examples[1:]).statistics(examples, texts).tolist() == fresh.tolist()


@drawn(60)
@given(drawn_set=a_set())
def test_cider_depends_on_what_is_prepared_and_not_on_what_is_scored(drawn_set):
    examples, texts = drawn_set
    with pytest.raises(ConfigError, match="call prepare"):
        make_metric("cider").statistics(examples, texts)
    metric = prepared("cider", examples[1:])
    together = metric.per_example(metric.statistics(examples, texts))
    apart = [value(metric, example, text) for example, text in zip(examples, texts, strict=True)]
    assert list(together) == near(apart)


# --- (f) statistics add up -------------------------------------------------------------------------------------------


@drawn(12)
@given(drawn_set=a_set(), data=st.data())
def test_corpus_value_is_that_of_stacked_statistics(drawn_set, data):
    examples, texts = drawn_set
    cut = data.draw(st.integers(1, len(texts) - 1))
    for name in each([*METRICS, *DIVERSITY]):
        metric = prepared(name, examples)
        halves = [metric.statistics(examples[part], texts[part]) for part in (slice(cut), slice(cut, None))]
        assert metric.corpus(np.vstack(halves)) == near(metric.corpus(metric.statistics(examples, texts)))


@pytest.mark.parametrize("name", [name for name in DIVERSITY if name != "mean_length"])
def test_diversity_has_no_value_for_one_text(name):
    metric = make_metric(name)
    with pytest.raises(OfCorpusOnly):
        metric.per_example(metric.statistics([Example("e", "", ())], ["a dog"]))


# --- metrics that ask a model ----------------------------------------------------------------------------------------

CLOSE = 1e-5  # what a value may depend on its batch


@pytest.fixture(scope="module")
def bertscore(tmp_path_factory):
    return make_metric("bertscore", model=tiny_bert.encoder(tmp_path_factory.mktemp("encoder"))[0], layer=2)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return tiny_bert.classifier(tmp_path_factory.mktemp("classifier"), labels=3)[0]


@drawn(15)
@given(drawn_set=a_set())
def test_bertscore_is_bounded_and_does_not_depend_on_the_order(bertscore, drawn_set):
    examples, texts = drawn_set
    values = bertscore.statistics(examples, texts)[:, 0]
    assert_bounded("bertscore", values, CLOSE)
    assert list(bertscore.statistics(examples[::-1], texts[::-1])[::-1, 0]) == near(list(values), CLOSE)


@drawn(15)
@given(drawn_triple=with_another())
def test_bertscore_is_best_for_a_copy_and_another_reference_never_lowers_it(bertscore, drawn_triple):
    fewer, more, text = drawn_triple
    found = value(bertscore, fewer, text)
    assert value(bertscore, more, text) >= found - CLOSE
    copied = next((reference for reference in fewer.references if reference.strip()), None)
    if copied is not None:
        assert value(bertscore, fewer, copied) == near(1, CLOSE)


@pytest.mark.parametrize(("name", "options"), [("sentiment", {"label": 1}), ("summac", {"entailment": 2})])
@drawn(15)
@given(drawn_set=a_set())
def test_probabilities_are_bounded_and_do_not_depend_on_the_order(classifier, name, options, drawn_set):
    examples = [Example(one.id, " ".join(one.references), ()) for one in drawn_set[0]]
    texts = drawn_set[1]
    metric = prepared(name, examples, model=classifier, **options)
    values = metric.statistics(examples, texts)[:, 0]
    assert_bounded(name, values)
    assert list(metric.statistics(examples[::-1], texts[::-1])[::-1, 0]) == near(list(values), CLOSE)
