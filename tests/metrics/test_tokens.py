"""Sentences, nltk's words and sacreBLEU's tokens."""

import random

import pytest
from nltk.tokenize import NLTKWordTokenizer
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from grue.errors import UnknownName
from grue.metrics.tokenizers import TOKENIZERS
from grue.metrics.tokens import sentences, tokens_13a
from grue.metrics.treebank import split_sentence, treebank


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t\u2028", []),
        ("no stop", ["no stop"]),
        ("...", ["..."]),
        ("It ran. It sat.", ["It ran.", "It sat."]),
        ("  It ran.\n\nIt sat. ", ["It ran.", "It sat."]),
        # abbreviations and initials
        ("Dr. Hill met Mrs. Dale. They left.", ["Dr. Hill met Mrs. Dale.", "They left."]),
        ("The U.S. Senate and e.g. Ohio. More.", ["The U.S. Senate and e.g. Ohio.", "More."]),
        ("J. R. R. Tolkien wrote it. He did.", ["J. R. R. Tolkien wrote it.", "He did."]),
        ("So do I. He too.", ["So do I.", "He too."]),
        ("(Dr. Hill) left. She too.", ["(Dr. Hill) left.", "She too."]),
        ("Acme Inc. Chairman Bo. Left.", ["Acme Inc. Chairman Bo.", "Left."]),
        # marks that close and open
        ('He said "Stop!" Then he left.', ['He said "Stop!"', "Then he left."]),
        ("“Stop.” ‘Go.’ Why?", ["“Stop.”", "‘Go.’", "Why?"]),
        ("(It ran.) [It sat.] {Why?} So", ["(It ran.)", "[It sat.] {Why?}", "So"]),  # a brace opens none
        ("It ran. (It sat.)", ["It ran.", "(It sat.)"]),
        ('It ran. "It sat."', ["It ran.", '"It sat."']),
        # numbers
        ("It cost $3.5. Two of them. 10 left.", ["It cost $3.5.", "Two of them.", "10 left."]),
        ("Version 1.2.3 is out. 4 is next.", ["Version 1.2.3 is out.", "4 is next."]),
        # several stops
        ("Wait... What?! Really?? Yes.", ["Wait...", "What?!", "Really??", "Yes."]),
        ("wait... what", ["wait... what"]),
        # no capital, or no blank, after the stop
        ("it ran. it sat.", ["it ran. it sat."]),
        ("Hello.World", ["Hello.World"]),
        ("see a.b.c now", ["see a.b.c now"]),
        # other scripts
        ("今天下雨。我在家。", ["今天下雨。我在家。"]),
        ("下雨了. 我在家.", ["下雨了.", "我在家."]),
        ("Он бежал. Она спала.", ["Он бежал.", "Она спала."]),
        ("שלום. מה שלומך?", ["שלום.", "מה שלומך?"]),
        ("Es war Größe. Ärger kam.", ["Es war Größe.", "Ärger kam."]),
        # blanks of other kinds
        ("It ran.\u00a0It sat.\u2028Why?\x85No", ["It ran.", "It sat.", "Why?", "No"]),
        ("Lines\nwithout stops", ["Lines\nwithout stops"]),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


@pytest.mark.parametrize("text", ["he ran. äußerst schnell", "usw. être là"])
def test_a_small_letter_opens_no_sentence_in_any_language(text):
    assert sentences(text) == [text]


def test_sentences_lose_nothing_but_blanks():
    generator = random.Random(9)
    pieces = ["Mr.", "a", "B", ".", "!", "?", '"', ")", " ", "  ", "\n", "It ran.", "3.5", "東", "\u2028", "ä"]
    for _ in range(300):
        text = "".join(generator.choice(pieces) for _ in range(generator.randrange(20)))
        found = sentences(text)
        assert "".join("".join(found).split()) == "".join(text.split())
        assert all(sentence and sentence == sentence.strip() for sentence in found)


@pytest.mark.parametrize("unit", [".", "!?", '."', "a. ", "A. ", "Mr. ", ". A", "(", "…"])
def test_long_texts_are_split_at_all(unit):
    """100,000 characters of stops and marks: a rule that backtracks would take minutes."""
    text = unit * (100_000 // len(unit))
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("It cost $3.50.", ["It", "cost", "$", "3.50", "."]),
        ("I can't, won't.", ["I", "ca", "n't", ",", "wo", "n't", "."]),
        ("the dogs' 'home' and cannot gonna", ["the", "dogs", "'", "'", "home", "'", "and", "can", "not", "gon", "na"]),
        ("A 50% rise; 1,000 -- at 10:30...", ["A", "50", "%", "rise", ";", "1,000", "--", "at", "10:30", "..."]),
        ("in the U.S. and co.", ["in", "the", "U.S.", "and", "co", "."]),
        ("It ran. Then it sat.", ["It", "ran", ".", "Then", "it", "sat", "."]),  # sentence by sentence
        ("it ran. then it sat.", ["it", "ran.", "then", "it", "sat", "."]),  # which these are not
        # rules that look beyond a chunk
        ('He said, "Stop!" (twice).', ["He", "said", ",", "``", "Stop", "!", "''", "(", "twice", ")", "."]),
        ("It ended. )", ["It", "ended", ".", ")"]),
        ("``so'' it ''went''", ["``", "so", "''", "it", "``", "went", "''"]),
        ("x\x1cy\u00a0z", ["x", "y", "z"]),
        ("naïve — café、東京", ["naïve", "—", "café、東京"]),
    ],
)
def test_treebank(text, expected):
    assert treebank(text) == expected


def test_a_sentence_is_split_as_by_nltk():
    """The quick way by chunks and the slow one are the library's, whatever stands at a sentence's ends."""
    generator = random.Random(10)
    pieces = (
        "the dog's can't cannot U.S. end. 3.5 1,000 a,b x: ( ) [end.] . .. ... ! ?! -- — ' \" '' `` “ ” ‘so’ 's 'tis d'ye "
        "wanna gimme *so* <b> @you #1 50% $5 größe 東京。 'n' e.g., a.m.)"
    ).split()
    blanks = [" ", " ", " ", "  ", "\t", "\u00a0", "\x1c", ""]
    library = NLTKWordTokenizer()
    for _ in range(3000):
        text = "".join(generator.choice(pieces) + generator.choice(blanks) for _ in range(generator.randrange(1, 9)))
        assert split_sentence(text) == library.tokenize(text), repr(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("the cat's mat.", ["the", "cat's", "mat", "."]),
        ("1,000.5 a-b 3-4 (x)", ["1,000.5", "a-b", "3", "-", "4", "(", "x", ")"]),
        ("&quot;so&quot; <null>", ['"', "so", '"', "<", "null", ">"]),
        ("a\nb\u2028c", ["a", "b", "c"]),
    ],
)
def test_tokens_13a(text, expected):
    assert tokens_13a(text) == expected


def test_tokens_13a_are_sacrebleus():
    generator = random.Random(11)
    library = Tokenizer13a()
    pieces = "a it's 3.5 1,000 x-y 3-4 . , ( ) % & &amp; &lt; - -- größe 東京 \u2028 <skipped> \" '".split(" ")
    for _ in range(500):
        text = " ".join(generator.choice(pieces) for _ in range(generator.randrange(10)))
        assert tokens_13a(text) == library(text.strip()).split()


def test_tokenizers_by_name():
    assert {name: TOKENIZERS[name]("It's 3.5-4.") for name in TOKENIZERS.names()} == {
        "13a": ["It's", "3.5", "-", "4", "."],
        "treebank": ["It", "'s", "3.5-4", "."],
        "whitespace": ["It's", "3.5-4."],
        "words": ["It", "'s", "3.5", "-", "4", "."],
    }
    with pytest.raises(UnknownName, match=r"There is no tokenizer 'word'\. Did you mean 'words'\? Known: 13a, "):
        TOKENIZERS["word"]
