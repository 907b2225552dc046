"""BLEU, sacreBLEU, ROUGE and METEOR against their libraries, hand-computed values and slow loops."""

import math
import random
from collections import Counter

import pytest
from nltk.translate.meteor_score import meteor_score
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU

from grue.errors import ConfigError
from grue.metrics import meteor
from grue.metrics.registry import make_metric
from grue.metrics.tokens import words
from grue.metrics.wordnet import synonyms
from grue.records import Example

ODD = [
    "",
    " ",
    "\n",
    ".",
    "a\r\nb\n\nc",
    "größe café 東京",
    "U.S. isn't 3.5%",
    "The the THE",
    "x" * 300,
    "\u2028a\u0085b",
]
WORDS = "the a dogs dog running ran run happily happy car cars auto automobile big large on in , . isn't it"
PLAIN = WORDS.split()


def draw_text(generator, vocabulary, longest):
    chosen = [generator.choice(vocabulary) for _ in range(generator.randrange(longest + 1))]
    return "".join(token + generator.choice([" ", " ", " ", "\n"]) for token in chosen)


def draw(seed, count=300, vocabulary=PLAIN, longest=14):
    """Examples with 1 to 4 references, and texts; odd strings among them."""
    generator = random.Random(seed)

    def text():
        return generator.choice(ODD) if generator.random() < 0.1 else draw_text(generator, vocabulary, longest)

    examples = [Example(str(i), "", tuple(text() for _ in range(generator.randint(1, 4)))) for i in range(count)]
    return examples, [text() for _ in examples]


def values(name, examples, texts, **options):
    metric = make_metric(name, **options)
    metric.prepare(examples[::2])
    return metric.per_example(metric.statistics(examples, texts))


def corpus(name, examples, texts, **options):
    metric = make_metric(name, **options)
    return metric.corpus(metric.statistics(examples, texts))


# --- ROUGE -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rouge1", "rouge2", "rougeL", "rougeLsum"])
@pytest.mark.parametrize(("vocabulary", "longest"), [(PLAIN, 14), (list("abcde"), 25)])
def test_rouge_is_the_librarys(name, vocabulary, longest):
    examples, texts = draw(1, vocabulary=vocabulary, longest=longest)
    scorer = RougeScorer([name], use_stemmer=True)
    expected = [scorer.score_multi(e.references, text)[name].fmeasure for e, text in zip(examples, texts, strict=True)]
    assert list(values(name, examples, texts)) == expected
    assert corpus(name, examples, texts) == pytest.approx(sum(expected) / len(expected), abs=1e-12)


def test_rouge_by_hand():
    examples = [Example("a", "", ("the dogs ran home", "the cat"))]
    assert values("rouge1", examples, ["the dog ran"])[0] == pytest.approx(6 / 7)  # 3 of 3, 3 of 4
    assert values("rouge2", examples, ["the dog ran"])[0] == pytest.approx(4 / 5)
    assert values("rougeL", examples, ["ran the dog"])[0] == pytest.approx(2 * (2 / 3) * (1 / 2) / (2 / 3 + 1 / 2))
    assert values("rouge1", examples, ["the cat"])[0] == 1.0


def test_rouge_lsum_looks_at_lines():
    examples = [Example("a", "", ("one two\nthree four",))]
    assert values("rougeLsum", examples, ["three four\none two"])[0] == 1.0
    assert values("rougeL", examples, ["three four\none two"])[0] == 0.5


# --- BLEU ------------------------------------------------------------------------------------------------------------


def slow_bleu(examples, texts, order, smooth=0):
    """The formula of tensorflow/nmt, one n-gram at a time."""
    matched, possible = [0] * order, [0] * order
    length = wanted = 0
    for example, text in zip(examples, texts, strict=True):
        tokens, references = text.split(), [reference.split() for reference in example.references]
        length, wanted = length + len(tokens), wanted + min(map(len, references))
        for n in range(1, order + 1):
            grams = Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
            for gram, count in grams.items():
                most = max(sum(r[i : i + n] == list(gram) for i in range(len(r))) for r in references)
                matched[n - 1] += min(count, most)
            possible[n - 1] += max(0, len(tokens) - n + 1)
    product = 1.0
    for n in range(order):
        extra = smooth if n else 0
        if matched[n] + extra == 0:
            return 0.0
        product *= (matched[n] + extra) / (possible[n] + extra)
    return product ** (1 / order) * (1.0 if length > wanted else math.exp(1 - wanted / length))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_bleu_is_the_formula(order):
    examples, texts = draw(2)
    assert corpus(f"bleu{order}", examples, texts) == pytest.approx(slow_bleu(examples, texts, order), abs=1e-12)
    expected = [slow_bleu([e], [text], order, smooth=1) for e, text in zip(examples, texts, strict=True)]
    assert list(values(f"bleu{order}", examples, texts)) == pytest.approx(expected, abs=1e-12)


def test_bleu_metrics_that_share_their_counts_do_not_mix_them():
    (examples, texts), (others, other_texts) = draw(3), draw(4)
    metrics = {order: make_metric(f"bleu{order}") for order in (1, 4, 2, 3)}
    for metric in metrics.values():
        metric.prepare(examples)
    for order, metric in metrics.items():
        assert metric.corpus(metric.statistics(examples, texts)) == pytest.approx(slow_bleu(examples, texts, order))
        texts[0], other_texts[-1] = other_texts[-1], texts[0]  # the same list, changed
        for given in (examples, others):
            found = metric.corpus(metric.statistics(given, texts))
            assert found == pytest.approx(slow_bleu(given, texts, order), abs=1e-12)


def coco_bleu(examples, texts, order):
    """BLEU as pycocoevalcap publishes it: closest length, tiny constants against division by zero."""
    tiny, small = 1e-15, 1e-9
    correct, guessed, length, wanted = [0] * order, [0] * order, 0, 0
    for example, text in zip(examples, texts, strict=True):
        tokens, references = text.split(), [reference.split() for reference in example.references]
        length += len(tokens)
        wanted += min((abs(len(reference) - len(tokens)), len(reference)) for reference in references)[1]
        for n in range(1, order + 1):
            grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
            guessed[n - 1] += len(grams)
            for gram in set(grams):
                most = max(sum(tuple(r[i : i + n]) == gram for i in range(len(r))) for r in references)
                correct[n - 1] += min(grams.count(gram), most)
    bleu = 1.0
    for n in range(order):
        bleu *= (correct[n] + tiny) / (guessed[n] + small)
    bleu **= 1 / order
    ratio = (length + tiny) / (wanted + small)
    return bleu * math.exp(1 - 1 / ratio) if ratio < 1 else bleu


@pytest.mark.parametrize("order", [1, 3, 4])
def test_bleu_against_the_closest_reference_is_pycocoevalcaps(order):
    examples, texts = draw(5, vocabulary=["a", "b", "c"], longest=12)
    texts = [text[: len(text) * 2 // 3] for text in texts]  # shorter than the references, so that lengths count
    found = corpus(f"bleu{order}", examples, texts, reference_length="closest")
    assert found == pytest.approx(coco_bleu(examples, texts, order), abs=1e-8)
    assert found < corpus(f"bleu{order}", examples, texts) - 0.01, "the shortest reference asks for less"


def test_the_closest_reference_by_hand():
    """Four words; references of two, five and nine: 2 is the shortest, 5 the closest. Of 3 and 5, 3 is taken."""
    text, long = "the dog runs home", "the dog runs home every day with a ball"
    examples = [Example("a", "", ("a dog", "the dog runs home fast", long))]
    assert corpus("bleu4", examples, [text]) == 1.0
    assert corpus("bleu4", examples, [text], reference_length="closest") == pytest.approx(math.exp(1 - 5 / 4))
    assert values("bleu4", examples, [text], reference_length="closest")[0] == pytest.approx(math.exp(1 - 5 / 4))
    tied = [Example("a", "", ("the dog runs home fast", "a dog runs"))]
    assert corpus("bleu1", tied, [text], reference_length="closest") == 1.0


def test_a_reference_length_is_one_of_two():
    assert make_metric("bleu4").signature.endswith("|reflen:shortest"), "the suite's figures do not change"
    assert make_metric("bleu4", reference_length="closest").signature.endswith("|reflen:closest")
    with pytest.raises(
        ConfigError,
        match=r"^bleu4: reference_length is 'closet'\. Did you mean 'closest'\? Known: shortest, closest\.$",
    ):
        make_metric("bleu4", reference_length="closet")


def test_bleu_of_a_single_text():
    examples = [Example("a", "", ("I see it",))]
    assert values("bleu4", examples, ["I see it"])[0] == 1.0
    assert values("bleu4", examples, ["something else entirely"])[0] == 0.0
    assert corpus("bleu4", examples, ["I see it"]) == 0.0, "unsmoothed: a text of three words has no 4-gram"


def test_bleu_of_words():
    examples = [Example("a", "", ("on the mat",))]
    assert corpus("bleu1", examples, ["on the mat."]) == pytest.approx(2 / 3)
    assert corpus("bleu1", examples, ["on the mat."], tokenizer="words") == pytest.approx(3 / 4)


@pytest.mark.parametrize("tokenize", ["13a", "intl"])
def test_sacrebleu_is_the_librarys(tokenize):
    examples, texts = draw(3)
    references = [[e.references[i] if i < len(e.references) else None for e in examples] for i in range(4)]
    library = BLEU(tokenize=tokenize).corpus_score(texts, references).score
    assert corpus("sacrebleu", examples, texts, tokenize=tokenize) == library
    sentence = BLEU(tokenize=tokenize, effective_order=True)
    expected = [sentence.sentence_score(t, e.references).score for e, t in zip(examples, texts, strict=True)]
    assert list(values("sacrebleu", examples, texts, tokenize=tokenize)) == expected


def test_sacrebleu_of_a_short_exact_copy():
    assert values("sacrebleu", [Example("a", "", ("I see it",))], ["I see it"])[0] == pytest.approx(100.0)


# --- METEOR ----------------------------------------------------------------------------------------------------------


class Lemma:
    def __init__(self, word):
        self.word = word

    def name(self):
        return self.word


class Synset:
    def __init__(self, word):
        self.word = word

    def lemmas(self):
        return [Lemma(word) for word in synonyms(self.word)]


class OurWordNet:
    """nltk's METEOR on our synonyms: what is compared is the alignment and the formula."""

    def synsets(self, word):
        return [Synset(word)]


def test_meteor_is_nltks():
    examples, texts = draw(4, count=600)
    expected = [
        meteor_score([words(r) for r in e.references], words(text), wordnet=OurWordNet())
        for e, text in zip(examples, texts, strict=True)
    ]
    assert list(values("meteor", examples, texts)) == expected


def test_meteor_by_hand():
    def score(reference, text):
        return values("meteor", [Example("a", "", (reference,))], [text])[0]

    assert score("cat", "cat") == 0.5  # one match, one chunk: (1 - 0.5 * 1) * 1
    assert score("a b c d e f g", "a b c d e f g") == pytest.approx(1 - 0.5 / 7**3)
    assert score("the dogs ran", "the dog ran") == pytest.approx(1 - 0.5 / 27)  # by stem
    assert score("a big car", "a big auto") == pytest.approx(1 - 0.5 / 27)  # by synonym
    assert score("a big car", "a big automobile") == 0.625  # whose stem, automobil, has no synonym: as in nltk
    assert score("cat dog", "dog cat") == 0.5  # two matches in two chunks
    assert score("alpha", "omega") == 0.0
    precision, recall = 2 / 2, 2 / 4
    f_mean = precision * recall / (0.9 * precision + 0.1 * recall)
    assert score("one two three four", "one two") == pytest.approx((1 - 0.5 / 8) * f_mean)


def test_meteor_documented_by_nltk():
    candidate = "It is a guide to action which ensures that the military always obeys the commands of the party"
    reference = "It is a guide to action that ensures that the military will forever heed Party commands"
    pair = meteor.from_words(reference.split()), meteor.from_words(candidate.split())
    assert round(meteor.meteor(*pair), 4) == 0.6944


def test_meteor_takes_the_best_reference():
    example = Example("a", "", ("nothing alike", "the red boat", "a boat"))
    alone = values("meteor", [Example("b", "", ("the red boat",))], ["the red boat"])[0]
    assert values("meteor", [example], ["the red boat"])[0] == alone
