"""Rows become examples: the mini world's, the hub's and the original files' layouts, and rows of anything."""

import json
import random
from hashlib import sha256

import pytest

from grue.data.formats import FORMATS
from grue.data.sets.narrativeqa import repaired
from grue.errors import DataError, UnknownName
from grue.mini.assets import read_rows


def made(name, *rows):
    return list(FORMATS[name](rows))


def identity(name, text):
    return f"{name}-{sha256(text.encode()).hexdigest()[:16]}"


def test_commongen_reads_three_layouts_and_groups_equal_sets():
    mini = {"concept_set_idx": 0, "concepts": ["run", "dog", "field"], "targets": ["A dog runs.", "Dogs ran."]}
    (example,) = made("commongen", mini)
    assert example.prompt == "generate a sentence with: run dog field."
    assert example.references == ("A dog runs.", "Dogs ran.")
    assert example.meta == {"concepts": ["run", "dog", "field"]}
    assert example.id == identity("commongen", "dog field run")
    sets = (["ski", "mountain"], ["dance", "kid"], ["ski", "mountain"], ["mountain", "ski"], ["sea"])
    targets = ("One.", "Two.", "Three.", "Four.", "")
    examples = made("commongen", *({"concepts": c, "target": t} for c, t in zip(sets, targets, strict=True)))
    assert [e.references for e in examples] == [("One.", "Three.", "Four."), ("Two.",), ()]
    assert examples[0].prompt == "generate a sentence with: ski mountain."
    original = {"concept_set": "field_N#look_V#stand_V", "scene": ["I stood and looked."], "reason": ["n/a"]}
    (example,) = made("commongen", original)
    assert example.prompt == "generate a sentence with: field look stand."
    assert example.references == ("I stood and looked.",)


def test_imdb_halves_by_words_and_numbers_repeated_texts():
    rows = [
        {"text": "one two three four five", "label": 1},
        {"text": "one two three four", "label": 0},
        {"text": "one two three four", "label": 0, "positive_continuation": "great end."},
    ]
    examples = made("imdb", *rows)
    assert [e.prompt for e in examples] == ["one two", "one two", "one two"]
    assert [e.references for e in examples] == [("three four five",), (), ("great end.",)]
    assert [e.meta for e in examples] == [{"label": 1}, {"label": 0}, {"label": 0}]
    assert examples[1].id == identity("imdb", "one two three four") and examples[2].id == f"{examples[1].id}-2"
    (example,) = made("imdb", {"text": "Fine.<br /><br />It is long. <br/>Very long.", "label": 1})
    assert (example.prompt, example.references) == ("Fine. It is", ("long. Very long.",))


def test_asked_imdb_asks_for_either_end_and_shows_it_as_the_reference():
    ends = {"positive_continuation": "It is good.", "negative_continuation": "It is bad."}
    examples = made("asked_imdb", *({"text": "The film is long", "asked": label, **ends} for label in (0, 1.0)))
    assert [e.prompt for e in examples] == ["Negative: The film", "Positive: The film"]
    assert [e.references for e in examples] == [("It is bad.",), ("It is good.",)]
    assert [e.meta for e in examples] == [{"asked": 0, "text": "The film"}, {"asked": 1, "text": "The film"}]


def test_the_worlds_rows_ask_for_either_end_of_either_review():
    rows = list(read_rows("imdb", "test", "2"))
    examples = made("asked_imdb", *rows)
    kinds = [(row["label"], row["asked"]) for row in rows]
    assert all(abs(kinds.count((label, asked)) - 250) < 25 for label in (0, 1) for asked in (0, 1))
    for example, row in zip(examples, rows, strict=True):
        whole = f"{example.meta['text']} {example.references[0]}"
        assert (whole == row["text"]) == (row["label"] == row["asked"])


def test_cnn_dailymail_keeps_the_lines_of_the_highlights():
    told = {"article": "A long story .", "highlights": "One .\nTwo .", "id": "00ff"}
    first, second = made("cnn_dailymail", told, {"article": "B.", "highlights": " "})
    assert (first.id, first.prompt) == ("cnn_dailymail-00ff", "Summarize: A long story .")
    assert (first.references, first.meta) == (("One .\nTwo .",), {"document": "A long story ."})
    assert (second.id, second.references) == (identity("cnn_dailymail", "B."), ())


# --- ToTTo -----------------------------------------------------------------------------------------------------------


def cells(*texts):
    """A row of a table, each cell by its text: "Year" is a header, "=52" is none, "Goals>2" spans two columns."""
    found = []
    for text in texts:
        value, _, columns = text.removeprefix("=").partition(">")
        span = {"column_span": int(columns or 1), "row_span": 1}
        found.append({"value": value, "is_header": not text.startswith("="), **span})
    return found


# A title over both columns, and a last row that is shorter than the others.
CENSUS = [cells("People>2"), cells("Year", "Count"), cells("=1990", "=52"), cells("=2000", "=47 | 48")]
CENSUS += [cells("=no census since")]
# A header over two columns beside one that reaches down, an empty one, headers at the beginning of rows, and a row of
# headers that comes again.
LEAGUE = [cells("Club", "Goals>2", ""), cells("scored", "lost"), cells("Harlow", "=12", "=9", "=x")]
LEAGUE += [cells("Club", "Goals>2", ""), cells("Ashby", "Ashby", "=7", "=3")]


def totto(table, highlighted, **changes):
    titles = {"table_page_title": "Harlow", "table_section_title": "Numbers", "table_section_text": ""}
    said = {"sentence_annotations": [{"final_sentence": "It had 47 people."}, {"final_sentence": ""}]}
    row = {"table": table, "highlighted_cells": highlighted, "example_id": 7, "overlap_subset": True}
    return {**row, **titles, **said, **changes}


def test_totto_says_the_highlighted_cells_once_with_the_headers_that_cover_them():
    (example,) = made("totto", totto(CENSUS, [[3, 0], [3, 1], [4, 0]], table_section_text="As | counted ", facts=True))
    assert example.prompt == (
        "[page_title] Harlow [/page_title] [section_title] Numbers [/section_title] [table] "
        "[cell] 2000 [col_header] People [/col_header] [col_header] Year [/col_header] [/cell] "
        "[cell] 47 | 48 [col_header] People [/col_header] [col_header] Count [/col_header] [/cell] "
        "[cell] no census since [col_header] People [/col_header] [col_header] Year [/col_header] [/cell] [/table]"
    )
    assert (example.id, example.references) == ("totto-7", ("It had 47 people.",))
    told = ["47 - 48", "no census since", "Harlow", "Numbers", "As - counted"]
    expected = [["2000"], ["47 | 48"], ["no census since"]]
    assert (
        example.meta
        == {
            "table": [*"People Year Count 1990 52 2000".split(), *told],  # what PARENT reads
            "highlighted": ["2000", *told[:4]],
            "overlap": True,
            "facts": {"expected": expected, "wrong": ["1990", "52"], "closed": True},
        }
    )


def test_totto_reckons_with_spans_across_but_not_down_and_says_no_header_twice():
    # As in the official script, "scored" begins at the first column, since the cell reaching down to it is not seen.
    row = totto(LEAGUE, [[4, 2], [2, 1], [0, 1]], table_section_title="", table_page_title=" Lower \n League")
    assert made("totto", row)[0].prompt == (
        "[page_title] Lower League [/page_title] [table] "
        "[cell] 7 [col_header] Goals [/col_header] [row_header] Ashby [/row_header] [/cell] "
        "[cell] 12 [col_header] Goals [/col_header] [col_header] lost [/col_header] "
        "[row_header] Harlow [/row_header] [/cell] "
        "[cell] Goals [row_header] Club [/row_header] [/cell] [/table]"
    )


def test_totto_reads_the_hub_and_the_official_files_alike():
    listed = {"final_sentence": ["One.", "Two."], "original_sentence": ["o", "p"]}
    apart = [dict(zip(listed, said, strict=True)) for said in zip(*listed.values(), strict=True)]
    numbers = [[{**each, "is_header": int(each["is_header"])} for each in line] for line in CENSUS]
    rows = [
        totto(CENSUS, [[2, 0]], sentence_annotations=apart, overlap_subset=False, example_id=-9),
        totto(CENSUS, [[2, 0]], sentence_annotations=listed, overlap_subset="False", example_id="-9"),
        totto(numbers, [[2, 0]], sentence_annotations=apart, overlap_subset=False, example_id=-9),
    ]
    (one,), *others = (made("totto", row) for row in rows)
    assert others == [[one], [one]]
    assert (one.id, one.references, one.meta["overlap"]) == ("totto--9", ("One.", "Two."), False)
    for said in (None, [], {"final_sentence": ["none"]}, [{"final_sentence": ""}]):  # withheld
        (example,) = made("totto", totto(CENSUS, [], sentence_annotations=said, overlap_subset="none"))
        assert example.references == () and "overlap" not in example.meta
        assert example.prompt.endswith("[/section_title] [table] [/table]")


def test_totto_names_what_is_wrong(refused):
    for changes in (
        *({"highlighted_cells": wrong} for wrong in ([[4, 1]], [[5, 0]], [[-1, 0]], 3)),
        *({"table": wrong} for wrong in ([["x"]], "x", [[{**cells("x")[0], "is_header": 2}]])),
        {"table": [[{**cells("x")[0], "column_span": -1}]]},
        {"overlap_subset": "maybe"},
        {"example_id": None},
    ):
        with refused(DataError):
            made("totto", totto(CENSUS, []), {**totto(CENSUS, []), **changes})


# --- WMT16, NarrativeQA and DailyDialog ------------------------------------------------------------------------------


def test_wmt16_numbers_pairs_that_come_again_and_reads_entities_once():
    pair = {"translation": {"en": "Salt & &quot;pepper&quot; &amp;lt;", "de": " Salz "}}
    plain = {"translation": {"en": 'Salt & "pepper" &lt;', "de": "Salz"}}
    first, second, third = made("wmt16", pair, pair, plain)
    assert first.prompt == 'translate English to German: Salt & "pepper" &lt;'
    assert first.references == ("Salz",)
    assert first.id == identity("wmt16", 'Salt & "pepper" &lt;\tSalz') and second.id == f"{first.id}-2"
    assert third.prompt == 'translate English to German: Salt & "pepper" <'


def nested(question, summary, *answers):
    document = {"id": "d1", "summary": {"text": summary}}
    return {"document": document, "question": {"text": question}, "answers": [{"text": answer} for answer in answers]}


def test_narrativeqa_reads_four_layouts_with_equal_ids_and_the_question_first_in_lower_case():
    (example,) = made("narrativeqa", nested("WHO IS  Ann?", " Ann is\na cook.\n", "A cook", "a  COOK ", "Bob's wife"))
    assert example.prompt == "who is ann? \\n ann is a cook."
    assert example.references == ("a cook", "bob's wife")
    assert example.id == "narrativeqa-d1-" + sha256(b"whoisann").hexdigest()[:16]
    hub = nested("Who's Ann?", "Ann cooks.", "Bob's wife", "Bob's wife")
    lists = {**hub, "answers": {"text": ["Bob's wife", "Bob's wife"]}}
    flat = {
        "document_id": "d1",
        "question": "Who's Ann?",
        "summary": "Ann cooks.",
        "answer1": "Bob's wife",
        "answer2": "",
    }
    tokens = {"_id": "d1", "question.tokens": "Who s Ann ?", "context.tokens": "Ann cooks ."}
    tokens |= {"ground_truths": ["Bob's wife"]}
    examples = [made("narrativeqa", row)[0] for row in (hub, lists, flat, tokens)]
    assert {(example.id, example.references) for example in examples} == {(examples[0].id, ("bob's wife",))}
    assert examples[0] == examples[1] == examples[2]
    assert made("narrativeqa", hub, flat)[1].id == f"{examples[0].id}-2"


MENDED = {
    "pipe \u00e2\u0080\u0094 dream": "pipe — dream",
    "\u0102\u0089dgar Ram\u0102\u00adrez": "Édgar Ramírez",
    "\u00c2\u0141744": "£744",
    "caf\u00c3\u00a9 caf\u00e9": "café café",
    "G\u0102\u0160rard, Conqu\u0102\u015ete": "Gérard, Conquête",
    "\u0139\u008csaka": "Ōsaka",
    "“\u00c3\u00a9t\u00c3\u00a9” CAF\u00c3\u0089": "“été” CAFÉ",
    "\u00e6\u0097\u00a5\u00e6\u009c\u00ac": "日本",
}
CERTAIN = ["\u00celes du ch\u00e2teau, na\u00efve \u00e9\u00e8", "ὀμφαλός 端午 \u0102", "»ein Spaß«", "MANHÃ»", "på Å»"]
CERTAIN += ["»Ã«", "É\u00a0!", "Ăştia CĂŞTI", "café»\u00a0non"]


def test_letters_read_in_a_wrong_character_set_are_mended_where_that_is_certain():
    for wrong, right in {**MENDED, **{text: text for text in CERTAIN}}.items():
        assert repaired(wrong) == right


def dialogue(utterances):
    size = range(len([*utterances]))
    return {"dialog": [*utterances], "act": [i % 4 + 1 for i in size], "emotion": [i % 7 for i in size]}


def test_dailydialog_asks_for_each_utterance_with_five_before_it():
    longer = ["a ", " b", "c", "d", "e", " f . ", "g"]
    first, second = made("dailydialog", dialogue(longer), dialogue("abcde"))
    assert first.prompt == "a <EOU> b <EOU> c <EOU> d <EOU> e <EOU>"
    assert (first.references, first.meta) == (("f .",), {"intent": 1, "last_utterance": "e", "emotion": 5})
    assert second.prompt == "b <EOU> c <EOU> d <EOU> e <EOU> f . <EOU>"
    assert (second.references, second.meta) == (("g",), {"intent": 2, "last_utterance": "f .", "emotion": 6})
    short, again = made("dailydialog", dialogue("bcdefg"), dialogue("bcdefg"))
    first, second = made("dailydialog", dialogue("abcdefg"))
    assert second.id == short.id == identity("dailydialog", "b\nc\nd\ne\nf\ng") != first.id
    assert again.id == f"{short.id}-2"


# --- what is wrong with a row, whatever the data set -----------------------------------------------------------------

FOREIGN = [
    ("commongen", {"text": "x", "label": 1}),
    ("commongen", {"concepts": "abc", "target": "b"}),
    ("imdb", {"text": "a b", "label": -1}),
    ("imdb", {"review": "a b"}),
    ("imdb", {"text": "one", "label": 1}),
    ("cnn_dailymail", {"text": "a"}),
    ("cnn_dailymail", {"article": " ", "highlights": "a"}),
    ("wmt16", {"translation": {"en": "a"}}),
    ("wmt16", {"translation": {"en": "a", "de": " "}}),
    ("wmt16", {"translation": {"en": "a\ud800", "de": "b"}}),
    ("narrativeqa", nested("", "a")),
    ("narrativeqa", nested("a?", " ")),
    ("narrativeqa", {"article": "a"}),
    ("narrativeqa", {**nested("a?", "b"), "answers": None}),
    ("dailydialog", {**dialogue("a"), "act": [0]}),
    ("dailydialog", {**dialogue("a"), "emotion": [7]}),
    ("dailydialog", {**dialogue("a"), "act": [1, 2]}),
    ("dailydialog", {**dialogue("a"), "dialog": "a"}),
    ("dailydialog", {**dialogue("abcdef"), "facts": [{}]}),
]


def test_a_foreign_row_and_a_foreign_format_are_named(refused):
    for name, row in FOREIGN:
        with refused(DataError):
            made(name, row)
    with refused(DataError):
        made("commongen", {"concepts": ["a"], "target": "b"}, {"text": "x", "label": 1})
    with refused(UnknownName):
        FORMATS["comongen"]


def test_several_references_may_be_json_text_as_a_csv_file_needs_it():
    (example,) = FORMATS["examples"]([{"prompt": "a", "references": '["b", "c, d"]', "meta": '{"n": 1}'}])
    assert (example.references, example.meta) == (("b", "c, d"), {"n": 1})
    for text in ("b", "[b", '{"b": 1}', "[1]"):
        with pytest.raises(DataError, match="row 1: references"):
            list(FORMATS["examples"]([{"prompt": "a", "references": text}]))


# --- rows of any content ---------------------------------------------------------------------------------------------

NUMBERS = (None, True, False, 0, 1, -1, 2**70, 0.5, float("nan"), float("-inf"))
WORDS = ("", " ", "1", "none", "True", '{"a": [1]}')
SIGNS = ("", " ", " ", "a", "Z", "é", "|", "\n", "\x00", "\x85", "\u200b", "\u00e2\u0080\u0094", "<br />", "&amp;")
OWN = [{"prompt": "a", "references": ["b", "c"], "id": None, "meta": {"a": "d"}}] * 2


def sound(name):
    """Rows of mini, without what only the mini world has."""
    rows = OWN if name == "examples" else read_rows(name.removeprefix("asked_"), "test", "2")[:200]
    return [{key: value for key, value in row.items() if key != "facts"} for row in rows]


class Draw(random.Random):
    def sign(self):
        kind = self.random()
        return self.choice(SIGNS) if kind > 0.1 else chr(self.randrange(0xD800 if kind > 0.02 else 0x110000))

    def text(self):
        return "".join(self.sign() for _ in range(self.randrange(8)))

    def anything(self, depth=2):
        if depth == 0 or self.random() < 0.5:
            return self.choice((self.choice(NUMBERS), self.choice(WORDS), self.text()))
        inner = [self.anything(depth - 1) for _ in range(self.randrange(4))]
        return self.choice((inner, {self.text(): one for one in inner}, tuple(inner)))

    def like(self, value):
        """The same with other texts in places."""
        if isinstance(value, dict):
            return {key: self.like(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.like(each) for each in value]
        return " ".join((self.text(), self.text())) if isinstance(value, str) and self.random() < 0.3 else value


def outcome(name, rows):
    """How many examples the rows became, each of which is sound; 0 if the format refuses the rows."""
    try:
        examples = list(FORMATS[name](rows))
    except DataError:
        return 0
    assert len({example.id for example in examples}) == len(examples)
    for example in examples:
        assert isinstance(example.prompt, str) and all(isinstance(text, str) for text in example.references)
        json.dumps([example.id, example.references, dict(example.meta)], ensure_ascii=False).encode()
    return len(examples)


@pytest.mark.parametrize("name", FORMATS.names())
def test_rows_of_any_text_and_rows_of_anything_become_examples_or_are_refused(name):
    draw, known = Draw(1), sound(name)
    assert sum(outcome(name, [draw.like(row)]) for row in known * (200 // len(known))) > 50
    for _ in range(300):
        rows = [draw.like(row) for row in draw.sample(known, 2)]
        for row in rows:
            for key in draw.sample([*row], draw.randint(1, len(row))):
                row[key] = draw.anything()
                if draw.random() < 0.2:
                    del row[key]
        outcome(name, rows)


@pytest.mark.parametrize("name", [name for name in FORMATS.names() if name != "commongen"])  # it groups rows
def test_rows_are_streamed(name):
    rows = iter(sound(name)[:2])
    next(FORMATS[name](rows))
    assert len(list(rows)) == 1
