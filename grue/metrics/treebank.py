"""nltk's word tokenizer (version 3.10.4), frozen: METEOR and the diversity set are defined on its words.

The rules, after Robert MacIntyre's for the Penn Treebank, rewrite a sentence so that white space separates its
words: do n't, dog 's, `` for an opening quotation mark.

The rules of nltk 3.7 are here too, for the numbers that RL4LMs published.
"""

import re
from typing import Literal

from grue.metrics.tokens import Tokenizer, sentences, tokens_13a, words


def _rules(*pairs: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), spaced) for pattern, spaced in pairs)


def treebank(text: str) -> list[str]:
    """Split text into words and signs as nltk 3.10.4 does, sentence by sentence.

    Sentences are split by `sentences`, where nltk uses a model that it would have to download.
    """
    return [token for sentence in sentences(text) for token in split_sentence(sentence)]


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
    in_sentence = (*opening, *final_stop, *signs, *final_stop_again, *more_signs)

    def split(sentence: str) -> list[str]:
        for pattern, spaced in in_sentence:
            sentence = pattern.sub(spaced, sentence)
        sentence = f" {sentence} "
        for pattern, spaced in between_blanks:
            sentence = pattern.sub(spaced, sentence)
        return sentence.split()

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
