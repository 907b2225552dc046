"""Scored samples: what is drawn, what is written, and what becomes of interrupted calls and of files that are there."""

import json
from collections import defaultdict
from dataclasses import replace

import pytest
from support import tiny

from grue import files
from grue.data.scored import read_scored
from grue.errors import ConfigError, DataError, TrainingError
from grue.evaluation.best_of import sample_seed
from grue.evaluation.predict import respond
from grue.evaluation.rewards import give_name, make_reward
from grue.evaluation.samples import as_rollouts, write_samples
from grue.evaluation.systems import System
from grue.lm.seeds import derived_seed
from grue.lm.tokens import encode_responses
from grue.preferences.make import Choice, from_samples
from grue.rl.groups import encode_groups

FAMILIES = ["causal", "seq2seq"]
EXAMPLES = tiny.examples(7)


def system(family="causal", seed=1):
    return System("tiny", {"name": "tiny"}, seed, "sha", tiny.model(family), tiny.tokenizer(family))


def write(path, family="causal", *, examples=EXAMPLES, of=None, task=None, samples=4, **asked):
    asked = {"reward": "rouge1", "split": "train", "train": EXAMPLES, **asked}
    return write_samples(task or tiny.task(family), of or system(family), examples, path, samples=samples, **asked)


def groups(path, family="causal"):
    return {group.example.id: group for group in read_scored(path, tiny.task(family), EXAMPLES).groups}


def lines(path):
    """The file without its header, which has a clock."""
    return path.read_text(encoding="utf-8").splitlines()[1:]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out" / "samples.jsonl"


# --- what is drawn and written ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_holds_the_draws_of_rollouts_with_their_rewards(family, path):
    task = tiny.task(family, top_k=12, temperature=2.0)
    made = write(path, family, task=task, reward="rouge1 - 0.1*coverage")
    reward = make_reward("rouge1 - 0.1*coverage", task, EXAMPLES)
    tokens = 0
    found = read_scored(path, task, EXAMPLES)
    for number in range(4):
        model, words = tiny.model(family), tiny.tokenizer(family)
        drawn = respond(model, words, task, EXAMPLES, task.rollout, sample_seed(1, number))
        texts = [one.text for one in drawn]
        assert [group.texts[number] for group in found.groups] == texts
        assert [group.scores[number] for group in found.groups] == reward(EXAMPLES, texts)
        tokens += sum(len(one.token_ids) for one in drawn)
    assert [group.example for group in found.groups] == EXAMPLES
    assert found.rewards and found.made == made
    assert (made.prompts, made.responses, made.reward_calls, made.generated_tokens) == (7, 28, 28, tokens)
    assert (made.suite, made.task, made.task_hash, made.split) == ("tests", "tiny", task.hash, "train")
    assert (made.checkpoint, made.system, made.seed, made.samples) == ("sha", "tiny", 1, 4)
    assert made.generation == task.rollout and made.reward == "rouge1 - 0.1*coverage"
    assert 0 < made.seconds < 60


@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_drawn_is_learnt_as_it_was_drawn(family, path, tmp_path):
    """Ids, and no end where there was none: from the file, from pairs made of it, and by another tokenizer's text."""
    task, model, words = tiny.task(family, temperature=2.0), tiny.model(family), tiny.tokenizer(family)
    write(path, family, task=task)
    records = [json.loads(line) for line in lines(path)]
    drawn = defaultdict(list)  # by prompt and text, which may be drawn twice, and in several spellings
    for number in range(4):
        for example, one in zip(
            EXAMPLES, respond(model, words, task, EXAMPLES, task.rollout, sample_seed(1, number)), strict=True
        ):
            drawn[example.id, one.text].append(one)
    kept = [(record["id"], one) for record in records for one in record["responses"]]
    assert 0 < sum("token_ids" in one for _, one in kept) < len(kept), "only where the text does not give the ids"
    assert 0 < sum("truncated" in one for _, one in kept) < len(kept)
    run = tiny.run(family, "dpo", tmp_path, task_=task)
    run.trainer.examples = EXAMPLES
    from_samples(path, task, EXAMPLES, Choice(ties="keep"), tmp_path / "pairs")
    for file in (path, tmp_path / "pairs"):
        data = read_scored(file, task, EXAMPLES)
        learnt = encode_groups(run.trainer, data, list(range(len(data.groups))))
        rows = [ids for ids in learnt.responses.lists() if ids]
        found = [(group.example.id, text) for group in data.groups for text in group.texts]
        assert len(rows) == len(found) >= 28
        for row, one in zip(rows, found, strict=True):
            assert tuple(row) in [each.token_ids for each in drawn[one]]
    spelt = [replace(one, token_ids=(3, 9**9)) for same in drawn.values() for one in same]
    texts, truncated = [one.text for one in spelt], [one.truncated for one in spelt]
    others = encode_responses(model, words, texts, 9, truncated, [one.token_ids for one in spelt])
    assert others.lists() == encode_responses(model, words, texts, 9, truncated).lists()
    assert [1 in row for row in others.lists()] == [not cut for cut in truncated]


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_depend_on_neither_batch_nor_number_nor_limit(family, path, tmp_path):
    write(path, family)
    whole = groups(path, family)
    assert len({text for group in whole.values() for text in group.texts}) > 14
    for name, asked in (
        ("one", {"batch_size": 1}),
        ("three", {"batch_size": 3}),
        ("some", {"examples": EXAMPLES[2:5]}),
    ):
        write(tmp_path / name, family, **asked)
        assert groups(tmp_path / name, family).items() <= whole.items()
    write(tmp_path / "few", family, samples=2)
    for name, group in groups(tmp_path / "few", family).items():
        assert (group.texts, group.scores) == (whole[name].texts[:2], whole[name].scores[:2])
    write(tmp_path / "other", family, of=system(family, seed=2))
    assert [group.texts for group in groups(tmp_path / "other", family).values()] != [g.texts for g in whole.values()]
    assert derived_seed(1, "sample", 1) == sample_seed(1, 1) != sample_seed(2, 1)


def test_the_temperature_is_what_is_asked_for(path):
    made = write(path, temperature=1e-4)
    assert made.generation.temperature == 1e-4
    assert all(len(set(group.texts)) == 1 for group in groups(path).values())
    greedy = replace(tiny.task("causal"), rollout=replace(tiny.task("causal").rollout, do_sample=False, num_beams=4))
    assert as_rollouts(greedy) == tiny.task("causal").rollout
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="temperature .*: choose a number above 0"):
            as_rollouts(greedy, wrong)


def test_the_reward_is_prepared_on_all_training_examples(path, tmp_path):
    """CIDEr weighs n-grams by how rare they are: a limit must not change what a text is worth."""
    write(path, reward="cider")
    write(tmp_path / "few", reward="cider", examples=EXAMPLES[:2])
    assert groups(tmp_path / "few").items() <= groups(path).items()
    assert any(score for group in groups(path).values() for score in group.scores)


def test_responses_to_which_the_reward_does_not_apply_are_left_out(path):
    def odd(examples, texts):
        return [
            None if example.id == "e3" or len(text) % 2 == 0 else 1
            for example, text in zip(examples, texts, strict=True)
        ]

    made = write(path, reward=give_name(odd), samples=3)
    found = groups(path)
    assert "e3" not in found and 0 < len(found) < 7
    assert all(len(text) % 2 for group in found.values() for text in group.texts)
    kept = sum(len(group.texts) for group in found.values())
    assert (made.responses, made.reward_calls, made.prompts) == (kept, 21, 7)


def test_a_reward_that_gives_nothing_to_learn_from(path):
    def never(examples, texts):
        return [None] * len(texts)

    with pytest.raises(DataError, match="not written: the reward .* applies to none of the 28 responses"):
        write(path, reward=give_name(never))
    assert not path.exists()

    def large(examples, texts):
        return [1e300] * len(texts)

    with pytest.raises(TrainingError, match="example 'e0' is larger than 1e\\+18: .*large.* with 1e\\+300"):
        write(path.with_name("large"), reward=give_name(large))


# --- interrupted, finished, another's --------------------------------------------------------------------------------


class Stopped(Exception):
    """What stops a call."""


def stop_after(count):
    def progress(done, total):
        if done >= count:
            raise Stopped

    return progress


def test_an_interrupted_call_goes_on(path, tmp_path):
    write(tmp_path / "whole", batch_size=2)
    whole, partial = lines(tmp_path / "whole"), path.with_name("samples.jsonl.partial")
    asked = []

    def counted(examples, texts):
        asked.extend(example.id for example in examples)
        return make_reward("rouge1", tiny.task("causal"), EXAMPLES)(examples, texts)

    reward = give_name(counted)
    with pytest.raises(Stopped):
        write(path, batch_size=2, reward=reward, progress=stop_after(4))
    assert not path.exists() and len(asked) == 16
    with pytest.raises(DataError, match="not finished; repeat the `grue generate` that was interrupted"):
        groups(path)
    with (partial / "responses.jsonl").open("a") as handle:
        handle.write('{"id": "e6", "texts": ["the')  # as a kill leaves
    seen = []
    made = write(path, batch_size=2, reward=reward, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(4, 7), (6, 7), (7, 7)] and len(asked) == 28
    assert lines(path) == whole and not partial.exists()
    assert (made.reward_calls, made.responses) == (28, 28)
    again = write(path, batch_size=2, reward=reward, progress=stop_after(0))
    assert again == made and len(asked) == 28 and not partial.exists()


def test_other_settings_do_not_mix_with_what_is_there(path, tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    for split in ("train", "test"):
        (rows / f"commongen.{split}.jsonl").touch()
    with pytest.raises(Stopped):
        write(path, batch_size=2, progress=stop_after(2))
    task = tiny.task("causal")
    changes = {
        "seed = 1, not 2": {"of": system(seed=2)},
        "checkpoint = 'sha', not 'other'": {"of": replace(system(), weights="other")},
        "samples = 4, not 5": {"samples": 5},
        "reward = 'rouge1', not 'rouge2'": {"reward": "rouge2"},
        "prompts = 7, not 3": {"examples": EXAMPLES[:3]},
        "split = 'train', not 'validation'": {"split": "validation"},
        "file = None, not 'aa'": {"file": "aa"},
        f"data_dir = None, not '{rows}'": {"data_dir": rows},
        "generation = ": {"temperature": 0.5},
        "task_hash = ": {"task": replace(task, version=2)},
    }
    for state in ("interrupted", "finished"):
        for message, change in changes.items():
            with pytest.raises(ConfigError, match="Write elsewhere with --output, or remove it") as caught:
                write(path, **change)
            assert f"holds responses with {message}" in str(caught.value), state
        write(path)  # interrupted calls go on, and finished ones are only read


def test_a_claim_of_a_call_that_drew_nothing_stands_in_nobodys_way(path):
    with pytest.raises(Stopped):
        write(path, progress=stop_after(0))
    assert write(path, samples=2).samples == 2


def test_unfinished_work_that_was_changed_is_refused(path):
    partial = path.with_name("samples.jsonl.partial")
    with pytest.raises(Stopped):
        write(path, batch_size=2, progress=stop_after(2))
    kept = (partial / "responses.jsonl").read_text(encoding="utf-8")
    first = json.loads(kept.splitlines()[0])
    for change in ({"id": "stranger"}, {"texts": ["a"]}, {"rewards": [1.0]}, {"mood": "good"}, {"tokens": "9"}):
        (partial / "responses.jsonl").write_text(json.dumps({**first, **change}) + "\n", encoding="utf-8")
        with pytest.raises(
            DataError, match=r"responses.jsonl, line 1: .* Remove \S*samples.jsonl.partial to begin anew"
        ):
            write(path)


def test_what_somebody_else_wrote_is_not_replaced(path):
    path.parent.mkdir()
    for content in ("", "notes\n", '{"id": "e1", "text": "a"}\n', '{"grue": "a frontier"}\n'):
        path.write_text(content)
        with pytest.raises(ConfigError, match="write elsewhere with --output, or remove it"):
            write(path)
        assert path.read_text() == content
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="is a folder; name a file"):
        write(path)


def test_unfinished_predictions_are_left_alone(path):
    partial = path.with_name("samples.jsonl.partial")
    partial.mkdir(parents=True)
    (partial / "predictions.jsonl").write_text("{}\n")
    with pytest.raises(ConfigError, match="holds unfinished work of another kind, predictions.jsonl"):
        write(path)


def test_a_finished_file_that_lost_lines_is_not_taken_for_whole(path):
    write(path)
    path.write_text("\n".join(path.read_text(encoding="utf-8").splitlines()[:-1]) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="holds 24 responses, and its header says 28: it was cut or edited"):
        write(path)


def test_a_file_has_one_writer(path):
    with (
        files.sole_owner(path.with_name("samples.jsonl.partial"), "taken"),
        pytest.raises(ConfigError, match="another process is writing it"),
    ):
        write(path)


def test_a_kill_between_the_file_and_the_end_leaves_a_finished_file(path):
    made = write(path)
    partial = path.with_name("samples.jsonl.partial")
    partial.mkdir()
    (partial / "responses.jsonl").write_text("")
    assert write(path) == made and not partial.exists()


def test_what_cannot_be_asked_for(path):
    with pytest.raises(ConfigError, match="samples 0: draw at least one"):
        write(path, samples=0)
    with pytest.raises(ConfigError, match="choose a name without .gz"):
        write(path.with_name("samples.jsonl.gz"))
    with pytest.raises(ConfigError, match="copy has no model to draw samples from"):
        write(path, of=System("copy", {}, 1, "copy"))
    assert not path.parent.exists()
