"""BLEU, ROUGE, METEOR, chrF, TER, CIDEr and coverage by hand: what documents their formulas, beside the oracles."""

import math

import pytest
from support.metric_texts import META, drawn, prepared, scored, value

from grue.errors import ConfigError
from grue.metrics import meteor
from grue.metrics.registry import make_metric
from grue.records import Example


def corpus(name, text, *references, **options):
    return scored(name, [Example("a", "", references)], [text], **options)[1]


def test_rouge_by_hand():
    references = ["the dogs ran home", "the cat"]
    assert value("rouge1", references, "the dog ran") == pytest.approx(6 / 7)  # 3 of 3, 3 of 4
    assert value("rouge2", references, "the dog ran") == pytest.approx(4 / 5)
    assert value("rougeL", references, "ran the dog") == pytest.approx(2 * (2 / 3) * (1 / 2) / (2 / 3 + 1 / 2))
    assert value("rougeL", ["one two\nthree four"], "three four\none two") == 0.5
    assert value("rougeLsum", ["one two\nthree four"], "three four\none two") == 1.0


def test_bleu_by_hand():
    assert value("bleu4", ["I see it"], "I see it") == 1.0
    assert corpus("bleu4", "I see it", "I see it") == 0.0, "unsmoothed: a text of three words has no 4-gram"
    assert value("sacrebleu", ["I see it"], "I see it") == pytest.approx(100.0)
    assert corpus("bleu1", "on the mat.", "on the mat") == pytest.approx(2 / 3)
    assert corpus("bleu1", "on the mat.", "on the mat", tokenizer="words") == pytest.approx(3 / 4)


def test_the_closest_reference_by_hand(refused):
    """Four words; references of two, five and nine: 2 is the shortest, 5 the closest. Of 3 and 5, 3 is taken."""
    text, references = (
        "the dog runs home",
        ("a dog", "the dog runs home fast", "the dog runs home every day with a ball"),
    )
    assert corpus("bleu4", text, *references) == 1.0
    assert corpus("bleu4", text, *references, reference_length="closest") == pytest.approx(math.exp(1 - 5 / 4))
    assert value("bleu4", references, text, reference_length="closest") == pytest.approx(math.exp(1 - 5 / 4))
    assert corpus("bleu1", text, "the dog runs home fast", "a dog runs", reference_length="closest") == 1.0
    assert make_metric("bleu4").signature.endswith("|reflen:shortest"), "the suite's figures do not change"
    assert make_metric("bleu4", reference_length="closest").signature.endswith("|reflen:closest")
    with refused(ConfigError):
        make_metric("bleu4", reference_length="closet")


@pytest.mark.parametrize("names", [("bleu1", "bleu4", "bleu2", "bleu3"), ("chrf", "chrfpp")])
def test_metrics_that_share_their_counts_do_not_mix_them(names):
    (examples, texts), (others, other_texts) = drawn(30, seed=3), drawn(30, seed=4)
    sharing = {name: prepared(name, examples) for name in names}
    calls = [(examples, texts), (examples, [other_texts[0], *texts[1:]]), (others, texts), (examples[:3], texts[:3])]
    found = [[metric.statistics(*call).tolist() for metric in sharing.values()] for call in calls]
    sharing.clear()
    assert found == [[make_metric(name).statistics(*call).tolist() for name in names] for call in calls]


def test_meteor_by_hand():
    def score(reference, text):
        return value("meteor", [reference], text)

    assert score("cat", "cat") == 0.5  # one match, one chunk: (1 - 0.5 * 1) * 1
    assert score("a b c d e f g", "a b c d e f g") == pytest.approx(1 - 0.5 / 7**3)
    assert score("the dogs ran", "the dog ran") == pytest.approx(1 - 0.5 / 27)  # by stem
    assert score("a big car", "a big auto") == pytest.approx(1 - 0.5 / 27)  # by synonym
    assert score("a big car", "a big automobile") == 0.625  # whose stem, automobil, has no synonym: as in nltk
    assert score("cat dog", "dog cat") == 0.5  # two matches in two chunks
    assert score("alpha", "omega") == 0.0
    f_mean = 1 * 0.5 / (0.9 * 1 + 0.1 * 0.5)
    assert score("one two three four", "one two") == pytest.approx((1 - 0.5 / 8) * f_mean)


def test_meteor_documented_by_nltk():
    candidate = "It is a guide to action which ensures that the military always obeys the commands of the party"
    reference = "It is a guide to action that ensures that the military will forever heed Party commands"
    pair = meteor.from_words(reference.split()), meteor.from_words(candidate.split())
    assert round(meteor.meteor(*pair), 4) == 0.6944


def f2(precisions, recalls):
    """F2 of the means over orders, 0–100."""
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * 5 * precision * recall / (4 * precision + recall)


def test_chrf_by_hand():
    # abc, abd: letters 2 of 3, pairs 1 of 2, triples 0 of 1; neither has an n-gram of four.
    assert value("chrf", ["abd"], "abc") == pytest.approx(f2([2 / 3, 1 / 2, 0], [2 / 3, 1 / 2, 0]))
    # Repeated letters count as often as both have them: a in aab and abbb; pairs ab; only the text's lengths differ.
    assert value("chrf", ["abbb"], "aab") == pytest.approx(f2([2 / 3, 1 / 2, 0], [2 / 4, 1 / 3, 0]))
    # Letters: a, b and c of a b c and a b d; pairs ab; no triple. Words: 2 of 3; pairs of words: 1 of 2.
    shares = [2 / 3, 1 / 2, 0, 2 / 3, 1 / 2]
    assert value("chrfpp", ["a b d"], "a b c") == pytest.approx(f2(shares, shares))
    assert value("chrf", [" t\nhec\u2028at "], "the cat") == pytest.approx(100.0), "white space does not count"
    assert value("chrf", ["AB"], "ab") == 0.0


EDITS = """
    a b c d → 0; a b d → 1 (c inserted); a b x c d → 1 (x deleted); a x c d → 1; x y z → 4 (three substituted, one inserted)
    c d a b → 1 (one block moved); b c d a → 1; c d a x → 2 (a block moved, x substituted); c d a b y → 2; b a d c → 2
    A b C d → 0; a b c d . → 1 (signs are words); a b c d. → 1 (and white space alone tells words apart)
""".strip().replace("\n", ";")


def test_edits_by_hand():
    for each in EDITS.split(";"):
        text, _, edits = each.partition("→")
        assert value("ter", ["a b c d"], text) == 25.0 * int(edits.split()[0]), each
    assert value("ter", ["a b"], "a b c d e f") == 200.0, "more edits than words"
    assert value("ter", ["a b c d", "a b"], "a x") == pytest.approx(100 * 1 / 3), "the nearest; the mean length divides"
    assert value("ter", ["a B c D"], "A b C d", case_sensitive=True) == 100.0
    assert make_metric("ter").signature != make_metric("ter", case_sensitive=True).signature
    examples = [Example("a", "", ("a b c d",)), Example("b", "", ("x y", "x y z w")), Example("c", "", ("p",))]
    metric = make_metric("ter")
    statistics = metric.statistics(examples, ["c d a b", "x y q", "p"])
    assert statistics.tolist() == [[1.0, 4.0], [1.0, 3.0], [0.0, 1.0]]
    assert metric.corpus(statistics) == pytest.approx(100 * 2 / 8)


def test_cider_keeps_the_prepared_frequencies(refused):
    examples, texts = drawn(60, seed=5)
    metric = prepared("cider", examples)
    whole = metric.statistics(examples, texts)[:, 0].tolist()
    assert [metric.statistics([e], [t])[0, 0] for e, t in zip(examples, texts, strict=True)] == whole
    unseen = Example("new", "", ("a dog runs in the field",))
    assert metric.statistics([unseen], unseen.references)[0, 0] == pytest.approx(10.0)
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
