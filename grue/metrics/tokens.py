"""Splitting text into words by rules that never change: a metric's value must not move with a library's version."""

import random
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Generic, TypeVar

T = TypeVar("T")
Tokenizer = Callable[[str], list[str]]

MOST_CACHED = 1 << 17
LONGEST_CACHED = 100  # characters: longer strings are not words, and many of them would fill the memory


class CachedByWord(Generic[T]):
    """A function of a word, never None, with a bounded cache; only words of ordinary length are cached."""

    def __init__(self, function: Callable[[str], T]) -> None:
        self._function = function
        self._cache: dict[str, T] = {}

    def __call__(self, word: str) -> T:
        """Return the function's value of a word."""
        value = self._cache.get(word)
        if value is None:
            value = self._function(word)
            if len(word) <= LONGEST_CACHED:
                if len(self._cache) >= MOST_CACHED:
                    self._cache.clear()
                self._cache[word] = value
        return value

    def each(self, words: Iterable[str]) -> list[T]:
        """Return the function's value of each word, faster than one call per word."""
        lookup = self._cache.get
        return [value if (value := lookup(word)) is not None else self(word) for word in words]


_SURROGATE = re.compile("[\ud800-\udfff]")

WORD = re.compile(
    r"""
      [^\W\d_](?:\.[^\W\d_])+\.?(?!\w)                          # U.S.  e.g.  a.m.
    | \b(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|etc)\.                 # Mr.
    | \d+(?:[.,:]\d+)+                                          # 3.5  1,000  10:30
    | can(?=not\b) | (?:gon|wan)(?=na\b) | got(?=ta\b)          # can-not  gon-na  wan-na  got-ta
    | \w+?(?=n['’]t\b) | n['’]t\b                               # is-n't
    | ['’](?:s|m|d|ll|re|ve)\b                                  # dog-'s
    | \w+(?:(?:-|['’](?!(?:s|m|d|ll|re|ve)\b))\w+)*             # well-known  o'clock
    | \.{2,} | -{2,}                                            # ...  --
    | [^\w\s]                                                   # any other sign by itself
    """,
    re.VERBOSE | re.IGNORECASE,
)


def without_surrogates(text: str) -> str:
    """Replace halves of surrogate pairs, which neither tokenizers nor files can hold, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def unless_blank(text: str) -> str:
    """Return a text, or "" if it is only white space."""
    return text if text.strip() else ""


def words(text: str) -> list[str]:
    """Split English text into words and signs in the manner of the Penn Treebank: do n't, dog 's, U.S., well-known.

    Unlike in the Treebank, every full stop that ends a word is split off, not only the last one, and quotation marks
    stay as they are. Case is kept.
    """
    return WORD.findall(text)


_ABBREVIATIONS = """
    mr mrs ms dr prof rev gen col capt lt sgt sen rep gov pres hon st sr jr messrs mme mlle
    vs etc cf al ca viz approx est dept univ assn bros co corp inc ltd nos vol vols fig figs eq pp p ed eds
    jan feb mar apr jun jul aug sep sept oct nov dec
    ave blvd rd mt ft u.s u.k u.n e.g i.e a.m p.m d.c
"""
ABBREVIATIONS = frozenset(_ABBREVIATIONS.split())
_STOP = re.compile(r"""(?<![.!?])[.!?]++[)\]}"'»”’]*+(?=\s+[("'«“‘\[]*([^\W_]))""")


def sentences(text: str) -> list[str]:
    """Split text into sentences, without the white space around them; a text of white space has none.

    A sentence ends at . ! or ? (and closing marks after it) before white space and something that can open another: a
    capital letter, a digit or a letter without case. The full stop of an abbreviation or an initial ends no sentence.
    """
    pieces: list[str] = []
    start = 0
    for stop in _STOP.finditer(text):
        if stop[1].islower() or (stop[0] == "." and _is_abbreviated(text, stop.start())):
            continue
        pieces.append(text[start : stop.end()].strip())
        start = stop.end()
    rest = text[start:].strip()
    return [*pieces, rest] if rest else pieces


def _is_abbreviated(text: str, stop: int) -> bool:
    """Whether the word before the full stop at `stop` is an abbreviation or a capital by itself."""
    start = stop
    while start and stop - start < 12 and not text[start - 1].isspace():
        start -= 1
    word = text[start:stop].lstrip("(\"'«“‘[")
    return word.lower() in ABBREVIATIONS or (len(word) == 1 and word.isupper() and word != "I")


def tokens_13a(text: str) -> list[str]:
    """Split text as sacreBLEU's default tokenizer does (mteval-v13a)."""
    return _mteval_13a()(text.strip()).split()


@cache
def _mteval_13a() -> Callable[[str], str]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a  # slow to import, and most metrics do not need it

    tokenizer: Callable[[str], str] = Tokenizer13a()
    return tokenizer


@CachedByWord
def stem(word: str) -> str:
    """Return the Porter stem of `word`, in lower case (nltk's extensions of the algorithm)."""
    return porter("NLTK_EXTENSIONS")(word)


@cache
def porter(mode: str) -> Callable[[str], str]:
    """Return nltk's Porter stemmer in one of its modes."""
    state = random.getstate()  # the user's; nltk imports scikit-learn, and that rich, which draws
    from nltk.stem.porter import PorterStemmer  # slow to import, and most metrics need no stems

    random.setstate(state)
    stemmed: Callable[[str], str] = PorterStemmer(mode).stem
    return stemmed
