"""The mini CNN/DailyMail: articles, highlights and claims of one world."""

import re
from collections import Counter
from functools import cache
from hashlib import sha256
from itertools import combinations
from typing import Any

import pytest

import miniworld.news
from grue.errors import DataError
from grue.metrics.registry import make_metric
from grue.records import Example
from miniworld.chance import Dice
from miniworld.cnn_dailymail import SPLITS, claims, draw_text, held_back, rows
from miniworld.news import Story, draw_story, held_tell, load_kinds, newsworthy, telling, told_words, write_article
from miniworld.world import load_world

DAYS = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
OFFICES = set("captain chef coach detective doctor judge mayor officer professor".split())
COUNTED = "one two three four five six seven eight nine ten eleven twelve".split()


@cache
def drawn_texts(count: int) -> tuple[str, ...]:
    dice = Dice(17)
    return tuple(draw_text(dice, "2") for _ in range(count))


@cache
def drawn_claims(count: int) -> tuple[tuple[str, str, int], ...]:
    dice = Dice(18)
    return tuple(claims(dice, "2") for _ in range(count))


def highlights(row: dict[str, Any]) -> list[str]:
    return row["highlights"].split("\n")


def sentences(article: str) -> list[str]:
    """Split after a full stop, question mark or such, with or without a closing quote, before a new sentence."""
    return re.split(r'(?<=[.!?]) (?=["A-Z0-9$])|(?<=[.!?]") (?=["A-Z0-9$])', article)


def names_and_numbers(text: str) -> set[str]:
    """Return the capitalised words that do not begin the text, and the numbers, written out or in digits."""
    words = re.findall(r"\$?\d[\d,]*\d|\$?\d|[A-Za-z]+(?:-[A-Za-z]+)*", text)
    names = {word for word in words[1:] if word[0].isupper()}
    return names | {word for word in words if word[0] in "$0123456789" or word.lower() in COUNTED}


# --- no leak ---------------------------------------------------------------------------------------------------------


def test_splits_do_not_meet() -> None:
    for column in ("article", "highlights", "id"):
        found = {split: {row[column] for row in rows("2")[split]} for split in SPLITS}
        assert all(len(found[split]) == count for split, count in SPLITS.items())
        assert all(found[one].isdisjoint(found[other]) for one, other in combinations(SPLITS, 2))
    firsts = [highlights(row)[0] for split in SPLITS for row in rows("2")[split]]
    assert len(set(firsts)) == len(firsts)


def test_every_word_of_the_held_out_splits_is_in_training_or_tells_a_fact() -> None:
    def words(split: str) -> set[str]:
        return {word for row in rows("2")[split] for text in row.values() for word in re.findall(r"[\w'$,-]*\w", text)}

    known = words("train")
    for split in ("validation", "test"):
        hexadecimal = {row["id"] for row in rows("2")[split]}
        new = words(split) - hexadecimal - known
        assert new <= told_words() and len(new) < 0.1 * len(words(split))


def test_plain_text_holds_nothing_that_is_tested() -> None:
    texts = drawn_texts(1000)
    held_out = [row for split in ("validation", "test") for row in rows("2")[split]]
    assert set(texts).isdisjoint(row["article"] for row in held_out)
    said = {sentence for text in texts for sentence in sentences(text)}
    said |= {sentence for row in rows("2")["train"] for sentence in sentences(row["article"])}
    assert said.isdisjoint(highlights(row)[0] for row in held_out)


def test_no_claim_is_drawn_from_a_held_out_article() -> None:
    held_out = "\n".join(row["article"] for split in ("validation", "test") for row in rows("2")[split])
    assert not any(sentences(premise)[0] in held_out for premise, _, _ in drawn_claims(900))


def test_a_held_back_test_split_is_new() -> None:
    fresh = held_back("2", 77, 60)
    assert len(fresh) == 60 and fresh == held_back("2", 77, 60) != held_back("2", 78, 60)
    assert {row["article"] for split in SPLITS for row in rows("2")[split]}.isdisjoint(row["article"] for row in fresh)


def test_training_never_tells_as_test_does_what_is_reported() -> None:
    dice = Dice(3)
    for split in ("train", "test"):
        for _ in range(300):
            story = draw_story(dice, "2")
            for fact in story.facts:
                line, held = telling(dice, story, fact, split), held_tell(story.kind, fact)
                assert line in fact.tells
                if fact in newsworthy(story):
                    assert (line is held) == (split == "test")


# --- facts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", list(SPLITS))
def test_every_highlight_names_only_who_and_what_one_sentence_of_the_article_names(split: str) -> None:
    """Family names count for names: an article gives the full one once, and so do the highlights."""
    firsts = {person.first for person in load_world("2").people}
    for row in rows("2")[split]:
        told = [names_and_numbers(f"x {sentence}") for sentence in sentences(row["article"])]
        everywhere = set().union(*told)
        for line in highlights(row):
            claimed = names_and_numbers(line)
            assert {word.lower() for word in claimed} <= {word.lower() for word in everywhere}, line
            needed = {word.lower() for word in claimed - firsts} - OFFICES
            assert any(needed <= {word.lower() for word in sentence} for sentence in told), f"{line}\n{row['article']}"


def test_highlights_follow_from_the_facts_that_are_worth_most() -> None:
    dice, counts = Dice(4), Counter[int]()
    for _ in range(1000):
        story = draw_story(dice, "2")
        chosen = newsworthy(story)
        counts[len(chosen)] += 1
        assert chosen[0] is story.kind.core
        left_out = [fact for fact in story.facts if fact not in chosen]
        if any(fact.major for fact in left_out):
            assert len(chosen) == 3 and all(fact.major for fact in chosen)
        groups = [fact.group for fact in story.facts]
        assert len(set(groups)) == len(groups) and len(groups) in (4, 5)
    assert counts[2] > 150 and counts[3] > 500 and set(counts) == {2, 3}


def test_no_two_people_of_a_story_share_a_name_and_no_two_values_are_equal() -> None:
    dice = Dice(5)
    for _ in range(500):
        story: Story = draw_story(dice, "2")
        assert len({person.family for person in story.people.values()}) == len(story.people)
        assert len({person.first for person in story.people.values()}) == len(story.people)
        own = [story.values[slot] for slot in story.kind.values]
        assert len(set(own)) == len(own)
        assert story.values["day"] in DAYS and story.values["town"] != story.values["town2"]


def test_a_point_that_says_more_than_its_article_is_refused() -> None:
    entry = {"tell": ["{hero} fell."], "point": ["{hero} fell in {town}."]}
    with pytest.raises(DataError, match=r"in the kind 'fall' the point 'hero fell in town\.' says 'town'"):
        miniworld.news._fact(entry, "fall")


# --- claims ----------------------------------------------------------------------------------------------------------


def test_claims_have_even_labels() -> None:
    labels = Counter(label for _, _, label in drawn_claims(900))
    assert all(230 < labels[label] < 370 for label in (0, 1, 2))


def test_labels_of_claims_are_true() -> None:
    """An entailed hypothesis names nothing new; of the contradicted ones most change exactly one name or number."""
    changed = 0
    for premise, hypothesis, label in drawn_claims(900):
        told = {word.lower() for word in names_and_numbers(f"x {premise}")}
        new = {word.lower() for word in names_and_numbers(f"x {hypothesis}")} - told
        new -= set(re.findall(r"^[a-z]+", hypothesis.lower())) | OFFICES  # a capital that only begins the sentence
        if label == 2:
            assert not new, f"{premise} => {hypothesis}"
        if label == 0:
            changed += bool(new)
    assert changed > 110


# --- language --------------------------------------------------------------------------------------------------------


def test_articles_have_their_size() -> None:
    for split in SPLITS:
        for row in rows("2")[split]:
            assert 90 <= len(row["article"].split()) <= 145
            assert len(highlights(row)) in (2, 3)
            assert 9 <= len(row["highlights"].split()) <= 40
            assert re.fullmatch("[0-9a-f]{40}", row["id"])
            assert row["id"] == sha256(row["article"].encode()).hexdigest()[:40]
    dice = Dice(6)
    lengths = Counter(len(sentences(write_article(dice, draw_story(dice, "2")))) for _ in range(500))
    assert sum(count for length, count in lengths.items() if 6 <= length <= 11) > 475


def test_text_is_typeset_and_agrees_with_its_articles() -> None:
    vowel_sound = re.compile(r"^(?!uni|use|usu|eur|one)[aeiou]|^(hour|honest)", re.I)
    texts = [row["article"] for row in rows("2")["train"]] + list(drawn_texts(1000))
    texts += [line for split in SPLITS for row in rows("2")[split] for line in highlights(row)]
    for text in texts:
        assert text == text.strip() and "  " not in text and "\n" not in text, text
        assert not re.search(r"[{}\[\]<>*_|~]|\b[A-Z]{3,}\b|\bNone\b", text), text
        assert not re.search(r" [,.;:?!]|[,;:][A-Za-z,.]|\.[A-Za-z]|\.\.", text), text
        assert text[0].isupper() or text[0] in '"0123456789', text
        assert text[-1] in '.?!"', text
        assert not re.search(r"\b(\w+) \1\b", text, re.I), text
        assert text.count('"') % 2 == 0, text
        for article, word in re.findall(r"\b(an?) ([A-Za-z][\w-]*)", text):
            assert (article == "an") == bool(vowel_sound.search(word)), f"{article} {word}: {text}"


def test_text_is_rich() -> None:
    texts = drawn_texts(1000)
    assert len(set(texts)) > 0.99 * len(texts)
    words = Counter(word for row in rows("2")["train"] for word in re.findall(r"[a-z]+", row["article"].lower()))
    assert len(words) >= 2000 and sum(count >= 5 for count in words.values()) >= 1500
    points = Counter(word for row in rows("2")["train"] for word in re.findall(r"[a-z]+", row["highlights"].lower()))
    assert len(points) >= 800
    kinds = Counter(draw_story(Dice(seed), "2").kind.name for seed in range(1000))
    assert len(kinds) == len(load_kinds()) >= 20 and min(kinds.values()) > 15
    openings = Counter(" ".join(text.split()[:4]) for text in texts)
    assert max(openings.values()) < 0.025 * len(texts)


# --- what can be had for nothing -------------------------------------------------------------------------------------


def test_a_constant_a_copy_and_the_lead_stay_far_below_the_references() -> None:
    test = rows("2")["test"][:60]
    examples = [Example(id=row["id"], prompt=row["article"], references=(row["highlights"],), meta={}) for row in test]
    outputs = {
        "null": ["A fire destroyed a house in the town.\nNobody was hurt."] * len(test),
        "copy": [row["article"] for row in test],
        "lead": ["\n".join(sentences(row["article"])[:3]) for row in test],
        "oracle": [row["highlights"] for row in test],
    }
    values: dict[str, dict[str, float]] = {}
    for name in ("rouge1", "rouge2", "rougeL"):
        metric = make_metric(name)
        values[name] = {who: metric.corpus(metric.statistics(examples, texts)) for who, texts in outputs.items()}
    for name, found in values.items():
        assert found["null"] < max(found["copy"], found["lead"]) < 0.45 < found["oracle"] == pytest.approx(1.0), name
