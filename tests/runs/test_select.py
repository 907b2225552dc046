"""Which prompts a run learns from: the log of rewards by prompt, `hard:K` and `limr:THETA:RUN`."""

import json
import math
import shutil

import pytest
import torch
from support import tiny
from support.commands import here, run_folder, train_command
from support.processes import together

from grue import files
from grue.algorithms.es import answer
from grue.errors import ConfigError, DataError
from grue.lm.checkpoint import read_manifest
from grue.rl.responses import draw_positions
from grue.rl.settings import RewardedConfig
from grue.runs import impact, rewarded
from grue.runs.algorithms import find_algorithm
from grue.runs.rewarded import PromptRewards
from grue.runs.select import check_selection, choose, selection
from grue.runs.train import Interrupted

SMALL = {"updates": 3, "rollouts": 4, "minibatch_size": 4, "epochs": 1}


def by_number(examples, texts):
    """The reward of a prompt is the number in its id, so that the worst are known."""
    return [float(example.id[1:]) for example in examples]


def run(folder, algorithm="reinforce", **settings):
    return tiny.run("causal", algorithm, folder, **{**SMALL, **settings})


def finished(run_):
    """Train as `grue train` does: with `config.toml`, and a log that says that the run is finished."""
    run_.plan.folder.mkdir(parents=True, exist_ok=True)
    files.write_toml(run_.plan.folder / "config.toml", run_.plan.record())
    tiny.train(run_)
    files.append_jsonl(run_.log_path, [{"finished": True, "training": run_.training}])
    return run_


# --- rewards.jsonl ---------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("algorithm", [name for name in tiny.ALGORITHMS if name != "supervised"])
def test_every_algorithm_tells_of_the_prompts_of_its_updates_and_of_no_others(algorithm, tmp_path):
    """What an algorithm draws beside its updates is none of a pass over the prompts."""
    tiny.train(found := run(tmp_path, algorithm, updates=2, samples_per_prompt=2))
    count, seed = found.plan.config.prompts, found.trainer.seed
    order = [{tiny.examples()[int(at)].id for at in draw_positions(12, count, seed, n)} for n in range(2)]
    assert [set(line.rewards) for line in rewarded.read(tmp_path / "rewards.jsonl")] == order


def test_what_did_not_learn_from_a_reward_writes_none(tmp_path):
    tiny.train(tiny.run("causal", "supervised", tmp_path, epochs=1))
    assert not (tmp_path / "rewards.jsonl").exists()


def test_a_resumed_run_has_the_rewards_of_one_that_was_not_stopped(tmp_path):
    tiny.train(run(tmp_path / "whole"))
    begun = run(tmp_path / "begun", stop=lambda: len(begun.observer.lines) >= 2)
    with pytest.raises(Interrupted):
        tiny.train(begun)
    path = tmp_path / "begun" / "rewards.jsonl"
    path.write_text(path.read_text() + '{"examples":12,"rewards":{"e1":5.0},"update":3}\n{"examples":12,"re')
    tiny.train(run(tmp_path / "begun"))
    assert path.read_bytes() == (tmp_path / "whole" / "rewards.jsonl").read_bytes()


def test_a_run_that_begins_anew_keeps_no_older_rewards(tmp_path):
    tmp_path.joinpath("rewards.jsonl").write_text('{"examples":1,"rewards":{"x":5.0},"update":1}\n')
    tiny.train(run(tmp_path))
    assert [line.update for line in rewarded.read(tmp_path / "rewards.jsonl")] == [1, 2, 3]


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


# --- hard:K ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["reinforce", "nlpo"])
def test_the_worst_answered_prompts_are_kept_and_nothing_else_is_learnt_from(algorithm, tmp_path):
    tiny.train(found := run(tmp_path, algorithm, reward=by_number, select="hard:3", micro_batch_size=5))
    assert [example.id for example in found.trainer.examples] == ["e0", "e1", "e2"]
    saved = json.loads((tmp_path / "selected.json").read_text())
    assert saved["kept"] == {"e0": 0.0, "e1": 1.0, "e2": 2.0} and saved["select"] == "hard:3"
    for line in rewarded.read(tmp_path / "rewards.jsonl"):
        assert line.examples == 3 and set(line.rewards) == {"e0", "e1", "e2"}  # four prompts an update, of three


def test_every_prompt_is_answered_once_by_the_start_as_rollouts_are_sampled(tmp_path):
    asked = []

    def reward(examples, texts, token_ids):
        asked.extend((one.id, len(ids)) for one, ids in zip(examples, token_ids, strict=True))
        return [0.0] * len(texts)

    settings = {"select": "hard:4", "rollout_temperature": 1e-4, "micro_batch_size": 5}
    before = run(tmp_path, reward=reward, **settings)
    found = choose(before.plan, before.trainer)
    assert sorted(key for key, _ in asked) == sorted(one.id for one in tiny.examples())
    assert found.training == {
        "tokens": 0.0, "episodes": 12.0, "prompts": 12.0, "generated_tokens": float(sum(n for _, n in asked)),
        "reward_calls": 12.0, "steps": 0.0, "seconds": found.training["seconds"],
    }  # fmt: skip
    lengths = dict(asked)
    for batch in (1, 12):  # an answer depends on no batch, and at this temperature on no seed
        asked.clear()
        again = run(tmp_path, reward=reward, **{**settings, "micro_batch_size": batch})
        choose(again.plan, again.trainer)
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
        choose(one.plan, one.trainer)
    state = find_algorithm("es").start(one.trainer, one.plan.config)
    answer(one.trainer, state, one.plan.config, 0)
    assert len(told) == 3 and len(told[0]) == 12
    assert told[0] == told[1] == told[2]


def test_the_answers_count_in_the_runs_budget(tmp_path):
    run_ = tiny.train(run(tmp_path, reward=by_number, select="hard:3"))
    alone = tiny.train(run(tmp_path / "all", reward=by_number))
    took = json.loads((tmp_path / "selected.json").read_text())["training"]
    assert run_.training["reward_calls"] == 12 + 3 * 4 == alone.training["reward_calls"] + took["reward_calls"]
    lines = run_.observer.lines
    assert run_.training["generated_tokens"] == took["generated_tokens"] + sum(one["generated_tokens"] for one in lines)
    assert run_.training["seconds"] == pytest.approx(took["seconds"] + sum(one["seconds"] for one in lines))
    manifest = json.loads((tmp_path / "final" / "grue.json").read_text())
    assert manifest["training"]["reward_calls"] == 24


def test_ties_are_broken_by_the_seed_and_not_by_the_order(tmp_path):
    found = {}
    for seed in (1, 2, 3):
        one = run(tmp_path, reward=lambda examples, texts: [0.0] * len(texts), select="hard:4", seed=seed)
        found[seed] = list(choose(one.plan, one.trainer).kept)
        assert len(found[seed]) == 4
        assert list(choose(one.plan, one.trainer).kept) == found[seed]
    assert len({tuple(kept) for kept in found.values()}) == 3
    assert found[1] != [f"e{i}" for i in range(4)]


def test_prompts_without_a_reward_are_not_kept(tmp_path):
    def reward(examples, texts):
        return [None if one.id in ("e0", "e2") else float(one.id[1:]) for one in examples]

    one = run(tmp_path, reward=reward, select="hard:2")
    assert list(choose(one.plan, one.trainer).kept) == ["e1", "e3"]
    many = run(tmp_path, reward=reward, select="hard:11")
    with pytest.raises(ConfigError, match="applies to the start's answers to 10 of 12"):
        choose(many.plan, many.trainer)


def test_more_than_there_are_is_an_error_before_anything_is_sampled(tmp_path, monkeypatch):
    monkeypatch.setattr("grue.runs.select.sample_responses", lambda *given: pytest.fail("sampled"))
    one = run(tmp_path, select="hard:13")
    with pytest.raises(ConfigError, match="hard:13: there are 12 training prompts"):
        choose(one.plan, one.trainer)


def test_a_resumed_run_reads_its_choice_and_ends_as_one_that_was_not_stopped(tmp_path, monkeypatch):
    whole = tiny.train(run(tmp_path / "whole", reward=by_number, select="hard:5"))
    begun = run(tmp_path / "begun", reward=by_number, select="hard:5", stop=lambda: len(begun.observer.lines) >= 1)
    with pytest.raises(Interrupted):
        tiny.train(begun)
    monkeypatch.setattr("grue.runs.select.choose", lambda *given: pytest.fail("chosen anew"))
    again = tiny.train(run(tmp_path / "begun", reward=by_number, select="hard:5"))
    assert torch.equal(tiny.weights(again.trainer.policy), tiny.weights(whole.trainer.policy))
    assert {**again.training, "seconds": 0} == {**whole.training, "seconds": 0}
    assert again.training["reward_calls"] == 24
    name = "rewards.jsonl"
    assert (tmp_path / "begun" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_choice_of_another_configuration_or_a_damaged_one_is_refused(tmp_path):
    one = run(tmp_path, reward=by_number, select="hard:3")
    selection(one.plan, one.trainer)
    path = tmp_path / "selected.json"
    good = path.read_text()
    other = run(tmp_path, reward=by_number, select="hard:3", learning_rate=0.5)
    with pytest.raises(DataError, match="another configuration"):
        selection(other.plan, other.trainer)
    for text, why in (
        (good[:40], "not valid JSON"),
        (good.replace('"e0"', '"e99"'), "'e99', which is no training example"),
        (json.dumps({**json.loads(good), "kept": {}}), "keeps no prompt"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=why):
            selection(one.plan, one.trainer)


@pytest.mark.slow
def test_two_processes_choose_alike(tmp_path):
    script = """
    from pathlib import Path
    import torch
    from runs.test_select import by_number, run, tiny
    from grue.lm.distributed import join_processes, leave_processes
    torch.set_num_threads(1)
    world = join_processes()
    one = run(Path(OUT) / "run", reward=tiny.share_of_the, select="hard:5", rollouts=4)
    one.trainer.distributed = world
    tiny.train(one)
    torch.save([[e.id for e in one.trainer.examples], one.training["reward_calls"]], f"{OUT}/{world.rank}.pt")
    leave_processes()
    """
    first, second = together("\n".join(line[4:] for line in script.splitlines()), tmp_path)
    alone = run(tmp_path, reward=tiny.share_of_the, select="hard:5")
    assert first == second == [list(choose(alone.plan, alone.trainer).kept), 24.0]
    lines = rewarded.read(tmp_path / "run" / "rewards.jsonl")
    assert [line.update for line in lines] == [1, 2, 3] and all(line.examples == 5 for line in lines)


# --- limr:THETA:RUN --------------------------------------------------------------------------------------------------


def test_impact_is_limrs_formula_on_rewards_scaled_to_their_range():
    """By hand: rewards from 2 to 6 become 0, ¼, ½, ¾, 1; the means of the passes are ¼ and ¾."""
    found = impact.learning_impacts({"follows": (3.0, 5.0), "against": (4.0, 4.0), "low": (2.0, 6.0)})
    best = (1 - 0.25) ** 2 + (1 - 0.75) ** 2
    assert found == pytest.approx(
        {
            "follows": 1.0,
            "against": 1 - (0.25**2 + 0.25**2) / best,
            "low": 1 - (0.25**2 + 0.25**2) / best,
        }
    )
    tenth = impact.learning_impacts({"follows": (0.03, 0.05), "against": (0.04, 0.04), "low": (0.02, 0.06)})
    assert tenth == pytest.approx(found)  # a metric that never nears 1 is told apart as well


def test_a_pass_takes_what_it_can_of_an_update_that_two_share():
    """Three prompts, two an update: passes end within updates; `c` is both the last of a pass and first of the next."""
    told = [{"a": 1.0, "b": 2.0}, {"c": 3.0}, {"a": 4.0, "b": 5.0}]
    updates = [PromptRewards(n, 3, rewards) for n, rewards in enumerate(told, start=1)]
    assert impact.complete_curves(updates, 2, 3, 2) == {"a": (1.0, 4.0), "b": (2.0, 5.0), "c": (3.0, 3.0)}
    told = [{"a": 1.0, "b": 2.0}, {"c": 3.0, "a": 4.0}, {"b": 5.0}]  # `c` has no reward in the second pass but that
    updates = [PromptRewards(n, 3, rewards) for n, rewards in enumerate(told, start=1)]
    assert impact.complete_curves(updates, 2, 3, 2)["a"] == (1.0, 4.0)
    told = [{"a": 1.0}, {"b": 2.0}, {"b": 3.0}, {}]  # `a` was without a score in the second pass
    updates = [PromptRewards(n, 2, rewards) for n, rewards in enumerate(told, start=1)]
    assert impact.complete_curves(updates, 1, 2, 2) == {"b": (2.0, 3.0)}


def rising(examples, texts, step):
    """Rewards that rise with the updates, but for two prompts: one falls, one stays."""
    rise = step / 5
    other = {"e3": 1 - rise, "e7": 0.0}
    return [other.get(example.id, rise) for example in examples]


def earlier(folder, **settings):
    """A run of two passes over its twelve prompts, in six updates of four."""
    return finished(run(folder, reward=rising, updates=6, **settings))


def limr(folder, threshold, run_, **settings):
    return run(folder, reward=rising, select=f"limr:{threshold}:{run_}", **settings)


def test_prompts_that_follow_the_mean_are_kept(tmp_path):
    before = earlier(tmp_path / "earlier")
    lines = [line["rewards"] for _, line in files.read_jsonl(tmp_path / "earlier" / "rewards.jsonl")]
    passes = [{**lines[3 * k], **lines[3 * k + 1], **lines[3 * k + 2]} for k in range(2)]
    low, high = (of(v for one in passes for v in one.values()) for of in (min, max))
    scaled = [{key: (value - low) / (high - low) for key, value in one.items()} for one in passes]
    mean = [sum(one.values()) / 12 for one in scaled]
    expected = {
        key: 1 - sum((one[key] - m) ** 2 for one, m in zip(scaled, mean, strict=True)) / sum((1 - m) ** 2 for m in mean)
        for key in scaled[0]
    }
    after = tiny.train(limr(tmp_path / "after", 0.6, tmp_path / "earlier"))
    saved = json.loads((tmp_path / "after" / "selected.json").read_text())
    assert saved["kept"] == pytest.approx({key: value for key, value in expected.items() if value > 0.6})
    kept = [example.id for example in after.trainer.examples]
    assert kept == list(saved["kept"]) and 0 < len(kept) < 12 and "e3" not in kept
    own = {cost: before.training[cost] for cost in ("prompts", "generated_tokens", "reward_calls", "steps")}
    assert {cost: saved["training"][cost] for cost in own} == own
    assert after.training["reward_calls"] == before.training["reward_calls"] + 12


@pytest.mark.parametrize("samples", [1, 4])
def test_the_members_of_evolution_strategies_answer_the_same_prompts(samples, tmp_path):
    """Sixteen answers an update are those of four members to four prompts, six updates two passes over twelve.

    Whatever a recipe that all learners share says of samples, which they have none of.
    """
    settings = {"rollouts": 16, "minibatch_size": 16, "perturbations": 2, "updates": 6, "samples_per_prompt": samples}
    before = finished(run(tmp_path / "earlier", "es", reward=rising, **settings))
    lines = [line["rewards"] for _, line in files.read_jsonl(tmp_path / "earlier" / "rewards.jsonl")]
    assert [len(line) for line in lines] == [4] * 6
    passes = [{**lines[3 * k], **lines[3 * k + 1], **lines[3 * k + 2]} for k in range(2)]
    assert impact.impacts(before.plan.folder).keys() == passes[0].keys() == passes[1].keys()


def test_what_the_earlier_run_chose_its_own_prompts_by_counts_too(tmp_path):
    earlier(tmp_path / "earlier", select="hard:8", rollouts=8, minibatch_size=8)
    after = tiny.train(limr(tmp_path / "after", -99, tmp_path / "earlier"))
    assert after.training["reward_calls"] == 12 + 6 * 8 + 3 * 4
    assert len(after.trainer.examples) == 8


def test_the_start_of_the_earlier_run_is_not_counted_again(tmp_path):
    before = run(tmp_path / "earlier", reward=rising, updates=6)
    before.training = {**before.training, "reward_calls": 1000.0, "steps": 7.0}
    finished(before)
    assert impact.cost(tmp_path / "earlier")["reward_calls"] == 24


def test_too_few_passes_are_refused_with_the_way_to_more(tmp_path):
    finished(run(tmp_path / "earlier", reward=rising, updates=5))
    one = limr(tmp_path / "after", 0.5, tmp_path / "earlier")
    with pytest.raises(DataError, match=r"made 1\.7 passes over its 12 prompts.*smaller train_share"):
        choose(one.plan, one.trainer)


def test_rewards_that_are_all_equal_choose_nothing(tmp_path):
    finished(run(tmp_path / "earlier", reward=lambda examples, texts: [0.25] * len(texts), updates=6))
    one = run(tmp_path / "after", select=f"limr:0.5:{tmp_path / 'earlier'}")
    with pytest.raises(DataError, match=r"reward is 0\.25 in every pass"):
        choose(one.plan, one.trainer)


def test_a_threshold_that_keeps_nothing_is_an_error_with_the_range(tmp_path):
    earlier(tmp_path / "earlier")
    one = limr(tmp_path / "after", 0.9999, tmp_path / "earlier")
    with pytest.raises(ConfigError, match=r"none of 12 prompts has an impact above 0\.9999; .* Lower the threshold"):
        choose(one.plan, one.trainer)
    one.trainer.examples = [tiny.examples(13)[12]]
    with pytest.raises(ConfigError, match="none of the 12 prompts"):
        choose(one.plan, one.trainer)


def test_an_earlier_run_that_cannot_say_is_refused_before_anything_is_loaded(tmp_path):
    folder = tmp_path / "earlier"
    earlier(folder)
    check_selection(limr(tmp_path / "after", 0.5, folder).plan)

    def refused(plan, why, error=DataError):
        with pytest.raises(error, match=why):
            check_selection(plan)

    refused(limr(folder, 0.5, folder).plan, "own folder", ConfigError)
    refused(limr(tmp_path / "after", 0.5, tmp_path / "nowhere").plan, r"nowhere has no config\.toml")
    refused(limr(tmp_path / "after", 0.5, folder, task_=tiny.task("causal", max_new_tokens=3)).plan, "task_hash")
    config = folder / "config.toml"
    config.write_text(config.read_text().replace('reward = "rouge1"', 'reward = "bleu"'))
    refused(limr(tmp_path / "after", 0.5, folder).plan, "reward = 'bleu', and this one has 'rouge1'")
    log = folder / "train.jsonl"
    log.write_text("".join(log.read_text().splitlines(True)[:-1]))
    refused(limr(tmp_path / "after", 0.5, folder).plan, "is not finished")
    (folder / "rewards.jsonl").unlink()
    refused(limr(tmp_path / "after", 0.5, folder).plan, r"has no rewards\.jsonl")


def test_lost_updates_are_noticed(tmp_path):
    earlier(tmp_path / "earlier")
    path = tmp_path / "earlier" / "rewards.jsonl"
    path.write_text("".join(path.read_text().splitlines(True)[:-1]))
    one = limr(tmp_path / "after", 0.5, tmp_path / "earlier")
    with pytest.raises(DataError, match="lines of 5 updates, and the run made 6"):
        choose(one.plan, one.trainer)


# --- identity and settings -------------------------------------------------------------------------------------------


def test_the_identity_of_a_run_covers_the_rewards_that_it_chose_by_and_older_ones_keep_theirs(tmp_path):
    earlier(tmp_path / "earlier")
    record = limr(tmp_path / "after", 0.5, tmp_path / "earlier").plan.record()
    assert record["select_sha256"] == files.sha256_file(tmp_path / "earlier" / "rewards.jsonl")
    shutil.copytree(tmp_path / "earlier", tmp_path / "copy")
    with (tmp_path / "earlier" / "rewards.jsonl").open("a") as handle:
        handle.write('{"examples":12,"rewards":{"e1":5.0},"update":6}\n')
    assert limr(tmp_path / "after", 0.5, tmp_path / "earlier").plan.record() != record
    plain = run(tmp_path).plan.record()
    assert not {"select_sha256", "reference_sha256"} & plain.keys()
    assert not {"select", "reference"} & plain["config"].keys()
    assert run(tmp_path, select="hard:3").plan.record()["config"]["select"] == "hard:3"


def test_what_cannot_be_read_is_a_problem_of_the_settings():
    wrong = {
        "hard": "write hard:K", "hard:": "write hard:K", "hard:0": "write hard:K", "hard:-3": "write hard:K",
        "hard:1.5": "write hard:K", "hard:²": "write hard:K", "easy:3": "write hard:K", "": "write hard:K",
        "limr:0.6": "limr:THETA:RUN", "limr::runs/x": "limr:THETA:RUN", "limr:nan:runs/x": "limr:THETA:RUN",
        "limr:0.6:": "limr:THETA:RUN", "limr:1:runs/x": "no prompt has an impact above 1",
    }  # fmt: skip
    for text, why in wrong.items():
        (problem,) = RewardedConfig(select=text).problems()
        assert why in problem, text
    for text in ("hard:1", "limr:-0.5:runs/a:b/seed-1", None):
        assert not list(RewardedConfig(select=text).problems())


def test_means_leave_out_what_has_no_score():
    assert rewarded.means({"a": [1.0, math.nan, 2.0], "b": [math.nan]}) == {"a": 1.5}


@pytest.mark.slow
def test_the_command_line_trains_with_both_switches(tmp_path):
    """On the data that are shipped: the run that comes first is both the soup and what prompts are chosen by."""
    few = {"train_share": 0.002, "rollouts": 16, "updates": 2, "validation_examples": 4}
    first, second = tmp_path / "first", tmp_path / "second"
    done = here(*train_command(first, **few))
    assert done.exit_code == 0, done.output
    start = run_folder(first)
    for select, calls in ((f"limr:-9:{start}", 32), ("hard:5", 16)):
        runs = second / select[:4]
        soup = f"soup:{start},{start / 'checkpoint'}"
        command = [*train_command(runs, **few, select=select, reference=soup), "--init", str(start)]
        done = here(*command)
        assert done.exit_code == 0, done.output
        config = files.read_toml(run_folder(runs) / "config.toml")
        assert ("select_sha256" in config) == select.startswith("limr") and "reference_sha256" in config
        kept = files.read_json(run_folder(runs) / "selected.json")["kept"]
        assert len(kept) == (5 if select == "hard:5" else 16)
        lines = [line for _, line in files.read_jsonl(run_folder(runs) / "train.jsonl")]
        assert lines[0]["validation/kl"] == lines[1]["objective/kl"] == 0
        assert lines[-1]["training"]["reward_calls"] == 32 * read_manifest(start / "checkpoint").update / 2 + calls + 32
        assert "already finished" in here(*command).output
    (start / "rewards.jsonl").unlink()
    done = here(*train_command(tmp_path / "third", **few, select=f"limr:-9:{start}"))
    assert done.exit_code != 0 and "has no rewards.jsonl" in done.output
    assert not (tmp_path / "third").exists() or not [*(tmp_path / "third").rglob("config.toml")]
