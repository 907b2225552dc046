"""What every new method owes: exact resuming, sums that do not depend on how they are split, reading a prompt once."""

import copy
import functools
import math

import pytest
import torch
from support import oracles, scored, tiny
from support.exactness import alone
from support.scored import Recorder

from grue.lm.adapters import adapt
from grue.lm.tokens import Tokens
from grue.rl import groups as module
from grue.rl.groups import Groups, response_log_probs, with_references
from grue.runs.algorithms import find_algorithm
from grue.runs.train import Interrupted

FAMILIES = ["causal", "seq2seq"]
GROUPED = {**scored.SMALL, "mdpo": {}, "reinforce_plus_plus": {}}
# What of each method has a state or chance of its own.
RESUMED = [
    ("rft", "causal", {"train_from": "start"}),
    ("dpo", "seq2seq", {"mask": "learned_top_p", "mask_updates": 2, "reward_scale": "running"}),
    ("copg", "causal", {"sample_from": "start", "supervised_coefficient": 0.1}),
    ("alol", "causal", {}),
    ("pro", "seq2seq", {}),
    ("tpo", "causal", {}),
    ("mdpo", "causal", {"kl_target": 0.05}),
    ("reinforce_plus_plus", "causal", {"kl_target": 0.05}),
    ("grpo", "causal", {"redraws": 2, "calibration_samples": 4, "kl_target": 0.05}),
    ("copg", "causal", "file"),
    ("alol", "causal", "file"),
    ("tpo", "seq2seq", "file"),
]


@pytest.mark.parametrize(("algorithm", "family", "settings"), RESUMED)
def test_an_interrupted_run_goes_on_bit_for_bit(algorithm, family, settings, tmp_path):
    if settings == "file":
        settings = {"data": scored.write_file(tmp_path / "data.jsonl")}
    settings = {"updates": 3, "validate_every": 3, **GROUPED[algorithm], **settings}
    make = functools.partial(tiny.run, family, algorithm, reward=scored.fine, **settings)
    whole = tiny.train(make(tmp_path / "whole"))
    first = make(tmp_path / "stopped")
    first.stop = lambda: len(first.observer.lines) >= 1
    with pytest.raises(Interrupted):
        tiny.train(first)
    torch.manual_seed(99)  # the global generator has no say
    second = tiny.train(make(tmp_path / "stopped"))
    assert second.observer.begin == (1, 3)
    assert torch.equal(tiny.weights(second.trainer.policy), tiny.weights(whole.trainer.policy))
    assert not torch.equal(tiny.weights(second.trainer.policy), tiny.weights(tiny.model(family)))
    assert tiny.logged(tmp_path / "stopped") == tiny.logged(tmp_path / "whole")


@pytest.mark.parametrize("algorithm", scored.NEW)
def test_no_split_into_micro_batches_or_chunks_changes_a_step(algorithm, tmp_path, monkeypatch):
    """The gradient of one minibatch, whatever is held at once; with references beside."""
    family = {"dpo": "seq2seq", "tpo": "seq2seq"}.get(algorithm, "causal")
    sources = [None, scored.write_file(tmp_path / "data.jsonl")] if algorithm in scored.SCORED else [None]
    for data in sources:
        found = []
        for split in ({}, {"micro_batch_size": 4}, {"micro_batch_size": 1}, {"log_prob_chunk": 3}):
            settings = {
                **GROUPED[algorithm],
                "supervised_coefficient": 0.2,
                **split,
                **({"data": data} if data else {}),
            }
            run = tiny.run(family, algorithm, tmp_path, reward=scored.fine, epochs=1, minibatch_size=12, **settings)
            state = find_algorithm(algorithm).start(run.trainer, run.plan.config)
            scored.move(run.trainer.policy)
            (step,), _ = scored.steps_of(run, state, monkeypatch)
            found.append(step.gradient)
        assert len(found) == 4
        assert all(scored.close(other, found[0], 3e-5) for other in found[1:])


@pytest.mark.parametrize("algorithm", scored.SCORED)
def test_adapters_alone_learn_from_files_too(algorithm, tmp_path):
    settings = {"data": scored.write_file(tmp_path / "data.jsonl")}
    settings |= {"updates": 2, "validate_every": 2, "lora_rank": 2, **GROUPED[algorithm]}
    run = tiny.run("causal", algorithm, tmp_path / "run", reward=scored.fine, **settings)
    adapt(run.trainer.policy, run.plan.config)
    tiny.train(run)
    named = dict(run.trainer.policy.named_parameters())
    before = dict(tiny.model("causal").named_parameters())
    assert any("lora_B" in name and value.abs().sum() > 0 for name, value in named.items())
    for name, value in named.items():
        assert "lora" in name or torch.equal(value, before[name.replace(".base_layer", "")]), name


def test_the_start_of_an_adapter_is_the_model_without_it(tmp_path):
    """Read while the adapter says something else, π_0's log-probabilities of a file are those of the model below."""
    path, below = scored.write_file(tmp_path / "data.jsonl"), tiny.model("causal")
    settings = {"rollouts": 24, "minibatch_size": 24, "samples_per_prompt": 4, "lora_rank": 2}
    run = tiny.run("causal", "dpo", tmp_path, data=path, **settings)
    adapt(run.trainer.policy, run.plan.config)
    scored.move(run.trainer.policy, 0.3)
    with torch.no_grad():
        for name, value in run.trainer.policy.named_parameters():
            if "lora" not in name:
                value.copy_(dict(below.named_parameters())[name.replace(".base_layer", "")])
    found = find_algorithm("dpo").start(run.trainer, run.plan.config).fixed.groups.reference
    for g, group in enumerate(scored.groups_of_file()):
        for k, one in enumerate(group):
            logs = logs_alone(below, one)
            assert found[g, k, : len(logs)].tolist() == pytest.approx(logs, abs=2e-5)
            assert not found[g, k, len(logs) :].any()
            assert logs_alone(run.trainer.policy, one) != pytest.approx(logs, abs=1e-2)


def prompt_ids(one, family="causal"):
    return tiny.tokenizer(family)(one.example.prompt)["input_ids"]


def logs_alone(model, one):
    rows = alone(model, prompt_ids(one, "seq2seq" if model.config.is_encoder_decoder else "causal"), one.ids)
    return [oracles.token_log_prob(row, token) for row, token in zip(rows, one.ids, strict=True)]


# --- forward passes --------------------------------------------------------------------------------------------------


def counted(model):
    """The sizes of the batches that a model reads from now on."""
    sizes = []

    def seen(part, given, named):
        ids = named.get("input_ids", given[0] if given else None)
        sizes.append(0 if ids is None else len(ids))

    model.register_forward_pre_hook(seen, with_kwargs=True)
    return sizes


def test_an_encoder_reads_each_prompt_once_for_a_group(tmp_path):
    path = scored.write_file(tmp_path / "data.jsonl")
    run = tiny.run("seq2seq", "dpo", tmp_path, data=path, samples_per_prompt=4, rollouts=24)
    groups = find_algorithm("dpo").start(run.trainer, run.plan.config).fixed.groups
    read = counted(run.trainer.policy.get_encoder())
    with torch.no_grad():
        found = response_log_probs(run.trainer.policy, groups, torch.arange(6), run.plan.config)
    assert read == [6]
    for g, group in enumerate(scored.groups_of_file()):
        for k, one in enumerate(group):
            logs = logs_alone(run.trainer.policy, one)
            assert found[g, k, : len(logs)].tolist() == pytest.approx(logs, abs=2e-5)
        assert not found[g, len(group) :].any(), "padding of a smaller group counts nothing"


@pytest.mark.parametrize("algorithm", ["dpo", "copg", "alol"])
def test_a_files_reference_is_computed_once(algorithm, tmp_path):
    """Six lines of up to four are read before the first update, and drawn responses anew in each."""
    settings = {**GROUPED[algorithm], "samples_per_prompt": 4, "rollouts": 24, "updates": 3}
    learner, read = find_algorithm(algorithm), {}
    for data in (scored.write_file(tmp_path / "data.jsonl"), None):
        run = tiny.run("causal", algorithm, tmp_path, data=data, reward=scored.fine, sample_from="policy", **settings)
        begun = counted(run.trainer.policy)  # and by its copies, which have the hook, too
        state = learner.start(run.trainer, run.plan.config)
        assert sum(begun) == (24 if data else 0)
        state.memory = {"value_weight": torch.zeros(32), "value_bias": torch.tensor(-1.0)}  # what A-LoL has fitted
        read[data] = counted(state.reference)
        for n in range(1, 3):
            assert learner.update(run.trainer, state, run.plan.config, n)["policy/steps"] > 0
    of_file, of_drawn = (sum(sizes) for sizes in read.values())
    assert of_file == 0 and of_drawn >= 2 * 12


def test_a_run_encodes_only_the_lines_that_it_comes_to(tmp_path):
    path = scored.write_file(tmp_path / "data.jsonl")
    run = tiny.run("causal", "dpo", tmp_path, data=path, rollouts=2, minibatch_size=2, samples_per_prompt=2, updates=2)
    fixed = find_algorithm("dpo").start(run.trainer, run.plan.config).fixed
    assert fixed.lines == 6 and len(fixed.groups.scores) == len(fixed.row) == 2
    keys = list(scored.FILE)
    examples = [run.trainer.examples[at].id for at in fixed.groups.positions.tolist()]
    assert examples == [keys[line] for line in sorted(fixed.row)]


# --- padding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", scored.SCORED)
def test_what_pads_smaller_groups_counts_nothing(algorithm, tmp_path, monkeypatch):
    """Other ids and scores where nothing counts change no bit of a step."""
    path = scored.write_file(tmp_path / "data.jsonl")
    settings = {**GROUPED[algorithm], "samples_per_prompt": 4, "rollouts": 24, "minibatch_size": 24, "epochs": 1}
    found, fix = [], module.fix
    for score, token in ((0.0, None), (99.0, 7), (-99.0, 9)):

        def other(*given, score=score, token=token):
            fixed = fix(*given)
            groups: Groups = fixed.groups
            groups.scores[~groups.counts] = score
            ids, mask = groups.responses.ids, groups.responses.mask
            ids[~mask] = ids[~mask] if token is None else token
            return fixed

        with monkeypatch.context() as patch:
            patch.setattr(module, "fix", other)
            run = tiny.run("causal", algorithm, tmp_path, data=path, reward=scored.fine, **settings)
            state = find_algorithm(algorithm).start(run.trainer, run.plan.config)
        state.memory = {"value_weight": torch.zeros(32), "value_bias": torch.tensor(-1.0)}
        scored.move(run.trainer.policy)
        (step,), figures = scored.steps_of(run, state, monkeypatch, n=1)
        found.append((step.gradient, figures))
    assert all(torch.equal(gradient, found[0][0]) for gradient, _ in found[1:])
    assert all(figures == found[0][1] for _, figures in found[1:])
    assert found[0][1]["episodes"] == 15.0


def test_a_reference_beside_a_pair_keeps_its_tokens(tmp_path):
    run = tiny.run("causal", "tpo", tmp_path)
    width = 3
    groups = Groups(
        torch.tensor([4, 2]),
        Tokens(torch.tensor([[3, 4], [5, 6]]), torch.ones(2, 2, dtype=torch.bool)),
        Tokens(torch.arange(2 * 2 * width).view(4, width) + 3, torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]]).bool()),
        torch.tensor([[1.0, 0.0], [2.0, 1.0]]),
        torch.ones(2, 2, dtype=torch.bool),
    )  # fmt: skip
    found = with_references(run.trainer, groups, 0)
    lists = found.responses.lists()
    assert [lists[0], lists[1], lists[3], lists[4]] == groups.responses.lists()
    for place, position in ((2, 4), (5, 2)):
        assert lists[place] in [scored.ids_of(text) for text in run.trainer.examples[position].references]
    assert found.counts.tolist() == [[True, True, False]] * 2
    assert found.scores[:, :2].tolist() == groups.scores.tolist()


# --- masks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", ["grpo", "rloo", "dpo", "reinforce_plus_plus"])
def test_any_sampler_can_have_nlpos_mask(algorithm, family, tmp_path):
    """Drawn tokens lie in the nucleus of the masking policy; once it is due, that is the policy itself."""
    reward, settings = Recorder(scored.fine), {"mask": "learned_top_p", "top_p": 0.5, "mask_updates": 2, "updates": 2}
    run = tiny.run(family, algorithm, tmp_path, reward=reward, **GROUPED.get(algorithm, {}), **settings)
    learner = find_algorithm(algorithm)
    state = learner.start(run.trainer, run.plan.config)
    state.mask_model.load_state_dict(tiny.model(family, seed=6).state_dict())
    state.mask_age = 1
    for age, masking in ((1, tiny.model(family, seed=6)), (0, run.trainer.policy)):
        policy, masking = copy.deepcopy(run.trainer.policy), copy.deepcopy(masking)
        assert learner.update(run.trainer, state, run.plan.config, 1 - age)["mask/age"] == age
        outside = 0
        for one in reward.calls[1 - age]:
            of_mask, own = (alone(model, prompt_ids(one, family), one.ids) for model in (masking, policy))
            assert all(token in oracles.nucleus(row, 0.5) | {1} for token, row in zip(one.ids, of_mask, strict=True))
            outside += sum(token not in oracles.nucleus(row, 0.5) for token, row in zip(one.ids, own, strict=True))
        assert age == 0 or outside > 0, "the policy's own nucleus is another"


def test_the_start_masks_itself_and_its_mask_is_never_older(tmp_path):
    settings = {"mask": "learned_top_p", "top_p": 0.5, "sample_from": "start", "updates": 3}
    run = tiny.run("causal", "rft", tmp_path, reward=scored.fine, **GROUPED.get("rft", {}), **settings)
    assert find_algorithm("rft").start(run.trainer, run.plan.config).mask_model is None
    assert [line["mask/age"] for line in tiny.train(run).observer.lines] == [0, 0, 0]


@pytest.mark.parametrize("family", FAMILIES)
def test_nlpo_is_ppo_with_a_mask_bit_for_bit(family, tmp_path):
    settings = {
        "top_p": 0.8,
        "mask_updates": 2,
        "mass_coefficient": 0.1,
        "updates": 3,
        "validate_every": 9,
        "save_every": 9,
    }
    nlpo = tiny.train(tiny.run(family, "nlpo", tmp_path / "nlpo", **settings))
    ppo = tiny.train(tiny.run(family, "ppo", tmp_path / "ppo", mask="learned_top_p", **settings))
    assert torch.equal(tiny.weights(nlpo.trainer.policy), tiny.weights(ppo.trainer.policy))
    assert all(line["mask/size"] < 0.9 for line in nlpo.observer.lines)
    assert tiny.logged(tmp_path / "nlpo") == tiny.logged(tmp_path / "ppo")


# --- what is learnt --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("rft", {}),
        ("dpo", {"beta": 0.1}),
        ("copg", {"beta": 0.05}),
        ("pro", {"temperature": "constant", "best_coefficient": 0.0}),
        ("tpo", {"beta": 0.5, "alpha": 0.0}),
        ("alol", {"sample_from": "policy", "variant": "reference_free"}),
        ("mdpo", {"kl_coefficient": 0.0, "anneal": False}),
        ("reinforce_plus_plus", {"kl_coefficient": 0.0}),
        ("grpo", {"ratio_of": "responses", "clip": 0.1, "kl_coefficient": 0.0}),
    ],
)
def test_the_reward_is_learnt(algorithm, settings, tmp_path):
    settings = {
        "updates": 10,
        "learning_rate": 1e-2,
        "rollouts": 24,
        "minibatch_size": 24,
        **GROUPED[algorithm],
        **settings,
    }
    run = tiny.train(tiny.run("causal", algorithm, tmp_path, validate_every=12, save_every=12, **settings))
    rewards = [line["objective/reward"] for line in run.observer.lines]
    assert scored.mean(rewards[-3:]) > rewards[0] + 0.1
    assert all(math.isfinite(value) for line in run.observer.lines for value in line.values())
