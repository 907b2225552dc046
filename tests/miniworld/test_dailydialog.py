"""Mini DailyDialog: no leak between splits, true to its facts, natural, and neither trivial nor hopeless."""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import miniworld.talk as talk
from grue.errors import DataError
from grue.metrics.meteor import meteor, read
from miniworld.chance import Dice
from miniworld.dailydialog import CONTEXT, draw_text, held_back, held_out, labelled, rows
from miniworld.lexicon import load_lexicon
from miniworld.occasions import number_word
from miniworld.talk import Dialogue, draw_dialogue, load_situations
from miniworld.world import load_activities

SPLITS = {"train": 8000, "validation": 500, "test": 1000}
INFORM, QUESTION, DIRECTIVE, COMMISSIVE = 1, 2, 3, 4
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def examples(split: str) -> list[tuple[list[str], str, int]]:
    """Return the last five utterances, the next one and its act."""
    found = []
    for row in rows("2")[split]:
        dialog = row["dialog"]
        found += [(dialog[at - 5 : at], dialog[at], row["act"][at]) for at in range(5, len(dialog))]
    return found


@cache
def dialogues() -> tuple[Dialogue, ...]:
    dice = Dice(11)
    return tuple(draw_dialogue(dice, "2") for _ in range(1500))


@cache
def texts() -> tuple[str, ...]:
    dice = Dice(12)
    return tuple(draw_text(dice, "2") for _ in range(1500))


@cache
def source() -> dict[str, Any]:
    path = Path(talk.__file__).parent / "dialogues.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


# --- shape, and no leak ----------------------------------------------------------------------------------------------


def test_plain_text_depends_on_the_dice_alone() -> None:
    dice = Dice(1)
    first = [draw_text(dice, "2") for _ in range(200)]
    dice = Dice(1)
    assert first == [draw_text(dice, "2") for _ in range(200)]


@pytest.mark.parametrize("split", list(SPLITS))
def test_rows_have_the_columns_of_the_hub_and_the_promised_number_of_examples(split: str) -> None:
    assert len(examples(split)) == SPLITS[split]
    for row in rows("2")[split]:
        assert list(row) == ["dialog", "act", "emotion"]
        assert len(row["dialog"]) == len(row["act"]) == len(row["emotion"]) in (6, 8)
        assert set(row["act"]) <= {1, 2, 3, 4} and set(row["emotion"]) <= set(range(7))
        assert not any("__eou__" in text or "<EOU>" in text for text in row["dialog"])


def test_splits_do_not_meet() -> None:
    prompts = {split: [tuple(context) for context, _, _ in examples(split)] for split in SPLITS}
    said = {split: {text for row in rows("2")[split] for text in row["dialog"]} for split in SPLITS}
    asked = {split: {reply for _, reply, _ in examples(split)} for split in SPLITS}
    for split, count in SPLITS.items():
        assert len(set(prompts[split])) == count
    for one, other in combinations(SPLITS, 2):
        assert set(prompts[one]).isdisjoint(prompts[other])
        assert said[one].isdisjoint(asked[other])
    known = {word for text in said["train"] for word in words(text)}
    assert known.issuperset(word for split in ("validation", "test") for text in said[split] for word in words(text))


def test_plain_text_holds_nothing_that_is_tested() -> None:
    targets = {reply for split in ("validation", "test") for _, reply, _ in examples(split)}
    for text in texts():
        assert targets.isdisjoint(text.split(" <EOU> "))
        assert not any(f'"{reply}"' in text for reply in targets), text
    dice = Dice(13)
    assert targets.isdisjoint(labelled(dice, "2")[1] for _ in range(3000))


def test_training_never_has_what_is_held_out() -> None:
    """A word that a situation has in validation and test alone is known from other situations."""
    kept = [dialogue for dialogue in dialogues() if not held_out(dialogue)]
    crossed = {
        (dialogue.situation.name, word)
        for dialogue in dialogues()
        if held_out(dialogue)
        for name, word in dialogue.facts.items()
        if "_" not in name and sum(map(ord, f"{dialogue.situation.name} {word}")) % 5 == 0
    }
    trained = {(one.situation.name, word) for one in kept for name, word in one.facts.items() if "_" not in name}
    assert len(kept) > 100 and len(crossed) > 300 and not crossed & trained


def test_a_fresh_test_split_repeats_nothing() -> None:
    fresh = held_back("2", 5, 60)
    assert fresh == held_back("2", 5, 60) != held_back("2", 6, 60)
    targets = [text for row in fresh for text in row["dialog"][CONTEXT:]]
    assert len(targets) == 60
    assert {text for split in SPLITS for row in rows("2")[split] for text in row["dialog"]}.isdisjoint(targets)


# --- facts -----------------------------------------------------------------------------------------------------------


def test_nothing_is_said_that_is_not_a_fact() -> None:
    """Every day, town and first name that is spoken is a fact of the conversation or of one of its speakers."""
    lexicon = load_lexicon()
    first_names = {*lexicon.names["she"], *lexicon.names["he"]}
    for dialogue in dialogues():
        known = " ".join(dialogue.facts.values())
        known += " ".join(f" {person.name} {person.town}" for person in dialogue.speakers)
        for turn in dialogue.turns:
            for word in re.findall(r"[A-Z][a-z]+", turn.text):
                if word in DAYS or word in lexicon.names["towns"] or word in first_names:
                    assert word in known, f"{word} is no fact: {turn.text}"


def test_friends_call_each_other_by_their_names() -> None:
    first_names = {*load_lexicon().names["she"], *load_lexicon().names["he"]}
    checked = 0
    for dialogue in dialogues():
        if dialogue.situation.roles:
            continue
        for index, turn in enumerate(dialogue.turns):
            found = re.search(r", ([A-Z][a-z]+)[.?!]", turn.text)
            if found and found[1] in first_names and not any(found[0][:-1] in fact for fact in dialogue.facts.values()):
                assert found[1] == dialogue.speakers[1 - index % 2].first, turn.text
                checked += 1
    assert checked > 500


def test_strangers_are_called_what_they_are() -> None:
    for dialogue in dialogues():
        for index, turn in enumerate(dialogue.turns):
            listener = dialogue.speakers[1 - index % 2]
            wrong = r"\b(madam|Mrs\. (?!Holt))" if listener.pronoun == "he" else r"\b(sir|Mr\.)(?=[ ,.?!])"
            assert not re.search(wrong, turn.text), turn.text


def number(text: str) -> int:
    """Read a number word below a hundred; written out by hand, as a child learns them."""
    ones = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
    ones += "sixteen seventeen eighteen nineteen".split()
    tens = dict(zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True))
    big, _, small = text.partition("-")
    return tens[big] + (ones.index(small) if small else 0) if big in tens else ones.index(big)


def test_number_words() -> None:
    assert [number(number_word(value)) for value in range(100)] == list(range(100))
    assert number_word(100) == "one hundred" and number_word(342) == "three hundred and forty-two"


def test_what_is_counted_adds_up() -> None:
    seen = Counter[str]()
    for dialogue in dialogues():
        facts = {key: number(text.split()[0]) for key, text in dialogue.facts.items() if key.partition("_")[0] in SUMS}
        for name in SUMS:
            if name in facts:
                assert SUMS[name](facts), (name, facts)
                seen[name] += 1
        told = {text for turn in dialogue.turns for text in re.findall(r"[\w-]+ dollars", turn.text.lower())}
        assert all(price in " ".join(dialogue.facts.values()) for price in told - {"twenty dollars"}), told
    assert min(seen[name] for name in SUMS) > 20


SUMS: dict[str, Callable[[dict[str, int]], bool]] = {
    "bill": lambda facts: facts["bill"] * facts["bill_count"] == facts["bill_total"] == facts["bill_paid"] - facts["bill_change"],
    "stay": lambda facts: facts["stay"] * facts["stay_count"] == facts["stay_total"],
    "eggs": lambda facts: facts["eggs_each"] * facts["eggs_count"] == facts["eggs_all"],
    "double": lambda facts: 2 * facts["double"] == facts["double_total"],
    "debt": lambda facts: 0 < facts["debt_left"] == facts["debt"] - facts["debt_paid"] != facts["debt_paid"],
    "pills": lambda facts: facts["pills_day"] * facts["pills_days"] == facts["pills_all"],
}  # fmt: skip


def test_lent_tools_serve_the_purpose() -> None:
    uses = {
        (filler.noun.lemma, activity.verb.lemma) for activity in load_activities() for filler in activity.tools
    }  # the world's own knowledge
    seen = 0
    for dialogue in dialogues():
        if "tool" in dialogue.facts:
            for deed in (dialogue.facts["tool_deed"], dialogue.facts["tool_use"]):
                assert (dialogue.facts["tool"], deed.split()[0]) in uses
            seen += 1
    assert seen > 25


# --- situations ------------------------------------------------------------------------------------------------------


def test_every_situation_and_every_manner_occurs() -> None:
    situations = [name for name, table in source().items() if "open" in table]
    assert len(situations) >= 36
    assert {dialogue.situation.name for dialogue in dialogues()} == set(situations)
    assert {manner for dialogue in dialogues() for manner in dialogue.manners} == set(source()["manners"])


def test_a_reply_takes_up_what_was_said() -> None:
    """Names, days and towns of a reply were said before, but for the listener's name."""
    lexicon = load_lexicon()
    names = {*lexicon.names["she"], *lexicon.names["he"], *lexicon.names["towns"], *DAYS}
    for dialogue in dialogues():
        for place in range(CONTEXT, len(dialogue.turns), 2):
            before = " ".join(turn.text for turn in dialogue.turns[:place])
            for word in set(re.findall(r"[A-Z][a-z]+", dialogue.turns[place].text)) & names:
                listener = dialogue.speakers[1 - place % 2]
                assert word in before or word == listener.first, dialogue.turns


def test_the_same_utterance_has_different_replies() -> None:
    """Where exchanges are under "contrast", every first utterance has a twin, but for the digits of its facts."""
    for name, table in source().items():
        if "contrast" not in table:
            continue
        firsts = [block.splitlines()[0] for block in table["contrast"].strip().split("\n\n")]
        replies = [block.splitlines()[1] for block in table["contrast"].strip().split("\n\n")]
        assert len(firsts) == len(set(replies)) > 1, name
        assert len({line[0] for line in replies}) > 1, f"{name}: always the same act"


def test_an_utterance_that_ends_in_a_question_asks() -> None:
    for dialogue in dialogues():
        for turn in dialogue.turns:
            if turn.act == QUESTION:
                assert "?" in turn.text, turn.text
            if turn.act == INFORM:
                assert not turn.text.endswith("?"), turn.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"open": "\nHello.\n. Hello.\n"}, "in trip, not a line: 'Hello.'."),
        ({"open": "\n. Hello.\n"}, "in trip, a reply is missing after '. Hello.'."),
        ({"open": "\n. {gone}\n. Hello.\n"}, "in trip, {gone} is neither a fact nor a word list."),
    ],
)
def test_mistakes_in_the_file_are_told(change: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {**source(), "trip": {"shared": ["friends"], "then": "\n. Hello.\n. Hello.\n", **change}}
    monkeypatch.setattr(talk, "read_toml", lambda path: data)
    with pytest.raises(DataError, match=re.escape(message)):
        load_situations.__wrapped__()


# --- language --------------------------------------------------------------------------------------------------------


def test_utterances_are_typeset_and_agree_with_their_articles() -> None:
    vowel_sound = re.compile(r"^(?!uni|use|usu|eur|one)[aeiou]|^(hour|honest)", re.I)
    utterances = [turn.text for dialogue in dialogues() for turn in dialogue.turns]
    told = [text for text in texts() if "<EOU>" not in text]
    for text in utterances + told:
        assert text == text.strip() and "  " not in text, text
        assert text[0].isupper() or text[0] == '"', text
        assert text[-1] in '.?!"', text
        assert not re.search(r"[{}\[\]<>*_|()]", text), text
        assert not re.search(r" [,.;:?!]|[,;:][A-Za-z]|[.?!][A-Za-z]|[.?!,][.?!,]|[.?!] [a-z](?<!\" [a-z])", text), text
        assert not re.search(r"\b(\w+) \1\b", text.replace("that that", "")), text
        for article, word in re.findall(r"\b(an?) ([A-Za-z][\w-]*)", text, re.I):
            assert (article.lower() == "an") == bool(vowel_sound.search(word)), f"{article} {word}: {text}"
        assert text.count('"') % 2 == 0, text


def test_utterances_have_a_speakers_length_and_a_rich_vocabulary() -> None:
    train = [text for row in rows("2")["train"] for text in row["dialog"]]
    lengths = [len(text.split()) for text in train]
    assert min(lengths) >= 1 and max(lengths) <= 25 and 9 < sum(lengths) / len(lengths) < 11
    assert math.sqrt(sum((n - 9.7) ** 2 for n in lengths) / len(lengths)) > 2
    assert len({word for text in train for word in words(text)}) >= 1500
    replies = Counter(reply for _, reply, _ in examples("train"))
    assert len(replies) > 6000 and replies.most_common(1)[0][1] <= 20


@pytest.mark.parametrize("split", list(SPLITS))
def test_acts_and_emotions_are_spread_as_in_talk(split: str) -> None:
    acts = Counter(act for row in rows("2")[split] for act in row["act"])
    total = acts.total()
    for act, share in ((INFORM, 0.49), (QUESTION, 0.35), (DIRECTIVE, 0.08), (COMMISSIVE, 0.08)):
        assert abs(acts[act] / total - share) < 0.06, (split, act, acts[act] / total)
    replies = Counter(act for _, _, act in examples(split))
    assert all(replies[act] > 0.06 * SPLITS[split] for act in (INFORM, QUESTION, DIRECTIVE, COMMISSIVE))
    emotions = Counter(emotion for row in rows("2")[split] for emotion in row["emotion"])
    assert 0.8 < emotions[0] / total < 0.97 and emotions[4] > 0.02 * total


def test_plain_text_is_of_two_kinds() -> None:
    chats = [text for text in texts() if "<EOU>" in text]
    assert abs(len(chats) - 750) < 100
    assert all(40 <= len(text.split()) <= 130 for text in texts())
    assert all(4 <= len(text.split(" <EOU> ")) <= 8 for text in chats)
    told = [text for text in texts() if "<EOU>" not in text]
    assert all(text.count('"') >= 6 for text in told)
    assert sum(bool(re.search(r"\b(said|asked|answered|replied|promised)\b", text)) for text in told) == len(told)
    assert len(set(texts())) == len(texts())


# --- neither trivial nor hopeless ------------------------------------------------------------------------------------


def overlap(one: set[str], other: set[str]) -> float:
    return len(one & other) / max(1, len(one | other))


def test_replies_have_to_be_learned() -> None:
    """METEOR: nothing < a sentence that always fits < the last utterance < the most similar training example < 1."""
    train = [(set(words(context[-1])), reply) for context, reply, _ in examples("train")]
    scores: dict[str, float] = {}
    asked = examples("test")[::5]
    for context, reply, _ in asked:
        last = set(words(context[-1]))
        similar = max(train, key=lambda known: overlap(last, known[0]))[1]
        answers = {"null": "", "copy": context[-1], "similar": similar, "true": reply}
        for name, answer in answers.items():
            scores[name] = scores.get(name, 0.0) + meteor(read(reply), read(answer)) / len(asked)
    assert scores["null"] == 0 and scores["copy"] < 0.2
    assert scores["copy"] + 0.1 < scores["similar"] < 0.5 < 0.99 < scores["true"]


def bayes(train: list[tuple[str, int]], test: list[tuple[str, int]]) -> float:
    """Return how often naive Bayes on words and marks is right."""
    prior, counts = Counter[int](), {act: Counter[str]() for act in (1, 2, 3, 4)}
    for text, act in train:
        prior[act] += 1
        counts[act].update(set(text.split()))
    sizes = {act: counts[act].total() + 3000 for act in counts}

    def score(text: str, act: int) -> float:
        return math.log(prior[act]) + sum(math.log((counts[act][w] + 1) / sizes[act]) for w in set(text.split()))

    right = sum(max(counts, key=lambda act: score(text, act)) == act for text, act in test)
    return right / len(test)


def marked(text: str, mark: str) -> str:
    return " ".join(mark + token for token in re.findall(r"[a-z']+|[.?!]", text.lower()))


def test_acts_show_in_the_reply_and_only_partly_in_what_was_said_before() -> None:
    dice = Dice(21)
    drawn = [labelled(dice, "2") for _ in range(6000)]
    pairs = [(f"{marked(last, '<')} {marked(reply, '>')}", act) for last, reply, act in drawn]
    before = [(marked(last, ""), act) for last, _, act in drawn]
    commonest = Counter(act for _, act in pairs[4000:]).most_common(1)[0][1] / 2000
    assert bayes(pairs[:4000], pairs[4000:]) > 0.75
    assert commonest + 0.1 < bayes(before[:4000], before[4000:]) < 0.75
