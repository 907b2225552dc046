"""CNN/DailyMail: summaries of news articles.

Source: Hermann et al. 2015, "Teaching Machines to Read and Comprehend"; See et al. 2017, "Get To The Point:
Summarization with Pointer-Generator Networks".
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import sha1
from pathlib import Path

from grue.data.archives import File, FolderRows, csv_rows, everywhere, lines, nearest_one, split_names, text
from grue.data.rows import Row, facts_of, numbered, short_hash, text_of, with_columns
from grue.errors import DataError
from grue.records import Example

SENTENCE_ENDS = tuple(".!?'`\")’”")


def examples(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per article: "Summarize: " and the article is the prompt, its highlights are the reference.

    Each highlight keeps its own line, since ROUGE-Lsum compares lines. An id is the row's own or, in a table without
    ids, the hash of the article.
    """
    times: dict[int, int] = {}
    for where, row in with_columns(rows, "cnn_dailymail", "article", "highlights"):
        article, highlights = (text_of(row[column], column, where) for column in ("article", "highlights"))
        if not article.strip():
            raise DataError(f"{where}: the article is empty.")
        identifier = text_of(row["id"], "id", where) if row.get("id") else short_hash(article)
        yield Example(
            id=numbered(f"cnn_dailymail-{identifier}", times),
            prompt=f"Summarize: {article}",
            references=(highlights,) if highlights.strip() else (),
            meta={"document": article, **facts_of(row, where)},
        )


def read_folder(folder: Path, split: str) -> FolderRows:
    """Return the rows of the `.story` files that the list of addresses `all_<split>.txt` names, or of a csv table.

    A story's file name is the sha1 of its address. Listed stories that the folder lacks are skipped, since a folder
    may hold a part of the data; if none exists, it is an error. A csv file is `<split>.csv` with the columns article,
    highlights and optionally id, or text and y.
    """
    names = split_names(split)
    tables = [pattern for name in names for pattern in (f"{name}.csv", f"*_{name}.csv", f"*_{name}_*.csv")]
    source = nearest_one(folder, *(f"all_{name}.txt" for name in names), *tables)
    if source.name.endswith(".csv"):
        named = {"text": "article", "y": "highlights"}
        return FolderRows(
            (source,), lambda: ({named.get(key, key): row[key] for key in row} for row in csv_rows(source))
        )
    hashes = {sha1(address.strip().encode("utf-8")).hexdigest() for address in lines(source) if address.strip()}
    stories = [file for file in everywhere(folder, "*.story") if file.name.removesuffix(".story") in hashes]
    if not stories:
        listed = f"none of the {len(hashes)} stories that {source} lists"
        raise DataError(f"{folder}: {listed} (<sha1 of the address>.story).")
    return FolderRows(tuple(stories), lambda: (row for story in stories if (row := read_story(story))))


def read_story(file: File) -> Row | None:
    """Return a `.story` file's article, highlights and id as the hub's version 3.0.0 has them.

    A line without final punctuation gets " .", because a caption would otherwise run into the next sentence; paragraphs
    are joined by spaces, highlights by line ends. None for a story without article or highlights, which the hub
    leaves out.

    Source: See et al. 2017, the preparation of the data.
    """
    paragraphs: list[str] = []
    highlights: list[str] = []
    into = paragraphs
    for line in re.split("\r\n|\r|\n", text(file)):
        line = line.strip()
        if line.startswith("@highlight"):
            into = highlights
        elif line:
            ended = "@highlight" in line or line.endswith(SENTENCE_ENDS)
            into.append(line if ended else f"{line} .")
    if not paragraphs or not highlights:
        return None
    identifier = file.name.removesuffix(".story")
    return {"article": " ".join(paragraphs), "highlights": "\n".join(highlights), "id": identifier}
