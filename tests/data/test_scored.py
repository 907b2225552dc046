"""Files of scored responses: three forms, a header, and one clear error for everything else."""

import json
from dataclasses import fields, replace

import pytest
from support.factories import a_task

from grue import files
from grue.data.pairs import PairsHeader
from grue.data.scored import ScoredBudget, ScoredGroup, read_header, read_scored
from grue.data.scored_lines import LEFT_OUT, RewardedLine, ScoredHeader, ScoredResponse, as_records, scored_schema
from grue.errors import DataError
from grue.records import Example

TASK = a_task()
EXAMPLES = [Example(f"e{n}", f"prompt {n}", ()) for n in range(8)]
REWARDED = {"id": "e1", "responses": [{"text": "the dog", "reward": 0.5}, {"text": "", "reward": -1}]}
PAIR = {"id": "e2", "chosen": "the dog", "rejected": "a dog"}
RANKING = {"id": "e3", "ranking": ["a", "b", "c"]}
MADE = ScoredHeader(
    **{"grue": "scored responses", "schema": 1, "suite": "mini", "task": "stories", "task_hash": TASK.hash},
    **{"split": "train", "reward": "rouge1", "checkpoint": "sha", "system": "ppo", "seed": 1, "samples": 2},
    **{"generation": TASK.rollout, "prompts": 2, "responses": 2, "generated_tokens": 9, "reward_calls": 4},
    seconds=1.5,
)
HEADER = files.plain(MADE)


@pytest.fixture
def read(tmp_path):
    """Read lines, each an object or raw text, as a file's."""
    path = tmp_path / "data.jsonl"

    def call(*lines, end="\n", examples=EXAMPLES):
        texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
        path.write_text("\n".join(texts) + end if texts else "", encoding="utf-8")
        return read_scored(path, TASK, examples)

    return call


@pytest.fixture
def refuse(read, refused):
    """Expect a refusal of a file of these lines."""

    def call(*lines, end="\n"):
        with refused(DataError) as caught:
            read(*lines, end=end)
        assert str(caught.value).isprintable() and len(str(caught.value)) < 800

    return call


# --- what is read ----------------------------------------------------------------------------------------------------


def test_each_form_becomes_groups(read, tmp_path):
    found = read(REWARDED, {**REWARDED, "id": "e7", "responses": REWARDED["responses"][:1]})
    assert found.groups == (
        ScoredGroup(EXAMPLES[1], (ScoredResponse("the dog", 0.5), ScoredResponse("", -1.0))),
        ScoredGroup(EXAMPLES[7], (ScoredResponse("the dog", 0.5),)),
    )
    assert (found.rewards, found.made, found.path) == (True, None, tmp_path / "data.jsonl")
    assert found.sha256 == files.sha256_file(found.path)
    assert all(type(score) is float for group in found.groups for score in group.scores)
    pairs = read(PAIR, {**PAIR, "chosen": "red"}, {**PAIR, "id": "e3"})  # several to one prompt
    texts = [("e2", ("the dog", "a dog")), ("e2", ("red", "a dog")), ("e3", ("the dog", "a dog"))]
    assert [(group.example.id, group.texts) for group in pairs.groups] == texts
    assert not pairs.rewards and all(better > worse for better, worse in (group.scores for group in pairs.groups))
    (ranked,) = read(RANKING).groups
    assert ranked.texts == ("a", "b", "c") and ranked.scores[0] > ranked.scores[1] > ranked.scores[2]
    assert read("\ufeff" + json.dumps(PAIR), "", PAIR, end="").groups == read(PAIR, PAIR).groups


def test_a_prompt_names_its_example_as_an_id_does_and_the_first_of_several(read):
    by_prompt = {key: value for key, value in PAIR.items() if key != "id"} | {"prompt": EXAMPLES[2].prompt}
    for line in (by_prompt, {**PAIR, "prompt": EXAMPLES[2].prompt}, {**by_prompt, "id": None}):
        assert read(line).groups == read(PAIR).groups
    same = [replace(EXAMPLES[2], id=name) for name in ("first", "second")]
    assert read(by_prompt, examples=same).groups[0].example.id == "first"


def test_the_budget_is_the_headers_or_what_can_be_seen(read):
    found = read(HEADER, REWARDED)
    assert found.made == MADE == read_header(found.path)
    assert found.budget == ScoredBudget(prompts=2, generated_tokens=9, reward_calls=4, seconds=1.5)
    own = read(RANKING, {**RANKING, "id": "e4", "ranking": ["a", "b"]}, RANKING)
    assert own.budget == ScoredBudget(prompts=3, generated_tokens=None, reward_calls=8, seconds=None)
    assert read_header(own.path) is None


def test_what_is_written_is_what_is_read(tmp_path):
    responses = (ScoredResponse("a\n\tb “c” 🐕", 0.1), ScoredResponse("", -1e-300))
    files.write_jsonl(tmp_path / "data.jsonl", as_records(MADE, [RewardedLine(responses, "e1")]))
    found = read_scored(tmp_path / "data.jsonl", TASK, EXAMPLES)
    assert (found.made, found.groups) == (MADE, (ScoredGroup(EXAMPLES[1], responses),))


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_file_that_is_none(refuse, refused, tmp_path):
    for lines in ((), (HEADER,), ("", "")):
        refuse(*lines)
    (tmp_path / "data.jsonl.gz").write_bytes(b"")
    for name in ("gone.jsonl", ".", "data.jsonl.gz"):
        with refused(DataError):
            read_scored(tmp_path / name, TASK, EXAMPLES)


def test_damaged_lines(read, refuse):
    whole = json.dumps(PAIR)
    for cut in (1, 20, len(whole) - 1):
        with pytest.raises(DataError, match="jsonl, line 2: not valid JSON: .* is incomplete: the file was cut off"):
            read(PAIR, whole[:cut], end="")
    for line in ("{", "[" * 100_000):
        with pytest.raises(
            DataError, match="jsonl, line 1: not valid JSON: .* Write one JSON object per line, or make"
        ):
            read(line, PAIR)
    for line in (
        "[1]",
        '{"id": "e2", "id": "e2", "ranking": ["a", "b"]}',
        '{"id": "e1", "responses": [{"text": "a", "reward": NaN}]}',
        '{"id": "e1", "responses": [{"text": "a", "reward": 1e999}]}',
        '{"id": "e2", "chosen": "\\ud83d", "rejected": "a"}',
    ):
        refuse(line, PAIR)


def rewarded(**response):
    return {**REWARDED, "responses": [{"text": "a", **response}]}


def test_lines_that_cannot_be_learned_from(refuse):
    pairs = [{"chosen": [{"role": "assistant", "content": "a"}]}, {"chosen": None}, {"chosen": "a dog"}, {"id": 2}]
    rankings = (["a", "b", "a"], ["a"], [], "ab", [*map(str, range(20_000)), "0"])
    rewards = ("1", True, None, 10**400, -1e300)
    for line in (
        *({**PAIR, **changes} for changes in ({"score_chosen": 1}, *pairs)),
        *({"id": "e2", key: "a"} for key in ("chosen", "rejected")),
        {"chosen": "a", "rejected": "b"},
        *({**RANKING, "ranking": ranking} for ranking in rankings),
        *({**REWARDED, "responses": responses} for responses in ([], ["a"])),
        *(rewarded(reward=reward) for reward in rewards),
        rewarded(),
        rewarded(reward=1, tokens=2),
        {**REWARDED, "ranking": ["a", "b"]},
        {"id": "e1", "text": "the dog"},
        {},
        {"\u202e\x1b[31m": 1},
    ):
        refuse(line)


def test_characters_that_nobody_sees_are_refused_in_every_form(refuse):
    for bad in ("a\u200bb", "a\r", "\u202ea", "\x00"):
        for line in ({**PAIR, "rejected": bad}, {**RANKING, "ranking": ["a", "b", bad]}, rewarded(reward=1, text=bad)):
            refuse(line)


def test_all_lines_have_the_form_of_the_first_and_answer_a_training_example_of_the_task(refuse):
    for lines in (
        (HEADER, PAIR, PAIR, RANKING),
        (REWARDED, PAIR),
        (PAIR, {**PAIR, "id": "e99"}),
        ({"prompt": "prompt 1 ", "chosen": "a", "rejected": "b"},),
        ({**PAIR, "prompt": EXAMPLES[3].prompt},),
        ({**HEADER, "split": "test"}, {**REWARDED, "id": "of test"}),
        ({**PAIR, "id": "\x1b]0;x" + "y" * 10_000},),
    ):
        refuse(*lines)


def test_a_header_of_something_else_or_of_other_lines(refuse):
    """Of lines lost at a line's end, added ones, and a budget that was made smaller."""
    for change in (
        *({"grue": "a frontier"}, {"schema": 2}, {"schema": True}, {"task": "wmt16"}, {"suite": "grue"}),
        *({"task_hash": "0" * 64}, {"mood": "good"}, {"prompts": "2"}, {"generation": {}}, {"responses": 3}),
        *({"prompts": 0}, {"reward_calls": 1}, {"generated_tokens": 0}, {"samples": 0}, {"seconds": -1}),
    ):
        refuse({**HEADER, **change}, REWARDED)
    refuse({key: value for key, value in HEADER.items() if key != "seconds"}, REWARDED)
    refuse(HEADER, REWARDED, HEADER, REWARDED)
    refuse(REWARDED, HEADER)
    refuse(HEADER, REWARDED, {**REWARDED, "id": "e5"})


def test_the_schema_says_what_the_reader_takes():
    kinds = {one["title"]: one for one in scored_schema()["anyOf"]}
    assert {title: one["required"] for title, one in kinds.items()} == {
        "ScoredHeader": [key for key in HEADER if key not in LEFT_OUT],
        "PairsHeader": [field.name for field in fields(PairsHeader)],
        "RewardedLine": ["responses"],
        "PairLine": ["chosen", "rejected"],
        "RankingLine": ["ranking"],
    }
    assert all(one["additionalProperties"] is False and "$schema" not in one for one in kinds.values())
    assert kinds["ScoredHeader"]["properties"]["schema"] == {"type": "integer", "const": 1}
