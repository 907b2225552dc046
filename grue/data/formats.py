"""How the rows of a data set become examples: one registered function per data set.

A format sees all rows of a split at once, since some data sets spread one example over several rows. It reads the
hub's columns and those of the original files alike, and gives equal texts equal ids wherever they come from. All but
CommonGen's take the rows one by one, so that millions of them need no memory.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from grue.data.archives import parsed
from grue.data.linearise import linearise, read_places, read_table
from grue.data.rows import Row, numbered, short_hash, text_of, texts_of, with_columns, within
from grue.errors import DataError, did_you_mean
from grue.files import canonical_json
from grue.records import Example
from grue.registry import Registry

Format = Callable[[Iterable[Row]], Iterator[Example]]

FORMATS: Registry[Format] = Registry("data format", entry_points="grue.data.formats")

MOST_UTTERANCES = 5  # that a model sees of a dialogue; an utterance with fewer before it is no example
END_OF_UTTERANCE = "<EOU>"


# --- examples of one's own -------------------------------------------------------------------------------------------


@FORMATS.register("examples")
def examples(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per row: {"prompt": …, "references": […], "id": …, "meta": {…}}.

    All but the prompt may lack or be empty. A single reference can stand in a column `reference`, as a csv file needs
    it; `meta` can be JSON, as in an exported parquet file. Without an id it is the hash of the row, numbered if it
    comes again.

    Raises:
        DataError: A row has another column, a value of another type, or an id that came before; names the row.
    """
    times: dict[int, int] = {}
    for number, row in enumerate(rows, start=1):
        where = f"row {number}"
        for column in row:
            if column not in COLUMNS:
                known = ", ".join(COLUMNS)
                raise DataError(
                    f"{where}: unknown column {column!r}.{did_you_mean(str(column), COLUMNS)} Known: {known}."
                )
        if "prompt" not in row:
            raise DataError(f"{where}: the column 'prompt' is missing; found {', '.join(row) or 'nothing'}.")
        prompt = text_of(row["prompt"], "prompt", where)
        references, meta = _references_of(row, where), _meta_of(row, where)
        if row.get("id"):
            identity = text_of(row["id"], "id", where)
            if numbered(identity, times) != identity:
                raise DataError(f"{where}: the id {identity!r} came before; every example needs an id of its own.")
        else:
            identity = numbered(f"example-{short_hash(canonical_json([prompt, references, meta]))}", times)
        yield Example(identity, prompt, references, meta)


COLUMNS = ("prompt", "references", "reference", "id", "meta")


def _references_of(row: Row, where: str) -> tuple[str, ...]:
    one, several = row.get("reference"), row.get("references")
    if one and several:
        raise DataError(f"{where}: has both a reference and references; keep one.")
    return (text_of(one, "reference", where),) if one else texts_of(several or (), "references", where)


def _meta_of(row: Row, where: str) -> dict[str, Any]:
    meta = row.get("meta") or {}
    if isinstance(meta, str):
        meta = parsed(meta, f"{where}: meta")
    if not isinstance(meta, Mapping):
        raise DataError(f"{where}: meta should be an object, found {meta!r:.80}.")
    try:
        canonical_json(meta).encode("utf-8")
    except (ValueError, TypeError) as error:  # a date, a number that is none, half of a surrogate pair
        raise DataError(f"{where}: meta cannot be written as JSON: {error}.") from error
    return dict(meta)


# --- CommonGen -------------------------------------------------------------------------------------------------------


@FORMATS.register("commongen")
def commongen(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per concept set, with all its references.

    Three layouts are read: the mini world's (`concepts`, `targets`), the hub's (one row per reference: `concepts`,
    `target`) and the original files' (`concept_set` "field_N#look_V#stand_V", `scene`). Rows with the same concepts in
    whatever order are one example, because a system could not tell them apart; their references are joined, in the
    order of the rows, and its prompt takes the concepts in the order of its first row.

    Source: Lin et al. 2020, "CommonGen: A Constrained Text Generation Challenge for Generative Commonsense Reasoning".

    Raises:
        DataError: A row in none of the three layouts; names the row.
    """
    prompts: dict[tuple[str, ...], tuple[str, ...]] = {}
    references: dict[tuple[str, ...], list[str]] = {}
    for number, row in enumerate(rows, start=1):
        concepts, targets = _concepts_and_targets(row, f"commongen, row {number}")
        key = tuple(sorted(" ".join(concepts).split()))
        if not key:
            raise DataError(f"commongen, row {number}: there are no concepts.")
        prompts.setdefault(key, concepts)
        references.setdefault(key, []).extend(target for target in targets if target)
    for key, concepts in prompts.items():
        yield Example(
            id=f"commongen-{short_hash(' '.join(key))}",
            prompt=f"generate a sentence with: {' '.join(concepts)}.",
            references=tuple(references[key]),
            meta={"concepts": list(concepts)},
        )


def _concepts_and_targets(row: Row, where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if "concept_set" in row:
        marked = text_of(row["concept_set"], "concept_set", where).split("#")
        return tuple(re.sub("_[NV]$", "", concept) for concept in marked), texts_of(
            row.get("scene", ()), "scene", where
        )
    if "concepts" in row and ("targets" in row or "target" in row):
        targets = row["targets"] if "targets" in row else (row["target"],)
        return texts_of(row["concepts"], "concepts", where), texts_of(targets, "targets", where)
    raise DataError(
        f"{where}: expected the columns concepts and target (or targets), or concept_set and scene; "
        f"found {', '.join(row)}. Is this the right data set?"
    )


# --- IMDB ------------------------------------------------------------------------------------------------------------


@FORMATS.register("imdb")
def imdb(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per review: its first half is the prompt, a positive second half the reference.

    The HTML line breaks of the original files (`<br />`, mostly in pairs) become one space, and the text is split at
    its spaces; the prompt is the first half of these words, rounded down. The reference is the row's
    `positive_continuation` where there is one, else the second half of a positive review; a negative review has none.
    An id is the hash of the row's text; a text that comes again gets a number.

    Source: Maas et al. 2011, "Learning Word Vectors for Sentiment Analysis"; as a task, Ramamurthy et al. 2023.

    Raises:
        DataError: A row without text and label, or a text of fewer than two words; names the row.
    """
    times: dict[int, int] = {}
    for number, row in enumerate(rows, start=1):
        if "text" not in row or row.get("label") not in (0, 1):
            label = f", label {row['label']!r}" if "label" in row else ""
            raise DataError(
                f"imdb, row {number}: expected the columns text and label (0 or 1), found {', '.join(row)}{label}. "
                "Is this a labelled split of the right data set?"
            )
        text = text_of(row["text"], "text", f"imdb, row {number}")
        first, second = split_review(text)
        if not first:
            raise DataError(f"imdb, row {number}: {text!r} has fewer than two words and cannot be halved.")
        given = text_of(row.get("positive_continuation") or "", "positive_continuation", f"imdb, row {number}")
        yield Example(
            id=numbered(f"imdb-{short_hash(text)}", times),
            prompt=first,
            references=(given,) if given else (second,) if row["label"] == 1 else (),
            meta={"label": int(row["label"])},
        )


def split_review(text: str) -> tuple[str, str]:
    """Return the first and the second half of a review, by words; the second has the odd one."""
    words = re.sub(r"(?:\s*<br\s*/?>\s*)+", " ", text).strip(" ").split(" ")
    words = [word for word in words if word]
    half = len(words) // 2
    return " ".join(words[:half]), " ".join(words[half:])


# --- CNN/DailyMail ---------------------------------------------------------------------------------------------------


@FORMATS.register("cnn_dailymail")
def cnn_dailymail(rows: Iterable[Row]) -> Iterator[Example]:
    r"""Yield one example per article: "Summarize: " and the article is the prompt, its highlights the reference.

    Highlights stay on a line each, since ROUGE-Lsum compares lines. An id is the row's own, or where a table has none
    the hash of the article.

    Source: Hermann et al. 2015, "Teaching Machines to Read and Comprehend"; See et al. 2017, "Get To The Point".

    Raises:
        DataError: A row without article and highlights, or with an empty article; names the row.
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
            meta={"document": article},
        )


# --- ToTTo -----------------------------------------------------------------------------------------------------------

TOTTO = ("table", "highlighted_cells", "table_page_title", "table_section_title", "table_section_text", "example_id")


@FORMATS.register("totto")
def totto(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per table: the highlighted cells with headers and titles, and up to three references.

    The prompt is what `linearise` makes, once; `meta` is what PARENT reads: under "table" all values with titles and
    text of the section, under "highlighted" the highlighted values with the titles, and under "overlap" whether
    training had the table's headers, which training rows do not say. The withheld references of the test split are ""
    or, on the hub, "none".

    Source: Parikh et al. 2020, "ToTTo: A Controlled Table-To-Text Generation Dataset".

    Raises:
        DataError: A row that lacks a column, is no table, or highlights a cell that is not there; names the row.
    """
    times: dict[int, int] = {}
    for where, row in with_columns(rows, "totto", *TOTTO):
        table = read_table(row["table"], where)
        places = read_places(row["highlighted_cells"], table, where)
        texts = (text_of(row[column] or "", column, where) for column in TOTTO[2:5])
        page, section, around = (" ".join(text.split()) for text in texts)
        values = [cell.text for cells in table for cell in cells]
        highlighted = [table[line][column].text for line, column in places]
        yield Example(
            id=numbered(f"totto-{_example_id(row['example_id'], where)}", times),
            prompt=linearise(table, places, page, section),
            references=_sentences(row.get("sentence_annotations"), where),
            meta={
                "table": _values(*values, page, section, around),
                "highlighted": _values(*highlighted, page, section),
                **_overlap(row.get("overlap_subset"), where),
            },
        )


def _example_id(value: Any, where: str) -> str:
    # A number in the official files, its digits on the hub.
    return str(value) if type(value) is int else text_of(value, "example_id", where)


def _sentences(annotations: Any, where: str) -> tuple[str, ...]:
    # A list of annotations in the official files, one annotation of lists on the hub.
    sentences = within(annotations, "final_sentence") or ()
    return tuple(each for each in texts_of(sentences, "final_sentence", where) if each not in ("", "none"))


def _values(*texts: str) -> list[str]:
    """Return what PARENT compares: the texts that are not empty, without the "|" that its official files split at."""
    return [text.replace("|", "-") for text in texts if text]


def _overlap(subset: Any, where: str) -> dict[str, bool]:
    known = {"True": {"overlap": True}, "False": {"overlap": False}, "None": {}, "none": {}}
    if str(subset) not in known:
        raise DataError(f"{where}: overlap_subset should be true or false, found {subset!r:.80}.")
    return known[str(subset)]


# --- WMT16 -----------------------------------------------------------------------------------------------------------

ENTITIES = {"&quot;": '"', "&apos;": "'", "&lt;": "<", "&gt;": ">", "&amp;": "&"}  # the last may hide another


@FORMATS.register("wmt16")
def wmt16(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per pair: "translate English to German: " and the English sentence, and the German one.

    The five entities of XML that the hub's rows keep from the original sgm files become the characters they stand for.
    An id is the hash of both sentences; a pair that comes again gets a number.

    Source: Bojar et al. 2016, "Findings of the 2016 Conference on Machine Translation"; the prompt is T5's.

    Raises:
        DataError: A row without a sentence in both languages; names the row.
    """
    times: dict[int, int] = {}
    for where, row in with_columns(rows, "wmt16", "translation"):
        english, german = (
            _sentence(within(row["translation"], language), language, where) for language in ("en", "de")
        )
        pair = short_hash("\t".join((english, german)))
        yield Example(
            id=numbered(f"wmt16-{pair}", times),
            prompt=f"translate English to German: {english}",
            references=(german,),
        )


def _sentence(value: Any, language: str, where: str) -> str:
    sentence = text_of(value, f"translation.{language}", where)
    if "&" in sentence:
        for entity, character in ENTITIES.items():
            sentence = sentence.replace(entity, character)
    if not sentence.strip():
        raise DataError(f"{where}: translation.{language} is empty.")
    return sentence.strip()


# --- NarrativeQA -----------------------------------------------------------------------------------------------------


@FORMATS.register("narrativeqa")
def narrativeqa(rows: Iterable[Row]) -> Iterator[Example]:
    r"""Yield one example per question: the question, "\n" and the summary is the prompt; the answers are references.

    The form is UnifiedQA's, whose checkpoint the paper starts from: all in lower case, answers too, and a backslash
    with an n between the two, not a line end. The question stands first, so that a cut on the right never cuts it.
    White space is made single spaces, and letters that were read in a wrong character set are mended. Of two answers
    that are equal then, one is kept.

    Rows are the hub's nested ones, those of the original csv files joined (`document_id`, `question`, `summary`,
    `answer1`, `answer2`), or tokenised ones (`_id`, `question.tokens`, `context.tokens`, `ground_truths`). An id holds
    the document's and the hash of the question's letters a to z and digits, which neither tokenising nor a wrong
    character set touches.

    Source: Kočiský et al. 2018, "The NarrativeQA Reading Comprehension Challenge"; Khashabi et al. 2020, "UnifiedQA".

    Raises:
        DataError: A row in none of the three layouts, or without question or summary; names the row.
    """
    times: dict[int, int] = {}
    for number, row in enumerate(rows, start=1):
        where = f"narrativeqa, row {number}"
        document, question, summary, answers = _asked(row, where)
        question, summary = _plain(question, "question", where), _plain(summary, "summary", where)
        if not question or not summary:
            raise DataError(f"{where}: the {'summary' if question else 'question'} is empty.")
        letters = re.sub("[^a-z0-9]+", "", question)
        references = dict.fromkeys(_plain(answer, "answers", where) for answer in answers)
        yield Example(
            id=numbered(f"narrativeqa-{text_of(document, 'document id', where)}-{short_hash(letters)}", times),
            prompt=rf"{question} \n {summary}",
            references=tuple(filter(None, references)),
        )


def _asked(row: Row, where: str) -> tuple[Any, Any, Any, Sequence[Any]]:
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


def _plain(value: Any, what: str, where: str) -> str:
    return " ".join(mended(text_of(value, what, where)).lower().split())


def mended(text: str) -> str:
    """Return a text with letters mended that were UTF-8 but read as Latin-1 or Latin-2, where that is certain.

    It is where a run of characters beyond ASCII, written in that character set, is UTF-8 again: "â", U+0080 and U+0094
    become a dash, "Ă¨" becomes "è".
    """
    return re.sub(r"[^\x00-\x7f]{2,}", lambda run: _read_again(run[0]), text)


def _read_again(run: str) -> str:
    for charset in ("latin-1", "iso8859-2"):
        with suppress(UnicodeError):
            return run.encode(charset).decode("utf-8")
    return run


# --- DailyDialog -----------------------------------------------------------------------------------------------------


@FORMATS.register("dailydialog")
def dailydialog(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per utterance with at least five before it: those five are the prompt, it is the reference.

    " <EOU>" stands after each of the five, as in RL4LMs, whose utterances have spaces around them; the reference ends
    where the utterance does.
    `meta` has what the intent metric reads: "intent", 0–3 for inform, question, directive and commissive, of the
    reference, and "last_utterance"; and the "emotion" of the reference, 0–6. An id is the hash of the five and the
    reference, so that an example that is in two splits has one id, even if the dialogues begin otherwise.

    Source: Li et al. 2017, "DailyDialog: A Manually Labelled Multi-turn Dialogue Dataset".

    Raises:
        DataError: A row without dialog, act and emotion, or with not as many of each; names the row.
    """
    times: dict[int, int] = {}
    for where, row in with_columns(rows, "dailydialog", "dialog", "act", "emotion"):
        utterances = [utterance.strip() for utterance in texts_of(row["dialog"], "dialog", where)]
        acts = _labels(row["act"], "act", range(1, 5), len(utterances), where)
        emotions = _labels(row["emotion"], "emotion", range(7), len(utterances), where)
        for position in range(MOST_UTTERANCES, len(utterances)):
            *said, answer = utterances[position - MOST_UTTERANCES : position + 1]
            whole = short_hash("\n".join((*said, answer)))
            yield Example(
                id=numbered(f"dailydialog-{whole}", times),
                prompt="".join(f"{utterance} {END_OF_UTTERANCE} " for utterance in said).rstrip(),
                references=(answer,) if answer else (),
                meta={"intent": acts[position] - 1, "last_utterance": said[-1], "emotion": emotions[position]},
            )


def _labels(values: Any, what: str, known: range, count: int, where: str) -> list[int]:
    if not isinstance(values, Sequence) or not all(type(value) is int and value in known for value in values):
        raise DataError(f"{where}: {what} should be numbers from {known[0]} to {known[-1]}, found {values!r:.80}.")
    if len(values) != count:
        raise DataError(f"{where}: {count} utterances, but {len(values)} under {what}; they should be as many.")
    return list(values)
