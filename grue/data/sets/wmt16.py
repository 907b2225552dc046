"""WMT16: news translation from English to German.

Source: Bojar et al. 2016, "Findings of the 2016 Conference on Machine Translation"; the prompt is T5's.
"""

import html
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from grue.data.archives import File, FolderRows, everywhere, lines, nearest_one, split_names, text
from grue.data.rows import Row, numbered, short_hash, text_of, with_columns, within
from grue.errors import DataError
from grue.records import Example

ENTITIES = {"&quot;": '"', "&apos;": "'", "&lt;": "<", "&gt;": ">", "&amp;": "&"}
"""In this order, since decoding "&amp;" may create another."""
NEWS = {"validation": "newstest2015", "test": "newstest2016"}


def examples(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per pair: "translate English to German: " and the English sentence, and the German one.

    The five XML entities that the hub's rows keep from the original sgm files are decoded. An id is the hash of both
    sentences, numbered if the pair is repeated.
    """
    times: dict[int, int] = {}
    for where, row in with_columns(rows, "wmt16", "translation"):
        english, german = (_sentence(row["translation"], language, where) for language in ("en", "de"))
        pair = short_hash(f"{english}\t{german}")
        yield Example(numbered(f"wmt16-{pair}", times), f"translate English to German: {english}", (german,))


def _sentence(translation: Any, language: str, where: str) -> str:
    sentence = text_of(within(translation, language), f"translation.{language}", where)
    for entity, character in ENTITIES.items():
        sentence = sentence.replace(entity, character)
    if not sentence.strip():
        raise DataError(f"{where}: translation.{language} is empty.")
    return sentence.strip()


def read_folder(folder: Path, split: str) -> FolderRows:
    """Return pairs of sentences, English and German.

    Validation is newstest2015 and test newstest2016, as text (`newstest2016.en`, `.de`) or in the original sgm
    (`newstest2016-ende-src.en.sgm`, `-ref.de.sgm`, or the same of `deen`), or `<split>.en` and `.de`. Training takes
    all other texts `X.en` with an `X.de`. Pairs with an empty side are skipped, as on the hub.
    """
    if news := NEWS.get(split):
        names = [f"{name}.en" for name in (news, *split_names(split))]
        english = [nearest_one(folder, *names, f"{news}-ende-src.en.sgm", f"{news}-deen-ref.en.sgm")]
    else:
        held_out = [f"{name}.en" for split in NEWS for name in split_names(split)]
        texts = [file for file in everywhere(folder, "*.en") if file.name not in held_out]
        english = [file for file in texts if not file.name.startswith(("newstest", "newsdev", "newssyscomb"))]
    german = set(everywhere(folder, "*.de", "*.de.sgm"))
    pairs = [(file, translation) for file in english if (translation := _translation(file)) in german]
    if not pairs:
        hint = f"; found {english[0]}, but no {_translation(english[0]).name}" if english else ""
        raise DataError(f"{folder}: no text of the split {split!r} in English and German, X.en and X.de{hint}.")
    files = tuple(file for pair in pairs for file in pair)
    return FolderRows(files, lambda: (row for pair in pairs for row in _translations(*pair)))


def _translation(english: File) -> File:
    sides = {"-src.en.sgm": "-ref.de.sgm", "-ref.en.sgm": "-src.de.sgm", ".en": ".de"}
    ending = next(ending for ending in sides if english.name.endswith(ending))
    return english.beside(english.name.removesuffix(ending) + sides[ending])


def _translations(english: File, german: File) -> Iterator[Row]:
    for number, (en, de) in enumerate(zip_longest(_sentences(english), _sentences(german)), start=1):
        if en is None or de is None:
            short, long = (english, german) if en is None else (german, english)
            raise DataError(f"{short}: {number - 1} sentences, but {long.name} has more.")
        if en.strip() and de.strip():
            yield {"translation": {"en": en, "de": de}}


def _sentences(file: File) -> Iterator[str]:
    if not file.name.endswith(".sgm"):
        yield from lines(file)
        return
    # A pattern, since some of these files are not valid XML.
    for segment in re.finditer("<seg[^>]*>(.*?)</seg>", text(file), re.DOTALL | re.IGNORECASE):
        yield html.unescape(segment[1]).replace("\n", " ").strip()
