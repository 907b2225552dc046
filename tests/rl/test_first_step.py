"""A first step beside grue's: losses written by hand for every known variant, and grue's own trainers."""

import importlib
import sys
from dataclasses import replace
from statistics import fmean, pstdev, stdev

import pytest
from support.late import late
from support.paths import ROOT

from grue.errors import ConfigError

torch = late("torch")
tiny, steps, captured = late("support.tiny"), late("grue.rl.first_step"), late("grue.runs.captured_step")
batches = late("grue.rl.fixed_batch")
GROUP, LONGEST, BETA, TEMPERATURE = 4, 6, 0.3, 0.7
LENGTHS = (6, 3, 5, 6, 2, 6, 4, 1)
ENDED = (True, True, True, False, True, False, True, True)


def models():
    """A policy a little off its reference."""
    policy = tiny.model("causal", spread=0.3)
    reference = tiny.model("causal", spread=0.3)
    steps.push_off(policy, 1)
    return policy, reference


def a_batch(reference, pairs=False):
    """Eight responses of unlike lengths to two prompts of unlike lengths, most with an end."""
    torch.manual_seed(3)
    prompts = torch.randint(3, 20, (2, 4)).repeat_interleave(4, 0)
    read = torch.tensor([[0, 1, 1, 1]] * 4 + [[1, 1, 1, 1]] * 4).bool()
    responses = torch.zeros(8, 6).long()
    for row, (length, ended) in enumerate(zip(LENGTHS, ENDED, strict=True)):
        responses[row, :length] = torch.randint(3, 20, (length,))
        if ended:
            responses[row, length - 1] = 1
    return batches.fixed_batch(
        batches.Tokens(prompts, read),
        batches.Tokens(responses, torch.arange(6) < torch.tensor(LENGTHS).unsqueeze(1)),
        torch.tensor([1.0, 0.0] * 4) if pairs else torch.tensor([0.1, 0.9, 0.4, 0.5, 0.3, 0.2, 0.95, 0.8]),
        [1],
        reference,
        temperature=1.0 if pairs else TEMPERATURE,
        group_size=2 if pairs else GROUP,
        penalty=BETA,
        max_new_tokens=LONGEST + 2,
    )


def log_probs(model, batch, how=None):
    """Log π of the tokens of responses, one row after another, without padding on the left."""
    rows = []
    for ids, attention in zip(batch.ids, batch.attention_mask, strict=True):
        start = int(attention.argmax())
        offset = start if how == "columns" else 0
        kept = ids[start:] if how == "padding" else ids[attention.bool()]
        places = torch.arange(len(kept)) + offset
        logits = model(kept.unsqueeze(0), position_ids=places.unsqueeze(0)).logits[0]
        logits = logits / (1.0 if how == "temperature" else batch.temperature)
        chosen = logits[:-1].log_softmax(-1).gather(1, kept[1:, None])[:, 0][batch.prompt_length - start - 1 :]
        rows.append(torch.nn.functional.pad(chosen, (0, 6 - len(chosen))))
    return torch.stack(rows)


def by_hand(policy, reference, batch, over="responses", judge="group", kl="k3", how=None, learned=None, reward=False):
    """GRPO or RLOO, response by response."""
    new = log_probs(policy, batch, how)
    with torch.no_grad():
        old = log_probs(reference, batch, how)
    left_out = [learned == "last" or (learned == "ends" and ended) for ended in ENDED]
    lengths = [6] * 8 if how == "padding" else [n - less for n, less in zip(LENGTHS, left_out, strict=True)]
    sign = {"k3": 1, "k2": 1, "none": 0, "sign": -1}[kl]
    scores = []
    for row, length in enumerate(lengths):
        ratio = float((new[row, :length] - old[row, :length]).sum().detach())
        scores.append(float(batch.rewards[row]) - (sign * BETA * ratio if reward else 0))
    sums, counts = [], []
    for row, length in enumerate(lengths):
        own = scores[row // 4 * 4 : row // 4 * 4 + 4]
        centred, of_all = scores[row] - fmean(own), scores[row] - fmean(scores)
        worth = {
            "group": centred / (stdev(own) + 1e-4),
            "epsilon": centred / stdev(own),
            "population": centred / (pstdev(own) + 1e-4),
            "centred": centred,
            "others": scores[row] - (sum(own) - scores[row]) / 3,
            "batch deviation": centred / (stdev(scores) + 1e-4),
            "batch": of_all / (stdev(scores) + 1e-4),
            "batch mean": of_all,
            "rewards": scores[row],
        }[judge]
        a, b = new[row, :length], old[row, :length]
        penalty = (a - b) ** 2 / 2 if kl == "k2" else torch.exp(b - a) - (b - a) - 1
        loss = -worth * a + (0 if reward else sign * BETA) * penalty
        sums.append(loss.sum())
        counts.append(length)
    if over == "tokens":
        return sum(sums) / sum(counts)
    if over == "responses":
        return sum(total / max(1, count) for total, count in zip(sums, counts, strict=True)) / 8
    return sum(sums) / {"constant": 8 * (LONGEST + 2), "sums": 8, "sum": 1}[over]


def a_step(loss, pairs=False, **changes):
    """A policy, its reference, and the first step along the gradient of a loss on a batch."""
    policy, reference = models()
    batch = replace(a_batch(reference, pairs), **changes)
    made = captured.step_of_loss("mine", lambda model, batch: loss(model, reference, batch), policy, batch)
    return policy, reference, made


def settings(**changes):
    return tiny.find_algorithm("grpo").settings(learning_rate=1e-3, **changes)


def named(method, loss, **batch):
    """What explains the gradient of a loss."""
    policy, reference, step = a_step(loss, **batch)
    found = steps.compare_step(step, batches.METHODS[method], policy, reference, settings())
    assert found.differs or not found.stages[-1].causes
    return found.stages[-1].causes, found


GRPO = {
    "the loss is a mean over all tokens of the batch": {"over": "tokens"},
    "the loss is a mean over responses of their sums, over the longest length": {"over": "constant"},
    "the loss is a mean over responses of the sums over their tokens": {"over": "sums"},
    "the loss is a sum over all tokens": {"over": "sum"},
    "advantages are the rewards, without a baseline": {"judge": "rewards"},
    "advantages are rewards less the group's mean, not divided": {"judge": "centred"},
    "advantages are rewards less the mean of the others, not divided": {"judge": "others"},
    "advantages are divided by the group's deviation with denominator n, not n − 1": {"judge": "population"},
    "nothing (or less than 1e-4) is added to the group's deviation": {"judge": "epsilon"},
    "advantages are divided by the batch's deviation, after the group's mean is taken off": {
        "judge": "batch deviation"
    },
    "advantages are standardised over the batch, not the group": {"judge": "batch"},
    "advantages are rewards less the mean of the batch, not the group": {"judge": "batch mean"},
    "the KL penalty is left out": {"kl": "none"},
    "the KL penalty has the wrong sign": {"kl": "sign"},
    "the KL penalty has an unbiased gradient: k3 weighted by the policy's ratio, or k2": {"kl": "k2"},
    "the KL penalty is on the reward": {"reward": True},
    "end tokens are not learned": {"learned": "ends"},
    "the last token of each response, ended or cut, is not learned": {"learned": "last"},
    "padding is learned": {"how": "padding"},
    "log-probabilities are of logits that are not divided by the temperature": {"how": "temperature"},
    "positions count the padding on the left (no position_ids)": {"how": "columns"},
}


def test_grues_own_objective_is_the_same():
    causes, found = named("grpo", by_hand)
    assert not found.differs and causes == () and (found.responses, found.ended) == (8, 6)
    assert found.unseen == ()
    rloo = {"over": "tokens", "judge": "others", "reward": True}
    assert not named("rloo", lambda *given: by_hand(*given, **rloo))[1].differs


@pytest.mark.parametrize("cause", GRPO)
def test_every_variant_is_named(cause):
    assert named("grpo", lambda *given: by_hand(*given, **GRPO[cause]))[0] == (cause,)


def test_all_variants_of_the_table_are_tested():
    told = {cause for _, cause in batches.METHODS["grpo"].variants(1)}
    others = {"padding is learned, though attention leaves it out", "the KL penalty on the reward has the wrong sign"}
    assert told - others == GRPO.keys()


def test_two_at_once_and_a_constant_factor():
    both = named("grpo", lambda *given: by_hand(*given, over="tokens", judge="batch"))[0]
    assert both == (
        "the loss is a mean over all tokens of the batch; advantages are standardised over the batch, not the group",
    )
    assert named("grpo", lambda *given: by_hand(*given) / 4)[0] == ("grue's own loss, times 0.25",)
    assert named("grpo", lambda *given: -by_hand(*given))[0] == ("grue's own loss, times -1",)
    assert named("grpo", lambda *given: 3 * by_hand(*given, kl="none"))[0] == ("the KL penalty is left out, times 3",)


def test_no_known_cause():
    causes, found = named("grpo", lambda policy, reference, batch: log_probs(policy, batch).square().sum())
    assert found.differs and causes == ()


def dpo(policy, reference, batch, per_token=False, beta=BETA, ends=True):
    new, old = log_probs(policy, batch), log_probs(reference, batch).detach()
    lengths = [n if ends or not ended else n - 1 for n, ended in zip(LENGTHS, ENDED, strict=True)]
    ratios = [(a[:n] - b[:n]).sum() / (n if per_token else 1) for a, b, n in zip(new, old, lengths, strict=True)]
    gaps = [better - worse for better, worse in zip(ratios[::2], ratios[1::2], strict=True)]
    return sum(torch.log1p(torch.exp(-beta * gap)) for gap in gaps) / 4


def test_pairs_and_likelihood():
    assert not named("dpo", dpo, pairs=True)[1].differs
    assert named("dpo", lambda *given: dpo(*given, per_token=True), pairs=True)[0] == (
        "log-ratios are divided by the response's length",
    )
    assert named("dpo", lambda *given: dpo(*given, ends=False), pairs=True)[0] == ("end tokens are not learned",)

    def likelihood(policy, reference, batch, over="tokens"):
        new = log_probs(policy, batch)
        rows = [-row[:n].sum() / (n if over == "responses" else 1) for row, n in zip(new, LENGTHS, strict=True)]
        return sum(rows) / (sum(LENGTHS) if over == "tokens" else 8)

    assert not named("supervised", likelihood)[1].differs
    assert named("supervised", lambda *given: likelihood(*given, over="responses"))[0] == (
        "the loss is a mean over responses of the mean over their tokens",
    )


def test_what_a_batch_cannot_show_is_said():
    _, found = named("grpo", lambda *given: by_hand(*given, kl="none"), penalty=0.0, temperature=1.0)
    assert not found.differs
    assert {"the KL penalty is left out", "the KL penalty has the wrong sign"} < {*found.unseen}
    assert "log-probabilities are of logits that are not divided by the temperature" in found.unseen


def test_the_step():
    """AdamW's first step by hand: −lr·g/(|g| + ε) of the clipped gradient, less lr·decay·w on matrices."""
    policy, reference, step = a_step(by_hand)
    norm = torch.stack([part.norm() for part in step.gradient.values()]).norm()
    clipped = {name: part / max(1.0, float(norm)) for name, part in step.gradient.items()}

    def change(rate, decay=0.0):
        return {
            name: -rate * (g / (g.abs() + 1e-8) + decay * step.start[name] * (g.ndim > 1))
            for name, g in clipped.items()
        }

    def causes(made):
        own = replace(step, change=made), batches.METHODS["grpo"], policy, reference, settings(max_grad_norm=1.0)
        found = steps.compare_step(*own)
        assert found.stages[-1].name == "optimiser's step" and found.stages[-2].agrees
        assert found.differs is not found.stages[-1].agrees
        return found.stages[-1].causes

    assert causes(change(1e-3)) == ()
    assert causes(change(2e-3)) == ("the learning rate is × 2",)
    assert causes(change(1e-3, 0.01)) == ("the weight decay is 0.01",)
    assert causes(change(5e-4, 0.1)) == ("the learning rate is × 0.5; the weight decay is 0.1",)
    assert causes({name: 0 * part for name, part in clipped.items()})[0].startswith("the weights do not move")
    assert all((value == step.start[name]).all() for name, value in policy.state_dict().items() if name in step.start)


def rebuilt(batch, reference, mask, rewards):
    """The batch that is made of another's ids, with a mask of its responses."""
    prompts = batches.Tokens(batch.ids[:, :4], batch.attention_mask[:, :4].bool())
    return batches.fixed_batch(
        prompts, batches.Tokens(batch.ids[:, 4:], mask), rewards, [1], reference,
        temperature=1.0, group_size=4, penalty=0.1, max_new_tokens=8,
    )  # fmt: skip


def test_ends_are_read_off_the_ids():
    """A trainer that takes end tokens for padding, or padding for tokens, is compared with what it drew."""
    _, reference = models()
    right, ended = a_batch(reference), torch.tensor(ENDED)
    without_ends = torch.arange(6) < (torch.tensor(LENGTHS) - ended.long()).unsqueeze(1)
    for mask in (torch.ones(8, 6).bool(), without_ends):
        mask[~ended] = right.response_mask[~ended, 4:]
        batch = rebuilt(right, reference, mask, right.rewards)
        assert torch.equal(batch.response_mask, right.response_mask)
        assert torch.equal(batch.attention_mask, right.attention_mask) and batch.ended.tolist() == list(ENDED)


def test_every_response_needs_a_reward(refused):
    _, reference = models()
    batch = a_batch(reference)
    rewards = batch.rewards.clone().index_fill_(0, torch.tensor([2]), torch.nan)
    with refused(ConfigError):
        rebuilt(batch, reference, batch.response_mask[:, 4:], rewards)


def test_models_with_other_parameters(refused):
    policy, reference, step = a_step(by_hand)
    other = replace(step, start={f"base.{name}": part for name, part in step.start.items()})
    with refused(ConfigError):
        steps.compare_step(other, batches.METHODS["grpo"], policy, reference, settings())


# --- grue's own trainers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["grpo", "rloo", "dpo", "supervised"])
def test_grues_trainers_are_recomputed(method, tmp_path, monkeypatch):
    """The first step of the trainer itself: what is recomputed here is what `grue train` does."""
    whole = {"minibatch_size": 12, "epochs": 1, "rollouts": 12, "samples_per_prompt": 3}
    sizes = {} if method == "supervised" else whole
    made = tiny.run("causal", method, tmp_path / "run", micro_batch_size=5, **sizes)
    trainer, plan = made.trainer, made.plan
    algorithm, config = tiny.find_algorithm(method), plan.config
    state = algorithm.start(trainer, config)
    reference = captured.freeze(trainer.policy)
    steps.push_off(trainer.policy, 1)
    before = captured.weights(trainer.policy)
    module = importlib.import_module(f"grue.algorithms.{method if method != 'rloo' else 'reinforce'}")
    hook = {"dpo": "improve", "supervised": "minibatch_gradient"}.get(method, "collect")
    seen, gradients = [], []
    function = getattr(module, hook)

    def watched(*arguments, **named):
        seen.append((arguments, result := function(*arguments, **named)))
        return result

    step = module.step if method == "supervised" else None
    monkeypatch.setattr(module, hook, watched)
    with captured.gradients(trainer.policy) as gradient:
        if step:  # an update has several
            monkeypatch.setattr(module, "step", lambda *given: gradients.append(dict(gradient)) or step(*given))
        algorithm.update(trainer, state, config, 0)
    (arguments, result), *_ = seen
    if method == "dpo":
        groups = arguments[3]
        chosen = groups.rows((~groups.flat).nonzero()[:, 0])
        prompts = batches.Tokens(*(part.repeat_interleave(2, 0) for part in (chosen.prompts.ids, chosen.prompts.mask)))
        responses, rewards, size, beta = chosen.responses, chosen.scores.flatten(), 2, config.beta
    elif method == "supervised":
        prompts, responses = arguments[3].args[1:]
        rewards, size, beta = torch.zeros(len(responses.ids)), 1, 0.0
    else:
        prompts, responses, rewards = result.rollout.prompts, result.rollout.responses, result.scores
        size, beta = 3, config.kl_coefficient
    batch = batches.fixed_batch(
        prompts, responses, rewards, [1], reference,
        temperature=1.0, group_size=size, penalty=beta, max_new_tokens=8,
    )  # fmt: skip
    change = None if step else {n: v - before[n] for n, v in captured.weights(trainer.policy).items()}
    theirs = steps.FirstStep(batch, before, 0.0, gradients[0] if step else dict(gradient), change=change)
    found = steps.compare_step(theirs, batches.METHODS[method], trainer.policy, reference, config)
    assert not found.differs, found
    assert found.stages[-1].error < 1e-5


@pytest.fixture(scope="module")
def experiment():
    sys.path.insert(0, str(ROOT / "experiments"))
    yield importlib.import_module("conform_faults")
    sys.path.remove(str(ROOT / "experiments"))


@pytest.mark.slow
def test_seeded_faults(experiment):
    """What docs/how-to/other-trainers.md says: what is found in grue's trainer on mini's IMDB, and how it is named."""
    task = experiment.plain_task(experiment.load_task("imdb", "mini"))
    expected = [
        *((), ("the learning rate is × 2",), ("advantages are standardised over the batch, not the group",)),
        *(("end tokens are not learned",), ("the KL penalty has the wrong sign",)),
        ("the loss is a mean over all tokens of the batch",),
    ]
    for (rate, faults), causes in zip(experiment.FAULTS.values(), expected, strict=False):
        found = experiment.first_step(task, rate, faults)
        assert found.differs is bool(causes) and sum((stage.causes for stage in found.stages), ()) == causes
