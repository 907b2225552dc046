"""Sentences, words, stems, lemmas and synonyms by hand; the libraries' tokens are in test_oracles_lexical.py."""

import gzip
import importlib
import random
from importlib import resources
from pathlib import Path

import pytest
from support.paths import ROOT

from grue.metrics.tokens import sentences, words
from grue.metrics.treebank import TOKENIZERS, treebank
from grue.metrics.wordnet import lemmas, readings, synonyms

DICTIONARY = Path("/usr/share/wordnet")

SENTENCES = """
no stop
...
It ran.|It sat.
Dr. Hill met Mrs. Dale.|They left.
The U.S. Senate and e.g. Ohio.|More.
J. R. R. Tolkien wrote it.|He did.
So do I.|He too.
(Dr. Hill) left.|She too.
Acme Inc. Chairman Bo.|Left.
He said "Stop!"|Then he left.
“Stop.”|‘Go.’|Why?
(It ran.)|[It sat.] {Why?}|So
It ran.|(It sat.)
It ran.|"It sat."
It cost $3.5.|Two of them.|10 left.
Version 1.2.3 is out.|4 is next.
Wait...|What?!|Really??|Yes.
wait... what
it ran. it sat.
Hello.World
see a.b.c now
今天下雨。我在家。
下雨了.|我在家.
Он бежал.|Она спала.
שלום.|מה שלומך?
Es war Größe.|Ärger kam.
he ran. äußerst schnell
usw. être là
"""


@pytest.mark.parametrize("expected", SENTENCES.strip().split("\n"))
def test_sentences(expected):
    """They end where a bar is, and a blank in the text: not behind abbreviations, nor before small letters or a brace."""
    assert sentences(expected.replace("|", " ")) == expected.split("|")


def test_sentences_lose_nothing_but_blanks():
    assert sentences("") == sentences(" \n\t\u2028") == []
    assert sentences("  It ran.\n\nIt sat. ") == ["It ran.", "It sat."]
    assert sentences("It ran.\u00a0It sat.\u2028Why?\x85No") == ["It ran.", "It sat.", "Why?", "No"]
    assert sentences("Lines\nwithout stops") == ["Lines\nwithout stops"]
    generator = random.Random(9)
    pieces = ["Mr.", "a", "B", ".", "!", "?", '"', ")", " ", "  ", "\n", "It ran.", "3.5", "東", "\u2028", "ä"]
    for _ in range(300):
        text = "".join(generator.choices(pieces, k=generator.randrange(20)))
        found = sentences(text)
        assert "".join("".join(found).split()) == "".join(text.split())
        assert all(sentence and sentence == sentence.strip() for sentence in found)


@pytest.mark.parametrize(
    "sign", [".", "!", "?!", ". ", '."', ".)", "a.", "\n.\n", "a. ", "A. ", "Mr. ", ". A", "(", "…"], ids=ascii
)
def test_texts_of_nothing_but_stops_are_split_at_all(sign):
    """20,000 characters of stops and marks: a rule that backtracks would take minutes."""
    text = sign * (20_000 // len(sign))
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
    assert treebank(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" \n\t ", ""),
        ("It sat. Then it ran.", "It sat . Then it ran ."),
        ("I don't, can't and cannot.", "I do n't , ca n't and can not ."),
        ("He’s sure we’ll", "He ’s sure we ’ll"),
        ("the dog's bone, the dogs' bone", "the dog 's bone , the dogs ' bone"),
        ("five o'clock in a well-known town", "five o'clock in a well-known town"),
        ("the U.S. and e.g. 3.5 or 1,000 at 10:30", "the U.S. and e.g. 3.5 or 1,000 at 10:30"),
        ("Mr. Hill met Dr. Dale", "Mr. Hill met Dr. Dale"),
        ("wait... what -- no!?", "wait ... what -- no ! ?"),
        ('"so" (50%)', '" so " ( 50 % )'),
        ("größe, naïve, 東京", "größe , naïve , 東京"),
        ("I'm gonna, wanna, gotta", "I 'm gon na , wan na , got ta"),
        ("cannotation canny isn", "cannotation canny isn"),
    ],
)
def test_words(text, expected):
    assert words(text) == expected.split()


def test_tokenizers_by_name():
    assert {name: " ".join(TOKENIZERS[name]("It's 3.5-4.")) for name in TOKENIZERS} == {
        "13a": "It's 3.5 - 4 .",
        "treebank": "It 's 3.5-4 .",
        "whitespace": "It's 3.5-4.",
        "words": "It 's 3.5 - 4 .",
    }


# --- WordNet ---------------------------------------------------------------------------------------------------------


def test_lemmas():
    listed = "leaves: leaf leave; ran: run; running: run running; children: child; happiest: happy; studies: study; offer: offer"
    for word, found in (each.split(": ") for each in listed.split("; ")):
        assert lemmas(word) == set(found.split()), word
    assert lemmas("caring") == {"care", "caring"}, "not the car"
    assert lemmas("zzgx") == set()


def test_synonyms():
    assert {"car", "auto", "automobile", "motorcar"} <= synonyms("car")
    assert "run" in synonyms("ran")
    assert "dog" not in synonyms("cat")
    assert synonyms("happi") == {"happi"}  # a stem that is no word
    assert not any("_" in word for word in synonyms("dog"))


def test_readings_say_what_a_word_can_be_and_what_is_common():
    listed = "dog: n dog v dog; barks: n bark v bark; saw: n saw v see; lay: n lay v lay a lay; leaves: n leaf v leave; children: n child; happiest: a happy"
    for word, found in (each.split(": ") for each in listed.split("; ")):
        pairs = iter(found.split())
        assert {part: lemma for part, (lemma, _) in readings(word).items()} == dict(zip(pairs, pairs, strict=True)), (
            word
        )
    common = [
        max(found := readings(word), key=lambda part: found[part][1])
        for word in "dogs walks red quickly wearing".split()
    ]
    assert "".join(common) == "nvarv"
    assert (readings("surfboard")["n"], readings("zzgx")) == (("surfboard", 0), {})


@pytest.mark.slow
@pytest.mark.skipif(not DICTIONARY.is_dir(), reason="needs WordNet's dictionary files (Debian: wordnet-base)")
@pytest.mark.parametrize(
    ("script", "tables"),
    [
        ("build_wordnet", ("wordnet_synsets.txt.gz", "wordnet_exceptions.txt.gz")),
        ("build_wordnet_uses", ("wordnet_uses.txt.gz",)),
    ],
)
def test_tables_are_made_from_wordnet(tmp_path, monkeypatch, script, tables):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    importlib.import_module(script).main(DICTIONARY, tmp_path)
    for name in tables:
        shipped = resources.files("grue.metrics") / "data" / name
        assert gzip.decompress((tmp_path / name).read_bytes()) == gzip.decompress(shipped.read_bytes())
    licence = (resources.files("grue.metrics") / "data" / "WORDNET-LICENSE").read_text()
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in licence
