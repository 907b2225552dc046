"""Every lexical metric against its reference library on 2,000 generated examples, TER on fewer; the differences printed.

The examples have one to four references and are ordinary, shuffled, cut, repeated and adversarial; the figures stand at
the end of pytest's report.
"""

import random
from functools import cache

import pytest
from nltk.tokenize import NLTKWordTokenizer
from nltk.translate.meteor_score import meteor_score
from pycocoevalcap.cider.cider import Cider
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU, CHRF, TER
from support import oracles
from support.wordnet import load_wordnet

from grue.metrics.registry import make_metric
from grue.metrics.tokens import sentences, tokens_13a
from grue.metrics.treebank import split_sentence, treebank
from grue.records import Example

pytestmark = pytest.mark.slow

COUNT = 2000
WORDS = """
the a of in on with and but while before near two dog dogs horse horses child children farmer's doctor painter pilots
basket bridge boats window garden barn markets river tired happily happy young old red broken shiny quietly leads led
carries carried painting sells opened watching ran running cleaned hides automobile car big large leaf leaves went go
"""
SIGNS = (
    ". , ! ? ; : ... -- - ' '' \" ` ( ) [ ] « » “ ” ’ ‘ $ % & # 's n't don't isn't 3.5 1,000 10:30 U.S. Mr. I'm we'll"
)
ODD = [
    "größte",
    "Straße",
    "東京",
    "café",
    "😀",
    "שלום",
    "Ω",
    "x" * 60,
    "\u2028",
    "\x85",
    "\r",
    "\t",
    "\n",
    "\u00a0",
    "\x00",
    "İ",
]
VOCABULARY = WORDS.split()


def make_text(generator):
    kind = generator.random()
    longest = 60 if generator.random() < 0.05 else 22
    if kind < 0.02:
        return generator.choice(["", " ", "\n", ".", "a", *ODD])
    vocabulary = list("abcde") if kind < 0.15 else VOCABULARY
    words = [generator.choice(vocabulary) for _ in range(generator.randrange(1, longest))]
    if kind > 0.6:
        for _ in range(generator.randrange(4)):
            words.insert(generator.randrange(len(words) + 1), generator.choice(SIGNS.split()))
    if kind > 0.9:
        words.insert(generator.randrange(len(words) + 1), generator.choice(ODD))
    glue = (" ", " ", " ", " ", " ", "  ", "\n", "") if kind > 0.9 else (" ",)
    text = "".join(word + generator.choice(glue) for word in words).rstrip(" ")
    return text.capitalize() + "." if kind > 0.5 else text


def disturbed(generator, text):
    """A candidate that has to do with its reference: cut, shuffled, moved or with some words changed."""
    words = text.split(" ")
    kind = generator.randrange(5)
    if kind == 0:
        generator.shuffle(words)
    elif kind == 1:
        words = words[: generator.randrange(len(words) + 1)]
    elif kind == 2:
        start, end = sorted(generator.randrange(len(words) + 1) for _ in range(2))
        block, rest = words[start:end], words[:start] + words[end:]
        place = generator.randrange(len(rest) + 1)
        words = rest[:place] + block + rest[place:]
    elif kind == 3:
        words = [generator.choice(VOCABULARY) if generator.random() < 0.3 else word for word in words]
    else:
        words += words[: generator.randrange(len(words) + 1)]
    return " ".join(words)


@cache
def drawn():
    generator = random.Random(20)
    examples, texts = [], []
    for index in range(COUNT):
        references = tuple(make_text(generator) for _ in range(generator.choice((1, 1, 2, 4))))
        examples.append(Example(str(index), "", references))
        related = generator.random() < 0.7
        texts.append(disturbed(generator, generator.choice(references)) if related else make_text(generator))
    return examples, texts


def ours(name, **options):
    """Values of the examples, half of them prepared, and the corpus value."""
    examples, texts = drawn()
    metric = make_metric(name, **options)
    metric.prepare(examples[::2])
    statistics = metric.statistics(examples, texts)
    return metric.per_example(statistics), metric.corpus(statistics)


def references_by_column():
    examples, _ = drawn()
    return [[e.references[i] if i < len(e.references) else None for e in examples] for i in range(4)]


@pytest.fixture
def largest(record_property):
    """Assert that values agree to 1e-9 of their scale, and keep the largest difference for the report."""

    def compare(found, expected, scale=1.0, count=COUNT):
        assert len(found) == len(expected) == count
        difference = max(abs(a - b) for a, b in zip(found, expected, strict=True))
        record_property("largest difference", f"{difference:.1e} over {count:,} examples, scale {scale:g}")
        assert difference <= 1e-9 * scale

    return compare


@pytest.mark.parametrize("stem", [True, False])
@pytest.mark.parametrize("name", ["rouge1", "rouge2", "rougeL", "rougeLsum"])
def test_rouge(name, stem, largest):
    examples, texts = drawn()
    scorer = RougeScorer([name], use_stemmer=stem)
    largest(
        ours(name, stem=stem)[0],
        [scorer.score_multi(e.references, text)[name].fmeasure for e, text in zip(examples, texts, strict=True)],
    )


@pytest.mark.parametrize("tokenize", ["13a", "intl", "char", "none"])
def test_sacrebleu(tokenize, largest):
    examples, texts = drawn()
    library = BLEU(tokenize=tokenize, effective_order=True)
    values, corpus = ours("sacrebleu", tokenize=tokenize)
    largest(values, [library.sentence_score(t, e.references).score for e, t in zip(examples, texts, strict=True)], 100)
    assert corpus == BLEU(tokenize=tokenize).corpus_score(texts, references_by_column()).score


def test_sacrebleu_in_lower_case(largest):
    examples, texts = drawn()
    library = BLEU(lowercase=True, effective_order=True)
    values, corpus = ours("sacrebleu", lowercase=True)
    largest(values, [library.sentence_score(t, e.references).score for e, t in zip(examples, texts, strict=True)], 100)
    assert corpus == BLEU(lowercase=True).corpus_score(texts, references_by_column()).score


@pytest.mark.parametrize(("name", "word_order"), [("chrf", 0), ("chrfpp", 2)])
def test_chrf(name, word_order, largest):
    examples, texts = drawn()
    library = CHRF(word_order=word_order)
    values, corpus = ours(name)
    largest(values, [library.sentence_score(t, e.references).score for e, t in zip(examples, texts, strict=True)], 100)
    assert corpus == pytest.approx(library.corpus_score(texts, references_by_column()).score, abs=1e-9)


@pytest.mark.parametrize(("case_sensitive", "count"), [(False, 1000), (True, 300)])
def test_ter(case_sensitive, count, largest):
    """On the first examples only: the library takes milliseconds for each."""
    examples, texts = (part[:count] for part in drawn())
    library = TER(case_sensitive=case_sensitive)
    metric = make_metric("ter", case_sensitive=case_sensitive)
    metric.prepare(examples[::2])
    statistics = metric.statistics(examples, texts)
    expected = [library.sentence_score(t, e.references).score for e, t in zip(examples, texts, strict=True)]
    largest(metric.per_example(statistics), expected, 100, count)
    columns = [references[:count] for references in references_by_column()]
    assert metric.corpus(statistics) == pytest.approx(library.corpus_score(texts, columns).score, abs=1e-9)


def test_treebank_is_nltks_tokenizer():
    examples, texts = drawn()
    library = NLTKWordTokenizer()
    for text in (*texts, *(reference for e in examples for reference in e.references)):
        assert split_sentence(text) == library.tokenize(text)
        assert treebank(text) == [token for sentence in sentences(text) for token in library.tokenize(sentence)]


@pytest.mark.filterwarnings("ignore:The multilingual functions are not available")
def test_meteor(largest, tmp_path):
    """nltk's METEOR, words and all, with nltk's own reader of WordNet."""
    wordnet = load_wordnet(tmp_path)
    examples, texts = drawn()
    library = NLTKWordTokenizer()

    def words(text):
        return [token for sentence in sentences(text) for token in library.tokenize(sentence)]

    largest(
        ours("meteor")[0],
        [
            meteor_score([words(r) for r in e.references], words(text), wordnet=wordnet)
            for e, text in zip(examples, texts, strict=True)
        ],
    )


def test_cider(largest):
    examples, texts = drawn()
    references = {e.id: list(e.references) for e in examples}
    mean, each = Cider().compute_score(references, {e.id: [t] for e, t in zip(examples, texts, strict=True)})
    metric = make_metric("cider", tokenizer="whitespace")
    metric.prepare(examples)
    statistics = metric.statistics(examples, texts)
    largest(metric.per_example(statistics), list(each), 10)
    assert metric.corpus(statistics) == pytest.approx(mean, abs=1e-9)


def test_parent(largest):
    """The published definition by plain loops; its own unit test's figures are in test_published.py."""
    examples, texts = drawn()
    generator = random.Random(21)
    tabled = []
    for example in examples:
        cells = [" ".join(generator.choice(VOCABULARY) for _ in range(generator.randrange(1, 5))) for _ in range(12)]
        cells += generator.choice(example.references).split()[:3]
        tabled.append(Example(example.id, "", example.references, {"table": cells, "highlighted": cells[-6:]}))
    metric = make_metric("parent")
    metric.prepare(tabled[::2])

    def split(text):
        return tokens_13a(text.lower())

    expected = []
    for example, text in zip(tabled, texts, strict=True):
        table, highlighted = (
            [split(value) for value in example.meta[key] if split(value)] for key in ("table", "highlighted")
        )
        references = [split(reference) for reference in example.references]
        expected.append(oracles.parent(split(text), references, table, highlighted)[2])
    largest(metric.per_example(metric.statistics(tabled, texts)), expected)
