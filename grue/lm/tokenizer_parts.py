"""What the parts of a tokenizer may do to a text: one small file could make a character of it fill the memory.

A fast tokenizer is a chain of steps, and each may make a text longer; regular expressions are run by Oniguruma, which
backtracks.
"""

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from grue.errors import DataError, escaped
from grue.files import read_text

LONGEST = 10_000  # times its length that normalising, splitting or decoding may make a text
MOST_PIECES = 1_000  # of the template that a text is put into, special tokens included
MOST_LETTERS = 1_000  # of a word that is looked up piece by piece, which takes the square of them
MOST_KEYS = 100  # of an object that is no vocabulary
INNER = ("normalizers", "pretokenizers", "processors", "decoders")
OPENING = re.compile(r"(\?(<\w+>|[\w-]*:|<?[=!]|>))?")
QUANTIFIER = re.compile(r"(?:(?P<unbounded>[*+]|\{\d+,\})|\?|\{\d*,?\d*\})[?+]?")
PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")


def check_tokenizer_file(path: Path) -> None:
    """Refuse a `tokenizer.json` before it is loaded: its normaliser is run on the added tokens even then.

    Raises:
        DataError: Its parts are refused (`check_parts`), or a key of them is repeated.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs) <= MOST_KEYS:
            raise DataError(f"{escaped(path)}: a key is repeated in an object, so that it says two things.")
        return found

    try:
        found = json.loads(read_text(path), object_pairs_hook=once)
    except (ValueError, RecursionError):
        return  # whoever loads it says so
    if isinstance(found, dict):
        check_parts(str(path), found)


def check_loaded(name: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a loaded tokenizer, whatever files it was made of.

    Raises:
        DataError: Its parts are refused (`check_parts`).
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    found = {part: getattr(backend, part, None) for part in PARTS}
    parts = {part: json.loads(one.__getstate__()) for part, one in found.items() if one is not None}
    letters = getattr(getattr(backend, "model", None), "max_input_chars_per_word", 0)
    check_parts(name, {**parts, "model": {"max_input_chars_per_word": letters}})


def check_parts(where: str, parts: Mapping[str, Any]) -> None:
    """Refuse parts that make a text far longer, or whose regular expressions may run for ever.

    Args:
        where: The file or the model's name, for messages.
        parts: By name, in the form of `tokenizer.json`.

    Raises:
        DataError: One does.
    """
    chains = {part: list(_steps(parts.get(part))) for part in PARTS}
    for named in (("normalizer", "pre_tokenizer"), ("decoder",)):
        if math.prod(_growth(step) for part in named for step in chains[part]) > LONGEST:
            raise DataError(
                f"{escaped(where)}: refused: the tokenizer's {' and '.join(named)} may make a text more than "
                f"{LONGEST:,} times as long."
            )
    if math.prod(map(_pieces, chains["post_processor"])) > MOST_PIECES:
        raise DataError(
            f"{escaped(where)}: refused: the tokenizer's post_processor puts a text into a template of more than "
            f"{MOST_PIECES:,} pieces."
        )
    for step in (step for chain in chains.values() for step in chain):
        pattern = step.get("pattern")
        expression = pattern.get("Regex") if isinstance(pattern, Mapping) else None
        if isinstance(expression, str) and backtracks(expression):
            raise DataError(
                f"{escaped(where)}: refused: the tokenizer's regular expression {escaped(expression, 80)!r} repeats "
                "what repeats, and may run for ever."
            )
    model = parts.get("model")
    letters = model.get("max_input_chars_per_word") if isinstance(model, Mapping) else 0
    if isinstance(letters, int) and letters > MOST_LETTERS:
        raise DataError(
            f"{escaped(where)}: refused: the tokenizer's max_input_chars_per_word is {letters:,}; at most "
            f"{MOST_LETTERS:,} are read."
        )


def _steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a part, those within sequences too."""
    pending = [part]
    while pending:
        step = pending.pop()
        if isinstance(step, Mapping):
            inner = [one for key in INNER if isinstance(step.get(key), list) for one in step[key]]
            pending += inner
            if not inner:
                yield step


def _growth(step: Mapping[str, Any]) -> int:
    """Return how many times longer than a text a step may make it."""
    content, pattern = step.get("content"), step.get("pattern")
    if step.get("type") == "ByteLevel":
        return 4  # bytes of a character, each of which becomes one
    if "prepend" in step:
        return 1 + len(str(step["prepend"]))
    if "precompiled_charsmap" in step:
        return _longest_text(str(step["precompiled_charsmap"]))
    if isinstance(content, str) and isinstance(pattern, Mapping):
        replaced = pattern.get("String")
        if isinstance(replaced, str) and replaced:
            return max(1, math.ceil(len(content) / len(replaced)))
        return 1 + len(content)
    return 1


def _longest_text(charsmap: str) -> int:
    """Return the bytes of the longest text in SentencePiece's table of normal forms: a trie, and texts up to zeros."""
    try:
        table = base64.b64decode(charsmap)
    except ValueError:
        return 1  # the tokenizer cannot be loaded
    return max(map(len, table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")), default=0) or 1


def _pieces(step: Mapping[str, Any]) -> int:
    """Return how many pieces a text and its special tokens become in a template."""
    if "single" not in step:
        return 1
    special = step.get("special_tokens")
    tokens: Iterable[Any] = special.values() if isinstance(special, Mapping) else ()
    ids = [token.get("ids") for token in tokens if isinstance(token, Mapping)]
    lists: list[Any] = [step["single"], step.get("pair"), *ids]
    return sum(len(part) for part in lists if isinstance(part, list))


def backtracks(expression: str) -> bool:
    """Whether a regular expression repeats, without bound, a group of which one choice only repeats: (a+)+, (a*b*|c)*.

    Others may backtrack as well, such as (a|a)*; Oniguruma gives up after ten million steps.
    """
    groups = [_Group()]
    i, classes = 0, 0
    while i < len(expression):
        sign, closed = expression[i], None
        i += 2 if sign == "\\" else 1
        classes += (sign == "[") - (sign == "]" and classes > 0)
        if classes or sign in "^$":
            continue
        if sign == "(":
            groups.append(_Group())
            i = OPENING.match(expression, i).end()  # type: ignore[union-attr]  # it matches nothing, too
        elif sign == "|":
            groups[-1].end_choice()
        else:
            if sign == ")" and len(groups) > 1:
                closed = groups.pop()
                closed.end_choice()
            quantifier = QUANTIFIER.match(expression, i)
            repeats = quantifier is not None and quantifier["unbounded"] is not None
            if repeats and closed is not None and closed.only_repeats:
                return True
            groups[-1].add(repeats or (closed is not None and closed.only_repeats))
            i = quantifier.end() if quantifier is not None else i
    return False


@dataclass(slots=True)
class _Group:
    """An open group of a regular expression: whether the parts of a choice, and of one before, do nothing but repeat.

    An empty choice is none.
    """

    only_repeats: bool = False
    choice: set[bool] = field(default_factory=set)

    def add(self, repeats: bool) -> None:
        self.choice.add(repeats)

    def end_choice(self) -> None:
        self.only_repeats |= self.choice == {True}
        self.choice = set()
