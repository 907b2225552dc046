"""Making pairs: which are taken, what an annotator says of them, where their prompts belong, and what is refused."""

import json
import math
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from support.late import lates

from grue import files
from grue.data.pairs import PARTS, PairsHeader, check_shares, contradictions, part_of
from grue.data.scored import read_header, read_scored
from grue.data.scored_lines import RewardedLine, ScoredResponse, as_records
from grue.errors import ConfigError, DataError, SubmissionError
from grue.preferences.answers import read_judged_items
from grue.preferences.card import reward_card
from grue.preferences.make import Choice, from_predictions, from_samples, from_study, parse_noise
from grue.preferences.read import read_pairs, require_parts
from grue.records import Example
from grue.study.answers import preference_lines

tiny, scored, preferences, studies = lates("tiny scored preferences studies", "support.")


def task():
    return preferences.TASK


@cache
def examples(count=60):
    return [replace(one, id=f"x{n}", prompt=f"{one.prompt} {n}") for n, one in enumerate(tiny.examples(count))]


def samples(path, count=3, rewards=None, asked=None):
    """A file of scored samples: text k of a prompt is worth k/10, unless rewards are given."""
    asked, values = asked or examples(), rewards or [k / 10 for k in range(count)]
    said = tuple(ScoredResponse(f"text {k}", value) for k, value in enumerate(values))
    held = len(asked) * len(values)
    made = scored.header(
        task(), prompts=len(asked), samples=len(values), responses=held, generated_tokens=5 * held, reward_calls=held
    )
    files.write_jsonl(path, as_records(made, [RewardedLine(said, one.id) for one in asked]))
    return path


def made_of(source, output, asked=None, **choice):
    """Make pairs of samples; return the header, and the file's lines."""
    made = from_samples(source, task(), asked or examples(), Choice(**choice), output, split="train")
    return made, [line for _, line in files.read_jsonl(output)][1:]


def write(path, *pairs, **more):
    """A file of pairs (id, chosen, rejected[, part]) without a header."""
    keys = ("id", "chosen", "rejected", "part")
    files.write_jsonl(path, [{**dict(zip(keys, pair, strict=False)), **more} for pair in pairs])
    return path


def read(path):
    return read_scored(path, task(), examples())


# --- what comes out --------------------------------------------------------------------------------------------------


def test_pairs_of_samples_have_their_header_and_are_read_by_algorithms(tmp_path):
    source = samples(tmp_path / "s.jsonl")
    made, lines = made_of(source, tmp_path / "p.jsonl", pairs=40)
    assert read_header(tmp_path / "p.jsonl") == made and isinstance(made, PairsHeader)
    assert (made.pairs, made.judgements, made.ties, made.noise, made.reward) == (40, 40, 0, "none", "rouge1")
    assert (made.generated_tokens, made.reward_calls, made.seconds) == (900, 180, 2.0)
    assert made.sources == {"s.jsonl": files.sha256_file(source)}
    assert all(line["chosen"] > line["rejected"] for line in lines)  # without noise: "text 2" > "text 1" > "text 0"
    data = read(tmp_path / "p.jsonl")
    assert not data.rewards and data.made == made and len(data.groups) == 40
    assert [group.part for group in data.learned] == ["train"] * sum(line["part"] == "train" for line in lines)


def test_the_same_request_gives_the_same_file_and_more_pairs_begin_with_fewer(tmp_path, refused):
    source, noise = samples(tmp_path / "s.jsonl"), "bradley-terry:0.1"
    requests = {"a": (20, 1), "b": (60, 1), "c": (20, 2)}
    few, more, other = (
        made_of(source, tmp_path / name, pairs=count, seed=seed, noise=noise)[1]
        for name, (count, seed) in requests.items()
    )
    assert few == more[:20] and few != other
    before = (tmp_path / "a").read_bytes()
    made_of(source, tmp_path / "a", pairs=20, noise=noise)
    assert (tmp_path / "a").read_bytes() == before
    with refused(ConfigError):
        made_of(source, tmp_path / "a", pairs=21, noise=noise)


def test_ties_are_dropped_and_counted_or_recorded_and_no_two_texts_are_paired_twice(tmp_path):
    lines = [{"id": "x0", "responses": [{"text": t, "reward": r} for t, r in (("a", 1), ("a", 1), ("b", 0), ("a", 1))]}]
    files.write_jsonl(tmp_path / "s", lines)
    _, (line,) = made_of(tmp_path / "s", tmp_path / "p")
    assert (line["chosen"], line["rejected"]) == ("a", "b")
    source = samples(tmp_path / "s", rewards=[0.5, 0.5, 0.1])
    dropped, _ = made_of(source, tmp_path / "d")
    kept, _ = made_of(source, tmp_path / "k", ties="keep", noise="flip:0.5")
    assert (dropped.pairs, dropped.ties, dropped.dropped_ties) == (120, 0, 60)
    assert (kept.pairs, kept.ties, kept.dropped_ties) == (180, 60, 0)
    tied = [group for group in read(tmp_path / "k").groups if group.scores == (1.0, 1.0)]
    assert len(tied) == 60 and all(set(group.texts) == {"text 0", "text 1"} for group in tied)


@pytest.mark.parametrize(
    ("noise", "gap", "wrong"),
    [
        ("none", 0.1, 0.0),
        ("flip:0.2", 0.1, 0.2),
        ("bradley-terry:0.5", 0.4, 1 / (1 + math.exp(0.8))),
        ("bradley-terry:0.01", 3.0, 0.0),
    ],
)
def test_an_annotator_errs_as_often_as_it_says(noise, gap, wrong, tmp_path):
    source = samples(tmp_path / "s", rewards=[0.0, gap], asked=examples(1500))
    _, lines = made_of(source, tmp_path / "p", examples(1500), noise=noise)
    share = sum(line["chosen"] == "text 0" for line in lines) / len(lines)
    assert abs(share - wrong) <= 4 * math.sqrt(wrong * (1 - wrong) / len(lines))


def test_noise_that_can_be_and_cannot(refused):
    assert parse_noise("bradley-terry:1e-9").prefers_first(-1e18, 1e18) == 0.0  # far rewards do not overflow
    for said in ("", "flip", "flip:", "flip:0.6", "flip:-0.1", "flip:nan", "bradley-terry:0", "bradley-terry:inf"):
        with refused(ConfigError):
            parse_noise(said)


# --- parts -----------------------------------------------------------------------------------------------------------


def test_parts_follow_from_seed_and_prompt_and_have_their_shares(tmp_path, refused):
    counts = Counter(part_of(f"prompt {n}", 1) for n in range(5000))
    assert [counts[part] / 5000 for part in PARTS] == pytest.approx([0.6, 0.2, 0.2], abs=0.03)
    assert {part_of(f"{n}", 1, {"train": 0.5, "validation": 0.5, "test": 0.0}) for n in range(300)} == set(PARTS[:2])
    assert any(part_of(f"{n}", 1) != part_of(f"{n}", 2) for n in range(20))
    for shares in ((0.5, 0.2, 0.2), (0, 0.5, 0.5), (), (math.nan, 0.5, 0.5)):
        with refused(ConfigError):
            check_shares(dict(zip(PARTS, shares, strict=False)))
    _, lines = made_of(samples(tmp_path / "s", count=4), tmp_path / "p")
    prompts = {one.id: one.prompt for one in examples()}
    assert len(lines) == 6 * 60 and all(line["part"] == part_of(prompts[line["id"]], 1) for line in lines)


def test_a_file_without_parts_is_divided_by_prompt(tmp_path):
    path = write(tmp_path / "p", *((one.id, "a", other) for one in examples() for other in "bc"))
    found = read_pairs(path, task(), examples(), seed=3, split="train")
    assert not found.named_parts
    wanted = {one.prompt: part_of(one.prompt, 3) for one in examples()}
    assert {pair.prompt: pair.part for pair in found.pairs} == wanted and set(wanted.values()) == set(PARTS)


def test_a_prompt_is_in_one_part_of_a_file(tmp_path, refused):
    for part in ("test", None, "dev"):
        with refused(DataError):
            read(write(tmp_path / "p", ("x1", "a", "b", "train"), ("x1", "c", "b", part)))


def test_parts_that_cannot_be_learned_from(tmp_path, refused):
    one = write(tmp_path / "one", ("x1", "a", "b"))
    ties = write(tmp_path / "ties", *((one.id, "a", "b") for one in examples()), tie=True)
    for path in (one, ties):
        with refused(DataError):
            require_parts(read_pairs(path, task(), examples(), 1, split="train"), path)
    files.write_jsonl(tmp_path / "r", [{"id": "x1", "ranking": ["a", "b", "c"]}])
    for path in (samples(tmp_path / "s"), tmp_path / "r"):
        with refused(DataError):
            read_pairs(path, task(), examples(), 1, split="train")


def test_contradictions_are_counted(tmp_path):
    pairs = [("x1", "a", "b"), ("x1", "b", "a"), ("x1", "a", "b"), ("x2", "b", "a"), ("x1", "a", "c")]
    path = write(tmp_path / "p", *pairs)
    assert contradictions(pairs) == {("x1", frozenset("ab"))}
    assert read(path).contradictions == 1
    found = read_pairs(path, task(), examples(), 1, split="train")
    assert (found.contradictions, len(found.pairs)) == (1, 5)


# --- predictions and people ------------------------------------------------------------------------------------------


def test_pairs_of_two_systems_are_judged_by_the_reward(tmp_path, refused):
    for name, place in (("a", 0), ("b", 1)):
        good = [one.references[0] if n % 2 == place else "nothing" for n, one in enumerate(examples())]
        texts = [{"id": one.id, "text": text} for one, text in zip(examples(), good, strict=True)]
        texts[5]["text"] = "the same"
        texts[7]["truncated"] = place == 0  # of the worse
        files.write_jsonl(tmp_path / name, texts)
    asked = (tmp_path / "a", tmp_path / "b", task(), examples(), examples(), Choice())
    made = from_predictions(*asked, tmp_path / "p", split="train")
    lines = [line for _, line in files.read_jsonl(tmp_path / "p")][1:]
    assert (made.pairs, made.made, made.reward, made.reward_calls) == (59, "predictions", "rouge1", 120)
    assert all(line["rejected"] == "nothing" for line in lines) and "x5" not in {line["id"] for line in lines}
    cut = [(one.truncated, group.example.id) for group in read(tmp_path / "p").groups for one in group.responses]
    assert [name for truncated, name in cut if truncated] == ["x7"]
    assert [line["id"] for line in lines if line.get("rejected_truncated")] == ["x7"]
    files.write_jsonl(tmp_path / "b", [{"id": one.id, "text": "x"} for one in examples()[1:]])
    with refused(SubmissionError):  # a missing side
        from_predictions(*asked, tmp_path / "q", split="train")


def answer(item, annotator, choice, example=None, turned=False, **more):
    example = example or examples()[0]
    texts = {"a": "one", "b": "two"} if not turned else {"a": "two", "b": "one"}
    systems = ["A", "B"] if not turned else ["B", "A"]
    return {
        "item": item, "annotator": annotator, "prompt": example.prompt, "id": example.id, "systems": systems,
        "choice": choice, **texts, **more,
    }  # fmt: skip


def of_people(tmp_path, lines, name="p", asked=None, of=None, split="train", **choice):
    """Make pairs of a study's answers; return the header, and the file's lines."""
    files.write_jsonl(tmp_path / "answers", lines)
    asked = asked or examples()
    made = from_study(tmp_path / "answers", of or task(), asked, Choice(**choice), tmp_path / name, split=split)
    return made, [line for _, line in files.read_jsonl(tmp_path / name)][1:]


def test_most_of_the_people_decide_and_an_even_vote_is_a_tie(tmp_path):
    _, two, three = examples()[:3]
    answers = [
        answer("i0", "ann", "a"), answer("i0", "bob", "a", turned=True), answer("i0", "cat", "b", turned=True),
        answer("i1", "ann", "a", two), answer("i1", "bob", "a", two, turned=True),
        answer("i2", "ann", "tie", three), answer("i2", "bob", "b", three), answer("i2", "cat", "tie", three),
    ]  # fmt: skip
    made, lines = of_people(tmp_path, answers, ties="keep")
    votes = [(one.shown.item, *one.votes) for one in read_judged_items(tmp_path / "answers")]
    assert votes == [("i0", 2, 1, 0), ("i1", 1, 1, 0), ("i2", 0, 1, 2)]
    found = {line["id"]: (line["chosen"], line.get("tie", False)) for line in lines}
    assert found == {"x0": ("one", False), "x1": ("one", True), "x2": ("two", False)}
    assert (made.judgements, made.ties, made.noise, made.reward) == (8, 1, "people", "")
    dropped, _ = of_people(tmp_path, answers, "q")
    assert (dropped.pairs, dropped.dropped_ties) == (2, 1)
    _, (line,) = of_people(tmp_path, [answer("i0", "ann", "a", a="on\u200de", id=None)], "r")  # named by its prompt
    assert (line["id"], line["chosen"], line["rejected"]) == ("x0", "one", "two")


def test_a_study_of_three_systems_becomes_pairs_of_every_two(tmp_path):
    key = studies.a_study(studies.PAIRS, items=2, annotators=2)  # alpha, beta and gamma: the better is the later one
    given = studies.opinions(key, lambda number, screen, asked: "ab"[screen.systems[1] > screen.systems[0]], tmp_path)
    asked = [Example(item.id, item.prompt, ()) for item in key.items]
    made, lines = of_people(tmp_path, preference_lines(key, given), asked=asked, split="test")
    assert (made.pairs, made.judgements, made.prompts) == (6, 12, 2)
    better = Counter((line["chosen"].split()[0], line["rejected"].split()[0]) for line in lines)
    assert better == {("beta", "alpha"): 2, ("gamma", "alpha"): 2, ("gamma", "beta"): 2}


def test_answers_of_programs_stay_theirs_up_to_the_reward_model(tmp_path):
    for programs, who in ((), "people"), (("ann",), "people and programs"), (("ann", "bob"), "programs"):
        lines = [
            answer(f"i{n}", name, "a", example, **({"synthetic": True} if name in programs else {}))
            for n, example in enumerate(preferences.EXAMPLES)
            for name in ("ann", "bob")
        ]
        made, _ = of_people(tmp_path, lines, who, preferences.EXAMPLES, preferences.TASK)
        assert (made.noise, made.judge, made.reward) == (who, who, "")
    (tmp_path / "programs").rename(tmp_path / "pairs.jsonl")
    folder, model = preferences.train(tmp_path, epochs=1)
    assert (model.judge, model.noise) == ("programs", "programs")
    assert (
        "| judged by | programs: answers of programs are no opinions of people |" in (folder / "README.md").read_text()
    )
    of_people_alone = reward_card(replace(model, judge="people", noise="people"), preferences.TASK)
    assert "| judged by | people |" in of_people_alone


def test_answers_that_are_none(tmp_path, refused):
    one = answer("i", "ann", "a")
    for lines in (
        [{"id": "x1", "responses": [{"text": "a", "reward": 1}]}],
        [one | {"x": 1, "y": 2}],
        [],
        [answer("i", "ann", "c")],
        [one | {"systems": ["A"]}],
        [one | {"b": None}],
        [one, answer("i", "ann", "b")],
        [one, answer("i", "bob", "a", a="else")],
        [one, answer("i", "bob", "a") | {"systems": ["B", "A"]}],
        [answer("i", "ann", "a", id="zz")],
        [answer("i", "ann", "a", prompt="other")],
        [answer("i", "ann", "tie")],
        [answer("i", "ann", "a", b="one")],
    ):
        with refused(DataError):
            of_people(tmp_path, lines)
    assert not (tmp_path / "p").exists()


# --- what is refused -------------------------------------------------------------------------------------------------


def test_what_no_pairs_can_be_made_of(tmp_path, refused):
    path, equal, one, two = tmp_path / "p", tmp_path / "equal", tmp_path / "one", samples(tmp_path / "two", count=2)
    for source in (samples(equal, rewards=[0.5, 0.5]), samples(one, count=1), write(tmp_path / "q", ("x1", "a", "b"))):
        with refused(DataError):
            made_of(source, path)
    with refused(DataError):  # an unknown prompt
        made_of(two, path, examples()[1:])
    for output, choice in (path, {"pairs": 61}), (tmp_path / "p.gz", {}):
        with refused(ConfigError):
            made_of(two, output, **choice)
    assert not path.exists()


def test_an_edited_header_is_refused(tmp_path, refused):
    made_of(samples(tmp_path / "s"), tmp_path / "p", pairs=40)
    header, *lines = [json.loads(line) for line in (tmp_path / "p").read_text().splitlines()]
    for change in (
        *({"pairs": 3}, {"prompts": 0}, {"judgements": 1}, {"task": "other"}, {"made": "guesses"}, {"grue": "pears"}),
        {"grue": ["preference pairs"]},
    ):
        files.write_jsonl(tmp_path / "p", [{**header, **change}, *lines])
        with refused(DataError):
            read(tmp_path / "p")
