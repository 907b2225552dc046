"""Word splitting, stems, lemmas and synonyms."""

import gzip
import importlib.util
from importlib import resources
from pathlib import Path

import pytest
from nltk.stem.porter import PorterStemmer
from support.paths import ROOT

from grue.metrics.tokens import stem, whitespace, words
from grue.metrics.wordnet import lemmas, synonyms

DICTIONARY = Path("/usr/share/wordnet")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("The cat sat.", ["The", "cat", "sat", "."]),
        ("It sat. Then it ran.", ["It", "sat", ".", "Then", "it", "ran", "."]),
        ("I don't, can't and cannot.", ["I", "do", "n't", ",", "ca", "n't", "and", "can", "not", "."]),
        ("He’s sure we’ll", ["He", "’s", "sure", "we", "’ll"]),
        ("the dog's bone, the dogs' bone", ["the", "dog", "'s", "bone", ",", "the", "dogs", "'", "bone"]),
        ("five o'clock in a well-known town", ["five", "o'clock", "in", "a", "well-known", "town"]),
        (
            "the U.S. and e.g. 3.5 or 1,000 at 10:30",
            ["the", "U.S.", "and", "e.g.", "3.5", "or", "1,000", "at", "10:30"],
        ),
        ("Mr. Hill met Dr. Dale", ["Mr.", "Hill", "met", "Dr.", "Dale"]),
        ("wait... what -- no!?", ["wait", "...", "what", "--", "no", "!", "?"]),
        ('"so" (50%)', ['"', "so", '"', "(", "50", "%", ")"]),
        ("größe, naïve, 東京", ["größe", ",", "naïve", ",", "東京"]),
        ("I'm gonna, wanna, gotta", ["I", "'m", "gon", "na", ",", "wan", "na", ",", "got", "ta"]),
        ("cannotation canny isn", ["cannotation", "canny", "isn"]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


def test_words_lose_nothing_but_space():
    text = "Odd-looking 'text' — with $5.00, 7'th: \u00a0a_b @you #1 isn't/aren't (x.y.z) ''' n't"
    assert "".join(words(text)) == "".join(text.split())


def test_whitespace():
    assert whitespace(" on the  mat. ") == ["on", "the", "mat."]


def test_stem_is_nltks():
    porter = PorterStemmer()
    for word in ["running", "happily", "Flies", "skies", "dying", "relational", "caresses", "a", "东京", "'s"]:
        assert stem(word) == porter.stem(word)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("leaves", {"leaf", "leave"}),
        ("ran", {"run"}),
        ("running", {"run", "running"}),
        ("children", {"child"}),
        ("happiest", {"happy"}),
        ("studies", {"study"}),
        ("caring", {"care", "caring"}),  # not the car
        ("offer", {"offer"}),
        ("zzgx", set()),
    ],
)
def test_lemmas(word, expected):
    assert lemmas(word) == expected


def test_synonyms():
    assert {"car", "auto", "automobile", "motorcar"} <= synonyms("car")
    assert {"run", "race", "running"} & synonyms("ran") >= {"run"}
    assert "dog" not in synonyms("cat")
    assert synonyms("happi") == {"happi"}  # a stem that is no word
    assert not any("_" in word for word in synonyms("dog"))


@pytest.mark.skipif(not DICTIONARY.is_dir(), reason="needs WordNet's dictionary files (Debian: wordnet-base)")
def test_tables_are_made_from_wordnet(tmp_path):
    script = ROOT / "tools" / "build_wordnet.py"
    spec = importlib.util.spec_from_file_location("build_wordnet", script)
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    builder.main(DICTIONARY, tmp_path)
    for name in ("wordnet_synsets.txt.gz", "wordnet_exceptions.txt.gz"):
        shipped = resources.files("grue.metrics") / "data" / name
        assert gzip.decompress((tmp_path / name).read_bytes()) == gzip.decompress(shipped.read_bytes())


def test_the_licence_lies_beside_the_tables():
    licence = (resources.files("grue.metrics") / "data" / "WORDNET-LICENSE").read_text()
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in licence
