"""Which prompts a run learns from: the log of rewards by prompt, `hard:K` and `limr:THETA:RUN`."""

import json
import math
import shutil

import pytest
from support.late import late, lates

from grue import files
from grue.errors import ConfigError, DataError
from grue.lm.checkpoint import read_manifest
from grue.rl.settings import RewardedConfig
from grue.runs import impact, named, rewarded
from grue.runs.algorithms import find_algorithm
from grue.runs.rewarded import PromptRewards

torch, tiny, commands, processes = lates("torch support.tiny support.commands support.processes")
selecting, es, training = late("grue.runs.select"), late("grue.algorithms.es"), late("grue.runs.train")

SMALL = {"updates": 3, "rollouts": 4, "minibatch_size": 4, "epochs": 1}


def by_number(examples, texts):
    """The reward of a prompt is the number in its id, so that the worst are known."""
    return [float(example.id[1:]) for example in examples]


def flat(examples, texts):
    return [0.25] * len(texts)


def rising(examples, texts, step):
    """Rewards that rise with the updates, but for two prompts: one falls, one stays."""
    other = {"e3": 1 - step / 5, "e7": 0.0}
    return [other.get(example.id, step / 5) for example in examples]


def run(folder, algorithm="reinforce", **settings):
    return tiny.run("causal", algorithm, folder, **{**SMALL, **settings})


def chosen(*given, **settings):
    """The selection of a run, made now."""
    one = run(*given, **settings)
    return selecting.choose(one.plan, one.trainer)


def finished(run_):
    """Train as `grue train` does: with `config.toml`, and a log that says that the run is finished."""
    run_.plan.folder.mkdir(parents=True, exist_ok=True)
    files.write_toml(run_.plan.folder / "config.toml", run_.plan.record())
    tiny.train(run_)
    files.append_jsonl(run_.log_path, [{"finished": True, "training": run_.training}])
    return run_


def interrupted(run_, updates):
    run_.stop = lambda: len(run_.observer.lines) >= updates
    with pytest.raises(training.Interrupted):
        tiny.train(run_)


def test_every_update_says_what_each_prompt_was_rewarded_with(tmp_path):
    """In the reward's own unit, whatever is made of it; a response without a score is left out."""
    seen = []

    def reward(examples, texts):
        if examples != list(run_.validation):
            seen.append([(one.id, None if place % 4 == 3 else place / 8) for place, one in enumerate(examples)])
            return [value for _, value in seen[-1]]
        return [0.0] * len(texts)

    scaled = {"reward_scale": "running", "reward_clip": 0.01, "missing_eos_penalty": 9.0}
    run_ = run(tmp_path, "rloo", reward=reward, rollouts=8, samples_per_prompt=2, **scaled)
    tiny.train(run_)
    lines = [line for _, line in files.read_jsonl(tmp_path / "rewards.jsonl")]
    assert [line["update"] for line in lines] == [1, 2, 3]
    for line, given in zip(lines, seen, strict=True):
        expected = {}
        for first, second in zip(given[::2], given[1::2], strict=True):
            values = [value for _, value in (first, second) if value is not None]
            expected[first[0]] = sum(values) / len(values)
        assert line["rewards"] == pytest.approx(expected) and len(expected) == 4
        assert line["examples"] == 12


def test_a_resumed_run_has_the_rewards_of_one_that_was_not_stopped(tmp_path):
    whole, path = run(tmp_path / "whole"), tmp_path / "begun" / "rewards.jsonl"
    tiny.train(whole)
    interrupted(run(tmp_path / "begun"), 2)
    path.write_text(path.read_text() + '{"examples":12,"rewards":{"e1":5.0},"update":3}\n{"examples":12,"re')
    tiny.train(run(tmp_path / "begun"))
    assert path.read_bytes() == (tmp_path / "whole" / "rewards.jsonl").read_bytes()


def test_readers_take_the_last_of_an_update_and_no_torn_line(tmp_path):
    path, line = tmp_path / "rewards.jsonl", '{{"examples":2,"rewards":{{"a":{}}},"update":{}}}\n'
    path.write_text(line.format(1.0, 1) + line.format(2.0, 2) + line.format(3.0, 2) + '{"examples":2,"rew')
    assert rewarded.read(path) == [PromptRewards(1, 2, {"a": 1.0}), PromptRewards(2, 2, {"a": 3.0})]
    path.write_text(line.format(1.0, 1) + line.format(2.0, 3))
    with pytest.raises(DataError, match="no line of update 2"):
        rewarded.read(path)
    for damaged in ("[1]\n", '{"update":1}\n', '{"examples":2,"rewards":{"a":"b"},"update":1}\n', "{\n"):
        path.write_text(damaged)
        with pytest.raises(DataError, match=r"rewards\.jsonl, line 1"):
            rewarded.read(path)
        with pytest.raises(DataError, match="or remove it"):
            rewarded.rewind(path, 1)
        assert path.read_text() == damaged
    assert rewarded.means({"a": [1.0, math.nan, 2.0], "b": [math.nan]}) == {"a": 1.5}


def test_the_worst_answered_prompts_are_kept_at_a_cost_and_nothing_else_is_learnt_from(tmp_path):
    found = run(tmp_path, reward=by_number, select="hard:3", micro_batch_size=5)
    interrupted(found, 1)
    assert [example.id for example in found.trainer.examples] == ["e0", "e1", "e2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selecting, "choose", lambda *given: pytest.fail("chosen anew"))
        again = tiny.train(run(tmp_path, reward=by_number, select="hard:3", micro_batch_size=5))
    assert again.trainer.examples == found.trainer.examples
    saved = json.loads((tmp_path / "selected.json").read_text())
    assert saved["kept"] == {"e0": 0.0, "e1": 1.0, "e2": 2.0} and saved["select"] == "hard:3"
    for line in rewarded.read(tmp_path / "rewards.jsonl"):
        assert line.examples == 3 and set(line.rewards) == {"e0", "e1", "e2"}  # four prompts an update, of three
    took, lines = saved["training"], [*found.observer.lines, *again.observer.lines]
    assert again.training["reward_calls"] == 12 + 3 * 4
    for cost in ("generated_tokens", "seconds"):
        assert again.training[cost] == pytest.approx(took[cost] + sum(one[cost] for one in lines))
    assert read_manifest(tmp_path / "final").training["reward_calls"] == 24


def test_every_prompt_is_answered_once_by_the_start_as_rollouts_are_sampled(tmp_path):
    asked = []

    def reward(examples, texts, token_ids):
        asked.extend((one.id, len(ids)) for one, ids in zip(examples, token_ids, strict=True))
        return [0.0] * len(texts)

    settings = {"reward": reward, "select": "hard:4", "rollout_temperature": 1e-4}
    found = chosen(tmp_path, micro_batch_size=5, **settings)
    assert sorted(key for key, _ in asked) == sorted(one.id for one in tiny.examples())
    assert found.training == {
        "tokens": 0.0, "episodes": 12.0, "prompts": 12.0, "generated_tokens": float(sum(n for _, n in asked)),
        "reward_calls": 12.0, "steps": 0.0, "seconds": found.training["seconds"],
    }  # fmt: skip
    lengths = dict(asked)
    for batch in (1, 12):  # an answer depends on no batch, and at this temperature on no seed
        asked.clear()
        chosen(tmp_path, micro_batch_size=batch, **settings)
        assert dict(asked) == lengths


def test_evolution_strategies_choose_by_greedy_answers_as_their_members_give(tmp_path):
    """Those of a member without noise, whatever the seed, the task's sampler and a recipe of sampling say."""
    told = []

    def reward(examples, texts):
        told.append({one.id: text for one, text in zip(examples, texts, strict=True)})
        return [0.0] * len(texts)

    settings = {"select": "hard:4", "rollout_temperature": 5.0, "rollouts": 48, "noise": 1e-9, "reward": reward}
    task = tiny.task("causal", temperature=3.0, top_p=0.9)
    for seed in (1, 2):
        one = run(tmp_path, "es", seed=seed, task_=task, **settings)
        selecting.choose(one.plan, one.trainer)
    es.answer(one.trainer, find_algorithm("es").start(one.trainer, one.plan.config), one.plan.config, 0)
    assert len(told) == 3 and len(told[0]) == 12
    assert told[0] == told[1] == told[2]


def test_ties_are_broken_by_the_seed_and_not_by_the_order(tmp_path):
    found = [list(chosen(tmp_path, reward=flat, select="hard:4", seed=seed).kept) for seed in (1, 2, 3, 1)]
    assert found[0] == found[3] and len({tuple(kept) for kept in found}) == 3
    assert len(found[0]) == 4 and found[0] != [f"e{i}" for i in range(4)]


def test_fewer_prompts_than_there_are_rewards_for_are_kept(tmp_path, monkeypatch, refused):
    def reward(examples, texts):
        return [None if one.id in ("e0", "e2") else float(one.id[1:]) for one in examples]

    assert list(chosen(tmp_path, reward=reward, select="hard:2").kept) == ["e1", "e3"]
    with refused(ConfigError):
        chosen(tmp_path, reward=reward, select="hard:11")
    monkeypatch.setattr(selecting, "draw_responses", lambda *given: pytest.fail("sampled"))
    with refused(ConfigError):
        chosen(tmp_path, select="hard:13")


def test_a_choice_of_another_configuration_or_a_damaged_one_is_refused(tmp_path):
    one = run(tmp_path, reward=by_number, select="hard:3")
    selecting.selection(one.plan, one.trainer, files.sha256_json(one.plan.record()))
    path = tmp_path / "selected.json"
    good = path.read_text()
    other = run(tmp_path, reward=by_number, select="hard:3", learning_rate=0.5)
    with pytest.raises(DataError, match="another configuration"):
        selecting.selection(other.plan, other.trainer, files.sha256_json(other.plan.record()))
    for text, why in (
        (good[:40], "not valid JSON"),
        (good.replace('"e0"', '"e99"'), "'e99', which is no training example"),
        (json.dumps({**json.loads(good), "kept": {}}), "keeps no prompt"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=why):
            selecting.selection(one.plan, one.trainer, files.sha256_json(one.plan.record()))


@pytest.mark.slow
def test_two_processes_choose_alike(tmp_path):
    script = """
from pathlib import Path
import torch
from runs.test_select import run, tiny
from grue.lm.distributed import join_processes, leave_processes
torch.set_num_threads(1)
world = join_processes()
one = run(Path(OUT) / "run", reward=tiny.share_of_the, select="hard:5")
one.trainer.distributed = world
tiny.train(one)
torch.save([[e.id for e in one.trainer.examples], one.training["reward_calls"]], f"{OUT}/{world.rank}.pt")
leave_processes()
"""
    first, second = processes.together(script, tmp_path)
    alone = chosen(tmp_path, reward=tiny.share_of_the, select="hard:5")
    assert first == second == [list(alone.kept), 24.0]
    lines = rewarded.read(tmp_path / "run" / "rewards.jsonl")
    assert [line.update for line in lines] == [1, 2, 3] and all(line.examples == 5 for line in lines)


def test_impact_is_limrs_formula_on_rewards_scaled_to_their_range():
    """By hand: rewards from 2 to 6 become 0, ¼, ½, ¾, 1; the means of the passes are ¼ and ¾."""
    other = 1 - (0.25**2 + 0.25**2) / ((1 - 0.25) ** 2 + (1 - 0.75) ** 2)
    for unit in (1.0, 0.01):  # a metric that never nears 1 is told apart as well
        told = {"follows": (3.0, 5.0), "against": (4.0, 4.0), "low": (2.0, 6.0)}
        found = impact.learning_impacts({key: [unit * value for value in values] for key, values in told.items()})
        assert found == pytest.approx({"follows": 1.0, "against": other, "low": other})


@pytest.mark.parametrize(
    ("told", "prompts", "whole", "expected"),
    [
        # passes end within updates; `c` is both the last of a pass and first of the next
        ([{"a": 1, "b": 2}, {"c": 3}, {"a": 4, "b": 5}], 2, 3, {"a": (1, 4), "b": (2, 5), "c": (3, 3)}),
        # `c` has no reward in the second pass but that
        ([{"a": 1, "b": 2}, {"c": 3, "a": 4}, {"b": 5}], 2, 3, {"a": (1, 4), "b": (2, 5), "c": (3, 3)}),
        # `a` was without a score in the second pass
        ([{"a": 1}, {"b": 2}, {"b": 3}, {}], 1, 2, {"b": (2, 3)}),
    ],
)
def test_a_pass_takes_what_it_can_of_an_update_that_two_share(told, prompts, whole, expected):
    updates = [PromptRewards(n, whole, rewards) for n, rewards in enumerate(told, start=1)]
    assert impact.complete_curves(updates, prompts, whole, 2) == expected


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """A run of two passes over its twelve prompts, in six updates of four."""
    return finished(run(tmp_path_factory.mktemp("earlier") / "earlier", reward=rising, updates=6))


@pytest.fixture
def copied(earlier, tmp_path):
    return shutil.copytree(earlier.plan.folder, tmp_path / "earlier")


def limr(folder, threshold, run_, **settings):
    return run(folder, **{"reward": rising, "select": f"limr:{threshold}:{run_}", **settings})


def passes_of(folder):
    lines = [line["rewards"] for _, line in files.read_jsonl(folder / "rewards.jsonl")]
    assert [len(line) for line in lines] == [4] * 6
    return [{**lines[3 * k], **lines[3 * k + 1], **lines[3 * k + 2]} for k in range(2)]


def test_prompts_that_follow_the_mean_are_kept(earlier, tmp_path):
    passes = passes_of(earlier.plan.folder)
    expected = impact.learning_impacts({key: [one[key] for one in passes] for key in passes[0]})
    after = tiny.train(limr(tmp_path, 0.6, earlier.plan.folder))
    saved = json.loads((tmp_path / "selected.json").read_text())
    assert saved["kept"] == pytest.approx({key: value for key, value in expected.items() if value > 0.6})
    kept = [example.id for example in after.trainer.examples]
    assert kept == list(saved["kept"]) and 0 < len(kept) < 12 and "e3" not in kept
    own = {cost: earlier.training[cost] for cost in ("prompts", "generated_tokens", "reward_calls", "steps")}
    assert {cost: saved["training"][cost] for cost in own} == own
    assert after.training["reward_calls"] == earlier.training["reward_calls"] + 12


def test_the_members_of_evolution_strategies_answer_the_same_prompts(tmp_path):
    """Sixteen answers an update are those of four members to four prompts, six updates two passes over twelve.

    Whatever a recipe that all learners share says of samples, which they have none of.
    """
    settings = {"rollouts": 16, "minibatch_size": 16, "perturbations": 2, "updates": 6, "samples_per_prompt": 4}
    before = finished(run(tmp_path, "es", reward=rising, **settings))
    first, second = passes_of(tmp_path)
    assert impact.impacts(before.plan.folder).keys() == first.keys() == second.keys()


def test_what_the_earlier_run_chose_its_own_prompts_by_counts_too_and_its_start_does_not(tmp_path):
    before = run(tmp_path / "earlier", reward=rising, updates=6, select="hard:8", rollouts=8, minibatch_size=8)
    before.training = {**before.training, "reward_calls": 1000.0, "steps": 7.0}
    finished(before)
    assert impact.cost(tmp_path / "earlier")["reward_calls"] == 6 * 8
    one = limr(tmp_path / "after", -99, tmp_path / "earlier")
    found = selecting.choose(one.plan, one.trainer)
    assert found.training["reward_calls"] == 12 + 6 * 8
    assert len(found.kept) == 8


def test_an_earlier_run_that_says_too_little_is_refused(copied, tmp_path):
    """Of too few passes, with lost updates, of equal rewards; a threshold that keeps nothing, and foreign prompts."""
    path, log = copied / "rewards.jsonl", copied / "train.jsonl"
    lines, logged = path.read_text().splitlines(True), log.read_text()
    one = limr(tmp_path / "after", 0.9999, copied)
    with pytest.raises(ConfigError, match=r"none of 12 prompts has an impact above 0\.9999; .* Lower the threshold"):
        selecting.choose(one.plan, one.trainer)
    one.trainer.examples = [tiny.examples(13)[12]]
    with pytest.raises(ConfigError, match="none of the 12 prompts"):
        selecting.choose(one.plan, one.trainer)
    path.write_text("".join(lines[:-1]))
    with pytest.raises(DataError, match="lines of 5 updates, and the run made 6"):
        selecting.choose(one.plan, one.trainer)
    log.write_text("".join(line for line in logged.splitlines(True) if '"update":6' not in line))
    with pytest.raises(DataError, match=r"made 1\.7 passes over its 12 prompts.*smaller train_share"):
        selecting.choose(one.plan, one.trainer)
    log.write_text(logged)
    equal = [json.loads(line) for line in lines]
    for line in equal:
        line["rewards"] = dict.fromkeys(line["rewards"], 0.25)
    path.write_text("".join(json.dumps(line) + "\n" for line in equal))
    with pytest.raises(DataError, match=r"reward is 0\.25 in every pass"):
        selecting.choose(one.plan, one.trainer)


def test_an_earlier_run_that_cannot_say_is_refused_before_anything_is_loaded(copied, tmp_path):
    after = tmp_path / "after"
    selecting.check_selection(limr(after, 0.5, copied).plan)

    def refuses(why, folder=after, earlier=copied, error=DataError, **settings):
        with pytest.raises(error, match=why):
            selecting.check_selection(limr(folder, 0.5, earlier, **settings).plan)

    refuses("own folder", folder=copied, error=ConfigError)
    refuses(r"nowhere has no config\.toml", earlier=tmp_path / "nowhere")
    refuses("task_hash", task_=tiny.task("causal", max_new_tokens=3))
    config, log = copied / "config.toml", copied / "train.jsonl"
    config.write_text(config.read_text().replace('reward = "rouge1"', 'reward = "bleu"'))
    refuses("reward = 'bleu', and this one has 'rouge1'")
    log.write_text("".join(log.read_text().splitlines(True)[:-1]))
    refuses("is not finished")
    (copied / "rewards.jsonl").unlink()
    refuses(r"has no rewards\.jsonl")


def test_the_identity_of_a_run_covers_the_rewards_that_it_chose_by_and_older_ones_keep_theirs(copied, tmp_path):
    record = limr(tmp_path / "after", 0.5, copied).plan.record()
    assert record["select_sha256"] == files.sha256_file(copied / "rewards.jsonl")
    with (copied / "rewards.jsonl").open("a") as handle:
        handle.write('{"examples":12,"rewards":{"e1":5.0},"update":6}\n')
    assert limr(tmp_path / "after", 0.5, copied).plan.record() != record
    plain = run(tmp_path).plan.record()
    assert not {"select_sha256", "reference_sha256"} & plain.keys()
    assert not {"select", "reference"} & plain["config"].keys()
    assert run(tmp_path, select="hard:3").plan.record()["config"]["select"] == "hard:3"


def test_what_cannot_be_read_is_a_problem_of_the_settings(refused):
    for text in (
        *("hard", "hard:", "hard:0", "hard:-3", "hard:1.5", "hard:²", "easy:3", ""),
        *("limr:0.6", "limr::runs/x", "limr:nan:runs/x", "limr:0.6:", "limr:1:runs/x"),
    ):
        (problem,) = named.malformed(RewardedConfig(select=text))
        refused.message(problem)
    for text in ("hard:1", "limr:-0.5:runs/a:b/seed-1", None):
        assert not list(named.malformed(RewardedConfig(select=text)))
