"""What RL4LMs computed, against values that the old libraries themselves printed."""

import numpy as np
import pytest

from grue.errors import DataError
from grue.metrics.registry import make_metric
from grue.metrics.rl4lms import model_sentences
from grue.metrics.treebank import split_sentence, split_sentence_37
from grue.records import Example

NAMES = ("meteor:rl4lms", "rouge1:rl4lms", "rouge2:rl4lms", "rougeL:rl4lms", "rougeLsum:rl4lms", "rouge:rl4lms")

# Tokens and METEOR by nltk 3.7 with WordNet 3.0, sentences by its untrained PunktSentenceTokenizer (no abbreviation
# occurs), ROUGE by rouge-score 0.0.4: all against str(list of references), the last against the first reference alone.
# Then the best of py-rouge 1.1 with the options of RL4LMs' NarrativeQA. They need Python packages that no longer
# install beside today's, so their values stand here: METEOR, ROUGE-1, -2, -L, -Lsum, rouge_combined; ROUGE-Lmax.
PRINTED = [
    (["The cat sat on the mat."], "The cat sat on the mat.", (0.617124857, 1.0, 1.0, 1.0, 1.0, 1.0), 1.0),
    (
        ["The cat sat on the mat.", "A cat was sitting on a mat."],
        "The cat sat on the mat.",
        (0.217545351, 0.631578947, 0.588235294, 0.631578947, 0.631578947, 1.0),
        1.0,
    ),
    (
        ["A cat was sitting on a mat.", "The cat sat on the mat."],
        "The cat sat on the mat.",
        (0.305413832, 0.631578947, 0.588235294, 0.631578947, 0.631578947, 0.307692308),
        1.0,
    ),
    (["they die"], "they die", (0.106382979, 1.0, 1.0, 1.0, 1.0, 1.0), 1.0),
    (["a big car"], "a big auto", (0.446127946, 0.666666667, 0.5, 0.666666667, 0.666666667, 0.611111111), 0.713275463),
    (
        ["The dogs' owner didn't come home."],
        "the dog's owner did not come home",
        (0.45, 0.666666667, 0.307692308, 0.666666667, 0.666666667, 0.547008547),
        0.713495884,
    ),
    (
        ['It\'s "his" dog.', 'the man\'s "dog"'],
        "it's his dog",
        (0.090361446, 0.666666667, 0.6, 0.666666667, 0.666666667, 1.0),
        1.0,
    ),
    (['He said "no" and left.'], "he said 'no' and left .", (0.420754717, 1.0, 1.0, 1.0, 1.0, 1.0), 1.0),
    (
        ["One line.\nAnother line."],
        "Another line.\nOne line.",
        (0.27173913, 0.75, 0.333333333, 0.5, 0.5, 0.722222222),
        1.0,
    ),
    (
        ["One line\nAnother line", "Both lines"],
        "both lines\none line",
        (0.106382979, 0.8, 0.5, 0.4, 0.6, 0.527777778),
        0.786836298,
    ),
    (["alpha beta"], "gamma delta", (0.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.0),
    ([""], "a text", (0.0, 0.0, 0.0, 0, 0, 0.0), 0.0),
    (["a text"], "", (0.0, 0.0, 0.0, 0, 0, 0.0), 0.0),
    ([" "], "\n", (0.0, 0.0, 0.0, 0, 0, 0.0), 0.0),
    (["n"], "n", (0.0, 1.0, 0.0, 1.0, 1.0, 0.666666667), 1.0),
    (
        ["'Tis the season, isn't it?"],
        "it's the season 'tis",
        (0.302439024, 0.727272727, 0.222222222, 0.363636364, 0.363636364, 0.437710438),
        0.430664605,
    ),
    (
        ["the 'a team' won"],
        "the 'a team' won 'x'",
        (0.430695847, 0.888888889, 0.857142857, 0.888888889, 0.888888889, 0.878306878),
        0.907290513,
    ),
    (
        ["well-known facts — and en–dashes"],
        "well-known facts – and en—dashes",
        (0.12987013, 1.0, 1.0, 1.0, 1.0, 1.0),
        1.0,
    ),
    (
        ["I cannot go, you gonna wanna stay."],
        "I can not go , you gon na wan na stay",
        (0.709410824, 0.470588235, 0.133333333, 0.470588235, 0.470588235, 0.358169935),
        0.866740158,
    ),
    (
        ["cannots cannoting cannot"],
        "cannot cannots can not",
        (0.433006536, 0.571428571, 0.4, 0.571428571, 0.571428571, 0.514285714),
        0.628184042,
    ),
    (
        ["The agreement on taxes was better than the arguments."],
        "agreements on tax were well , argument",
        (0.302419355, 0.533333333, 0.307692308, 0.533333333, 0.533333333, 0.458119658),
        0.715279393,
    ),
    (
        ["comics and ashes"],
        "comic ash and comics",
        (0.172413793, 0.857142857, 0.0, 0.571428571, 0.571428571, 0.476190476),
        0.352556373,
    ),
    (
        ["technological technologies of psychology"],
        "technology technological psychologies",
        (0.151515152, 0.857142857, 0.4, 0.857142857, 0.857142857, 0.704761905),
        0.628184042,
    ),
    (
        ["the children took the leaves of the geese"],
        "a child takes a leaf of a goose",
        (0.046728972, 0.125, 0.0, 0.125, 0.125, 0.083333333),
        0.561231024,
    ),
    (
        ["running runners ran happily"],
        "he runs happy and ran",
        (0.073529412, 0.444444444, 0.0, 0.444444444, 0.444444444, 0.296296296),
        0.509199584,
    ),
    (
        ["The prices rose 3.5% to $1,000 in the market."],
        "prices rose 3.5 % to 1,000 dollars",
        (0.414710485, 0.736842105, 0.705882353, 0.736842105, 0.736842105, 0.726522188),
        0.776667696,
    ),
    (
        ["He left. She stayed. They met again."],
        "She stayed. He left. They met.",
        (0.557415675, 0.923076923, 0.545454545, 0.615384615, 0.615384615, 0.694638695),
        0.667525068,
    ),
    (
        ["he left. she stayed.", "they met again. he left!", "who knows? nobody."],
        "he left. nobody knows. she stayed!",
        (0.294133165, 0.666666667, 0.25, 0.444444444, 0.444444444, 0.7),
        0.832645396,
    ),
    (
        ["the red boat", "a boat", "nothing alike", "the boat is red"],
        "the red boat",
        (0.052083333, 0.428571429, 0.333333333, 0.428571429, 0.428571429, 1.0),
        1.0,
    ),
    (["a b c d a b c d"], "d c b a\na b c d", (0.60546875, 1.0, 0.428571429, 0.625, 0.625, 0.68452381), 0.675927342),
    (
        ["a b\nc d\ne f"],
        "e f a b\nc d\nb a",
        (0.125, 0.571428571, 0.166666667, 0.428571429, 0.428571429, 0.698412698),
        0.880703284,
    ),
    (
        ["größe café 東京"],
        "größe cafe 東京",
        (0.087719298, 0.666666667, 0.5, 0.666666667, 0.666666667, 0.611111111),
        0.713275463,
    ),
    (["a\\nb c"], "a\nb\nc", (0.087719298, 0.666666667, 0.0, 0.666666667, 0.666666667, 0.444444444), 0.713275463),
    (
        ["tabs\tand\r\nreturns\u2028and more"],
        "tabs and returns and more",
        (0.1, 0.363636364, 0.0, 0.363636364, 0.363636364, 1.0),
        1.0,
    ),
    (["😀 smile \u200b \u0600 x"], "😀 smile x", (0.133333333, 0.666666667, 0.0, 0.666666667, 0.666666667, 1.0), 1.0),
]

LONG = " ".join(f"word{i % 37}" for i in range(130)), " ".join(f"word{i % 41}" for i in range(120))
LINES = "\n".join(f"a b{i} c{i % 7}" for i in range(50)), "\n".join(f"b{i} a c{i % 5}" for i in range(45))
PRINTED += [
    ([LONG[0]], LONG[1], (0.842758045, 0.888, 0.870967742, 0.888, 0.888, 0.882322581), 0.93287443),
    ([LINES[0]], LINES[1], (0.217592593, 0.575438596, 0.0, 0.392982456, 0.042105263, 0.507602339), 0.635121276),
]
EXAMPLES = [Example(str(i), "", tuple(references)) for i, (references, *_) in enumerate(PRINTED)]
TEXTS = [text for _, text, *_ in PRINTED]
ODD = [
    "",
    " ",
    "\n",
    "\r",
    "\x00",
    "\x85\u2028",
    "\ud800",
    "'",
    '"',
    "...",
    "😀👩‍👩‍👧",
    "שלום עולם",
    "東京は夜",
    "\x1c.\x1f'",
]


def values(name, examples, texts, prepared=()):
    metric = make_metric(name)
    metric.prepare(prepared)
    return metric.per_example(metric.statistics(examples, texts))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", [1, 2, 100])
def test_values_are_those_that_the_old_libraries_printed(name, step):
    expected = [row[2][NAMES.index(name)] for row in PRINTED]
    assert list(values(name, EXAMPLES, TEXTS, EXAMPLES[::step])) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("step", [1, 2, 100])
def test_rouge_l_max_is_py_rouges(step):
    expected = [row[3] for row in PRINTED]
    assert list(values("rouge_l_max:rl4lms", EXAMPLES, TEXTS, EXAMPLES[::step])) == pytest.approx(expected, abs=1e-9)


def test_rouge_l_max_by_hand():
    examples = [Example("a", "", ("the dogs ran home", "a cat"))]
    precision, recall = (3 / 3) ** (1 / 1.2), (3 / 4) ** (1 / 1.2)
    expected = 2 * precision * recall / (precision + recall)
    assert values("rouge_l_max:rl4lms", examples, ["the dog ran"])[0] == pytest.approx(expected)
    assert values("rouge_l_max:rl4lms", examples, ["the dog sat ran sat"])[0] < expected


def test_only_the_first_hundred_words_count():
    hundred = " ".join(f"w{i}" for i in range(100))
    examples = [Example("a", "", (hundred,))] * 3
    assert list(values("rouge_l_max:rl4lms", examples, [f"{hundred} x y", f"{hundred}\nx y", f"x {hundred}"])) == [
        1.0,
        1.0,
        pytest.approx((99 / 100) ** (1 / 1.2)),
    ]


def test_the_mean_stands_where_rl4lms_had_a_bootstrap_median():
    for name in (*NAMES, "rouge_l_max:rl4lms"):
        metric = make_metric(name)
        statistics = metric.statistics(EXAMPLES, TEXTS)
        assert metric.corpus(statistics) == pytest.approx(np.mean(metric.per_example(statistics)))


def test_signatures():
    assert [make_metric(name).signature for name in (*NAMES, "rouge_l_max:rl4lms")] == [
        "meteor:rl4lms|version:nltk3.7|split:rules|case:lower|tok:treebank3.7|stem:porter|synonyms:wordnet:3.0|refs:printed|corpus:mean",
        "rouge1:rl4lms|tok:a-z0-9|stem:porter|refs:printed|corpus:mean",
        "rouge2:rl4lms|tok:a-z0-9|stem:porter|refs:printed|corpus:mean",
        "rougeL:rl4lms|tok:a-z0-9|stem:porter|refs:printed|corpus:mean",
        "rougeLsum:rl4lms|split:newline|tok:a-z0-9|stem:porter|refs:printed|corpus:mean",
        "rouge:rl4lms|mean:rouge1,rouge2,rougeL|tok:a-z0-9|stem:porter|refs:first",
        "rouge_l_max:rl4lms|version:py-rouge1.1|split:newline|words:100|weight:1.2|stem:porter-original|refs:best",
    ]


@pytest.mark.parametrize("name", [*NAMES, "rouge_l_max:rl4lms"])
def test_odd_texts(name):
    odd = [*ODD, "y" * 100_000, "a. " * 30_000, "'\" " * 30_000]
    examples = [Example(str(i), "", (odd[-i],)) for i in range(len(odd))] + [Example("x", "", tuple(odd))]
    found = values(name, examples, [*odd, "a"], examples[::2])
    assert ((found >= 0) & (found <= 1)).all()
    plain = [Example(str(i), "", ("the cat sat",)) for i in range(4)]
    assert list(values(name, plain, ["", " ", "\n", "\u2028"])) == [0.0] * 4
    with pytest.raises(DataError, match=f"The example 'a' has no reference, which {name} needs"):
        values(name, [Example("a", "", ())], ["a text"])


# --- the tokenizer of nltk 3.7 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "now", "then"),  # printed by nltk 3.10.4 and nltk 3.7
    [
        (
            "['The cat sat.']",
            ["[", "'", "The", "cat", "sat", ".", "'", "]"],
            ["[", "'The", "cat", "sat", ".", "'", "]"],
        ),
        ("well—known", ["well", "—", "known"], ["well—known"]),
        ("rock'n roll 'x y'", ["rock'n", "roll", "'", "x", "y", "'"], ["rock'n", "roll", "'", "x", "y", "'"]),
        ("O'B it's", ["O'B", "it", "'s"], ["O", "'", "B", "it", "'s"]),
        ("the dog's\nbone", ["the", "dog", "'s", "bone"], ["the", "dog's", "bone"]),
        ("so.\x1c", ["so."], ["so", "."]),
    ],
)
def test_versions_of_the_tokenizer(sentence, now, then):
    assert split_sentence(sentence) == now
    assert split_sentence_37(sentence) == then


def test_sentences_of_a_printed_list():
    def split(text):
        return list(model_sentences(text))

    assert split("['A cat.', 'Two cats. And a dog.']") == ["['A cat.", "', 'Two cats.", "And a dog.']", ""]
    assert split("it rains. he stays") == ["it rains.", "he stays"]
    assert split("Mr. X met J. Smith in the U.S. on Sat. at 5 p.m. sharp") == [
        "Mr. X met J. Smith in the U.S. on Sat.",
        "at 5 p.m. sharp",
    ]
    assert split('He said "so." Then ... (he left.) Good') == ['He said "so."', "Then ... (he left.)", "Good"]
    assert split("") == [""]
