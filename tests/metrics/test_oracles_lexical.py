"""Every lexical metric against its reference implementation, on one corpus.

The quick tests take the corpus's first 100 examples, the slow ones 1,000, of TER fewer, for which the library takes
milliseconds each. The largest differences stand at the end of pytest's report.
"""

import math
import random
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from numpy import mean
from support import oracles
from support.late import late
from support.metric_texts import drawn, moved, scored

from grue.metrics.card import CARDS
from grue.metrics.rouge import lcs_places
from grue.metrics.ter import BAND
from grue.metrics.tokens import sentences, stem, tokens_13a, words
from grue.metrics.treebank import split_sentence, treebank
from grue.metrics.wordnet import synonyms
from grue.records import Example

cider_library, rouge_library = late("pycocoevalcap.cider.cider"), late("rouge_score.rouge_scorer")
sacrebleu = late("sacrebleu.metrics")
nltk_words, nltk_meteor = late("nltk.tokenize"), late("nltk.translate.meteor_score")


def rouge(name, examples, texts, stem=True):
    scorer = rouge_library.RougeScorer([name], use_stemmer=stem)
    found = [scorer.score_multi(e.references, text)[name].fmeasure for e, text in zip(examples, texts, strict=True)]
    return found, mean(found)


def of_sacrebleu(name, examples, texts, **options):
    kind = {"sacrebleu": "BLEU", "ter": "TER"}.get(name, "CHRF")
    options |= {"word_order": 2} if name == "chrfpp" else {}
    library = getattr(sacrebleu, kind)(**options)
    single = getattr(sacrebleu, kind)(**options, **({"effective_order": True} if kind == "BLEU" else {}))
    columns = [[e.references[i] if i < len(e.references) else None for e in examples] for i in range(4)]
    found = [single.sentence_score(text, e.references).score for e, text in zip(examples, texts, strict=True)]
    return found, library.corpus_score(texts, columns).score


def meteor(name, examples, texts, wordnet=None):
    """nltk's METEOR on nltk's words; on our synonyms what is compared is the alignment and the formula."""
    library = nltk_words.NLTKWordTokenizer()

    def split(text):
        return [token for sentence in sentences(text) for token in library.tokenize(sentence)]

    found = [
        nltk_meteor.meteor_score(list(map(split, e.references)), split(text), wordnet=wordnet or OurWordNet())
        for e, text in zip(examples, texts, strict=True)
    ]
    return found, mean(found)


class OurWordNet:
    """Our synonyms of a word, as nltk asks for them: of a synset its lemmas, of a lemma its name."""

    def synsets(self, word):
        return [type("Synset", (), {"lemmas": lambda self: [Lemma(each) for each in synonyms(word)]})()]


class Lemma(str):
    def name(self):
        return str(self)


def cider(name, examples, texts, tokenizer):
    references = {e.id: list(e.references) for e in examples}
    answers = {e.id: [text] for e, text in zip(examples, texts, strict=True)}
    corpus, each = cider_library.Cider().compute_score(references, answers)
    return list(each), corpus


def bleu(name, examples, texts, reference_length="shortest"):
    """Tensorflow/nmt's formula by the shortest reference, pycocoevalcap's by the closest, one n-gram at a time."""
    order = int(name[-1])

    def of(pairs, smooth=0):
        matched, possible, length, wanted = [0] * order, [0] * order, 0, 0
        for example, text in pairs:
            tokens, references = text.split(), [reference.split() for reference in example.references]
            sizes = [len(reference) for reference in references]
            length += len(tokens)
            closest = min((abs(size - len(tokens)), size) for size in sizes)[1]
            wanted += min(sizes) if reference_length == "shortest" else closest
            for n in range(1, order + 1):
                grams = Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
                for gram, count in grams.items():
                    most = max(sum(tuple(r[i : i + n]) == gram for i in range(len(r))) for r in references)
                    matched[n - 1] += min(count, most)
                possible[n - 1] += max(0, len(tokens) - n + 1)
        if reference_length == "closest":
            ratio = (length + 1e-15) / (wanted + 1e-9)
            product = math.prod((m + 1e-15) / (p + 1e-9) for m, p in zip(matched, possible, strict=True))
            return product ** (1 / order) * (math.exp(1 - 1 / ratio) if ratio < 1 else 1.0)
        more = [0, *[smooth] * (order - 1)]
        if not all(m + extra for m, extra in zip(matched, more, strict=True)):
            return 0.0
        product = math.prod((m + extra) / (p + extra) for m, p, extra in zip(matched, possible, more, strict=True))
        return product ** (1 / order) * min(1.0, math.exp(1 - wanted / length))

    pairs = list(zip(examples, texts, strict=True))
    return (None if reference_length == "closest" else [of([pair], smooth=1) for pair in pairs]), of(pairs)


def parent(name, examples, texts, tokenizer="13a"):
    """The examples of a half alone count in its corpus value."""
    part = {"parent_precision": 0, "parent_recall": 1}.get(name, 2)
    found = [each[part] for each in parent_by_loops(len(texts), tokenizer, 3 if name == "parent:rl4lms" else 0)]
    return found, mean(of_half(name, examples, found))


@cache
def parent_by_loops(count, tokenizer, filled):
    """(Precision, recall, F1) of the published definition."""
    split, found = str.split if tokenizer == "whitespace" else tokens_13a, []
    for example, text in zip(*drawn(count), strict=True):
        table, highlighted = (
            [tokens for cell in example.meta[key] if (tokens := tokens_13a(cell.lower()))]
            for key in ("table", "highlighted")
        )
        references = [*example.references, *["<null>"] * (filled - len(example.references))]
        references = [split(reference.lower()) for reference in references]
        found.append(oracles.parent(split(text.lower()), references, table, highlighted))
    return found


def sacrebleu_of_half(name, examples, texts, **options):
    kept = of_half(name, examples, zip(examples, texts, strict=True))
    whole, _ = of_sacrebleu("sacrebleu", examples, texts, **options)
    return whole, of_sacrebleu("sacrebleu", *map(list, zip(*kept, strict=True)), **options)[1]


def of_half(name, examples, values):
    wanted = {"overlap": (True,), "nonoverlap": (False,)}.get(name.rpartition("_")[2], (True, False))
    return [each for example, each in zip(examples, values, strict=True) if example.meta["overlap"] in wanted]


ORACLES = [
    *((f"rouge{kind}", {"stem": stem}, rouge, 0) for kind in ("1", "2", "L", "Lsum") for stem in (True, False)),
    *(("sacrebleu", {"tokenize": tokenize}, of_sacrebleu, 0) for tokenize in ("13a", "intl", "char", "none")),
    ("sacrebleu", {"lowercase": True}, of_sacrebleu, 0),
    ("chrf", {}, of_sacrebleu, 1e-9),
    ("chrfpp", {}, of_sacrebleu, 1e-9),
    ("ter", {}, of_sacrebleu, 1e-9),
    ("ter", {"case_sensitive": True}, of_sacrebleu, 1e-9),
    ("meteor", {}, meteor, 0),
    ("cider", {"tokenizer": "whitespace"}, cider, 1e-12),
    *((f"bleu{order}", {}, bleu, 1e-12) for order in (1, 2, 3, 4)),
    *((f"bleu{order}", {"reference_length": "closest"}, bleu, 1e-8) for order in (1, 3, 4)),
    *((f"parent{part}", {}, parent, 1e-9) for part in ("", "_precision", "_recall", "_overlap", "_nonoverlap")),
    ("parent_precision", {"tokenizer": "whitespace"}, parent, 1e-9),
    ("parent:rl4lms", {}, parent, 1e-9),
    *((f"sacrebleu_{half}", {"lowercase": True}, sacrebleu_of_half, 1e-9) for half in ("overlap", "nonoverlap")),
]
NAMES = [" ".join([name, *(f"{key}:{value}" for key, value in options.items())]) for name, options, *_ in ORACLES]


@pytest.fixture
def agree(record_property):
    """Assert that values differ from the expected ones by no more than the bound, and keep the largest difference."""

    def compare(name, found, expected, bound):
        (values, corpus), (wanted, wanted_corpus) = found, expected
        if wanted is not None:
            difference = max(abs(a - b) for a, b in zip(values, wanted, strict=True))
            scale = min(CARDS[name].range[1], 100)
            record_property("largest difference", f"{difference:.1e} over {len(wanted):,} examples, scale {scale:g}")
            assert difference <= bound
            assert len(set(wanted)) > len(wanted) / 10
        assert abs(corpus - wanted_corpus) <= bound

    return compare


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "options", "oracle", "bound"), ORACLES, ids=NAMES)
def test_values_are_the_reference_implementations(name, options, oracle, bound, count, agree):
    examples, texts = (part[: count // 3] if name == "ter" else part for part in drawn(count))
    if "reference_length" in options:  # shorter than the references, so that lengths count
        texts = [text[: len(text) * 2 // 3] for text in texts]
    agree(name, scored(name, examples, texts, **options), oracle(name, examples, texts, **options), bound)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The multilingual functions are not available")
def test_meteor_by_nltks_own_reader_of_wordnet(agree, tmp_path):
    from support.wordnet import load_wordnet

    wordnet = load_wordnet(tmp_path)
    examples, texts = drawn(1000)
    agree("meteor", scored("meteor", examples, texts), meteor("meteor", examples, texts, wordnet), 1e-9)


# --- texts that the corpus lacks -------------------------------------------------------------------------------------


def long_pairs(generator, count):
    """Texts beyond TER's band: near each other, without much in common, and one many times as long as the other."""
    many, letters = [f"w{number}" for number in range(30)], list("abcdefgh")
    for _ in range(count):
        reference = generator.choices(many, k=generator.randrange(BAND + 1, 40))
        near = [generator.choice(letters) if generator.random() < 0.1 else w for w in moved(generator, reference)]
        yield near, reference
        yield generator.choices(many, k=generator.randrange(BAND + 1, 35)), generator.choices(many, k=30)
        long, short = generator.choices(letters, k=generator.randrange(60, 120)), generator.choices(letters, k=8)
        yield from ((long, short), (short, long))
        behind = [f"x{number}" for number in range(45)] + reference
        yield from ((behind, reference), (reference, behind))


@pytest.mark.parametrize("count", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_ter_of_long_and_of_unequal_texts_is_sacrebleus(count, agree):
    pairs = [tuple(map(" ".join, pair)) for pair in long_pairs(random.Random(6), count)]
    examples = [Example(str(i), "", (reference,)) for i, (_, reference) in enumerate(pairs)]
    texts = [text for text, _ in pairs]
    agree("ter", scored("ter", examples, texts), of_sacrebleu("ter", examples, texts), 1e-9)


@pytest.mark.parametrize("count", [1, 2, 50])
def test_cider_of_few_examples_is_pycocoevalcaps(count, agree):
    examples, texts = drawn(count, seed=count)
    # Other examples with the same references count apart.
    examples, texts = [*examples, *(replace(e, id=f"{e.id} again") for e in examples[::2])], [*texts, *texts[::2]]
    found = scored("cider", examples, texts, tokenizer="whitespace")
    (values, corpus), (wanted, wanted_corpus) = found, cider("cider", examples, texts, "whitespace")
    assert values == pytest.approx(wanted, abs=1e-12)
    assert corpus == pytest.approx(wanted_corpus, abs=1e-12)


PIECES = """
    the dog's can't cannot U.S. end. 3.5 1,000 a,b x: ( ) [end.] . .. ... ! ?! -- — ' " '' `` “ ” ‘so’ 's 'tis d'ye wanna
    gimme *so* <b> @you #1 50% $5 größe 東京。 'n' e.g., a.m.) x-y 3-4 &amp; &lt; <skipped> & % - a it's
""".split()


def test_tokens_are_the_libraries():
    """nltk's words and sacreBLEU's 13a, whatever stands at a text's ends."""
    generator, library = random.Random(10), nltk_words.NLTKWordTokenizer()
    of_13a = late("sacrebleu.tokenizers.tokenizer_13a").Tokenizer13a()
    blanks = [" ", " ", " ", "  ", "\t", "\u00a0", "\x1c", "\u2028", ""]
    texts = [
        "".join(generator.choice(PIECES) + generator.choice(blanks) for _ in range(generator.randrange(9)))
        for _ in range(1000)
    ]
    for text in (*texts, *drawn(200)[1]):
        assert split_sentence(text) == library.tokenize(text), repr(text)
        assert treebank(text) == [token for sentence in sentences(text) for token in library.tokenize(sentence)]
        assert tokens_13a(text) == of_13a(text.strip()).split(), repr(text)


def test_stems_are_nltks():
    porter = late("nltk.stem.porter").PorterStemmer()
    for word in {*words(" ".join(drawn(200)[1])), "Flies", "skies", "dying", "relational", "caresses", "东京"}:
        assert stem(word) == porter.stem(word)


def test_the_common_subsequence_is_that_of_rouge_score():
    chance = random.Random(1)
    for _ in range(3000):
        letters = "abcdefgh"[: chance.randint(1, 8)]
        line, other = ("".join(chance.choices(letters, k=chance.randint(0, 14))) for _ in range(2))
        assert lcs_places(line, other)[::-1] == rouge_library.lcs_ind(line, other), (line, other)
