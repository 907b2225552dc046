"""Files of answers and of scored samples: what is drawn, written, gone on with, and left to whom it belongs."""

import json
import shutil
from collections import defaultdict
from dataclasses import replace
from functools import cache

import pytest
from support.late import late

from grue import claims, files
from grue.data.scored import read_scored
from grue.errors import ConfigError, DataError, TrainingError
from grue.evaluation.predictions import read_predictions
from grue.preferences.make import Choice, from_samples

tiny = late("support.tiny")
samples, systems = late("grue.evaluation.samples"), late("grue.evaluation.systems")
rewards, best_of, predict = (late(f"grue.evaluation.{name}") for name in ("rewards", "best_of", "predict"))
generated = late("grue.evaluation.generated")
seeds, tokens, rl_groups = late("grue.lm.seeds"), late("grue.lm.tokens"), late("grue.rl.groups")


@cache
def examples():
    return tiny.examples(7)


def system(family="causal", seed=1):
    return systems.System("tiny", {"name": "tiny"}, seed, "sha", tiny.model(family), tiny.tokenizer(family))


def write(path, family="causal", *, asked=None, of=None, task=None, count=4, **more):
    more = {"reward": "rouge1", "split": "train", "train": examples(), **more}
    return samples.write_samples(
        task or tiny.task(family), of or system(family), asked or examples(), path, samples=count, **more
    )


def groups(path):
    return {group.example.id: group for group in read_scored(path, tiny.task("causal"), examples()).groups}


def lines(path):
    """The file without its header, which has a clock."""
    return path.read_text(encoding="utf-8").splitlines()[1:]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out" / "samples.jsonl"


# --- what is drawn and written ---------------------------------------------------------------------------------------


def responses(family, task, number):
    model, words = tiny.model(family), tiny.tokenizer(family)
    return predict.respond((model, words), task, examples(), task.rollout, seeds.sample_seed(1, number))


def test_a_file_holds_the_draws_of_rollouts_with_their_rewards(path):
    task = tiny.task("causal", top_k=12, temperature=2.0)
    made = write(path, task=task, reward="rouge1 - 0.1*coverage")
    reward = rewards.make_reward("rouge1 - 0.1*coverage", task, examples())
    generated = 0
    found = read_scored(path, task, examples())
    for number in range(4):
        drawn = responses("causal", task, number)
        texts = [one.text for one in drawn]
        assert [group.texts[number] for group in found.groups] == texts
        assert [group.scores[number] for group in found.groups] == reward(examples(), texts)
        generated += sum(len(one.token_ids) for one in drawn)
    assert [group.example for group in found.groups] == examples()
    assert found.rewards and found.made == made
    assert (made.prompts, made.responses, made.reward_calls, made.generated_tokens) == (7, 28, 28, generated)
    assert (made.suite, made.task, made.task_hash, made.split) == ("tests", "tiny", task.hash, "train")
    assert (made.checkpoint, made.system, made.seed, made.samples) == ("sha", "tiny", 1, 4)
    assert made.generation == task.rollout and made.reward == "rouge1 - 0.1*coverage"
    assert 0 < made.seconds < 60


@pytest.mark.parametrize("family", ["causal", "seq2seq"])
def test_what_was_drawn_is_learnt_as_it_was_drawn(family, path, tmp_path):
    """Ids, and no end where there was none: from the file, from pairs made of it, and by another tokenizer's text."""
    task, model, words = tiny.task(family, temperature=2.0), tiny.model(family), tiny.tokenizer(family)
    write(path, family, task=task)
    drawn = defaultdict(list)  # by prompt and text, which may be drawn twice, and in several spellings
    for number in range(4):
        for example, one in zip(examples(), responses(family, task, number), strict=True):
            drawn[example.id, one.text].append(one)
    kept = [one for line in lines(path) for one in json.loads(line)["responses"]]
    assert 0 < sum("token_ids" in one for one in kept) < len(kept), "only where the text does not give the ids"
    assert 0 < sum("truncated" in one for one in kept) < len(kept)
    run = tiny.run(family, "dpo", tmp_path, task_=task)
    run.trainer.examples = examples()
    from_samples(path, task, examples(), Choice(ties="keep"), tmp_path / "pairs", split="train")
    for file in (path, tmp_path / "pairs"):
        data = read_scored(file, task, examples())
        learnt = rl_groups.encode_groups(run.trainer, data, list(range(len(data.groups))))
        rows = [ids for ids in learnt.responses.lists() if ids]
        found = [(group.example.id, text) for group in data.groups for text in group.texts]
        assert len(rows) == len(found) >= 28
        for row, one in zip(rows, found, strict=True):
            assert tuple(row) in [each.token_ids for each in drawn[one]]
    spelt = [replace(one, token_ids=(3, 9**9)) for same in drawn.values() for one in same]
    texts, truncated = [one.text for one in spelt], [one.truncated for one in spelt]
    others = tokens.encode_responses(model, words, texts, 9, truncated, [one.token_ids for one in spelt])
    assert others.lists() == tokens.encode_responses(model, words, texts, 9, truncated).lists()
    assert [1 in row for row in others.lists()] == [not cut for cut in truncated]


def test_draws_and_their_rewards_depend_on_neither_batch_nor_number_nor_limit(path, tmp_path):
    """CIDEr weighs n-grams by how rare they are among all training examples."""
    write(path, reward="rouge1 + cider")
    whole = groups(path)
    assert len({text for group in whole.values() for text in group.texts}) > 14
    write(tmp_path / "some", asked=examples()[2:5], batch_size=2, reward="rouge1 + cider")
    assert groups(tmp_path / "some").items() <= whole.items()
    write(tmp_path / "few", count=2, reward="rouge1 + cider")
    for name, group in groups(tmp_path / "few").items():
        assert (group.texts, group.scores) == (whole[name].texts[:2], whole[name].scores[:2])
    write(tmp_path / "other", of=system(seed=2), count=2)
    assert all(whole[name].texts[:2] != group.texts for name, group in groups(tmp_path / "other").items())
    assert seeds.derived_seed(1, "sample", 1) == seeds.sample_seed(1, 1) != best_of.sample_seed(2, 1)


def test_the_temperature_is_what_is_asked_for_and_what_cannot_be_is_refused(path, refused):
    for more in ({"count": 0}, {"of": systems.System("copy", {}, 1, "copy")}):
        with refused(ConfigError):
            write(path, **more)
    assert not path.parent.exists()
    made = write(path, temperature=1e-4)
    assert made.generation.temperature == 1e-4
    assert all(len(set(group.texts)) == 1 for group in groups(path).values())
    rollout = tiny.task("causal").rollout
    greedy = replace(tiny.task("causal"), rollout=replace(rollout, do_sample=False, num_beams=4))
    assert samples.as_rollouts(greedy) == rollout
    for wrong in (0.0, float("nan"), float("inf")):
        with refused(ConfigError):
            samples.as_rollouts(greedy, wrong)


def odd(asked, texts):
    return [None if one.id == "e3" or len(text) % 2 == 0 else 1 for one, text in zip(asked, texts, strict=True)]


def never(asked, texts):
    return [None] * len(texts)


def large(asked, texts):
    return [1e300] * len(texts)


def test_responses_to_which_the_reward_does_not_apply_are_left_out(path, refused):
    made = write(path, reward=rewards.give_name(odd), count=3)
    found = groups(path)
    assert "e3" not in found and 0 < len(found) < 7
    assert all(len(text) % 2 for group in found.values() for text in group.texts)
    kept = sum(len(group.texts) for group in found.values())
    assert (made.responses, made.reward_calls, made.prompts) == (kept, 21, 7)
    for reward, error in (never, DataError), (large, TrainingError):
        with refused(error):
            write(path.with_name(reward.__name__), reward=f"{__name__}:{reward.__name__}")
        assert not path.with_name(reward.__name__).exists()


# --- interrupted, finished, another's --------------------------------------------------------------------------------


class Stopped(Exception):
    """What stops a call."""


def stop_after(count):
    def progress(done, total=0):
        if done >= count:
            raise Stopped

    return progress


def answer(path, *, asked=None, of=None, task=None, split="test", **more):
    generated.write_generated(
        task or tiny.task("causal"), of or system(), asked or examples(), path, split=split, **more
    )


@pytest.fixture
def answers(tmp_path):
    return tmp_path / "out" / "predictions.jsonl"


def unfinished(path):
    return path.with_name(f"{path.name}.partial")


def test_interrupted_samples_are_gone_on_with(path, tmp_path, refused):
    write(tmp_path / "whole", batch_size=2)
    asked, partial = [], unfinished(path)

    def counted(given, texts):
        asked.extend(example.id for example in given)
        return rewards.make_reward("rouge1", tiny.task("causal"), examples())(given, texts)

    reward = rewards.give_name(counted)
    with pytest.raises(Stopped):
        write(path, count=2, progress=stop_after(0))
    assert not partial.exists(), "a call that drew nothing leaves nothing"
    with pytest.raises(Stopped):
        write(path, batch_size=2, reward=reward, progress=stop_after(4))
    assert not path.exists() and len(asked) == 16
    with refused(DataError):
        groups(path)
    with (partial / "responses.jsonl").open("a") as handle:
        handle.write('{"id": "e6", "texts": ["the')  # as a kill leaves
    seen = []
    made = write(path, batch_size=2, reward=reward, progress=lambda *given: seen.append(given))
    assert seen == [(4, 7), (6, 7), (7, 7)] and len(asked) == 28
    assert lines(path) == lines(tmp_path / "whole") and not partial.exists()
    assert (made.reward_calls, made.responses) == (28, 28)
    partial.mkdir()  # what a kill between the file and the end leaves
    (partial / "responses.jsonl").write_text("")
    assert write(path, reward=reward, progress=stop_after(0)) == made and len(asked) == 28 and not partial.exists()


def test_interrupted_answers_are_gone_on_with_and_a_file_says_whose_they_are(answers):
    partial = unfinished(answers)
    with pytest.raises(Stopped):
        answer(answers, batch_size=2, progress=stop_after(4))
    with (partial / "predictions.jsonl").open("a") as handle:
        handle.write('{"id": "e6", "te')  # as a kill leaves
    seen = []
    answer(answers, batch_size=2, progress=seen.append)
    assert seen == [4, 6, 7] and not partial.exists()
    task = tiny.task("causal")
    asked = ((tiny.model("causal"), tiny.tokenizer("causal")), task, examples(), task.decoding, 1)
    assert read_predictions(answers) == predict.predict(*asked)
    claim = json.loads(generated.claim_path(answers).read_text())
    assert (claim["task_hash"], claim["checkpoint"], claim["seed"], claim["prompts"]) == (task.hash, "sha", 1, 7)
    assert claim["sha256"] == files.sha256_file(answers)
    assert {one.name for one in answers.parent.iterdir()} == {"predictions.jsonl", "predictions.jsonl.claim.json"}
    partial.mkdir()
    answer(answers, progress=stop_after(0))
    assert not partial.exists()


@pytest.mark.parametrize("kind", [write, answer])
def test_other_settings_do_not_mix_with_what_is_there(kind, path, tmp_path):
    rows, split, other = tmp_path / "rows", *(("train", "test") if kind is write else ("test", "train"))
    for name in (split, other):
        files.write_text(rows / f"commongen.{name}.jsonl", "")
    changes = {
        "with seed = 1, not 2": {"of": system(seed=2)},
        "with checkpoint = 'sha', not 'other'": {"of": replace(system(), weights="other")},
        "with prompts = 7, not 3": {"asked": examples()[:3]},
        f"with split = {split!r}, not {other!r}": {"split": other},
        "with file = None, not 'aa'": {"file": "aa"},
        f"with data_dir = None, not '{rows}'": {"data_dir": rows},
        "for another version of the task (": {"task": replace(tiny.task("causal"), version=2)},
    }
    if kind is write:
        changes["with samples = 4, not 5"] = {"count": 5}
        changes["with reward = 'rouge1', not 'rouge2'"] = {"reward": "rouge2"}
        changes["with generation.temperature = 1.0, not 0.5"] = {"temperature": 0.5}
    with pytest.raises(Stopped):
        kind(path, batch_size=2, progress=stop_after(2))
    assert not path.exists()
    for state in ("interrupted", "finished"):
        for message, change in changes.items():
            with pytest.raises(ConfigError) as caught:
                kind(path, **change)
            assert f"holds responses {message}" in str(caught.value), state
        before = path.read_bytes() if path.exists() else b""
        kind(path)  # interrupted calls go on, and finished ones are only read
        assert before in (b"", path.read_bytes())


@pytest.mark.parametrize(
    ("kind", "contents"),
    [
        (write, ["", "notes\n", '{"id": "e1", "text": "a"}\n', '{"grue": "a frontier"}\n']),
        (answer, ["", '{"id": "e1", "text": "a"}\n']),
    ],
)
def test_what_is_not_of_this_call_is_refused_and_kept(kind, contents, path, refused):
    partial, of_other = unfinished(path), "predictions.jsonl" if kind is write else "responses.jsonl"
    files.write_text(partial / of_other, "{}\n")
    with refused(ConfigError):
        kind(path)
    shutil.rmtree(partial)
    for content in contents:
        path.write_text(content)
        with refused(ConfigError):
            kind(path)
        assert path.read_text() == content and not partial.exists()
    path.unlink()
    with claims.sole_owner(partial, "taken"), refused(ConfigError):
        kind(path)
    for where in (path.parent, path.with_name("file.gz")):
        with refused(ConfigError):
            kind(where)


def test_unfinished_and_finished_samples_that_were_changed_are_refused(path, refused):
    with pytest.raises(Stopped):
        write(path, batch_size=2, progress=stop_after(2))
    kept = unfinished(path) / "responses.jsonl"
    first = json.loads(kept.read_text(encoding="utf-8").splitlines()[0])
    for change in ({"id": "stranger"}, {"responses": first["responses"] * 2}, {"mood": "good"}, {"tokens": "9"}):
        files.write_jsonl(kept, [{**first, **change}])
        with refused(DataError):
            write(path)
    kept.unlink()
    write(path)
    path.write_text("\n".join(path.read_text(encoding="utf-8").splitlines()[:-1]) + "\n", encoding="utf-8")
    with refused(DataError):
        write(path)


def test_finished_answers_that_were_changed_are_refused(answers, refused):
    answer(answers)
    answers.write_text('{"id": "e1", "text": "a"}\n')
    with refused(ConfigError):
        answer(answers)
    answers.unlink()  # what the message says to do
    answer(answers, of=system(seed=2))
    for text, error in (("{}", ConfigError), ("{", DataError)):
        generated.claim_path(answers).write_text(text)
        with refused(error):
            answer(answers)
