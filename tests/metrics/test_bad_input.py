"""What holds whatever the texts are, empty, odd and huge ones included: a defined value, and nearly always the same rule.

docs/reference/metrics.md lists the rules; those that the libraries have, too, are in test_oracles_lexical.py.
"""

import random
import tracemalloc

import numpy as np
import pytest
from support.late import late
from support.metric_texts import BLANK, DIVERSITY, FREE, LEXICAL, META, PRINTED, SPACES, drawn, prepared, value

from grue.errors import DataError
from grue.metrics import tokens
from grue.metrics.card import CARDS
from grue.metrics.metric import OfCorpusOnly
from grue.metrics.registry import make_metric
from grue.records import Example

tiny_bert = late("support.tiny_bert")

COPIES = ["bleu1", "bleu4", "sacrebleu", "chrf", "chrfpp", "sacrebleu_overlap"]
"""Metrics whose best value a copy reaches in any script; the others see only Latin letters, or need several words."""
PARENT_F1 = ["parent", "parent_overlap", "parent_nonoverlap", "parent:rl4lms"]
SHARED = (
    "bleu2",
    "bleu3",
    "parent_precision",
    "parent_recall",
    *(name for name in LEXICAL if name.endswith("overlap")),
)
"""Metrics that read texts by the very code of another."""
BY_LINES = ["rougeLsum", "rougeLsum:rl4lms", "rouge_l_max:rl4lms"]
TREEBANK = ["meteor", "meteor:rl4lms"]
"""Metrics of nltk's words, as the diversity set is."""
REFERENCE = "The dog runs in the big field ."
ODD = {
    "NUL": "a\x00b\x00c d",
    "controls": "\x01\x02 \x03 \x07 \x1b",
    "emoji": "🙂 🙂🙂 👩‍🚀 🇩🇪",
    "Hebrew": "שלום עולם טוב מאוד",
    "Arabic": "مرحبا بالعالم كيف الحال",
    "Chinese": "東京 大阪 京都 札幌",
    "direction marks": "\u202eabc\u202c \u200f nor me",
    "no width": "z\u200bz y \ufeff x w",
    "combining": "e\u0301 a\u0308 o u n",
    "lone surrogates": "\ud800 \udfff \udc00 zz",
}


def an_example(name, *references):
    return Example("x7", "", references, META | {"overlap": "nonoverlap" not in name})


def worst(name):
    """What a text is worth that has nothing to do with a reference; PARENT's recall has a smoothed 0."""
    return 100.0 if name == "ter" else pytest.approx(1e-5) if name == "parent_recall" else 0.0


# --- nothing to read -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEXICAL)
def test_an_empty_text_scores_worst(name):
    for blank in BLANK:
        assert value(name, [REFERENCE], blank) == worst(name), ascii(blank)
        assert value(name, [REFERENCE, REFERENCE], blank) == worst(name), ascii(blank)
    examples = [an_example(name, REFERENCE), an_example(name, "a car", REFERENCE)]
    metric = prepared(name, examples)
    expected = pytest.approx(100 * (8 + 2) / (8 + 5)) if name == "ter" else worst(name)  # edits to the nearer reference
    assert metric.corpus(metric.statistics(examples, ["", " \n"])) == expected


@pytest.mark.parametrize("name", [name for name in LEXICAL if name not in FREE])
def test_against_an_empty_reference_every_text_scores_worst_or_parent_goes_by_the_table(name):
    for blank in BLANK:
        if name in PARENT_F1:
            assert value(name, [blank], "the dog field 3.5") == pytest.approx(1, abs=1e-7), ascii(blank)
            assert value(name, [blank], "a car") == 0.0
        elif name == "parent_recall":
            assert (value(name, [blank], "the dog field"), value(name, [blank], "the dog")) == (1.0, 0.5)
        elif name != "parent_precision":
            assert value(name, [blank], REFERENCE) == value(name, [blank], "a") == worst(name), ascii(blank)
            assert value(name, [blank], blank) == 0.0, f"{blank!a}: TER, too, has nothing to edit"


@pytest.mark.parametrize("name", LEXICAL)
def test_an_empty_reference_beside_another(name):
    """It counts for nothing, with these exceptions."""
    short = "the dog ran"
    with_it, without = (value(name, references, short) for references in (["", REFERENCE], [REFERENCE]))
    copied = value(name, ["", REFERENCE], REFERENCE), value(name, [REFERENCE], REFERENCE)
    if name.startswith(("bleu", "sacrebleu")):
        assert with_it > without, "the shortest, or closest, reference has no length that a text must reach"
        assert copied[0] == copied[1]
    elif name == "ter":
        assert with_it == pytest.approx(100 * 3 / 4), "three deletions; the references' mean length is 4"
    elif name == "cider":
        assert with_it == pytest.approx(without / 2), "a mean over references"
    elif "parent" in name and name != "parent:rl4lms":
        assert value(name, ["", REFERENCE], "the dog field 3.5") > 0.99, "the table alone decides"
    elif name == "rouge:rl4lms":
        assert (with_it, copied[0]) == (0.0, 0.0), "the first reference alone counts"
    elif name == "meteor:rl4lms":
        assert with_it < without, "it adds brackets and quotation marks to the printed list"
    else:
        assert (with_it, copied[0]) == (without, copied[1])


@pytest.mark.parametrize("name", LEXICAL)
def test_another_number_of_texts_and_no_reference(name):
    metric = prepared(name, [an_example(name, "a dog")])
    for other in ([], ["a", "b"]):
        with pytest.raises(ValueError, match=r"zip\(\) argument 2 is (shorter|longer) than argument 1"):
            metric.statistics([an_example(name, "a dog")], other)
    if name in FREE:
        assert value(name, [], "dogs ran") == 1.0, "it needs no reference"
        return
    named = name.rpartition("_")[0] if name.endswith("overlap") else name
    named = "parent" if named.startswith("parent") else named
    for ask in (make_metric(name).prepare, lambda examples: metric.statistics(examples, ["text"])):
        with pytest.raises(DataError) as error:
            ask([an_example(name)])
        assert str(error.value).startswith(f"The example 'x7' has no reference, which {named} needs; score a split")


# --- odd signs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEXICAL)
def test_white_space_is_a_space(name):
    """Beside signs, too, but for quotation marks and apostrophes in nltk's words, and a line feed behind 13a's hyphen."""
    plain = "the dog runs in the field"
    signs = "the big- dog , 3.5 (or so) runs" + (' "in" the dog\'s field' if name not in TREEBANK else "")
    expected, of_itself, beside = (
        value(name, [REFERENCE], plain),
        value(name, [plain], plain),
        value(name, [REFERENCE], signs),
    )
    assert expected > 0
    for space in SPACES:
        if name in BY_LINES and "\n" in space:
            continue
        other = space.join(plain.split())
        assert value(name, [REFERENCE], other) == expected, ascii(space)
        if name not in PRINTED:  # where a list is printed, "\n" becomes a backslash and an n
            assert value(name, [other], plain) == of_itself, ascii(space)
        if space != "\n" or not name.startswith(("sacrebleu", "parent")):
            assert value(name, [REFERENCE], space.join(signs.split())) == beside, ascii(space)


@pytest.mark.parametrize("name", LEXICAL)
def test_odd_signs_are_letters_like_others(name):
    """A text of them shares nothing with an ordinary one, and equals its copy if the metric knows the letters."""
    for kind, odd in ODD.items():
        if not name.startswith("chrf"):  # single letters can be shared
            assert value(name, [REFERENCE], odd) == worst(name), kind
        if name in COPIES:
            assert value(name, [odd], odd) == pytest.approx(CARDS[name].range[1]), kind
        elif name == "ter":
            assert value(name, [odd], odd) == 0.0, kind
            assert value(name, [odd], REFERENCE) == pytest.approx(100 * 8 / len(odd.split())), kind
        elif name == "cider" and len(tokens.words(odd)) > 3:
            assert value(name, [odd], odd) == pytest.approx(10), kind
        elif name == "meteor":
            assert value(name, [odd], odd) == pytest.approx(1 - 0.5 / len(odd.split()) ** 3), kind
        elif name.startswith("rouge") and kind in ("emoji", "Hebrew", "Arabic", "Chinese", "controls"):
            assert name in PRINTED or value(name, [odd], odd) == 0.0, "it sees only a to z and digits"
            assert name in (*PRINTED, "rouge2") or value(name, ["a dog"], f"a {odd} dog") == 1.0, kind
    if name in ("bleu1", "rouge1", "meteor", "chrf", "spice_lite"):  # a NUL does not end a text
        assert value(name, ["a dog \x00 the cat"], "a dog \x00 the cat") > value(name, ["a dog \x00 the cat"], "a dog")


# --- a hundred thousand characters -----------------------------------------------------------------------------------

ENGLISH = "a the dog cat man runs holds red big in on of and who is was , . ' house tree to it isn't".split()
LARGEST = 100 << 20
"""Bytes that a metric may take for a text of 100,000 characters; a square would be 10,000,000,000."""


def huge_texts(size):
    """Texts of about `size` characters, the last one unrelated to the others."""

    def text(seed, vocabulary):
        return " ".join(random.Random(seed).choices(vocabulary, k=size // 5))

    return {
        "one word": "x" * size,
        "one sign": "." * size,
        "words": text(1, ENGLISH),
        "names": text(2, [f"w{i}" for i in range(5000)]),
        "lines": text(3, ENGLISH).replace(" ", "\n"),
        "list": " and ".join(f"u{i}" for i in range(size // 20))
        + " hold "
        + " and ".join(f"v{i}" for i in range(size // 20)),
        "unrelated": text(4, [f"z{i}" for i in range(5000)]),
    }


@pytest.mark.parametrize("size", [3000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [name for name in LEXICAL if name not in SHARED])
def test_huge_texts_take_neither_minutes_nor_memory(name, size):
    """No time is asserted, but of 100,000 characters what grows with the square of the length would take minutes."""
    low, high = CARDS[name].range
    texts = huge_texts(size)
    for kind in ("words", "lines", "one sign", *(("one word", "list") if size > 3000 else ())):
        huge = texts[kind]
        for references, text in (([REFERENCE], huge), ([huge], REFERENCE), ([huge], texts["unrelated"])):
            assert low <= value(name, references, text) <= high + 1e-9, kind
        copied = value(name, [huge], huge)
        assert low <= copied <= high + 1e-9, kind
        if name in (*COPIES, "ter"):
            assert copied == (0.0 if name == "ter" else pytest.approx(high)), kind
    tracemalloc.start()
    value(name, [texts["names"]], texts["names"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < LARGEST


def test_two_huge_lines_take_no_table_of_their_words():
    words = [random.Random(seed).choices([f"w{i}" for i in range(900)], k=2400) for seed in (1, 2)]
    reference, text = ("\n".join((" ".join(each[:1200]), " ".join(each[1200:]))) for each in words)
    value("rougeLsum", ["a\nb"], "a\nb")  # imports take memory, too
    tracemalloc.start()
    assert 0 < value("rougeLsum", [reference], text) < 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 << 20


def test_diversity_of_nothing_is_0_and_of_large_texts_beside_short_ones_finite():
    texts = [*huge_texts(10_000).values(), *["a dog"] * 500]
    for nothing in ([], BLANK, ["", ""], texts):
        for name in DIVERSITY:
            if nothing or name not in ("mean_length", "ttr"):
                metric = make_metric(name)
                found = metric.corpus(metric.statistics([Example("e", "", ())] * len(nothing), nothing))
                assert 0 < found < 70_000 if nothing is texts else found == 0.0, name


@pytest.mark.parametrize("name", ["meteor", "rouge1", "spice_lite", "coverage", "rouge_l_max:rl4lms"])
def test_huge_words_are_not_remembered(name):
    """Words are remembered for speed, a hundred thousand of them; huge ones would fill the memory."""
    size = 12_000
    value(name, [REFERENCE], "a dog")
    tracemalloc.start()
    for index in range(20):
        value(name, [REFERENCE], f"{index}{'x' * size}")
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 10 * size


# --- any texts -------------------------------------------------------------------------------------------------------


def sets(count):
    """Yield sets of two to five examples with a text each; the first has overlap with training, the second has not."""
    draw, (examples, texts) = random.Random(7), drawn(5 * count, seed=8)
    for start in range(0, 5 * count, 5):
        part = slice(start, start + draw.randrange(2, 6))
        yield (
            [
                Example(e.id, "", e.references, {**META, **e.meta, "overlap": place != 1})
                for place, e in enumerate(examples[part])
            ],
            texts[part],
            draw,
        )


def near(expected):
    return pytest.approx(expected, abs=1e-9, rel=1e-9)


@pytest.mark.parametrize("name", [*LEXICAL, *DIVERSITY])
def test_values_are_in_range_and_depend_on_neither_order_nor_what_was_prepared_nor_other_texts(name):
    """But for msttr, whose windows go over the texts in their order, and CIDEr, which weighs by what is prepared."""
    low, high = CARDS[name].range
    of_corpus = not CARDS[name].single
    for examples, texts, draw in sets(15):
        metric = prepared(name, examples)
        statistics = metric.statistics(examples, texts)
        assert (statistics.dtype, statistics.shape[0]) == (np.float64, len(texts))
        corpus, values = metric.corpus(statistics), [] if of_corpus else metric.per_example(statistics).tolist()
        for found in (corpus, *values):
            assert abs(found) < float("inf") and low - 1e-9 <= found <= high + 1e-9
        order = draw.sample(range(len(texts)), len(texts))
        if name != "msttr":
            shuffled = [examples[index] for index in order]
            other = prepared(name, shuffled)
            found = other.statistics(shuffled, [texts[index] for index in order])
            assert other.corpus(found) == near(corpus)
            if values:
                assert other.per_example(found).tolist() == near([values[index] for index in order])
        fresh = (
            metric if name == "cider" else make_metric(name) if draw.random() < 0.5 else prepared(name, examples[1:])
        )
        cut = draw.randrange(1, len(texts))
        halves = [fresh.statistics(examples[part], texts[part]) for part in (slice(cut), slice(cut, None))]
        assert fresh.corpus(np.vstack(halves)) == near(corpus)
        if values:
            assert fresh.per_example(np.vstack(halves)).tolist() == (near(values) if name == "cider" else values)
    if of_corpus:
        with pytest.raises(OfCorpusOnly):
            metric.per_example(statistics)


# --- metrics that ask a model ----------------------------------------------------------------------------------------

NEURAL = {
    "bertscore": ("encoder", {"layer": 2}),
    "bleurt": ("regression", {}),
    "sentiment": ("classifier", {"label": 1}),
    "asked_sentiment": ("classifier", {}),
    "intent": ("classifier", {}),
    "summac": ("classifier", {"entailment": 2}),
    "perplexity": ("language model", {}),
    "perplexity:bounded": ("language model", {"typical": 20.0}),
}
DOCUMENT = "The film is slow but the music is lovely. The end is a surprise."
SHORT = "the film is lovely"


def asked(models, name, references, texts, prompt=DOCUMENT, **more):
    kind, options = NEURAL[name]
    meta = {"intent": 1, "last_utterance": prompt, "asked": 1, "text": prompt}
    examples = [Example(f"e{i}", prompt, tuple(group), meta) for i, group in enumerate(references)]
    metric = prepared(name, examples, **({"model": models[kind][0]} | options | more))
    return metric.per_example(metric.statistics(examples, texts)).tolist()


@pytest.mark.parametrize("name", NEURAL)
def test_a_model_reads_blank_texts_and_any_number_of_references(models, name):
    """A blank text is 0 by BERTScore, SummaC and intent; else what the model says of nothing, or of the prompt alone."""
    found = asked(models, name, [[SHORT]] * len(BLANK), BLANK)
    assert found == pytest.approx([found[0]] * len(BLANK), rel=1e-5)
    if name in ("bertscore", "summac", "intent"):
        assert set(found) == {0.0}
    assert asked(models, name, [], []) == []
    groups = [[SHORT], ["the end", "", "the music is lovely", "a surprise"], [SHORT, "slow"]]
    texts = ["the film", "the end is a surprise", "slow"]
    each = [asked(models, name, [group], [text])[0] for group, text in zip(groups, texts, strict=True)]
    assert asked(models, name, groups, texts) == pytest.approx(each, rel=1e-5, abs=1e-5)
    with pytest.raises(ValueError, match=r"zip\(\) argument 2 is shorter than argument 1"):
        asked(models, name, groups, texts[:2])


@pytest.mark.parametrize("name", ["bertscore", "bleurt"])
def test_an_empty_reference_beside_others_counts_for_nothing_with_a_model(models, name, refused):
    references = [["", SHORT, "slow"], ["\n", SHORT, "slow", " "], [SHORT, "slow"]]
    found = asked(models, name, references, ["the film is slow"] * 3)
    assert found == pytest.approx([found[-1]] * 3, rel=1e-5)
    metric = make_metric(name, model=models[NEURAL[name][0]][0], **NEURAL[name][1])
    for ask in (metric.prepare, lambda examples: metric.statistics(examples, [SHORT])):
        with refused(DataError):
            ask([Example("e0", DOCUMENT, ())])


@pytest.mark.parametrize("size", [300, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NEURAL)
def test_neither_odd_and_huge_texts_nor_the_batch_disturb_a_model(models, name, size):
    """Lone surrogates become U+FFFD, and what is too long is cut, or read piece by piece."""
    huge = huge_texts(size)
    texts = [*tiny_bert.ODD, *ODD.values(), *(huge[kind] for kind in ("one word", "one sign", "unrelated"))]
    texts += ["\ufffd the film", SHORT]
    low, high = CARDS[name].range
    for references in ([[SHORT]] * len(texts), [[text] for text in texts]):
        found = asked(models, name, references, texts)
        assert all(low - 1e-6 <= each <= high + 1e-6 and each - each == 0 for each in found)
        if references[0] == [SHORT]:
            assert found[tiny_bert.ODD.index("\ud800 the film")] == pytest.approx(found[-2], rel=1e-5)
    assert len(asked(models, name, [[SHORT]], [SHORT], prompt=huge["one word"] + "\ud800")) == 1
    if name == "bertscore":
        assert found == pytest.approx([1.0] * len(found), abs=1e-6), "copies"
    for batch in (1, 3) if size == 300 else ():
        backwards = asked(models, name, [[text] for text in texts[::-1]], texts[::-1], batch_size=batch)
        assert backwards[::-1] == pytest.approx(found, abs=1e-5, rel=1e-5)


@pytest.mark.parametrize("name", NEURAL)
def test_nan_of_a_model_is_an_error_that_names_the_example(models, damaged, name, refused):
    texts = ["" if name in ("bertscore", "summac") else "is slow", "the music is lovely"]
    broken = {kind: (folder,) for kind, folder in damaged.items()}
    with refused(DataError):
        asked(broken, name, [[SHORT]] * 2, texts)
