"""Files of scored responses: three forms, a header, and one clear error for everything else."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from support import tiny

from grue import files
from grue.data import limits, scored, scored_lines
from grue.data.pairs import PairsHeader
from grue.data.scored import ScoredBudget, ScoredGroup, read_header, read_scored
from grue.data.scored_lines import LEFT_OUT, RewardedLine, ScoredHeader, ScoredResponse, as_records, scored_schema
from grue.errors import DataError

TASK, EXAMPLES = tiny.task("causal"), tiny.examples()
REWARDED = {"id": "e1", "responses": [{"text": "the dog", "reward": 0.5}, {"text": "", "reward": -1}]}
PAIR = {"id": "e2", "chosen": "the dog", "rejected": "a dog"}
RANKING = {"id": "e3", "ranking": ["a", "b", "c"]}
MADE = ScoredHeader(
    grue="scored responses", schema=1, suite="tests", task="tiny", task_hash=TASK.hash, split="train", reward="rouge1",
    checkpoint="sha", system="ppo", seed=1, samples=2, generation=TASK.rollout, prompts=2, responses=2,
    generated_tokens=9, reward_calls=4, seconds=1.5,
)  # fmt: skip
HEADER = files.plain(MADE)


@pytest.fixture
def read(tmp_path):
    """Read lines, each an object or raw text, as a file's."""
    path = tmp_path / "data.jsonl"

    def call(*lines, end="\n"):
        texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
        path.write_text("\n".join(texts) + end if texts else "", encoding="utf-8")
        return read_scored(path, TASK, EXAMPLES)

    return call


def refused(read, *lines, end="\n"):
    """The message of a refusal, without the file's folder."""
    with pytest.raises(DataError) as caught:
        read(*lines, end=end)
    message = str(caught.value)
    assert message.isprintable() and len(message) < 800, message
    assert re.match(r"/\S*data\.jsonl", message), message
    return re.sub(r"/\S*/data\.jsonl", "FILE", message)


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
    assert [(group.example.id, group.texts) for group in pairs.groups] == [
        ("e2", ("the dog", "a dog")),
        ("e2", ("red", "a dog")),
        ("e3", ("the dog", "a dog")),
    ]
    assert not pairs.rewards and all(better > worse for better, worse in (group.scores for group in pairs.groups))
    (ranked,) = read(RANKING).groups
    assert ranked.texts == ("a", "b", "c") and ranked.scores[0] > ranked.scores[1] > ranked.scores[2]


def test_a_prompt_names_its_example_as_an_id_does(read):
    by_prompt = {key: value for key, value in PAIR.items() if key != "id"} | {"prompt": EXAMPLES[2].prompt}
    both = {**PAIR, "prompt": EXAMPLES[2].prompt}
    assert read(by_prompt).groups == read(both).groups == read(PAIR).groups
    assert read({**by_prompt, "id": None}).groups == read(PAIR).groups  # as tables with empty columns are written


def test_of_several_examples_with_a_prompt_the_first_is_answered(tmp_path):
    path = tmp_path / "data.jsonl"
    files.write_jsonl(path, [{"prompt": "same", "ranking": ["a", "b"]}])
    examples = [replace(EXAMPLES[0], id=name, prompt="same") for name in ("first", "second")]
    assert read_scored(path, TASK, examples).groups[0].example.id == "first"


def test_blank_lines_a_mark_and_a_missing_last_end_do_no_harm(read):
    assert read("\ufeff" + json.dumps(PAIR), "", PAIR, end="").groups == read(PAIR, PAIR).groups


def test_the_budget_is_the_headers_or_what_can_be_seen(read):
    found = read(HEADER, REWARDED)
    assert found.made == MADE == read_header(found.path)
    assert found.budget == ScoredBudget(prompts=2, generated_tokens=9, reward_calls=4, seconds=1.5)
    own = read(RANKING, {**RANKING, "id": "e4", "ranking": ["a", "b"]}, RANKING)
    assert own.budget == ScoredBudget(prompts=3, generated_tokens=None, reward_calls=8, seconds=None)
    assert read_header(own.path) is None


def test_what_is_written_is_what_is_read(tmp_path):
    path = tmp_path / "data.jsonl"
    responses = (ScoredResponse("a\n\tb “c” 🐕", 0.1), ScoredResponse("", -1e-300))
    files.write_jsonl(path, as_records(MADE, [RewardedLine(responses, "e1")]))
    found = read_scored(path, TASK, EXAMPLES)
    assert found.made == MADE
    assert found.groups == (ScoredGroup(EXAMPLES[1], responses),)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_file_that_is_none(read, tmp_path):
    assert refused(read) == "FILE: holds no responses; `grue generate --samples 8 --score` writes such a file."
    assert "holds no responses" in refused(read, HEADER)
    assert "holds no responses" in refused(read, "", "")
    for name in ("gone.jsonl", "."):
        with pytest.raises(DataError, match="no such file|not a plain file"):
            read_scored(tmp_path / name, TASK, EXAMPLES)
    packed = tmp_path / "data.jsonl.gz"
    packed.write_bytes(b"")
    with pytest.raises(DataError, match="not a plain file of JSON lines; unpack"):
        read_scored(packed, TASK, EXAMPLES)


def test_damaged_lines(read):
    whole = json.dumps(PAIR)
    torn = "It is the last line and has no end: the file was cut off. Copy or make it again, or remove that line."
    for cut in (1, 20, len(whole) - 1):
        message = refused(read, PAIR, whole[:cut], end="")
        assert message.startswith("FILE, line 2: not valid JSON: ") and message.endswith(torn)
    for line, why in (
        ("{", "not valid JSON"),
        ("[1]", "expected an object"),
        ('{"id": "e2", "id": "e2", "ranking": ["a", "b"]}', "the key 'id' is repeated"),
        ('{"id": "e1", "responses": [{"text": "a", "reward": NaN}]}', "NaN is not a JSON number"),
        ('{"id": "e1", "responses": [{"text": "a", "reward": 1e999}]}', "beyond the range"),
        ('{"id": "e2", "chosen": "\\ud83d", "rejected": "a"}', "surrogate"),
        ("[" * 100_000, "not valid JSON"),
    ):
        message = refused(read, line, PAIR)
        assert message.startswith("FILE, line 1: ") and why in message
        assert message.endswith("Write one JSON object a line, or make the file again.")


def test_lines_that_cannot_be_learned_from(read):
    of_pairs = 'Lines of this form are {"id": …, "chosen": …, "rejected": …}, with "prompt" beside or instead of "id".'
    for line, why in (
        (
            {**PAIR, "score_chosen": 1},
            "unknown key 'score_chosen'. Did you mean 'chosen'? Known: chosen, rejected, id, prompt, tie, part, "
            f"chosen_truncated, rejected_truncated, chosen_token_ids, rejected_token_ids. {of_pairs}",
        ),
        ({"id": "e2", "chosen": "a"}, f"the key 'rejected' is missing. {of_pairs}"),
        ({"id": "e2", "rejected": "a"}, "the key 'chosen' is missing."),
        ({**PAIR, "chosen": [{"role": "assistant", "content": "a"}]}, "chosen: expected a string, found list"),
        ({**PAIR, "chosen": None}, "chosen: expected a string, found null"),
        ({**PAIR, "id": 2}, "id: expected a string, found int 2."),
        ({**PAIR, "id": 2}, 'Write the id as a string, such as "2".'),
        ({"chosen": "a", "rejected": "b"}, "says neither id nor prompt"),
        ({**PAIR, "chosen": "a dog"}, "the text str 'a dog' is better than itself"),
        ({**RANKING, "ranking": ["a", "b", "a"]}, "the text str 'a' is better than itself"),
        ({**RANKING, "ranking": ["a"]}, "a ranking of 1; add responses"),
        ({**RANKING, "ranking": []}, "a ranking of 0; add responses"),
        ({**RANKING, "ranking": "ab"}, "ranking: expected a list, found str 'ab'"),
        ({**REWARDED, "responses": []}, "no response; add responses"),
        ({**REWARDED, "responses": [{"text": "a"}]}, "responses[0]: the key 'reward' is missing"),
        ({**REWARDED, "responses": [{"text": "a", "reward": "1"}]}, "reward: expected a number, found str '1'"),
        ({**REWARDED, "responses": [{"text": "a", "reward": True}]}, "reward: expected a number, found bool True"),
        ({**REWARDED, "responses": [{"text": "a", "reward": None}]}, "reward: expected a number, found null"),
        ({**REWARDED, "responses": [{"text": "a", "reward": 10**400}]}, "reward: expected a finite number"),
        ({**REWARDED, "responses": [{"text": "a", "reward": -1e300}]}, "a reward of -1e+300; at most 1e+18 is allowed"),
        ({**REWARDED, "responses": [{"text": "a", "reward": 1, "tokens": 2}]}, "unknown key 'tokens'"),
        ({**REWARDED, "responses": ["a"]}, "responses[0]: expected a table"),
        ({**REWARDED, "ranking": ["a", "b"]}, "is of several forms (its keys: id, responses, ranking). Write one of"),
        ({"id": "e1", "text": "the dog"}, "holds no scored responses (its keys: id, text). Write one of"),
        ({}, "holds no scored responses (its keys: none). Write one of"),
        ({"\u202e\x1b[31m": 1}, r"its keys: \u202e\x1b[31m)"),
    ):
        message = refused(read, line)
        assert message.startswith("FILE, line 1: ") and why in message, message


def test_characters_that_nobody_sees_are_refused_in_every_form(read):
    for bad, named in (("a\u200bb", "U+200B"), ("a\r", "U+000D"), ("\u202ea", "U+202E"), ("\x00", "U+0000")):
        for line in (
            {**PAIR, "rejected": bad},
            {**RANKING, "ranking": ["a", "b", bad]},
            {**REWARDED, "responses": [{"text": bad, "reward": 1}]},
        ):
            assert f"a text holds characters that nobody sees ({named}); remove them" in refused(read, line)


def test_all_lines_have_the_form_of_the_first(read):
    assert refused(read, HEADER, PAIR, PAIR, RANKING) == (
        'FILE, line 4: has another form than line 2, {"id": …, "chosen": …, "rejected": …}; put lines of each form into '
        "a file of their own."
    )
    assert "line 2: has another form than line 1" in refused(read, REWARDED, PAIR)


def test_a_line_answers_a_training_example_of_the_task(read):
    shows = "`grue data export tiny --suite tests --split train` shows them all."
    assert refused(read, PAIR, {**PAIR, "id": "e99"}) == (
        f"FILE, line 2: the id 'e99' is of no training example of tests/tiny. {shows}"
    )
    assert refused(read, {"prompt": "the dog ", "chosen": "a", "rejected": "b"}) == (
        f"FILE, line 1: the prompt str 'the dog ' is of no training example of tests/tiny. {shows}"
    )
    assert "is not that of the id 'e2'" in refused(read, {**PAIR, "prompt": EXAMPLES[3].prompt})
    message = refused(read, {**HEADER, "split": "test"}, {**REWARDED, "id": "of test"})
    assert "the id 'of test' is of no training example" in message
    assert "The header says that the split 'test' was answered." in message
    assert r"the id '\x1b]0;" in refused(read, {**PAIR, "id": "\x1b]0;x" + "y" * 10_000})


def test_a_header_of_something_else(read):
    for change, why in (
        ({"grue": "a frontier"}, "a file of str 'a frontier', not of 'scored responses'"),
        ({"schema": 2}, "schema: this version of grue reads 1, found int 2; upgrade grue, or make the file again."),
        ({"schema": True}, "schema: bool True is not one of 1"),
        ({"task": "imdb"}, "responses to tests/imdb, not to tests/tiny; choose that task"),
        ({"suite": "mini"}, "responses to mini/tiny, not to tests/tiny"),
        (
            {"task_hash": "0" * 64},
            f"made for another version of tests/tiny (hash 00000000000…, here {TASK.hash[:11]}…)",
        ),
        ({"mood": "good"}, "unknown key 'mood'"),
        ({"prompts": "2"}, "prompts: expected a whole number"),
        ({"generation": {}}, "generation: the key 'max_new_tokens' is missing"),
    ):
        message = refused(read, {**HEADER, **change}, REWARDED)
        assert message.startswith("FILE, line 1: ") and why in message, message
    without = {key: value for key, value in HEADER.items() if key != "seconds"}
    assert "the key 'seconds' is missing. Restore the header; or remove it" in refused(read, without, REWARDED)
    assert "FILE, line 3: a second header" in refused(read, HEADER, REWARDED, HEADER, REWARDED)
    assert "FILE, line 2: a second header" in refused(read, REWARDED, HEADER)


def test_a_header_that_is_not_of_these_lines(read):
    """Lines lost at a line's end, added ones, and a budget that was made smaller."""
    cut = "FILE: holds 4 responses, and its header says 2: it was cut or edited."
    assert refused(read, HEADER, REWARDED, {**REWARDED, "id": "e5"}).startswith(cut)
    assert refused(read, {**HEADER, "responses": 3}, REWARDED).startswith(
        "FILE: holds 2 responses, and its header says 3"
    )
    for key, least in {"prompts": 1, "reward_calls": 2, "generated_tokens": 1, "samples": 1, "seconds": 0}.items():
        said = least - 1
        wanted = f"FILE, line 1: {key} is {said}{'.0' * (key == 'seconds')}, but the file shows at least {least}. Make"
        assert refused(read, {**HEADER, key: said}, REWARDED).startswith(wanted)


def test_too_much(read, monkeypatch):
    assert limits.MOST_RESPONSES >= 8 * 500_000  # eight to each prompt of the largest data sets but one
    monkeypatch.setattr(scored, "MOST_RESPONSES", 3)
    assert refused(read, PAIR, PAIR).startswith("FILE, line 2: refused: more than 3 responses")
    monkeypatch.setattr(scored_lines, "LONGEST_CELL", 5)
    assert "line 1: a text of 7 characters; at most 5 are allowed" in refused(read, PAIR)
    monkeypatch.setattr(scored, "LARGEST_TEXT", 10)
    assert re.match(r"FILE: refused: \d+ bytes, where 10 are allowed", refused(read, PAIR))
    monkeypatch.undo()
    monkeypatch.setattr(files, "LONGEST_LINE", 20)
    assert "line 1: longer than the 20 bytes" in refused(read, PAIR)


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
    assert kinds["ScoredHeader"]["properties"]["schema"] == {"enum": [1]}


def test_reading_many_lines_is_linear(tmp_path):
    """A long ranking whose last two texts are equal is refused at once."""
    path = Path(tmp_path / "data.jsonl")
    files.write_jsonl(path, [{"id": "e1", "ranking": [*map(str, range(20_000)), "0"]}])
    with pytest.raises(DataError, match="'0' is better than itself"):
        read_scored(path, TASK, EXAMPLES)
