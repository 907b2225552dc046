"""The mini world's tables: true sentences, uneven tables, new kinds held out, and pairs whose likeness is known."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from grue.data.sets.totto import examples
from grue.metrics.bleu import SacreBleu
from grue.metrics.tables import Parent
from grue.metrics.tokenizers import TOKENIZERS
from grue.records import Example
from miniworld import totto
from miniworld.chance import Dice
from miniworld.lexicon import load_lexicon
from miniworld.table_names import words

SPLITS = {"train": 8000, "validation": 500, "test": 1000}
HELD_OUT = ("mayors", "directors", "buildings", "books")
Row = dict[str, Any]

SMALL = "zero one two three four five six seven eight nine ten eleven twelve".split()
ORDINAL = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()


def rows(split: str) -> tuple[Row, ...]:
    return totto.rows("2")[split]


def finals(row: Row) -> list[str]:
    return list(row["sentence_annotations"]["final_sentence"])


def values(row: Row) -> list[str]:
    return [row["table"][at][cell]["value"] for at, cell in row["highlighted_cells"]]


def headers(row: Row) -> frozenset[str]:
    """Return the headers of the columns, without the label that may stand above two of them."""
    top = [cell for line in row["table"][:2] for cell in line if cell["is_header"]]
    return frozenset(cell["value"] for cell in top if cell["column_span"] == 1)


def titles(row: Row) -> str:
    return f"{row['table_page_title']} {row['table_section_title']}"


def every() -> Iterator[tuple[Row, str]]:
    for split in SPLITS:
        for row in rows(split):
            for text in finals(row):
                yield row, text


def letters(text: str) -> set[str]:
    return set(re.findall("[a-z]+", text.lower()))


# --- in the hub's columns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", list(SPLITS))
def test_rows_have_the_columns_of_the_hub(split: str) -> None:
    cell = {"column_span": int, "is_header": bool, "row_span": int, "value": str}
    count = 1 if split == "train" else 3
    for index, row in enumerate(rows(split)):
        assert set(row) == {
            "id", "table_page_title", "table_section_title", "table_section_text", "table", "highlighted_cells",
            "example_id", "sentence_annotations", "overlap_subset",
        }  # fmt: skip
        assert row["id"] == index and 0 < int(row["example_id"]) < 2**63
        assert row["overlap_subset"] in (("none",) if split == "train" else ("True", "False"))
        assert all({key: type(entry[key]) for key in entry} == cell for line in row["table"] for entry in line)
        lengths = {len(texts) for texts in row["sentence_annotations"].values()}
        assert lengths in ({count}, {max(count - 1, 1)}) and len(row["sentence_annotations"]) == 4
        assert 1 <= len(row["highlighted_cells"]) <= 5
        for at, place in row["highlighted_cells"]:
            assert row["table"][at][place]["value"] and not row["table"][at][place]["is_header"]
    ids = [row["example_id"] for name in SPLITS for row in rows(name)]
    assert len(set(ids)) == len(ids)


def test_most_held_out_tables_have_three_references() -> None:
    counts = Counter(len(finals(row)) for split in ("validation", "test") for row in rows(split))
    assert set(counts) == {2, 3} and 0.02 < counts[2] / 1500 < 0.09


def width(table: list[list[dict[str, Any]]]) -> list[int]:
    """Return how many columns each line fills, cells that reach down from above included."""
    reaching: dict[int, int] = Counter()
    filled = []
    for at, line in enumerate(table):
        filled.append(reaching[at] + sum(cell["column_span"] for cell in line))
        for cell in line:
            for below in range(at + 1, at + cell["row_span"]):
                reaching[below] += cell["column_span"]
    return filled


def test_tables_are_uneven_as_real_ones_and_yet_whole() -> None:
    ragged = 0
    for split in SPLITS:
        for row in rows(split):
            assert len(set(width(row["table"]))) == 1, row["table"]
            assert 5 <= len(row["table"]) <= 14
            spans = any(cell["column_span"] > 1 or cell["row_span"] > 1 for line in row["table"] for cell in line)
            ragged += spans
            assert spans == (len({len(line) for line in row["table"]}) > 1)
    assert 0.3 < ragged / 9500 < 0.45


# --- no leak ---------------------------------------------------------------------------------------------------------


def test_splits_do_not_meet() -> None:
    prompts = {split: {(titles(row), *values(row)) for row in rows(split)} for split in SPLITS}
    texts = {split: {text for row in rows(split) for text in finals(row)} for split in SPLITS}
    for split, count in SPLITS.items():
        assert len(prompts[split]) == count
        assert len(texts[split]) == sum(len(finals(row)) for row in rows(split))
    for one, other in combinations(SPLITS, 2):
        assert prompts[one].isdisjoint(prompts[other])
        assert texts[one].isdisjoint(texts[other])
    early = {text for row in rows("train") for text in row["sentence_annotations"]["original_sentence"]}
    assert early.isdisjoint(texts["validation"] | texts["test"])


def test_non_overlap_tables_have_new_headers_and_known_words() -> None:
    shown = {headers(row) for row in rows("train")}
    known = set().union(
        *[letters(" ".join([titles(row), *values(row), *headers(row), *finals(row)])) for row in rows("train")]
    )
    for split in ("validation", "test"):
        subsets = Counter(row["overlap_subset"] for row in rows(split))
        assert subsets["False"] == 0.4 * SPLITS[split]
        for row in rows(split):
            assert (headers(row) in shown) == (row["overlap_subset"] == "True")
            assert known >= letters(" ".join([titles(row), *values(row), *headers(row), *finals(row)]))


def columns_told(row: Row) -> tuple[str, set[str]]:
    """Return a row's kind and the columns whose cells are highlighted, by the headers above them."""
    shown = headers(row)
    for kind, entry in words()["kind"].items():
        named = {header: column for column, text in entry["headers"].items() for header in text.split("|")}
        if row["table_section_title"] in entry["sections"] and shown <= set(named):
            example = next(iter(examples([{**row, "id": 0}])))
            found = re.findall(r"\[col_header\] ([^\[]*) \[/col_header\] \[/cell\]", example.prompt)
            return kind, {named[header] for header in found}
    raise AssertionError(row["table_section_title"])


def test_test_tells_together_what_training_tells_apart() -> None:
    parts = {kind: [set(part.split()) for part in entry.get("parts", ())] for kind, entry in words()["kind"].items()}
    alone: dict[str, set[str]] = {kind: set() for kind in parts}
    for split in SPLITS:
        for row in rows(split):
            kind, told = columns_told(row)
            touched = sum(not told.isdisjoint(part) for part in parts[kind])
            if split == "train":
                assert touched <= 1, row
                alone[kind] |= told
            elif row["overlap_subset"] == "True":
                assert touched > 1 and told <= alone[kind], row


def test_held_back_rows_are_another_test_split() -> None:
    drawn = totto.held_back("2", 12, 40)
    assert drawn == totto.held_back("2", 12, 40) and drawn != totto.held_back("2", 13, 40)
    assert Counter(row["overlap_subset"] for row in drawn) == {"True": 24, "False": 16}
    prompts = {(titles(row), *values(row)) for split in SPLITS for row in rows(split)}
    texts = {text for split in SPLITS for row in rows(split) for text in finals(row)}
    assert prompts.isdisjoint((titles(row), *values(row)) for row in drawn)
    assert texts.isdisjoint(text for row in drawn for text in finals(row))
    for row in drawn:
        kind, told = columns_told(row)
        assert row["overlap_subset"] == "False" or totto.tells_apart(kind, told)


def test_plain_text_holds_nothing_that_is_tested() -> None:
    held_out = {text for split in ("validation", "test") for row in rows(split) for text in finals(row)}
    dice = Dice(2)
    drawn = [totto.draw_text(dice, "2") for _ in range(2000)]
    said = {sentence for text in drawn for sentence in re.split(r"(?<=[.]) (?=[A-Z0-9])", text)}
    assert said.isdisjoint(held_out)
    assert not any("[" in text or "|" in text for text in drawn)
    lengths = [len(text.split()) for text in drawn]
    assert min(lengths) >= 15 and max(lengths) <= 130 and len(set(drawn)) == 2000


# --- every sentence is true to its cells -----------------------------------------------------------------------------


def ways(value: str) -> list[str]:
    """Return how a sentence may say a cell."""
    said = [value.lower()]
    if re.fullmatch(r"-?\d+", value) and 0 <= int(value) <= 12:
        number = int(value)
        said += [SMALL[number], "no", "none"] if number == 0 else [SMALL[number], ORDINAL[number - 1]]
        said += ["won"] if number == 1 else []
    if date := re.fullmatch(r"(\d+) (\w+) \d{4}", value):
        said = [f"{date[1]} {date[2]}".lower(), f"{date[2]} {date[1]}".lower()]
    return ["at home"] if value == "Home" else said


def bare(text: str) -> str:
    """Return the text in lower case, between spaces, without the marks that end its words."""
    return f" {re.sub('[.,](?= |$)', '', text.lower())} "


def test_every_highlighted_cell_is_said() -> None:
    for row, text in every():
        said = bare(text).replace("'s ", " 's ")
        for value in values(row):
            assert any(f" {bare(way).strip()} " in said for way in ways(value.replace("'s ", " 's "))), (
                f"{value!r}: {text}"
            )


def test_nothing_is_said_that_neither_cells_nor_titles_say() -> None:
    names = load_lexicon().names
    proper = {name for key in ("he", "she", "family", "towns") for name in names[key]}
    for row, text in every():
        given = " ".join([row["table_page_title"], *values(row)])
        backed = set(re.findall(r"[A-Za-z]+", given))
        for word in re.findall(r"(?<=[a-z,0-9] )[A-Z][a-z]+", text):
            assert word in backed or word.lower() in letters(given), f"{word} is not in {given}: {text}"
        assert not (set(re.findall("[A-Z][a-z]+", text)) & proper) - backed, f"{given}: {text}"
        numbers = [set(re.findall(r"\d[\d,.:-]*\d|\d", source)) for source in (text, given)]
        assert numbers[0] <= numbers[1], f"{numbers[0]} is not in {given}: {text}"
        plain = text.lower()
        for value in values(row):
            plain = plain.replace(value.lower(), "")
        plain = re.sub("(one|two) of|first name|one (sees|meets|hears|can|could)", "", plain)  # not of the cells
        for word in re.findall("[a-z]+", plain):
            if word in SMALL[1:] or word in ORDINAL:
                number = SMALL.index(word) if word in SMALL else ORDINAL.index(word) + 1
                assert str(number) in "-".join(values(row)).split("-"), f"{word}: {text}"


MORE = "larger than|bigger than|higher than|taller than|wetter|More rain|came in ahead of|beat [A-Z].* with [\\d,]+ in"


def test_comparisons_hold() -> None:
    compared = 0
    for row, text in every():
        if row["table_section_title"] in ("Matches", "Games") or " season" in row["table_page_title"]:
            continue
        numbers = [int(number.replace(",", "")) for number in re.findall(r"(?<![\d:.$])\d[\d,]*(?![\d:%])", text)]
        numbers = [number for number in numbers if f" {number} " not in f" {row['table_page_title']} "]
        if re.search(MORE, text):
            compared += 1
            assert len(numbers) == 2 and numbers[0] > numbers[1], text
        if re.search("fewer than", text):
            compared += 1
            assert len(numbers) == 2 and numbers[0] < numbers[1], text
        if found := re.search(r"(\w+), ahead of .* in (\w+) place", text):
            compared += 1
            assert ORDINAL.index(found[1]) < ORDINAL.index(found[2]), text
    assert compared > 20


def test_matches_end_as_their_score_says() -> None:
    told = 0
    for row, text in every():
        if not row["table_page_title"].endswith(" season"):
            continue
        for before, ours, theirs, after in re.findall(r"([^-]*?)(\d+)-(\d+)([^-]*)", text):
            result = (int(ours) > int(theirs)) - (int(ours) < int(theirs))
            verbs = re.findall(r"\b(beat|won|drew|lost)\b", before)
            nouns = re.findall(r"^ (win|draw|defeat)\b", after)
            sign = {"beat": 1, "won": 1, "win": 1, "drew": 0, "draw": 0, "lost": -1, "defeat": -1}
            for word in verbs[-1:] + nouns[:1]:
                if not (nouns and word in verbs):
                    told += 1
                    assert sign[word] == result, text
    assert told > 60


# --- language --------------------------------------------------------------------------------------------------------


def test_sentences_are_typeset_and_agree_with_their_articles() -> None:
    dice = Dice(3)
    texts = [text for _, text in every()] + [totto.draw_text(dice, "2") for _ in range(800)]
    texts = [re.sub(r" \([a-z]+\)", "", text) for text in texts]  # of titles and headers in notes
    vowel = re.compile(r"^(?!uni|use|usu|eur|one)[aeiou]|^(hour|honest)", re.I)
    one = re.compile(r"(?<![-.:,])\b(one|1) (games|wins|draws|defeats|points|schools|degrees|meters)\b")
    many = re.compile(
        r"(?<![-.:,])\b(no|[02-9]|\d\d+|two|three|four|five) (game|win|draw|defeat|point|school|degree)\b"
    )
    for text in texts:
        assert (text[0].isupper() or text[0] in "0123456789$") and text[-1] == "." and text == text.strip(), text
        assert not re.search(r"  |[{}\[\]()|#<>_]| [,.;:]|,[.,]|\.\.|,[A-Za-z]", text), text
        assert not re.search(r"\b(\w+) \1\b", text), text
        for article, word in re.findall(r"\b([Aa]n?) ([A-Za-z][\w-]*)", text):
            assert (article.lower() == "an") == bool(vowel.search(word)), f"{article} {word}: {text}"
        assert not one.search(text) and not many.search(text), text


def test_train_sentences_are_rich() -> None:
    texts = [text for row in rows("train") for text in finals(row)]
    assert len(set().union(*map(letters, texts))) >= 1200
    lengths = sorted(len(text.split()) for text in texts)
    assert (
        lengths[0] >= 4
        and lengths[400] <= 9
        and 11 <= lengths[4000] <= 16
        and lengths[7600] >= 19
        and lengths[-1] <= 40
    )
    openings = Counter(" ".join(text.split()[:2]) for text in texts)
    assert max(openings.values()) < 700
    cells = Counter(len(row["highlighted_cells"]) for row in rows("train"))
    assert min(cells[count] for count in (1, 2, 3, 4, 5)) > 120


def test_references_of_a_table_differ() -> None:
    alike = []
    for row in rows("test"):
        bags = [letters(text) for text in finals(row)]
        alike += [len(a & b) / len(a | b) for a, b in combinations(bags, 2)]
    assert sum(alike) / len(alike) < 0.75
    assert sum(likeness > 0.95 for likeness in alike) / len(alike) < 0.08  # another order of the same words


# --- scores ----------------------------------------------------------------------------------------------------------


def as_example(row: Row, references: list[str]) -> Example:
    table = [cell["value"] for line in row["table"] for cell in line]
    context = [row["table_page_title"], row["table_section_title"]]
    meta = {"table": [*table, *context, row["table_section_text"]], "highlighted": [*values(row), *context]}
    return Example(row["example_id"], "tell", tuple(references), meta)


def test_neither_a_constant_nor_a_copy_comes_near_a_reference() -> None:
    table = [row for row in rows("test") if len(finals(row)) == 3][:150]
    examples = [as_example(row, finals(row)[1:]) for row in table]
    constant = ["In 1990, it was one of the best in the town."] * len(table)
    copied = [f"{titles(row)} {' '.join(values(row))}" for row in table]
    human = [finals(row)[0] for row in table]
    bleu, parent = SacreBleu(), Parent(TOKENIZERS["13a"])
    bleus = [bleu.corpus(bleu.statistics(examples, texts)) for texts in (constant, copied, human)]
    parents = [sum(parent.values("f1", examples, texts)) / len(table) for texts in (constant, copied, human)]
    assert bleus[0] < 3 and bleus[0] < bleus[1] < 0.5 * bleus[2]
    assert parents[0] < 0.02 and parents[0] < parents[1] < 0.65 * parents[2]


# --- pairs -----------------------------------------------------------------------------------------------------------


def test_pairs_are_alike_as_far_as_they_say_the_same() -> None:
    dice = Dice(5)
    held_out = {text for split in ("validation", "test") for row in rows(split) for text in finals(row)}
    drawn = [totto.pair(dice, "2") for _ in range(1500)]
    assert all(0 <= likeness <= 1 and reference != candidate for reference, candidate, likeness in drawn)
    assert held_out.isdisjoint(text for pair in drawn for text in pair[:2])
    shares: dict[str, list[float]] = {"same": [], "part": [], "none": []}
    for reference, candidate, likeness in drawn:
        numbers = [set(re.findall(r"\d[\d,.:]*\d", text)) for text in (reference, candidate)]
        if numbers[0]:
            group = "same" if likeness == 1 else "none" if likeness == 0 else "part"
            shares[group].append(len(numbers[0] & numbers[1]) / len(numbers[0]))
    means = {group: sum(found) / len(found) for group, found in shares.items()}
    assert means["same"] > 0.85 > 0.7 > means["part"] > 0.3 > 0.1 > means["none"]
    counts = Counter("same" if pair[2] == 1 else "none" if pair[2] == 0 else "part" for pair in drawn)
    assert min(counts.values()) > 100


def test_damage_counts_the_words_that_are_left() -> None:
    text = "Anna Bell took office as mayor of Harlow in 1901."
    seen = set()
    for seed in range(60):
        damaged, left = totto.damage(Dice(seed), text)
        was, now = Counter(text.rstrip(".").split()), Counter(damaged.rstrip(".").split())
        if now.total() < was.total():
            assert text.startswith(damaged) and left == now.total() / was.total()
            seen.add("cut")
        elif now.total() > was.total():
            assert was <= now and left == was.total() / now.total()
            seen.add("repeated")
        else:
            assert was == now and left == 0.3
            seen.add("shuffled")
    assert seen == {"cut", "repeated", "shuffled"}
