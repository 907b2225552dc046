"""Splitting text into words by rules that never change: a metric's value must not move with a library's version."""

import re
from collections.abc import Callable
from functools import cache, lru_cache

from grue.registry import Registry

Tokenizer = Callable[[str], list[str]]

TOKENIZERS: Registry[Tokenizer] = Registry("tokenizer")

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


@TOKENIZERS.register("words")
def words(text: str) -> list[str]:
    """Split English text into words and signs in the manner of the Penn Treebank: do n't, dog 's, U.S., well-known.

    Unlike the Treebank's, every full stop that ends a word is split off, inside a text of several sentences too, and
    quotation marks stay as they are. Case is kept.
    """
    return WORD.findall(text)


@TOKENIZERS.register("whitespace")
def whitespace(text: str) -> list[str]:
    """Split at white space only: "mat." is one word."""
    return text.split()


@lru_cache(maxsize=1 << 17)
def stem(word: str) -> str:
    """Return the Porter stem of `word`, in lower case (nltk's extensions of the algorithm)."""
    return _porter()(word)


@cache
def _porter() -> Callable[[str], str]:
    from nltk.stem.porter import PorterStemmer  # slow to import, and most metrics need no stems

    stemmed: Callable[[str], str] = PorterStemmer().stem
    return stemmed
