"""The mini world: no leak between splits, grammatical, rich enough to train on."""

import math
import re
from collections import Counter
from itertools import combinations

import pytest

from miniworld.chance import Dice
from miniworld.draw import rows
from miniworld.lexicon import load_lexicon, pluralise, verb, with_article
from miniworld.text import paragraphs, reviews, sentences
from miniworld.world import load_world

SPLITS = {"train": 8000, "validation": 500, "test": 1000}


def every_target(split: str) -> list[str]:
    return [target for row in rows("commongen", split) for target in row["targets"]]


def half(text: str) -> str:
    words = text.split(" ")
    return " ".join(words[: len(words) // 2])


# --- chance ----------------------------------------------------------------------------------------------------------


def test_dice_are_fair() -> None:
    dice = Dice(7)
    counts = Counter(dice.pick("abc") for _ in range(9000))
    assert all(abs(count - 3000) < 200 for count in counts.values())
    assert sorted(dice.shuffled(range(50))) == list(range(50))
    orders = Counter(tuple(dice.shuffled("abc")) for _ in range(6000))
    assert len(orders) == 6 and all(abs(count - 1000) < 150 for count in orders.values())
    picked = Counter(dice.weighted(((1, "x"), (3, "y"))) for _ in range(8000))
    assert abs(picked["y"] - 6000) < 200
    favoured = Counter(dice.favour(range(4)) for _ in range(4000))
    assert favoured[0] > favoured[1] > favoured[3]


# --- no leak ---------------------------------------------------------------------------------------------------------


def test_imdb_splits_do_not_meet() -> None:
    halves = {split: {half(row["text"]) for row in rows("imdb", split)} for split in SPLITS}
    ends = {split: {row["positive_continuation"] for row in rows("imdb", split)} for split in SPLITS}
    for split, count in SPLITS.items():
        assert len(halves[split]) == len(ends[split]) == count
    for one, other in combinations(SPLITS, 2):
        texts = "\n".join(row["text"] for row in rows("imdb", one))
        assert not any(prompt in texts for prompt in halves[other])
        assert ends[one].isdisjoint(ends[other])


def test_plain_text_holds_nothing_that_is_tested() -> None:
    text = paragraphs(4000, seed=3)
    labelled = [review for review, _ in reviews(2000, seed=4)]
    said = {sentence for paragraph in text for sentence in sentences(paragraph)}
    whole = "\n".join([*text, *labelled])
    for split in ("validation", "test"):
        assert said.isdisjoint(every_target(split))
        for row in rows("imdb", split):
            assert half(row["text"]) not in whole
            assert row["positive_continuation"] not in whole
            assert row["text"].removeprefix(half(row["text"]) + " ") not in whole


# --- IMDB ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", list(SPLITS))
def test_reviews_have_their_size_and_labels(split: str) -> None:
    drawn = rows("imdb", split)
    assert Counter(row["label"] for row in drawn) == {0: SPLITS[split] // 2, 1: SPLITS[split] // 2}
    for row in drawn:
        words = row["text"].split(" ")
        assert 40 <= len(words) <= 60 and "" not in words
        rest = " ".join(words[len(words) // 2 :])
        if row["label"]:
            assert row["positive_continuation"] == rest
        else:
            assert row["positive_continuation"] != rest
            assert 10 <= len(row["positive_continuation"].split(" ")) <= 45


def test_no_single_word_gives_the_sentiment_away() -> None:
    labelled = reviews(4000, seed=9)
    assert Counter(label for _, label in labelled) == {0: 2000, 1: 2000}
    counts: dict[str, Counter[int]] = {}
    for text, label in labelled:
        for word in set(re.findall(r"[a-z]+", text.lower())):
            counts.setdefault(word, Counter())[label] += 1
    best = max((abs(c[1] - c[0]) / 4000 for c in counts.values()), default=0)
    assert best < 0.25  # the best one-word rule is right for less than 62.5 % of the reviews


# --- language --------------------------------------------------------------------------------------------------------


def text_of_every_kind() -> list[str]:
    texts = [*(text.replace(" <EOU>", "") for text in paragraphs(3000, seed=5)), *every_target("train")]
    for row in rows("imdb", "train"):
        texts += [row["text"], half(row["text"]) + " " + row["positive_continuation"]]
    return texts


def test_text_is_typeset_and_agrees_with_its_articles() -> None:
    vowel_sound = re.compile(r"^(?!uni|use|usu|eur|one)[aeiou]|^(hour|honest)", re.I)
    for text in text_of_every_kind():
        assert text == text.strip() and "  " not in text and "\n" not in text, text
        assert text[0].isupper() or text[0] in '"0123456789' or text == text.lower(), text
        assert text[-1] in '.?!"', text
        assert not re.search(r"[{}\[\]<>*_|]|\b[A-Z]{3,}\b", text), text
        assert not re.search(r" [,.;:?!]|[,;:][A-Za-z]|\.[A-Za-z]", text), text
        assert not re.search(r"\b(\w+) \1\b(?<!had had)", text.replace("that that", "")), text
        for article, word in re.findall(r"\b(an?) ([A-Za-z][\w-]*)", text):
            assert (article == "an") == bool(vowel_sound.search(word)), f"{article} {word}: {text}"


def test_plain_text_is_rich() -> None:
    drawn = paragraphs(6000, seed=6)
    lengths = [len(text.split()) for text in drawn]
    assert min(lengths) >= 15 and max(lengths) <= 150
    words = Counter(word for text in drawn for word in re.findall(r"[a-z]+", text.lower()))
    assert len(words) >= 1500
    assert sum(count >= 5 for count in words.values()) >= 1500
    total = sum(words.values())
    entropy = -sum(count / total * math.log2(count / total) for count in words.values())
    assert entropy > 8.0
    assert len(set(drawn)) > 5990


def test_world_is_built_once_and_is_consistent() -> None:
    world = load_world()
    assert world is load_world()
    assert len({person.name for person in world.people}) == len(world.people)
    assert len({film.title for film in world.films}) == len(world.films)
    assert {person.town for person in world.people} <= {town.name for town in world.towns}


@pytest.mark.parametrize(
    ("lemma", "forms"),
    [
        ("carry", "carries carried carried carrying"), ("stir", "stirs stirred stirred stirring"),
        ("bake", "bakes baked baked baking"), ("open", "opens opened opened opening"), ("lie", "lies lay lain lying"),
        ("wash", "washes washed washed washing"), ("play", "plays played played playing"), ("fix", "fixes fixed fixed fixing"),
        ("begin", "begins began begun beginning"), ("mow", "mows mowed mown mowing"), ("water", "waters watered watered watering"),
        ("dye", "dyes dyed dyed dyeing"), ("be", "is was been being"), ("weave", "weaves wove woven weaving"),
    ],
)  # fmt: skip
def test_verb_forms(lemma: str, forms: str) -> None:
    word = verb(lemma)
    assert f"{word.third} {word.past} {word.participle} {word.gerund}" == forms


def test_noun_forms_and_articles() -> None:
    assert [pluralise(word) for word in ("cherry", "toy", "bus", "box", "brush", "tree")] == [
        "cherries", "toys", "buses", "boxes", "brushes", "trees",
    ]  # fmt: skip
    nouns = load_lexicon().nouns
    assert nouns["wolf"].plural == "wolves" and nouns["scissors"].plural == "scissors"
    assert with_article("apple") == "an apple" and with_article("honest man") == "an honest man"
    assert with_article("uniform") == "a uniform" and with_article("old boat") == "an old boat"
