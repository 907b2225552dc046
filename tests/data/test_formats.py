"""Rows become examples: the mini world's, the hub's and the original files' layouts."""

from hashlib import sha256
from typing import Any

import pytest

from grue.data.formats import FORMATS
from grue.data.sets.narrativeqa import repaired
from grue.errors import DataError, UnknownName
from grue.mini.assets import read_rows


def test_commongen_reads_mini_rows() -> None:
    row = {"concept_set_idx": 0, "concepts": ["run", "dog", "field"], "targets": ["A dog runs.", "Dogs ran."]}
    (example,) = FORMATS["commongen"]([row])
    assert example.prompt == "generate a sentence with: run dog field."
    assert example.references == ("A dog runs.", "Dogs ran.")
    assert example.meta == {"concepts": ["run", "dog", "field"]}
    assert example.id == "commongen-" + sha256(b"dog field run").hexdigest()[:16]


def test_commongen_groups_hub_rows_and_equal_sets() -> None:
    hub = [
        {"concept_set_idx": 0, "concepts": ["ski", "mountain"], "target": "One."},
        {"concept_set_idx": 1, "concepts": ["dance", "kid"], "target": "Two."},
        {"concept_set_idx": 0, "concepts": ["ski", "mountain"], "target": "Three."},
        {"concept_set_idx": 2, "concepts": ["mountain", "ski"], "target": "Four."},
        {"concept_set_idx": 3, "concepts": ["sea"], "target": ""},
    ]
    examples = list(FORMATS["commongen"](hub))
    assert [e.references for e in examples] == [("One.", "Three.", "Four."), ("Two.",), ()]
    assert examples[0].prompt == "generate a sentence with: ski mountain."


def test_commongen_reads_the_original_layout() -> None:
    row = {"concept_set": "field_N#look_V#stand_V", "scene": ["I stood and looked."], "reason": ["n/a"]}
    (example,) = FORMATS["commongen"]([row])
    assert example.prompt == "generate a sentence with: field look stand."
    assert example.references == ("I stood and looked.",)


def test_commongen_names_a_foreign_row() -> None:
    with pytest.raises(DataError) as caught:
        list(FORMATS["commongen"]([{"concepts": ["a"], "target": "b"}, {"text": "x", "label": 1}]))
    assert str(caught.value) == (
        "commongen, row 2: expected the columns concepts and target (or targets), or concept_set and scene; "
        "found text, label. Is this the right data set?"
    )


def test_imdb_halves_by_words() -> None:
    good = {"text": "one two three four five", "label": 1}
    bad = {"text": "one two three four", "label": 0}
    mini = {"text": "one two three four", "label": 0, "positive_continuation": "great end."}
    examples = list(FORMATS["imdb"]([good, bad, mini]))
    assert [e.prompt for e in examples] == ["one two", "one two", "one two"]
    assert [e.references for e in examples] == [("three four five",), (), ("great end.",)]
    assert [e.meta for e in examples] == [{"label": 1}, {"label": 0}, {"label": 0}]


def test_imdb_ids_count_repeated_texts() -> None:
    row = {"text": "a b c d", "label": 1}
    first, second = FORMATS["imdb"]([row, row])
    assert first.id == "imdb-" + sha256(b"a b c d").hexdigest()[:16]
    assert second.id == first.id + "-2"


def test_imdb_turns_line_breaks_into_one_space() -> None:
    row = {"text": "Fine.<br /><br />It is long. <br/>Very long.", "label": 1}
    (example,) = FORMATS["imdb"]([row])
    assert example.prompt == "Fine. It is"
    assert example.references == ("long. Very long.",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"text": "a b", "label": -1},
            "imdb, row 1: expected the columns text and label (0 or 1), found text, label, label -1.",
        ),
        ({"review": "a b"}, "imdb, row 1: expected the columns text and label (0 or 1), found review."),
        ({"text": "one", "label": 1}, "imdb, row 1: 'one' has fewer than two words and cannot be halved."),
    ],
)
def test_imdb_names_a_foreign_row(row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        list(FORMATS["imdb"]([row]))
    assert str(caught.value).startswith(message)


def test_unknown_format_is_named() -> None:
    with pytest.raises(UnknownName, match="There is no data format 'comongen'. Did you mean 'commongen'?"):
        FORMATS["comongen"]


@pytest.mark.parametrize(("task", "count"), [("commongen", 1000), ("imdb", 1000)])
def test_mini_rows_become_examples(task: str, count: int) -> None:
    examples = list(FORMATS[task](read_rows(task, "test", "2")))
    assert len(examples) == count == len({e.id for e in examples})
    assert all(e.references and e.prompt for e in examples)
    if task == "imdb":
        for example, row in zip(examples, read_rows(task, "test", "2"), strict=True):
            assert row["text"].startswith(example.prompt + " ")
            if row["label"] == 1:
                assert example.prompt + " " + example.references[0] == row["text"]


# --- CNN/DailyMail ---------------------------------------------------------------------------------------------------


def test_cnn_dailymail_keeps_the_lines_of_the_highlights() -> None:
    given_rows = [
        {"article": "A long story .", "highlights": "One .\nTwo .", "id": "00ff"},
        {"article": "B.", "highlights": " "},
    ]
    first, second = FORMATS["cnn_dailymail"](given_rows)
    assert (first.id, first.prompt) == ("cnn_dailymail-00ff", "Summarize: A long story .")
    assert first.references == ("One .\nTwo .",)
    assert first.meta == {"document": "A long story ."}
    assert (second.id, second.references) == ("cnn_dailymail-" + sha256(b"B.").hexdigest()[:16], ())


# --- ToTTo -----------------------------------------------------------------------------------------------------------


def cell(value: str, header: bool = False, columns: int = 1, rows: int = 1) -> dict[str, Any]:
    return {"value": value, "is_header": header, "column_span": columns, "row_span": rows}


# A census table: a title over both columns, and a last row that is shorter than the others.
CENSUS = [
    [cell("People", header=True, columns=2)],
    [cell("Year", header=True), cell("Count", header=True)],
    [cell("1990"), cell("52")],
    [cell("2000"), cell("47 | 48")],
    [cell("no census since")],
]
# A league table: a header over two columns beside one that reaches down, headers at the beginning of rows, one empty,
# and a row of headers that comes again.
LEAGUE = [
    [cell("Club", header=True, rows=2), cell("Goals", header=True, columns=2), cell("", header=True)],
    [cell("scored", header=True), cell("lost", header=True)],
    [cell("Harlow", header=True), cell("12"), cell("9"), cell("x")],
    [cell("Club", header=True), cell("Goals", header=True, columns=2), cell("", header=True)],
    [cell("Ashby", header=True), cell("Ashby", header=True), cell("7"), cell("3")],
]


def totto_row(table: Any, highlighted: Any, **changes: Any) -> dict[str, Any]:
    row = {
        "table": table,
        "table_page_title": "Harlow",
        "table_section_title": "Numbers",
        "table_section_text": "",
        "highlighted_cells": highlighted,
        "example_id": 7,
        "sentence_annotations": [{"final_sentence": "It had 47 people."}, {"final_sentence": ""}],
        "overlap_subset": True,
    }
    return {**row, **changes}


def test_totto_says_the_highlighted_cells_once_with_the_headers_that_cover_them() -> None:
    (example,) = FORMATS["totto"]([totto_row(CENSUS, [[3, 0], [3, 1], [4, 0]])])
    assert example.prompt == (
        "[page_title] Harlow [/page_title] [section_title] Numbers [/section_title] [table] "
        "[cell] 2000 [col_header] People [/col_header] [col_header] Year [/col_header] [/cell] "
        "[cell] 47 | 48 [col_header] People [/col_header] [col_header] Count [/col_header] [/cell] "
        "[cell] no census since [col_header] People [/col_header] [col_header] Year [/col_header] [/cell] [/table]"
    )
    assert (example.id, example.references) == ("totto-7", ("It had 47 people.",))


def test_totto_reckons_with_spans_across_but_not_down_and_says_no_header_twice() -> None:
    # As in the official script, "scored" begins at the first column, since the cell reaching down to it is not seen.
    row = totto_row(LEAGUE, [[4, 2], [2, 1], [0, 1]], table_section_title="", table_page_title=" Lower \n League")
    (example,) = FORMATS["totto"]([row])
    assert example.prompt == (
        "[page_title] Lower League [/page_title] [table] "
        "[cell] 7 [col_header] Goals [/col_header] [row_header] Ashby [/row_header] [/cell] "
        "[cell] 12 [col_header] Goals [/col_header] [col_header] lost [/col_header] "
        "[row_header] Harlow [/row_header] [/cell] "
        "[cell] Goals [row_header] Club [/row_header] [/cell] [/table]"
    )


def test_totto_headers_may_be_numbers() -> None:
    """As in a file that went through a table of numbers: 1 and 0."""
    numbers = [[{**each, "is_header": int(each["is_header"])} for each in line] for line in CENSUS]
    assert list(FORMATS["totto"]([totto_row(numbers, [[3, 1]])])) == list(
        FORMATS["totto"]([totto_row(CENSUS, [[3, 1]])])
    )


def test_totto_meta_is_what_parent_reads() -> None:
    row = totto_row(CENSUS, [[3, 1]], table_section_text="As | counted ")
    (example,) = FORMATS["totto"]([row])
    assert example.meta == {
        "table": [
            *"People Year Count 1990 52 2000".split(),
            "47 - 48",
            "no census since",
            "Harlow",
            "Numbers",
            "As - counted",
        ],
        "highlighted": ["47 - 48", "Harlow", "Numbers"],
        "overlap": True,
    }


def test_totto_reads_the_hub_and_the_official_files_alike() -> None:
    annotations = [
        {"final_sentence": "One.", "original_sentence": "o"},
        {"final_sentence": "Two.", "original_sentence": "p"},
    ]
    listed = {"final_sentence": ["One.", "Two."], "original_sentence": ["o", "p"]}
    official = totto_row(CENSUS, [[2, 0]], sentence_annotations=annotations, overlap_subset=False, example_id=-9)
    hub = totto_row(CENSUS, [[2, 0]], sentence_annotations=listed, overlap_subset="False", example_id="-9")
    (one,), (other,) = FORMATS["totto"]([official]), FORMATS["totto"]([hub])
    assert one == other
    assert (one.id, one.references, one.meta["overlap"]) == ("totto--9", ("One.", "Two."), False)


@pytest.mark.parametrize("annotations", [None, [], {"final_sentence": ["none"]}, [{"final_sentence": ""}]])
def test_totto_has_no_references_where_they_are_withheld(annotations: Any) -> None:
    (example,) = FORMATS["totto"]([totto_row(CENSUS, [], sentence_annotations=annotations, overlap_subset="none")])
    assert example.references == ()
    assert "overlap" not in example.meta
    assert example.prompt.endswith("[/section_title] [table] [/table]")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"highlighted_cells": [[4, 1]]}, "the table has no cell at [4, 1], which highlighted_cells names."),
        ({"highlighted_cells": [[-1, 0]]}, "the table has no cell at [-1, 0], which highlighted_cells names."),
        ({"highlighted_cells": 3}, "highlighted_cells should be a list of [row, column]."),
        ({"table": [["x"]]}, "table[0][0]: expected value, is_header and column_span, found 'x'."),
        ({"table": "x"}, "table[0][0]: expected value, is_header and column_span, found 'x'."),
        ({"table": [[{**cell("x"), "is_header": 2}]]}, "table[0][0]: is_header should be true or false, column_span a"),
        ({"table": [[cell("x", columns=-1)]]}, "table[0][0]: is_header should be true or false, column_span a number"),
        ({"overlap_subset": "maybe"}, "overlap_subset should be true or false, found 'maybe'."),
        ({"example_id": None}, "example_id should be a string, found None."),
    ],
)
def test_totto_names_what_is_wrong(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        list(FORMATS["totto"]([totto_row(CENSUS, []), {**totto_row(CENSUS, []), **changes}]))
    assert str(caught.value).startswith(f"totto, row 2: {message}")


# --- WMT16 -----------------------------------------------------------------------------------------------------------


def test_wmt16_numbers_pairs_that_come_again_and_reads_entities() -> None:
    pair = {"translation": {"en": "Salt & &quot;pepper&quot; &amp;lt;", "de": " Salz "}}
    plain = {"translation": {"en": 'Salt & "pepper" &lt;', "de": "Salz"}}
    first, second, third = FORMATS["wmt16"]([pair, pair, plain])
    assert first.prompt == 'translate English to German: Salt & "pepper" &lt;'
    assert first.references == ("Salz",)
    assert first.id == "wmt16-" + sha256(b'Salt & "pepper" &lt;\tSalz').hexdigest()[:16]
    assert second.id == first.id + "-2"
    # Entities are read once: what is "&lt;" after it is "<" only when read again.
    assert third.prompt == 'translate English to German: Salt & "pepper" <'


# --- NarrativeQA -----------------------------------------------------------------------------------------------------


def nested(question: str, summary: str, *answers: str) -> dict[str, Any]:
    return {
        "document": {"id": "d1", "summary": {"text": summary}},
        "question": {"text": question},
        "answers": [{"text": answer} for answer in answers],
    }


def test_narrativeqa_puts_the_question_first_in_lower_case() -> None:
    (example,) = FORMATS["narrativeqa"](
        [nested("WHO IS  Ann?", " Ann is\na cook.\n", "A cook", "a  COOK ", "Bob's wife")]
    )
    assert example.prompt == "who is ann? \\n ann is a cook."
    assert "\n" not in example.prompt
    assert example.references == ("a cook", "bob's wife")
    assert example.id == "narrativeqa-d1-" + sha256(b"whoisann").hexdigest()[:16]


def test_narrativeqa_reads_three_layouts_with_equal_ids() -> None:
    flat = {
        "document_id": "d1",
        "question": "Who's Ann?",
        "summary": "Ann cooks.",
        "answer1": "Bob's wife",
        "answer2": "",
    }
    tokens = {
        "_id": "d1",
        "question.tokens": "Who s Ann ?",
        "context.tokens": "Ann cooks .",
        "ground_truths": ["Bob's wife", "Bob's wife"],
    }
    hub = nested("Who's Ann?", "Ann cooks.", "Bob's wife", "Bob's wife")
    lists = {**hub, "answers": {"text": ["Bob's wife", "Bob's wife"]}}
    examples = [next(FORMATS["narrativeqa"]([row])) for row in (hub, lists, flat, tokens)]
    assert len({example.id for example in examples}) == 1
    assert {example.references for example in examples} == {("bob's wife",)}
    assert examples[0] == examples[1] == examples[2]
    again = list(FORMATS["narrativeqa"]([hub, flat]))
    assert again[1].id == again[0].id + "-2"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("pipe \u00e2\u0080\u0094 dream", "pipe — dream"),
        ("\u0102\u0089dgar Ram\u0102\u00adrez", "Édgar Ramírez"),
        ("\u00c2\u0141744", "£744"),
        ("caf\u00c3\u00a9 caf\u00e9", "café café"),
        ("\u00celes du ch\u00e2teau, na\u00efve \u00e9\u00e8", "Îles du château, naïve éè"),
        ("ὀμφαλός 端午 \u0102", "ὀμφαλός 端午 \u0102"),
        ("G\u0102\u0160rard, Conqu\u0102\u015ete", "Gérard, Conquête"),
        ("\u0139\u008csaka", "Ōsaka"),
        ("“\u00c3\u00a9t\u00c3\u00a9” CAF\u00c3\u0089", "“été” CAFÉ"),
        ("\u00e6\u0097\u00a5\u00e6\u009c\u00ac", "日本"),
        *(
            (text, text)
            for text in ("»ein Spaß«", "MANHÃ»", "på Å»", "»Ã«", "É\u00a0!", "Ăştia CĂŞTI", "café»\u00a0non")
        ),
    ],
)
def test_letters_read_in_a_wrong_character_set_are_mended_where_that_is_certain(wrong: str, right: str) -> None:
    assert repaired(wrong) == right


# --- DailyDialog -----------------------------------------------------------------------------------------------------


def dialogue(*utterances: str) -> dict[str, Any]:
    count = len(utterances)
    return {
        "dialog": list(utterances),
        "act": [i % 4 + 1 for i in range(count)],
        "emotion": [i % 7 for i in range(count)],
    }


def test_dailydialog_asks_for_each_utterance_with_five_before_it() -> None:
    said = [dialogue("a ", " b", "c", "d", "e", " f . ", "g"), dialogue("a", "b", "c", "d", "e")]
    first, second = FORMATS["dailydialog"](said)
    assert first.prompt == "a <EOU> b <EOU> c <EOU> d <EOU> e <EOU>"
    assert (first.references, first.meta) == (("f .",), {"intent": 1, "last_utterance": "e", "emotion": 5})
    assert second.prompt == "b <EOU> c <EOU> d <EOU> e <EOU> f . <EOU>"
    assert (second.references, second.meta) == (("g",), {"intent": 2, "last_utterance": "f .", "emotion": 6})


def test_dailydialog_gives_equal_examples_equal_ids_wherever_the_dialogue_began() -> None:
    (short,) = FORMATS["dailydialog"]([dialogue("b", "c", "d", "e", "f", "g")])
    first, second = FORMATS["dailydialog"]([dialogue("a", "b", "c", "d", "e", "f", "g")])
    assert second.id == short.id == "dailydialog-" + sha256(b"b\nc\nd\ne\nf\ng").hexdigest()[:16] != first.id
    again = list(FORMATS["dailydialog"]([dialogue("b", "c", "d", "e", "f", "g")] * 2))
    assert [example.id for example in again] == [short.id, f"{short.id}-2"]


# --- what is wrong with a row, whatever the data set -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        (
            "cnn_dailymail",
            {"text": "a"},
            "expected the columns article, highlights; found text. Is this the right data set?",
        ),
        ("cnn_dailymail", {"article": " ", "highlights": "a"}, "the article is empty."),
        ("cnn_dailymail", {"article": None, "highlights": "a"}, "article should be a string, found None."),
        ("wmt16", {"translation": {"en": "a"}}, "translation.de should be a string, found None."),
        ("wmt16", {"translation": {"en": "a", "de": " "}}, "translation.de is empty."),
        (
            "wmt16",
            {"translation": {"en": "a\ud800", "de": "b"}},
            "translation.en has half of a surrogate pair at character 1.",
        ),
        ("narrativeqa", nested("", "a"), "the question is empty."),
        ("narrativeqa", nested("a?", " "), "the summary is empty."),
        (
            "narrativeqa",
            {"article": "a"},
            "expected the columns document, question and answers, or document_id, question, ",
        ),
        (
            "narrativeqa",
            {**nested("a?", "b"), "answers": None},
            "answers.text should be a list of strings, found None.",
        ),
        ("dailydialog", {**dialogue("a"), "act": [0]}, "act should be numbers from 1 to 4, found [0]."),
        ("dailydialog", {**dialogue("a"), "emotion": [7]}, "emotion should be numbers from 0 to 6, found [7]."),
        (
            "dailydialog",
            {**dialogue("a"), "act": [1, 2]},
            "1 utterances, but 2 under act; the numbers should be equal.",
        ),
        ("dailydialog", {**dialogue("a"), "dialog": "a"}, "dialog should be a list of strings, found 'a'."),
        ("commongen", {"concepts": "abc", "target": "b"}, "concepts should be a list of strings, found 'abc'."),
        ("imdb", {"text": 3, "label": 1}, "text should be a string, found 3."),
    ],
)
def test_a_foreign_row_is_named(name: str, row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        list(FORMATS[name]([row]))
    assert str(caught.value).startswith(f"{name}, row 1: {message}")
