"""Which characters of a text nobody sees: they are left out of answers and references alike, and what shows is kept."""

import random
import sys
import unicodedata

from grue.records import UNSEEN, legible, unseen, usable

SEPARATORS = "\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"
JOINERS, SOFT_HYPHEN, SELECTOR = "\u200c\u200d", "\u00ad", "\ufe0f"
SHOWN = (
    "می\u200cروم به کتابخانه",
    "SMS\u200cهای ما",
    "ه\u200d.",
    "क\u094d\u200dष और क\u094d\u200c",
    "a family 👨\u200d👩\u200d👧 walks",
    "👩🏽\u200d⚕\ufe0f, 🏳\ufe0f\u200d🌈, 1\ufe0f\u20e3, ℹ\ufe0f",
    "Die Donau\u00addampf\u00adschiff\u00adfahrt, in \u00adGeilenkirchen",
    "\u06dd١٢",
    "a\tb\nc\u00a0d\u3000e",
)
HIDDEN = {
    "one\r\ntwo": "one\ntwo",
    "d\u00adog": "dog",
    "man\u00ad runs": "man runs",
    "do\u00ad\u00adgs": "do\u00adgs",
    "می\u200c\u200d\u200cروم": "می\u200cروم",
    "🙂\u200d": "🙂",
    "犬\u200d猫": "犬猫",
    "d\ufe0fog \ufe0f": "dog ",
    "\U0001f3f4\U000e0067\U000e0062\U000e007f": "\U0001f3f4",
}


def test_what_shows_is_kept_and_what_does_not_is_left_out():
    for text in SHOWN:
        assert legible(text) == text and unseen(text) == set() and usable([text]) == (text,)
    for text, read in HIDDEN.items():
        assert legible(text) == read and unseen(text)
    for sign in SEPARATORS:
        assert legible(f"the dog{sign}ran") == "the dog ran" and unseen(f"the dog{sign}ran") == {sign}


def test_a_text_gains_nothing_by_any_character_that_nobody_sees():
    """Every one of them between all letters of a text, a blank or nothing in its place."""
    seen = {*"\n\t", *map(chr, (*range(0x600, 0x606), 0x6DD, 0x890, 0x891, 0x8E2))}  # Arabic signs around numbers
    others = {*map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))), *"\u034f\u115f\u1160\u3164\uffa0"}
    signs = {sign for sign in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(sign) in UNSEEN}
    for sign in (signs | others) - seen:
        padded = legible(sign.join("a dog"))
        assert padded.replace(" ", "") == "adog" and (padded == "a dog" or sign in SEPARATORS), ascii(sign)


def test_a_legible_text_stays_as_it_is():
    draw = random.Random(0)
    signs = f"ab اب🙂क\u094d犬{JOINERS}{SOFT_HYPHEN}{SELECTOR}\u200b\u2028\r\n\u202e\u3164"
    for _ in range(5_000):
        text = legible("".join(draw.choices(signs, k=draw.randint(1, 9))))
        assert legible(text) == text and not unseen(text), ascii(text)
    # A blank reference beside others is none.
    assert usable(["", "a dog", " \u200b"]) == ("a dog",)
    assert usable(["", " "]) == ("", " ") and usable([]) == ()
