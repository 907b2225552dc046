"""Checks of a submission's texts: no deceptive characters, no empty fields, no excessive length."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from grue.files import plain
from grue.records import BASELINES, UNSEEN, Result
from grue.submissions.checks.sketch import bare
from grue.submissions.folder import Submission
from grue.submissions.problems import Problem, error

LONGEST_NAME = 60
LONGEST_TEXT = 1_000
MOST_AUTHORS = 100
REQUIRED = ("authors", "licence", "algorithm", "backbone", "training_data", "budget")

_INVISIBLE = (*UNSEEN, "Cn")  # unassigned characters, too
_EAST_ASIAN = ("HIRAGANA", "KATAKANA", "CJK", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC")  # mixed within one word
_OF_ANY_SCRIPT = ("FEMININE", "MASCULINE", "MICRO", "MODIFIER")
_HOST = re.compile(
    r"(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]"
)  # no bare number, no local name
_WORD = re.compile(r"[^\W\d_]+")
_ALIKE = (("rn", "m"), ("vv", "w"), ("0", "o"), ("1", "l"), ("i", "l"))
_NO_WORDING = ("scores", "errors")  # scores are rescored; errors are long messages that grue writes


def check_wording(submission: Submission, path: Path) -> Iterator[Problem]:
    """Yield what is wrong with the texts of a `submission.toml`."""
    said = plain(submission)
    yield from _deceiving(said, path)
    yield from _too_long(said, path)
    if len(submission.name) > LONGEST_NAME:
        yield error(26, path, f"name: has {len(submission.name)} characters, more than {LONGEST_NAME}.")
    if len(submission.authors) > MOST_AUTHORS:
        yield error(26, path, f"authors: lists {len(submission.authors)}, more than {MOST_AUTHORS}; name the group.")
    for key in REQUIRED:
        values = [said[key]] if isinstance(said[key], str) else said[key]
        if not values or not all(bare(value) for value in values):
            yield error(25, path, f"{key}: has no letter or digit.")
    if submission.link and not is_web_address(submission.link):
        yield error(24, path, f"link: {submission.link!r} is not a plain address that begins with https:// or http://.")


def check_result_wording(result: Result, path: Path) -> Iterator[Problem]:
    """Yield what is wrong with the texts of a result, which the board may show."""
    said = {key: value for key, value in plain(result).items() if key not in _NO_WORDING}
    yield from _deceiving(said, path)
    yield from _too_long(said, path)


def check_name(system: Path, others: Mapping[str, Path], is_reference: bool) -> Iterator[Problem]:
    """Yield the systems whose names look like this one's; a competing system has no name of a reference either."""
    for name in sorted(others):
        if name != system.name and skeleton(name) == skeleton(system.name):
            yield error(23, system, f"looks like {name!r}, which is another system.")
    if not is_reference and skeleton(system.name) in map(skeleton, BASELINES):
        yield error(23, system, "is the name of a reference.")


def skeleton(name: str) -> str:
    """Return a name with letters that look alike merged, and without its signs: "NLPO-1" and "nlpo_l" give the same."""
    merged = re.sub(r"[-_.+]+", "", unicodedata.normalize("NFKC", name).casefold())
    for one, other in _ALIKE:
        merged = merged.replace(one, other)
    return merged


def is_web_address(link: str) -> bool:
    """Whether a text is an address of a public server of the web, without a password or a port of its own."""
    try:
        parts = urlsplit(link)
        port = parts.port
    except ValueError:  # an invalid host or port
        return False
    host = parts.hostname or ""
    names_a_server = bool(_HOST.fullmatch(host)) and port in (None, 80, 443)
    plain_text = link.isascii() and link.isprintable() and not re.search(r"[\s<>\"\\^`{|}]", link)
    return parts.scheme in ("https", "http") and "@" not in parts.netloc and names_a_server and plain_text


def _deceiving(said: Any, path: Path) -> Iterator[Problem]:
    for where, text in _texts(said):
        hidden = sorted({character for character in text if unicodedata.category(character) in _INVISIBLE})
        if hidden:
            yield error(22, path, f"{where}: has {', '.join(f'U+{ord(sign):04X}' for sign in hidden[:5])}.")
        mixed = [word for word in _WORD.findall(text) if len(_scripts(word)) > 1]
        if mixed:
            yield error(22, path, f"{where}: {mixed[0]!r} mixes {' and '.join(sorted(_scripts(mixed[0])))} letters.")


def _too_long(said: Any, path: Path) -> Iterator[Problem]:
    for where, text in _texts(said):
        if len(text) > LONGEST_TEXT:
            yield error(26, path, f"{where}: has {len(text):,} characters, more than {LONGEST_TEXT:,}.")


def _scripts(word: str) -> set[str]:
    """Return the scripts of a word's letters, by the first word of their Unicode names."""
    names = [re.split("[ -]", unicodedata.name(letter, "UNKNOWN"))[0] for letter in unicodedata.normalize("NFC", word)]
    return {"East Asian" if name in _EAST_ASIAN else name.title() for name in names if name not in _OF_ANY_SCRIPT}


def _texts(said: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text in tables and lists, keys included, with the keys that lead there."""
    if isinstance(said, str):
        yield where, said
    elif isinstance(said, Mapping):
        for key, value in said.items():
            yield f"{where or 'the file'}: a key", key
            yield from _texts(value, f"{where}.{key}" if where else key)
    elif isinstance(said, list | tuple):
        for index, value in enumerate(said):
            yield from _texts(value, f"{where}[{index}]")
