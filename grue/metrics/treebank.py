"""nltk's word tokenizer (version 3.10.4), frozen: METEOR and the diversity set are defined on its words.

The rules, after Robert MacIntyre's for the Penn Treebank, rewrite a sentence so that white space separates its
words: do n't, dog 's, `` for an opening quotation mark. They are slow because each reads the whole sentence. But nearly
all of them look only at one blank-separated chunk and the blanks around it; only a final full stop is told from an
abbreviation's by its position. So each chunk is split once and cached, and a sentence is looked up chunk by chunk.

The rules of nltk 3.7 are here too, for the numbers that RL4LMs published.
"""

import re
from itertools import chain
from typing import Literal

from grue.metrics.tokens import CachedByWord, Tokenizer, sentences, tokens_13a, words


def _rules(*pairs: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), spaced) for pattern, spaced in pairs)


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
    apostrophe: tuple[str, str],
    blanks: str,
    dashes: tuple[str, str] | None = None,
    spaces: tuple[str, str] | None = None,
) -> Tokenizer:
    """Return a splitter of single sentences by nltk's rules, in their order; what its versions do not share is passed.

    Args:
        apostrophe: The rule of opening apostrophes.
        blanks: The white space that may end a sentence.
        dashes, spaces: Rules that only some versions have.
    """
    opening = _rules(
        ("([«“‘„]|`+)", r" \1 "),
        ('^"', "``"),
        ("(``)", r" \1 "),
        (r"""([ (\[{<])("|'{2})""", r"\1 `` "),
        apostrophe,
    )
    final_stop = _rules((rf"""([^.])(\.)([\])}}>"' »”’]*+){blanks}$""", r"\1 \2 \3 "))
    signs = _rules(
        (r"([:,])([^\d])", r" \1 \2"),
        ("([:,])$", r" \1 "),
        (r"(\.{2,})", r" \1 "),
        ("([;@#$%&])", r" \1 "),
        *filter(None, [dashes]),
    )
    final_stop_again = _rules((rf"""([^.])(\.)([\])}}>"']*){blanks}$""", r"\1 \2\3 "))
    more_signs = _rules(
        ("([?!])", r" \1 "),
        ("([^'])' ", r"\1 ' "),
        (r"(\*)", r" \1 "),
        (r"([\][(){}<>])", r" \1 "),
        ("(--)", r" \1 "),
    )
    contracted = "can not", "d 'ye", "gim me", "gon na", "got ta", "lem me", "more 'n"
    between_blanks = _rules(
        ("([»”’])", r" \1 "),
        ("''", " '' "),
        ('"', " '' "),
        *filter(None, [spaces]),
        ("([^' ])('[sS]|'[mM]|'[dD]|') ", r"\1 \2 "),
        ("([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
        *((rf"(?i)\b({words.replace(' ', ')(')})\b", r" \1 \2 ") for words in contracted),
        (r"(?i)\b(wan)(na)(?=\s)", r" \1 \2 "),
        (r"(?i) ('t)(is)\b", r" \1 \2 "),
        (r"(?i) ('t)(was)\b", r" \1 \2 "),
    )
    any_chunk = (*opening, *signs, *more_signs)
    last_chunk = (*opening, *final_stop, *signs, *final_stop_again, *more_signs)

    def apply(rules: tuple[tuple[re.Pattern[str], str], ...], text: str) -> list[str]:
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
    apostrophe=(r"(?i)(?<!\w)(')(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", r"\1 "),
    blanks=r"[^\S\x1c-\x1f]*",
    dashes=("([\u2012-\u2015])", r" \1 "),
    spaces=(r"[^\S\x1c-\x1f]+", " "),
)
"""Split one sentence: `word_tokenize(sentence, preserve_line=True)` of nltk 3.10.4."""

split_sentence_37 = _splitter(apostrophe=(r"(?i)(')(?!re|ve|ll|m|t|s|d|n)(\w)\b", r"\1 \2"), blanks=r"\s*")
"""Split one sentence: `word_tokenize(sentence, preserve_line=True)` of nltk 3.7, to which a dash is part of a word."""


TokenizerName = Literal["words", "whitespace", "13a", "treebank"]
TOKENIZERS: dict[TokenizerName, Tokenizer] = {
    "words": words,
    "whitespace": str.split,
    "13a": tokens_13a,
    "treebank": treebank,
}
"""The tokenizers that a metric's option can name."""
