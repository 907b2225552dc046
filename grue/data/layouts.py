"""Data sets in the layouts in which they were first handed out: one reader each, for `--data-dir` and official files.

A reader finds its files in the folder, in folders of it and in zip archives there; where several levels hold the split,
the nearest counts. Rows are what the data set's format reads, in the columns of the hub or of the original files.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha1
from itertools import zip_longest
from pathlib import Path
from typing import Any

from grue import files
from grue.data.archives import File, csv_rows, everywhere, json_lines, lines, parsed, text, the_one
from grue.data.tables import TABLES, read_rows
from grue.errors import DataError
from grue.registry import Registry

Row = Mapping[str, Any]
Rows = Iterable[Row]

FOLDERS: Registry[Callable[[Path, str], Rows]] = Registry("data layout")

SPELLINGS = {"validation": ("validation", "valid", "val", "dev")}
SENTENCE_ENDS = tuple(".!?'`\")’”")


def read_folder(layout: str, folder: Path, split: str) -> Rows:
    """Yield the rows of a split from a folder in the layout in which a data set was first handed out.

    Raises:
        DataError: The folder is not there, has no such split, or holds files that are damaged.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder; --data-dir wants the folder of the original data.")
    return FOLDERS[layout](folder, split)


def spellings(split: str) -> tuple[str, ...]:
    """Return the names under which a split goes in file names."""
    return SPELLINGS.get(split, (split,))


# --- examples of one's own -------------------------------------------------------------------------------------------


@FOLDERS.register("examples")
def read_examples(folder: Path, split: str) -> Rows:
    """Yield the rows of `<split>.jsonl`, `.jsonl.gz`, `.csv` or `.parquet`."""
    there = [path for name in spellings(split) for ending in TABLES if (path := folder / f"{name}{ending}").is_file()]
    if not there:
        raise DataError(f"{folder}: no {split}{f', no {split}'.join(TABLES)} in it.")
    return read_rows(there[0])


# --- CommonGen and IMDB ----------------------------------------------------------------------------------------------


@FOLDERS.register("commongen")
def read_commongen(folder: Path, split: str) -> Rows:
    """Yield CommonGen's rows: `commongen.<split>.jsonl`, or its `src_alpha` and `tgt` texts, line by line."""
    short = {"validation": "dev"}.get(split, split)
    # The folder itself or one below it; where several files hold the split, the fullest.
    names = (f"commongen.{short}.jsonl", f"commongen.{short}*.src_alpha.txt")
    found = [path for name in names for pattern in (name, f"*/{name}") for path in folder.glob(pattern)]
    if not found:
        raise DataError(f"{folder}: no {names[0]} and no {names[1]} in it or in a folder of it.")
    best = max(sorted(found), key=lambda path: path.stat().st_size)
    if best.suffix == ".jsonl":
        return (row for _, row in files.read_jsonl(best))
    targets = Path(str(best).replace(".src_alpha.txt", ".tgt.txt"))
    concepts, sentences = list(lines(File(best))), list(lines(File(targets)))
    if len(concepts) != len(sentences):
        raise DataError(f"{targets}: {len(sentences)} lines, but {best.name} has {len(concepts)}.")
    pairs = zip(concepts, sentences, strict=True)
    return ({"concepts": words.split(), "target": sentence} for words, sentence in pairs)


@FOLDERS.register("imdb")
def read_imdb(folder: Path, split: str) -> Rows:
    """Yield IMDB's rows from `<split>/{neg,pos}/<id>_<rating>.txt`, as the aclImdb archive unpacks."""
    root = next((parent for parent in (folder, folder / "aclImdb") if (parent / split).is_dir()), None)
    if root is None:
        raise DataError(f"{folder}: no folder {split!r} with pos and neg in it, neither here nor under aclImdb.")
    rows = [
        {"text": text(File(path)), "label": label}
        for label, name in enumerate(("neg", "pos"))
        for path in sorted((root / split / name).glob("*.txt"), key=_number_of_review)
    ]
    if not rows:
        raise DataError(f"{root / split}: no reviews (*.txt) under pos and neg.")
    return rows


def _number_of_review(path: Path) -> tuple[int, str]:
    number = path.stem.split("_")[0]
    return len(number), number  # in the order of the numbers, whatever else a file may be called


# --- CNN/DailyMail ---------------------------------------------------------------------------------------------------


@FOLDERS.register("cnn_dailymail")
def read_cnn_dailymail(folder: Path, split: str) -> Rows:
    """Yield CNN/DailyMail's rows: `.story` files by the list of addresses `all_<split>.txt`, or a csv table.

    A story's file name is the sha1 of its address. Stories that the list names and the folder lacks are left out, since
    a folder may hold a part of the data; none at all is an error. A csv file is `<split>.csv` with the columns article,
    highlights and perhaps id, or text and y.
    """
    names = spellings(split)
    tables = [pattern for name in names for pattern in (f"{name}.csv", f"*_{name}.csv", f"*_{name}_*.csv")]
    source = the_one(folder, *(f"all_{name}.txt" for name in names), *tables)
    if source.name.endswith(".csv"):
        return _articles(source)
    wanted = {sha1(address.strip().encode("utf-8")).hexdigest() for address in lines(source) if address.strip()}
    stories = [file for file in everywhere(folder, "*.story") if file.name.removesuffix(".story") in wanted]
    if not stories:
        raise DataError(
            f"{folder}: none of the {len(wanted)} stories that {source} lists (<sha1 of the address>.story)."
        )
    return (row for story in stories if (row := read_story(story)))


def _articles(table: File) -> Iterator[Row]:
    columns = {"text": "article", "y": "highlights"}
    for row in csv_rows(table):
        yield {columns.get(name, name): value for name, value in row.items()}


def read_story(file: File) -> Row | None:
    """Return a `.story` file's article, highlights and id as the hub's version 3.0.0 has them.

    A line that no punctuation ends gets " .", because captions would run into the next sentence otherwise; paragraphs
    are joined by spaces, highlights by line ends. None for a story without article or without highlights, which the
    hub leaves out.

    Source: See et al. 2017, "Get To The Point: Summarization with Pointer-Generator Networks", the data's preparation.
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


# --- ToTTo -----------------------------------------------------------------------------------------------------------


@FOLDERS.register("totto")
def read_totto(folder: Path, split: str) -> Rows:
    """Yield ToTTo's rows from `totto_<split>_data.jsonl`; the test split is the unlabelled one."""
    names = spellings(split)
    patterns = [pattern for name in names for pattern in (f"*totto_*{name}_*.jsonl", f"{name}_sample.jsonl")]
    return json_lines(the_one(folder, *patterns))


# --- DailyDialog -----------------------------------------------------------------------------------------------------


@FOLDERS.register("dailydialog")
def read_dailydialog(folder: Path, split: str) -> Rows:
    """Yield DailyDialog's rows: `dialogues_<split>.txt`, or `dialogues.txt` in a folder of the split's name.

    The files of acts and emotions lie beside it: `dialogues_act…` and `dialogues_emotion…`.

    Raises:
        DataError: Files are missing, or utterances, acts and emotions are not as many; names the line.
    """
    names = spellings(split)
    patterns = [pattern for name in names for pattern in (f"dialogues_{name}.txt", f"{name}/dialogues.txt")]
    return _dialogues(the_one(folder, *patterns))


def _dialogues(dialogues: File) -> Iterator[Row]:
    ending = dialogues.name.removeprefix("dialogues")
    acts, emotions = (dialogues.beside(f"dialogues_{kind}{ending}") for kind in ("act", "emotion"))
    for number, row in enumerate(zip_longest(lines(dialogues), lines(acts), lines(emotions)), start=1):
        where = f"{dialogues}, line {number}"
        if None in row:
            raise DataError(f"{where}: {acts.name} or {emotions.name} has more or fewer lines.")
        said, *labels = row
        if not said.strip() and not "".join(labels).strip():
            continue
        utterances = [utterance.strip() for utterance in said.strip().removesuffix("__eou__").split("__eou__")]
        act, emotion = (_whole_numbers(label, where) for label in labels)
        if not len(utterances) == len(act) == len(emotion):
            counts = f"{len(utterances)} utterances, {len(act)} acts and {len(emotion)} emotions"
            raise DataError(f"{where}: {counts}; they should be as many.")
        yield {"dialog": utterances, "act": act, "emotion": emotion}


def _whole_numbers(line: str, where: str) -> list[int]:
    try:
        return [int(number) for number in line.split()]
    except ValueError as error:
        raise DataError(f"{where}: acts and emotions should be whole numbers, found {line!r}.") from error


# --- NarrativeQA -----------------------------------------------------------------------------------------------------


@FOLDERS.register("narrativeqa")
def read_narrativeqa(folder: Path, split: str) -> Rows:
    """Yield NarrativeQA's rows: `qaps.csv` with `summaries.csv`, or `<split>.json`, a list of tokenised rows."""
    names = spellings(split)
    source = the_one(folder, "qaps.csv", *(f"{name}.json" for name in names))
    if source.name == "qaps.csv":
        return _questions(source, the_one(folder, "summaries.csv"), names)
    rows = parsed(text(source), str(source))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{source}: expected a list of objects, one a question.")
    return rows


def _questions(questions: File, summaries: File, sets: tuple[str, ...]) -> Iterator[Row]:
    told = {
        row["document_id"]: row["summary"]
        for row in csv_rows(summaries, "document_id", "set", "summary")
        if row["set"] in sets
    }
    for row in csv_rows(questions, "document_id", "set", "question", "answer1", "answer2"):
        if row["set"] in sets:
            if row["document_id"] not in told:
                raise DataError(f"{summaries}: no summary of {row['document_id']}, which {questions} asks about.")
            yield {**row, "summary": told[row["document_id"]]}


# --- WMT16 -----------------------------------------------------------------------------------------------------------

NEWS = {"validation": "newstest2015", "test": "newstest2016"}


@FOLDERS.register("wmt16")
def read_wmt16(folder: Path, split: str) -> Rows:
    """Yield WMT16's pairs of sentences, English and German.

    Validation is newstest2015 and test newstest2016, as texts (`newstest2016.en`, `.de`) or in the original sgm
    (`newstest2016-ende-src.en.sgm`, `-ref.de.sgm`, or the same of `deen`), or `<split>.en` and `.de`. Training takes
    every other text `X.en` that has its `X.de`. Pairs with an empty side are left out, as the hub does.

    Raises:
        DataError: There is no pair of files, or two files of a pair have not as many sentences.
    """
    if split in NEWS:
        english = [the_one(folder, *_news_names(split))]
    else:
        english = [file for file in everywhere(folder, "*.en") if not _is_news(file)]
    german = set(everywhere(folder, "*.de", "*.de.sgm"))
    pairs = [(file, other) for file in english if (other := _translation(file)) in german]
    if not pairs:
        found = f"; found {english[0]}, but no {_translation(english[0]).name}" if english else ""
        raise DataError(f"{folder}: no text of the split {split!r} in English and German, X.en and X.de{found}.")
    return (row for pair in pairs for row in _translations(*pair))


def _news_names(split: str) -> list[str]:
    news = NEWS[split]
    return [*(f"{name}.en" for name in (news, *spellings(split))), f"{news}-ende-src.en.sgm", f"{news}-deen-ref.en.sgm"]


def _is_news(file: File) -> bool:
    held_out = [name for split in NEWS for name in spellings(split)]
    return file.name.removesuffix(".en") in held_out or file.name.startswith(("newstest", "newsdev", "newssyscomb"))


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
    # Not parsed as XML, which some of these files are not.
    for segment in re.finditer("<seg[^>]*>(.*?)</seg>", text(file), re.DOTALL | re.IGNORECASE):
        yield html.unescape(segment[1]).replace("\n", " ").strip()
