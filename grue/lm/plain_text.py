"""Reading data as plain text: the name of a special token, such as "</s>", is read as characters, never as the token.

transformers' `split_special_tokens` does most of it. A tokenizer that has these names in its vocabulary (T5's) would
still find them, so texts are first split inside them. Added tokens that are not special stay whole.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, pre_tokenizers
from transformers import PreTrainedTokenizerBase

from grue.errors import DataError

BREAK = "\ufdd0"
"""Splits the names of special tokens in a conversation: a character that Unicode excludes from texts."""


def read_as_text(name: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Make a tokenizer read the names of its special tokens as text, unless called with `split_special_tokens=False`.

    All tokens that it names as special, such as its end token, become special, even in a saved copy. A slow tokenizer
    that cannot do so is refused with a DataError.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    tokenizer.own_reading = (tokenizer.split_special_tokens, None if backend is None else backend.pre_tokenizer)
    tokenizer.split_special_tokens = True
    if backend is None:
        own = tokenizer.added_tokens_encoder.keys() - set(special_names(tokenizer))
        if own:  # transformers would split these, too
            raise _unreadable(name, sorted(own))
    else:
        added = {token.content: token.special for token in tokenizer.added_tokens_decoder.values()}
        named = [token for token in tokenizer.all_special_tokens if not added.get(token, True)]
        backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in named])
    if backend is not None and _read_as_tokens(tokenizer):
        names = [token for token in special_names(tokenizer) if len(token) > 1]
        seams = "|".join(f"{re.escape(token[0])}(?={re.escape(token[1:])})" for token in names)
        split = pre_tokenizers.Split(Regex(seams), "isolated")
        before = backend.pre_tokenizer
        backend.pre_tokenizer = split if before is None else pre_tokenizers.Sequence([before, split])
    if unreadable := _read_as_tokens(tokenizer):
        raise _unreadable(name, unreadable)


def special_names(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Return the names of the special tokens, longest first."""
    added = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return sorted({*added, *map(str, tokenizer.all_special_tokens)}, key=lambda token: (-len(token), token))


def _read_as_tokens(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Return the special tokens as which their names are still read; the one for unknown text is excepted."""
    named = {tokenizer.eos_token, tokenizer.bos_token, tokenizer.pad_token}
    unknown = tokenizer.unk_token if tokenizer.unk_token not in named else None
    names = [token for token in special_names(tokenizer) if len(token) > 1 and token != unknown]
    rows = tokenizer(names, add_special_tokens=False, verbose=False)["input_ids"] if names else []
    ids = [tokenizer.convert_tokens_to_ids(name) for name in names]
    return [name for name, number, row in zip(names, ids, rows, strict=True) if number in row]


def _unreadable(name: str, tokens: Sequence[str]) -> DataError:
    shown = ", ".join(map(repr, tokens[:3]))
    return DataError(
        f"{name}: its tokenizer cannot read special tokens as text and keep its added tokens ({shown}) whole; "
        "give the model a fast tokenizer, with a tokenizer.json."
    )


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Save a tokenizer as it was loaded, without what its last batch and `read_as_text` set."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    reading = tokenizer.split_special_tokens, None if backend is None else backend.pre_tokenizer
    try:
        _set(tokenizer, getattr(tokenizer, "own_reading", reading))
        if backend is not None:
            backend.no_truncation()
            backend.no_padding()
        tokenizer.save_pretrained(folder)
    finally:
        _set(tokenizer, reading)


def _set(tokenizer: PreTrainedTokenizerBase, reading: tuple[bool, object]) -> None:
    tokenizer.split_special_tokens = reading[0]
    if (backend := getattr(tokenizer, "backend_tokenizer", None)) is not None:
        backend.pre_tokenizer = reading[1]


# --- conversations ---------------------------------------------------------------------------------------------------


def broken_up(text: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a message with a `BREAK` in the name of each special token and each added token of the template.

    `rendered_ids` then reads these as text, and those that the template writes as tokens.
    """
    template = str(tokenizer.chat_template)
    added = [token.content for token in tokenizer.added_tokens_decoder.values() if token.content in template]
    names = {*special_names(tokenizer), *(token for token in added if not token.isspace())}
    for token in sorted((name for name in names if len(name) > 1), key=len, reverse=True):
        text = text.replace(token, f"{token[0]}{BREAK}{token[1:]}")
    return text


def rendered_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return the ids of a conversation rendered by a chat template, whose special tokens are the only ones."""
    settings = {"add_special_tokens": False, "split_special_tokens": False, "verbose": False}
    first, *rest = text.split(BREAK)
    ids = list(tokenizer(first, **settings)["input_ids"])
    seam = list(tokenizer("\n", **settings)["input_ids"]) if rest else []
    for part in rest:  # after a line end, since some tokenizers put a space before every text
        ids += list(tokenizer(f"\n{part}", **settings)["input_ids"])[len(seam) :]
    return ids
