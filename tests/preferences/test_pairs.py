"""Making pairs: which are taken, what an annotator says of them, where their prompts belong, and what is refused."""

import json
import math
from collections import Counter
from dataclasses import replace

import pytest
from support import preferences, tiny
from support.studies import PAIRS, a_study, opinions

from grue import files
from grue.data.pairs import PARTS, PairsHeader, check_shares, contradictions, part_of
from grue.data.scored import read_header, read_scored
from grue.data.scored_lines import RewardedLine, ScoredHeader, ScoredResponse, as_records
from grue.errors import ConfigError, DataError, SubmissionError
from grue.preferences.annotators import parse_noise
from grue.preferences.answers import read_judged_items
from grue.preferences.make import Choice, from_predictions, from_samples, from_study
from grue.preferences.read import read_pairs, require_parts
from grue.records import Example
from grue.study.answers import preference_lines

TASK = tiny.task("causal")
EXAMPLES = [replace(one, id=f"x{place}", prompt=f"{one.prompt} {place}") for place, one in enumerate(tiny.examples(60))]


def samples(path, examples=EXAMPLES, count=3, rewards=None):
    """A file of scored samples: text k of a prompt is worth k/10, unless rewards are given."""
    values = rewards or [k / 10 for k in range(count)]
    lines = [
        RewardedLine(tuple(ScoredResponse(f"text {k}", value) for k, value in enumerate(values)), one.id)
        for one in examples
    ]
    held = len(examples) * len(values)
    made = ScoredHeader(
        grue="scored responses", schema=1, suite="tests", task="tiny", task_hash=TASK.hash, split="train",
        reward="rouge1", checkpoint="sha", system="s", seed=1, samples=len(values), generation=TASK.rollout,
        prompts=len(examples), responses=held, generated_tokens=5 * held, reward_calls=held, seconds=2.0,
    )  # fmt: skip
    files.write_jsonl(path, as_records(made, lines))
    return path


def written(path):
    header, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    return header, lines


# --- what comes out --------------------------------------------------------------------------------------------------


def test_pairs_of_samples_have_their_header_and_are_read_by_algorithms(tmp_path):
    source = samples(tmp_path / "s.jsonl")
    made = from_samples(source, TASK, EXAMPLES, Choice(pairs=40), tmp_path / "p.jsonl")
    header, lines = written(tmp_path / "p.jsonl")
    assert read_header(tmp_path / "p.jsonl") == made and isinstance(made, PairsHeader)
    assert (made.pairs, made.judgements, made.ties, made.noise, made.reward) == (40, 40, 0, "none", "rouge1")
    assert (made.generated_tokens, made.reward_calls, made.seconds) == (900, 180, 2.0)
    assert header["sources"] == {"s.jsonl": files.sha256_file(source)}
    assert all(line["chosen"] > line["rejected"] for line in lines)  # without noise: "text 2" > "text 1" > "text 0"
    data = read_scored(tmp_path / "p.jsonl", TASK, EXAMPLES)
    assert not data.rewards and data.made == made and len(data.groups) == 40
    assert [group.part for group in data.learned] == ["train"] * sum(line["part"] == "train" for line in lines)


def test_the_same_request_gives_the_same_file_and_more_pairs_begin_with_fewer(tmp_path):
    source = samples(tmp_path / "s.jsonl")
    for name, count, seed in (("a", 20, 1), ("b", 60, 1), ("c", 20, 2)):
        choice = Choice(pairs=count, seed=seed, noise="bradley-terry:0.1")
        from_samples(source, TASK, EXAMPLES, choice, tmp_path / name)
    few, more, other = (written(tmp_path / name)[1] for name in "abc")
    assert few == more[:20] and few != other
    before = (tmp_path / "a").read_bytes()
    from_samples(source, TASK, EXAMPLES, Choice(pairs=20, noise="bradley-terry:0.1"), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == before
    with pytest.raises(ConfigError, match="holds something else; write elsewhere"):
        from_samples(source, TASK, EXAMPLES, Choice(pairs=21, noise="bradley-terry:0.1"), tmp_path / "a")


def test_equal_texts_make_no_pair_and_no_two_texts_are_paired_twice(tmp_path):
    lines = [{"id": "x0", "responses": [{"text": t, "reward": r} for t, r in (("a", 1), ("a", 1), ("b", 0), ("a", 1))]}]
    files.write_jsonl(tmp_path / "s", lines)
    from_samples(tmp_path / "s", TASK, EXAMPLES, Choice(), tmp_path / "p")
    _, (line,) = written(tmp_path / "p")
    assert (line["chosen"], line["rejected"]) == ("a", "b")


def test_ties_are_dropped_and_counted_or_recorded(tmp_path):
    source = samples(tmp_path / "s", rewards=[0.5, 0.5, 0.1])
    dropped = from_samples(source, TASK, EXAMPLES, Choice(), tmp_path / "d")
    kept = from_samples(source, TASK, EXAMPLES, Choice(ties="keep", noise="flip:0.5"), tmp_path / "k")
    assert (dropped.pairs, dropped.ties, dropped.dropped_ties) == (120, 0, 60)
    assert (kept.pairs, kept.ties, kept.dropped_ties) == (180, 60, 0)
    tied = [group for group in read_scored(tmp_path / "k", TASK, EXAMPLES).groups if group.scores == (1.0, 1.0)]
    assert len(tied) == 60 and all(set(group.texts) == {"text 0", "text 1"} for group in tied)


# --- noise -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "gap", "wrong"),
    [
        ("none", 0.1, 0.0),
        ("flip:0.2", 0.1, 0.2),
        ("flip:0.5", 3.0, 0.5),
        ("bradley-terry:0.5", 0.4, 1 / (1 + math.exp(0.8))),
        ("bradley-terry:0.01", 3.0, 0.0),
    ],
)
def test_an_annotator_errs_as_often_as_it_says(noise, gap, wrong, tmp_path):
    examples = [replace(EXAMPLES[0], id=f"n{place}", prompt=f"prompt {place}") for place in range(1500)]
    source = samples(tmp_path / "s", examples, rewards=[0.0, gap])
    from_samples(source, TASK, examples, Choice(noise=noise), tmp_path / "p")
    _, lines = written(tmp_path / "p")
    share = sum(line["chosen"] == "text 0" for line in lines) / len(lines)
    assert abs(share - wrong) <= 4 * math.sqrt(wrong * (1 - wrong) / len(lines))


def test_far_rewards_do_not_overflow():
    assert parse_noise("bradley-terry:1e-9").prefers_first(-1e18, 1e18) == 0.0


@pytest.mark.parametrize(
    "said", ["", "flip", "flip:", "flip:0.6", "flip:-0.1", "flip:nan", "bradley-terry:0", "bradley-terry:inf", "coin:1"]
)
def test_noise_that_cannot_be(said):
    with pytest.raises(ConfigError, match="write none, flip:P"):
        parse_noise(said)


# --- parts -----------------------------------------------------------------------------------------------------------


def test_a_prompt_with_all_its_pairs_is_in_one_part(tmp_path):
    source = samples(tmp_path / "s", count=4)
    from_samples(source, TASK, EXAMPLES, Choice(), tmp_path / "p")
    _, lines = written(tmp_path / "p")
    parts = {}
    for line in lines:
        parts.setdefault(line["id"], set()).add(line["part"])
    assert all(len(found) == 1 for found in parts.values()) and len(lines) == 6 * 60


def test_parts_follow_from_seed_and_prompt_and_have_their_shares():
    counts = Counter(part_of(f"prompt {n}", 1) for n in range(5000))
    assert [counts[part] / 5000 for part in PARTS] == pytest.approx([0.6, 0.2, 0.2], abs=0.03)
    assert {part_of(f"{n}", 1, {"train": 0.5, "validation": 0.5, "test": 0.0}) for n in range(300)} == set(PARTS[:2])
    assert any(part_of(f"{n}", 1) != part_of(f"{n}", 2) for n in range(20))
    for shares in (
        {"train": 0.5, "validation": 0.2, "test": 0.2},
        {"train": 0, "validation": 0.5, "test": 0.5},
        {},
        {"train": float("nan"), "validation": 0.5, "test": 0.5},
    ):
        with pytest.raises(ConfigError, match="give three of train, validation and test"):
            check_shares(shares)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"part": "test"}, "is in the part 'test' here and in 'train' at .*held out must not be learned from"),
        ({"part": None}, "only some lines name their part"),
        ({"part": "dev"}, "part: "),
    ],
)
def test_a_prompt_in_two_parts_is_refused(change, message, tmp_path):
    line = {"id": "x1", "chosen": "a", "rejected": "b", "part": "train"}
    files.write_jsonl(tmp_path / "p", [line, {**line, "chosen": "c", **change}])
    with pytest.raises(DataError, match=message):
        read_scored(tmp_path / "p", TASK, EXAMPLES)


def test_a_file_without_parts_is_divided_by_prompt(tmp_path):
    lines = [{"id": one.id, "chosen": "a", "rejected": other} for one in EXAMPLES for other in "bc"]
    files.write_jsonl(tmp_path / "p", lines)
    found = read_pairs(tmp_path / "p", TASK, EXAMPLES, seed=3)
    assert not found.named_parts
    assert {pair.prompt: pair.part for pair in found.pairs} == {one.prompt: part_of(one.prompt, 3) for one in EXAMPLES}
    assert {pair.part for pair in found.pairs} == set(PARTS)


# --- contradictions --------------------------------------------------------------------------------------------------


def test_contradictions_are_counted_and_dealt_with_as_asked(tmp_path):
    pairs = [("x1", "a", "b"), ("x1", "b", "a"), ("x1", "a", "b"), ("x2", "b", "a"), ("x1", "a", "c")]
    files.write_jsonl(tmp_path / "p", [{"id": i, "chosen": c, "rejected": r} for i, c, r in pairs])
    assert contradictions(pairs) == {("x1", frozenset("ab"))}
    assert read_scored(tmp_path / "p", TASK, EXAMPLES).contradictions == 1
    kept, dropped, tied = (read_pairs(tmp_path / "p", TASK, EXAMPLES, 1, how) for how in ("keep", "drop", "tie"))
    assert [one.contradictions for one in (kept, dropped, tied)] == [1, 1, 1]
    assert [(one.first, one.second) for one in dropped.pairs] == [("b", "a"), ("a", "c")] and len(kept.pairs) == 5
    assert sorted((one.first, one.second, one.target) for one in tied.pairs) == [
        ("a", "b", 0.5),
        ("a", "c", 1.0),
        ("b", "a", 1.0),
    ]


def test_what_is_tested_stays_as_it_was_judged(tmp_path):
    both = [("x1", "a", "b", "test"), ("x1", "b", "a", "test"), ("x2", "a", "b", "train"), ("x2", "b", "a", "train")]
    lines = [{"id": i, "chosen": c, "rejected": r, "part": part} for i, c, r, part in both]
    files.write_jsonl(tmp_path / "p", lines)
    for how, left in (("drop", ["test"] * 2), ("tie", ["test", "test", "train"])):
        assert [one.part for one in read_pairs(tmp_path / "p", TASK, EXAMPLES, 1, how).pairs] == left


def test_rankings_are_no_pairs(tmp_path):
    files.write_jsonl(tmp_path / "r", [{"id": "x1", "ranking": ["a", "b", "c"]}])
    with pytest.raises(DataError, match='holds rankings.*write each two of a ranking as a line with "chosen"'):
        read_pairs(tmp_path / "r", TASK, EXAMPLES, 1)


# --- predictions and people ------------------------------------------------------------------------------------------


def test_pairs_of_two_systems_are_judged_by_the_reward(tmp_path):
    for name, place in (("a", 0), ("b", 1)):
        texts = [
            {"id": one.id, "text": one.references[0] if (n % 2) == place else "nothing"}
            for n, one in enumerate(EXAMPLES)
        ]
        texts[5]["text"] = "the same"
        texts[7]["truncated"] = place == 0  # of the worse
        files.write_jsonl(tmp_path / name, texts)
    made = from_predictions(
        tmp_path / "a", tmp_path / "b", TASK, EXAMPLES, EXAMPLES, Choice(), tmp_path / "p", split="train"
    )
    _, lines = written(tmp_path / "p")
    assert (made.pairs, made.made, made.reward, made.reward_calls) == (59, "predictions", "rouge1", 120)
    assert all(line["rejected"] == "nothing" for line in lines) and "x5" not in {line["id"] for line in lines}
    assert [line["id"] for line in lines if line.get("rejected_truncated")] == ["x7"]
    assert not any("chosen_truncated" in line for line in lines)
    groups = read_scored(tmp_path / "p", TASK, EXAMPLES).groups
    cut = sorted(tuple(one.truncated for one in group.responses) for group in groups)
    assert cut == [(False, False)] * 58 + [(False, True)]
    files.write_jsonl(tmp_path / "b", [{"id": one.id, "text": "x"} for one in EXAMPLES[1:]])
    with pytest.raises(SubmissionError, match=f"^{tmp_path / 'b'}: .*1 missing"):  # a missing side
        from_predictions(
            tmp_path / "a", tmp_path / "b", TASK, EXAMPLES, EXAMPLES, Choice(), tmp_path / "q", split="train"
        )


def answer(item, annotator, choice, example=EXAMPLES[0], turned=False, **more):
    texts = {"a": "one", "b": "two"} if not turned else {"a": "two", "b": "one"}
    systems = ["A", "B"] if not turned else ["B", "A"]
    return {
        "item": item, "annotator": annotator, "prompt": example.prompt, "id": example.id, "systems": systems,
        "choice": choice, **texts, **more,
    }  # fmt: skip


def test_most_of_the_people_decide_and_an_even_vote_is_a_tie(tmp_path):
    files.write_jsonl(
        tmp_path / "answers",
        [
            answer("i0", "ann", "a"), answer("i0", "bob", "a", turned=True), answer("i0", "cat", "b", turned=True),
            answer("i1", "ann", "a", EXAMPLES[1]), answer("i1", "bob", "b", EXAMPLES[1], id=None) | {"id": "x1"},
            answer("i2", "ann", "tie", EXAMPLES[2]), answer("i2", "bob", "b", EXAMPLES[2]), answer("i2", "cat", "tie", EXAMPLES[2]),
        ],
    )  # fmt: skip
    votes = [(one.item, one.first, one.second, one.equal) for one in read_judged_items(tmp_path / "answers")]
    assert votes == [("i0", 2, 1, 0), ("i1", 1, 1, 0), ("i2", 0, 1, 2)]
    made = from_study(tmp_path / "answers", TASK, EXAMPLES, Choice(ties="keep"), tmp_path / "p", split="train")
    _, lines = written(tmp_path / "p")
    found = {line["id"]: (line["chosen"], line.get("tie", False)) for line in lines}
    assert found == {"x0": ("one", False), "x1": ("one", True), "x2": ("two", False)}
    assert (made.judgements, made.ties, made.noise, made.reward) == (8, 1, "people", "")
    dropped = from_study(tmp_path / "answers", TASK, EXAMPLES, Choice(), tmp_path / "q", split="train")
    assert (dropped.pairs, dropped.dropped_ties) == (2, 1)


def test_what_nobody_sees_is_left_out_of_what_people_judged(tmp_path):
    files.write_jsonl(tmp_path / "answers", [answer("i0", "ann", "a") | {"a": "on\u200de"}])
    from_study(tmp_path / "answers", TASK, EXAMPLES, Choice(), tmp_path / "p", split="train")
    assert [(line["chosen"], line["rejected"]) for line in written(tmp_path / "p")[1]] == [("one", "two")]


def test_a_study_of_three_systems_becomes_pairs_of_every_two(tmp_path):
    key = a_study(PAIRS, items=2, annotators=2)  # alpha, beta and gamma: the better is the later one
    given = opinions(key, lambda number, screen, question: "ab"[screen.systems[1] > screen.systems[0]], tmp_path)
    files.write_jsonl(tmp_path / "answers", preference_lines(key, given))
    examples = [Example(item.id, item.prompt, ()) for item in key.items]
    made = from_study(tmp_path / "answers", TASK, examples, Choice(), tmp_path / "p", split="test")
    _, lines = written(tmp_path / "p")
    assert (made.pairs, made.judgements, made.prompts) == (6, 12, 2)
    better = Counter((line["chosen"].split()[0], line["rejected"].split()[0]) for line in lines)
    assert better == {("beta", "alpha"): 2, ("gamma", "alpha"): 2, ("gamma", "beta"): 2}


@pytest.mark.parametrize(
    ("programs", "who"), [((), "people"), (("ann",), "people and programs"), (("ann", "bob"), "programs")]
)
def test_answers_of_programs_stay_theirs_up_to_the_reward_model(programs, who, tmp_path):
    ids = [(n, example, name) for n, example in enumerate(preferences.EXAMPLES) for name in ("ann", "bob")]
    lines = [
        answer(f"i{n}", name, "a", example, **({"synthetic": True} if name in programs else {}))
        for n, example, name in ids
    ]
    files.write_jsonl(tmp_path / "answers", lines)
    task, examples = preferences.TASK, preferences.EXAMPLES
    made = from_study(tmp_path / "answers", task, examples, Choice(), tmp_path / "pairs.jsonl", split="train")
    assert (made.noise, made.judge, made.reward) == (who, who, "")
    folder, model = preferences.train(tmp_path)
    assert (model.judge, model.noise) == (who, who)
    said = (folder / "README.md").read_text()
    assert f"| judged by | {who}" in said and ("no opinions of people" in said) == (who != "people")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [{"id": "x1", "responses": [{"text": "a", "reward": 1}]}],
            r"line 1: no answer to a study of pairs, but something else; [^\n]*$",
        ),
        ([answer("i", "ann", "a") | {"x": 1, "y": 2}], r"unknown key 'x'.*; .*unknown key 'y'[^\\]*$"),
        ([], "holds no answers"),
        ([answer("i", "ann", "c")], "choice: "),
        ([answer("i", "ann", "a") | {"systems": ["A"]}], "systems: expected 2 values"),
        ([answer("i", "ann", "a") | {"b": None}], "b: expected"),
        ([answer("i", "ann", "a"), answer("i", "ann", "b")], "ann answers the item i a second time"),
        ([answer("i", "ann", "a"), answer("i", "bob", "a", a="else")], "has another prompt, text or system"),
        (
            [answer("i", "ann", "a"), answer("i", "bob", "a") | {"systems": ["B", "A"]}],
            "another prompt, text or system",
        ),
        ([answer("i", "ann", "a", id="zz")], "'zz' is no prompt of the split 'train'"),
        ([answer("i", "ann", "a", prompt="other")], "'x0' is no prompt of the split 'train'"),
        ([answer("i", "ann", "tie")], "no pair can be made of it"),
        ([answer("i", "ann", "a", b="one")], "no pair can be made of it"),
    ],
)
def test_answers_that_are_none(lines, message, tmp_path):
    files.write_jsonl(tmp_path / "answers", lines)
    with pytest.raises(DataError, match=message):
        from_study(tmp_path / "answers", TASK, EXAMPLES, Choice(), tmp_path / "p", split="train")
    assert not (tmp_path / "p").exists()


# --- what is refused -------------------------------------------------------------------------------------------------


def test_what_no_pairs_can_be_made_of(tmp_path):
    source = samples(tmp_path / "s", rewards=[0.5, 0.5])
    with pytest.raises(DataError, match="no pair can be made of it"):  # all are equally good
        from_samples(source, TASK, EXAMPLES, Choice(), tmp_path / "p")
    source = samples(tmp_path / "s", count=1)
    with pytest.raises(DataError, match="no pair can be made of it"):
        from_samples(source, TASK, EXAMPLES, Choice(), tmp_path / "p")
    source = samples(tmp_path / "s", count=2)
    with pytest.raises(ConfigError, match=r"pairs 61: .* gives 60; ask for fewer"):
        from_samples(source, TASK, EXAMPLES, Choice(pairs=61), tmp_path / "p")
    with pytest.raises(DataError, match="states no rewards, but an order already"):
        from_samples(samples(tmp_path / "s") and _pairs(tmp_path), TASK, EXAMPLES, Choice(), tmp_path / "q")
    with pytest.raises(DataError, match="is of no training example"):  # an unknown prompt
        from_samples(source, TASK, EXAMPLES[1:], Choice(), tmp_path / "p")
    with pytest.raises(ConfigError, match="without .gz"):
        from_samples(source, TASK, EXAMPLES, Choice(), tmp_path / "p.gz")
    assert not (tmp_path / "p").exists()


def _pairs(tmp_path):
    files.write_jsonl(tmp_path / "only.jsonl", [{"id": "x1", "chosen": "a", "rejected": "b"}])
    return tmp_path / "only.jsonl"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pairs": 3}, "holds 40 pairs, and its header says 3: it was cut or edited"),
        ({"prompts": 0}, "prompts is 0, but the file shows at least"),
        ({"judgements": 1}, "judgements is 1, but the file shows at least 40"),
        ({"task": "other"}, "responses to tests/other, not to tests/tiny"),
        ({"made": "guesses"}, "made: "),
        ({"grue": "pears"}, "a file of str 'pears'"),
        ({"grue": ["preference pairs"]}, "a file of list"),
    ],
)
def test_an_edited_header_is_refused(change, message, tmp_path):
    from_samples(samples(tmp_path / "s"), TASK, EXAMPLES, Choice(pairs=40), tmp_path / "p")
    header, lines = written(tmp_path / "p")
    files.write_jsonl(tmp_path / "p", [{**header, **change}, *lines])
    with pytest.raises(DataError, match=message):
        read_scored(tmp_path / "p", TASK, EXAMPLES)


def test_parts_that_cannot_be_learned_from(tmp_path):
    files.write_jsonl(tmp_path / "one", [{"id": "x1", "chosen": "a", "rejected": "b"}])
    found = read_pairs(tmp_path / "one", TASK, EXAMPLES, 1)
    with pytest.raises(DataError, match=r"its part '\w+' holds no pairs \(pairs: "):
        require_parts(found, tmp_path / "one")
    tie = {"chosen": "a", "rejected": "b", "tie": True}
    files.write_jsonl(tmp_path / "ties", [{"id": one.id, **tie} for one in EXAMPLES])
    with pytest.raises(DataError, match="its part 'train' holds nothing but ties"):
        require_parts(read_pairs(tmp_path / "ties", TASK, EXAMPLES, 1), tmp_path / "ties")
    with pytest.raises(DataError, match="holds no pairs; `grue pairs from-samples"):
        read_pairs(samples(tmp_path / "s"), TASK, EXAMPLES, 1)
