"""NarrativeQA: questions about stories, answered from their summaries.

Source: Kočiský et al. 2018, "The NarrativeQA Reading Comprehension Challenge"; Khashabi et al. 2020, "UnifiedQA".
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from grue.data.archives import File, FolderRows, csv_rows, nearest_one, parsed, split_names, text
from grue.data.rows import Row, Rows, facts_of, numbered, short_hash, text_of, texts_of, within
from grue.errors import DataError
from grue.records import Example


def examples(rows: Iterable[Row]) -> Iterator[Example]:
    r"""Yield one example per question: the question, "\n" and the summary is the prompt; the answers are references.

    The form is UnifiedQA's, whose checkpoint the paper starts from: everything in lower case, answers too, and between
    question and summary a backslash and an n, not a line end. The question comes first, so that truncation on the right
    never removes it. White space becomes single spaces, and wrongly decoded letters are repaired (`repaired`). Answers
    that are then equal are kept once.

    Rows are the hub's nested ones, those of the original csv files joined (`document_id`, `question`, `summary`,
    `answer1`, `answer2`), or tokenised ones (`_id`, `question.tokens`, `context.tokens`, `ground_truths`). An id is the
    document's id and the hash of the question's letters a to z and digits, which neither tokenising nor wrong decoding
    changes.
    """
    times: dict[int, int] = {}
    for number, row in enumerate(rows, start=1):
        where = f"narrativeqa, row {number}"
        document, question, summary, answers = _fields(row, where)
        question, summary = _plain(question, "question", where), _plain(summary, "summary", where)
        if not question or not summary:
            raise DataError(f"{where}: the {'summary' if question else 'question'} is empty.")
        letters = re.sub("[^a-z0-9]+", "", question)
        references = dict.fromkeys(_plain(answer, "answers", where) for answer in answers)
        yield Example(
            id=numbered(f"narrativeqa-{text_of(document, 'document id', where)}-{short_hash(letters)}", times),
            prompt=rf"{question} \n {summary}",
            references=tuple(filter(None, references)),
            meta=facts_of(row, where),
        )


def _fields(row: Row, where: str) -> tuple[Any, Any, Any, Sequence[Any]]:
    """Return the document's id, the question, the summary and the answers of a row in any layout."""
    if "question.tokens" in row and "context.tokens" in row:
        answers: Sequence[Any] = texts_of(row.get("ground_truths"), "ground_truths", where)
        return row.get("_id"), row["question.tokens"], row["context.tokens"], answers
    if "document_id" in row and "summary" in row:
        answers = [row.get("answer1", ""), row.get("answer2", "")]
        return row["document_id"], row.get("question"), row["summary"], answers
    if "document" in row and "question" in row:
        document, answers = row["document"], texts_of(within(row.get("answers"), "text"), "answers.text", where)
        summary = within(within(document, "summary"), "text")
        return within(document, "id"), within(row["question"], "text"), summary, answers
    raise DataError(
        f"{where}: expected the columns document, question and answers, or document_id, question, summary, answer1 and "
        f"answer2; found {', '.join(map(str, row))}. Is this the right data set?"
    )


def _plain(value: Any, name: str, where: str) -> str:
    return " ".join(repaired(text_of(value, name, where)).lower().split())


def repaired(source: str) -> str:
    """Return a text with UTF-8 that was decoded as Latin-1 or Latin-2 repaired, if that is certain.

    "â", U+0080 and U+0094 become a dash, "crĂ¨me" becomes "crème"; "Spaß«" and the Romanian "Ăştia" stay.
    """
    for charset, sequence in SEQUENCES.items():
        source = sequence.sub(partial(_decoded_again, charset=charset), source)
    return source


def _decoded_again(match: re.Match[str], charset: str) -> str:
    """Return the sign that a sequence stands for if it cannot be intended, else the sequence."""
    wrong, text = match[0], match.string
    try:
        sign = wrong.encode(charset).decode("utf-8")
    except UnicodeError:  # such as an overlong form
        return wrong
    before, after = text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]
    control = any("\x80" <= character <= "\x9f" for character in wrong)
    if len(wrong) > 2:
        broken = control and (unicodedata.category(sign)[0] in "PSZ" or not before.isalpha())
    elif not "\xa0" <= sign <= "\u024f":  # not in Latin-1 Supplement or Latin Extended
        broken = False
    elif before.isalpha():
        broken = before.islower() or after.islower() or (control and wrong[0] in "ÂÃĂ")
    else:  # it may be a letter in quotation marks, or the beginning of a Romanian word
        broken = (wrong[0] in "ÂÃĂ" and wrong[1] not in "«»şŞ") or (control and after.isalpha())
    return sign if broken else wrong


def _sequences(charset: str) -> re.Pattern[str]:
    """Return a pattern of a character's UTF-8 bytes decoded by another charset."""
    two, three, four, more = (
        "".join(re.escape(bytes([byte]).decode(charset)) for byte in range(first, last))
        for first, last in ((0xC2, 0xE0), (0xE0, 0xF0), (0xF0, 0xF5), (0x80, 0xC0))
    )
    return re.compile(f"[{two}][{more}]|[{three}][{more}]{{2}}|[{four}][{more}]{{3}}")


SEQUENCES = {charset: _sequences(charset) for charset in ("latin-1", "iso8859-2")}


def read_folder(folder: Path, split: str) -> FolderRows:
    """Return the rows of `qaps.csv` with `summaries.csv`, or of `<split>.json`, a list of tokenised rows."""
    names = split_names(split)
    source = nearest_one(folder, "qaps.csv", *(f"{name}.json" for name in names))
    if source.name == "qaps.csv":
        summaries = nearest_one(folder, "summaries.csv")
        return FolderRows((source, summaries), lambda: _questions(source, summaries, names))
    return FolderRows((source,), lambda: _tokenised(source))


def _tokenised(source: File) -> Rows:
    rows: Any = parsed(text(source), str(source))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{source}: expected a list of objects, one per question.")
    return rows


def _questions(questions: File, summaries: File, sets: tuple[str, ...]) -> Iterator[Row]:
    rows = csv_rows(summaries, "document_id", "set", "summary")
    summary_of = {row["document_id"]: row["summary"] for row in rows if row["set"] in sets}
    for row in csv_rows(questions, "document_id", "set", "question", "answer1", "answer2"):
        if row["set"] in sets:
            if (name := row["document_id"]) not in summary_of:
                raise DataError(f"{summaries}: no summary of {name}, to which {questions} has a question.")
            yield {**row, "summary": summary_of[name]}
