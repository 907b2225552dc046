"""nltk's word tokenizer (version 3.10.4), frozen: METEOR and the diversity set are defined on its words.

The rules, after Robert MacIntyre's for the Penn Treebank, rewrite a sentence so that white space separates its
words: do n't, dog 's, `` for an opening quotation mark. They are slow because each reads the whole sentence. But nearly
all of them look only at one blank-separated chunk and the blanks around it; only a final full stop is told from an
abbreviation's by its position. So each chunk is split once and cached, and a sentence is looked up chunk by chunk.

The rules of nltk 3.7 are here too, for the numbers that RL4LMs published.
"""

import re
from itertools import chain

from grue.metrics.tokens import CachedByWord, Tokenizer, sentences, tokens_13a, whitespace, words
from grue.registry import Registry

Rule = tuple[re.Pattern[str], str]


def _rules(*pairs: tuple[str, str]) -> tuple[Rule, ...]:
    return tuple((re.compile(pattern), spaced) for pattern, spaced in pairs)


_OPENING_QUOTES = _rules(
    ("([«“‘„]|`+)", r" \1 "),
    ('^"', "``"),
    ("(``)", r" \1 "),
    (r"""([ (\[{<])("|'{2})""", r"\1 `` "),
)
_OPENING_APOSTROPHE = _rules((r"(?i)(?<!\w)(')(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", r"\1 "))
_OPENING_APOSTROPHE_37 = _rules((r"(?i)(')(?!re|ve|ll|m|t|s|d|n)(\w)\b", r"\1 \2"))
_FINAL_STOP = _rules((r"""([^.])(\.)([\])}>"' »”’]*+)[^\S\x1c-\x1f]*$""", r"\1 \2 \3 "))
_FINAL_STOP_37 = _rules((r"""([^.])(\.)([\])}>"' »”’]*+)\s*$""", r"\1 \2 \3 "))
_SIGNS = _rules(
    (r"([:,])([^\d])", r" \1 \2"),
    ("([:,])$", r" \1 "),
    (r"(\.{2,})", r" \1 "),
    ("([;@#$%&])", r" \1 "),
)
_DASHES = _rules(("([\u2012-\u2015])", r" \1 "))
_FINAL_STOP_AGAIN = _rules((r"""([^.])(\.)([\])}>"']*)[^\S\x1c-\x1f]*$""", r"\1 \2\3 "))
_FINAL_STOP_AGAIN_37 = _rules((r"""([^.])(\.)([\])}>"']*)\s*$""", r"\1 \2\3 "))
_MORE_SIGNS = _rules(
    ("([?!])", r" \1 "),
    ("([^'])' ", r"\1 ' "),
    (r"(\*)", r" \1 "),
    (r"([\][(){}<>])", r" \1 "),
    ("(--)", r" \1 "),
)
_CLOSING_QUOTES = _rules(
    ("([»”’])", r" \1 "),
    ("''", " '' "),
    ('"', " '' "),
)
_SPACES = _rules((r"[^\S\x1c-\x1f]+", " "))
_CLITICS = _rules(
    ("([^' ])('[sS]|'[mM]|'[dD]|') ", r"\1 \2 "),
    ("([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
)
_CONTRACTIONS = _rules(
    (r"(?i)\b(can)(not)\b", r" \1 \2 "),
    (r"(?i)\b(d)('ye)\b", r" \1 \2 "),
    (r"(?i)\b(gim)(me)\b", r" \1 \2 "),
    (r"(?i)\b(gon)(na)\b", r" \1 \2 "),
    (r"(?i)\b(got)(ta)\b", r" \1 \2 "),
    (r"(?i)\b(lem)(me)\b", r" \1 \2 "),
    (r"(?i)\b(more)('n)\b", r" \1 \2 "),
    (r"(?i)\b(wan)(na)(?=\s)", r" \1 \2 "),
    ("(?i) ('t)(is)\\b", r" \1 \2 "),
    ("(?i) ('t)(was)\\b", r" \1 \2 "),
)

_CLOSERS = "])}>\"'»”’"
_SPACE_SENSITIVE = re.compile("['\"\x1c-\x1f]")


def treebank(text: str) -> list[str]:
    """Split text into words and signs as nltk 3.10.4 does, sentence by sentence.

    Sentences are split by `sentences`, where nltk uses a model that it would have to download.
    """
    return [token for sentence in sentences(text) for token in split_sentence(sentence)]


def _looks_beyond_chunks(sentence: str, last: str) -> bool:
    """Whether a rule may look further than a chunk and the blanks at its sides.

    A full stop may precede closing marks that form a chunk, and quotation marks next to a plain space are read
    differently from those next to other white space (the only white space that is not printable) or at the start. nltk
    treats the separators U+001C to U+001F as white space only in the last step.
    """
    if not last.strip(_CLOSERS) or "''" in sentence or '""' in sentence:
        return True
    return not sentence.isprintable() and bool(_SPACE_SENSITIVE.search(sentence))


def _splitter(
    opening: tuple[Rule, ...],
    final_stop: tuple[Rule, ...],
    signs: tuple[Rule, ...],
    final_stop_again: tuple[Rule, ...],
    closing: tuple[Rule, ...],
) -> Tokenizer:
    """Return a splitter of single sentences by these rules, applied in this order."""
    any_chunk = (*opening, *signs, *_MORE_SIGNS)
    last_chunk = (*opening, *final_stop, *signs, *final_stop_again, *_MORE_SIGNS)
    between_blanks = (*closing, *_CONTRACTIONS)

    def apply(rules: tuple[Rule, ...], text: str) -> list[str]:
        for pattern, spaced in rules:
            text = pattern.sub(spaced, text)
        text = f" {text} "
        for pattern, spaced in between_blanks:
            text = pattern.sub(spaced, text)
        return text.split()

    @CachedByWord
    def split_chunk(chunk: str) -> tuple[str, ...]:
        return (chunk,) if chunk.isalpha() and len(chunk) < 4 else tuple(apply(any_chunk, f" {chunk} "))

    @CachedByWord
    def split_last_chunk(chunk: str) -> tuple[str, ...]:
        return tuple(apply(last_chunk, f" {chunk}"))

    def split(sentence: str) -> list[str]:
        chunks = sentence.split()
        if not chunks:
            return []
        if _looks_beyond_chunks(sentence, chunks[-1]):
            return apply(last_chunk, sentence)
        last = split_last_chunk(f"{chunks[-1]} " if sentence[-1] == " " else chunks[-1])
        return [*chain.from_iterable(split_chunk.each(chunks[:-1])), *last]

    return split


split_sentence = _splitter(
    _OPENING_QUOTES + _OPENING_APOSTROPHE,
    _FINAL_STOP,
    _SIGNS + _DASHES,
    _FINAL_STOP_AGAIN,
    _CLOSING_QUOTES + _SPACES + _CLITICS,
)
"""Split one sentence: `word_tokenize(sentence, preserve_line=True)` of nltk 3.10.4."""

split_sentence_37 = _splitter(
    _OPENING_QUOTES + _OPENING_APOSTROPHE_37,
    _FINAL_STOP_37,
    _SIGNS,
    _FINAL_STOP_AGAIN_37,
    _CLOSING_QUOTES + _CLITICS,
)
"""Split one sentence: `word_tokenize(sentence, preserve_line=True)` of nltk 3.7, to which a dash is part of a word."""


TOKENIZERS: Registry[Tokenizer] = Registry(
    "tokenizer", {"words": words, "whitespace": whitespace, "13a": tokens_13a, "treebank": treebank}
)
"""The tokenizers that a metric's option can name."""
