"""What every method of scored responses owes: padding counts nothing, a prompt is read once, a mask may restrict it."""

import copy

import pytest
from support.late import lates

torch, tiny, oracles, scored = lates("torch support.tiny support.oracles support.scored")
adapters, tokens, algorithms, module = lates("lm.adapters lm.tokens runs.algorithms rl.groups", "grue.")
SCORED = ["alol", "copg", "dapo_advantage", "dpo", "pro", "rft", "tpo"]


@pytest.fixture
def path(tmp_path):
    return scored.write_file(tmp_path / "data.jsonl")


def test_the_start_of_an_adapter_is_the_model_without_it(path, tmp_path):
    """Read while the adapter says something else, π_0's log-probabilities of a file are those of the model below."""
    below = tiny.model("causal")
    settings = {"rollouts": 24, "minibatch_size": 24, "samples_per_prompt": 4, "lora_rank": 2}
    run = tiny.run("causal", "dpo", tmp_path, data=path, **settings)
    adapters.adapt(run.trainer.policy, run.plan.config)
    scored.move(run.trainer.policy, 0.3)
    with torch.no_grad():
        for name, value in run.trainer.policy.named_parameters():
            if "lora" not in name:
                value.copy_(dict(below.named_parameters())[name.replace(".base_layer", "")])
    found = algorithms.find_algorithm("dpo").start(run.trainer, run.plan.config).fixed.groups.reference
    for g, group in enumerate(scored.groups_of_file()):
        for k, one in enumerate(group):
            logs = logs_alone(below, one)
            assert found[g, k, : len(logs)].tolist() == pytest.approx(logs, abs=2e-5)
            assert not found[g, k, len(logs) :].any()
            assert logs_alone(run.trainer.policy, one) != pytest.approx(logs, abs=1e-2)


def logs_alone(model, one):
    return [
        oracles.token_log_prob(row, token) for row, token in zip(scored.logits_of(model, one), one.ids, strict=True)
    ]


def counted(model):
    """The sizes of the batches that a model reads from now on."""
    sizes = []

    def seen(part, given, named):
        ids = named.get("input_ids", given[0] if given else None)
        sizes.append(0 if ids is None else len(ids))

    model.register_forward_pre_hook(seen, with_kwargs=True)
    return sizes


def test_an_encoder_reads_each_prompt_once_for_a_group(path, tmp_path):
    run, _, state = scored.begun("dpo", tmp_path, "seq2seq", data=path, samples_per_prompt=4, rollouts=24)
    read = counted(run.trainer.policy.get_encoder())
    with torch.no_grad():
        module.response_log_probs(run.trainer.policy, state.fixed.groups, torch.arange(6), run.plan.config)
    assert read == [6]


@pytest.mark.parametrize("algorithm", ["dpo", "copg", "alol"])
def test_a_files_reference_is_computed_once(algorithm, path, tmp_path):
    """Six lines of up to four are read before the first update, and drawn responses anew in each."""
    settings = {**tiny.SMALL[algorithm], "samples_per_prompt": 4, "rollouts": 24, "minibatch_size": 24, "updates": 3}
    learner, read = algorithms.find_algorithm(algorithm), {}
    for data in (path, None):
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


def test_a_run_encodes_only_the_lines_that_it_comes_to(path, tmp_path):
    settings = {"rollouts": 2, "minibatch_size": 2, "samples_per_prompt": 2, "updates": 2}
    run, _, state = scored.begun("dpo", tmp_path, data=path, **settings)
    fixed = state.fixed
    assert fixed.lines == 6 and len(fixed.groups.scores) == len(fixed.row) == 2
    keys = list(scored.FILE)
    examples = [run.trainer.examples[at].id for at in fixed.groups.positions.tolist()]
    assert examples == [keys[line] for line in sorted(fixed.row)]


@pytest.mark.parametrize("algorithm", SCORED)
def test_what_pads_smaller_groups_counts_nothing(algorithm, path, tmp_path, monkeypatch):
    """Other ids and scores where nothing counts change no bit of a step."""
    settings = {"samples_per_prompt": 4, "rollouts": 24, "minibatch_size": 24, "epochs": 1}
    found, fix = [], module.encode_file
    for score, token in ((99.0, 7), (-99.0, 9)):

        def other(*given, score=score, token=token):
            fixed = fix(*given)
            groups = fixed.groups
            groups.scores[~groups.counts] = score
            ids, mask = groups.responses.ids, groups.responses.mask
            ids[~mask] = token
            return fixed

        with monkeypatch.context() as patch:
            patch.setattr(module, "encode_file", other)
            run, _, state = scored.begun(algorithm, tmp_path, data=path, **settings)
        state.memory = {"value_weight": torch.zeros(32), "value_bias": torch.tensor(-1.0)}
        scored.move(run.trainer.policy)
        (step,), figures = scored.steps_of(run, state, monkeypatch, n=1)
        found.append((step.gradient, figures))
    assert all(torch.equal(gradient, found[0][0]) for gradient, _ in found[1:])
    assert all(figures == found[0][1] for _, figures in found[1:])
    assert found[0][1]["episodes"] == 15.0


@pytest.mark.parametrize(("algorithm", "family"), [("grpo", "causal"), ("dpo", "seq2seq")])
def test_any_sampler_can_have_nlpos_mask(algorithm, family, tmp_path):
    """Drawn tokens lie in the nucleus of the masking policy; once it is due, that is the policy itself."""
    reward, settings = scored.Recorder(scored.fine), {"mask": "learned_top_p", "top_p": 0.5, "mask_updates": 2}
    run, learner, state = scored.begun(algorithm, tmp_path, family, reward=reward, **settings)
    state.mask_model.load_state_dict(tiny.model(family, seed=6).state_dict())
    state.mask_age = 1
    for age, masking in ((1, tiny.model(family, seed=6)), (0, run.trainer.policy)):
        policy, masking = copy.deepcopy(run.trainer.policy), copy.deepcopy(masking)
        assert learner.update(run.trainer, state, run.plan.config, 1 - age)["mask/age"] == age
        outside = 0
        for one in reward.calls[1 - age]:
            of_mask, own = (scored.logits_of(model, one) for model in (masking, policy))
            assert all(token in oracles.nucleus(row, 0.5) | {1} for token, row in zip(one.ids, of_mask, strict=True))
            outside += sum(token not in oracles.nucleus(row, 0.5) for token, row in zip(one.ids, own, strict=True))
        assert age == 0 or outside > 0, "the policy's own nucleus is another"


@pytest.mark.parametrize(
    ("algorithm", "settings", "ages"),
    [
        ("rft", {"mask": "learned_top_p", "sample_from": "start"}, [0, 0, 0]),  # the start masks itself
        ("alol", {"mask": "learned_top_p", "mask_updates": 2, "sample_from": "policy"}, [0, 1, 0]),  # whatever V_0 drew
        ("reinforce", {"mask": "top_k", "top_k": 5}, [0, 0, 0]),  # the policy makes it itself
    ],
)
def test_a_mask_grows_old_where_the_policy_draws_with_another(algorithm, settings, ages, tmp_path):
    run, learner, state = scored.begun(algorithm, tmp_path, epochs=1, **settings)
    assert (state.mask_model is None) == (algorithm != "alol")
    assert [learner.update(run.trainer, state, run.plan.config, n)["mask/age"] for n in range(3)] == ages
