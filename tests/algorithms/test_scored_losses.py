"""Losses and gradients of whole updates, against slow losses in double precision: one response at a time, by loops.

The policy has moved since the reference was copied, so that no ratio is 1. Models run in float32 and the slow losses in
double: a sum over a few thousand products leaves a relative difference of some 1e-6, hence the tolerance of 1e-5.
"""

import copy
import functools
import importlib
import math

import pytest
from support.late import lates

torch, tiny, scored, algorithms = lates("torch support.tiny support.scored grue.runs.algorithms")
FAMILIES = ["causal", "seq2seq"]
EPS = 1e-5


def differing(groups):
    """Groups in which a score differs from another."""
    return [group for group in groups if len({one.score for one in group}) > 1]


def best(group):
    return max(group, key=lambda one: one.score)  # of equals, the first


def worst(group):
    return min(group, key=lambda one: one.score)


def rft(said, groups, settings):
    chosen = [best(group) for group in differing(groups)]
    return -sum(said.log(one) for one in chosen) / sum(len(one.ids) for one in chosen)


def dpo(said, groups, settings):
    beta, out = settings.get("beta", 0.1), []
    for group in differing(groups):
        pairs = [(a, b) for a in group for b in group if a.score > b.score]
        if settings.get("pairs") != "all":
            pairs = [(best(group), worst(group))]
        losses = []
        for a, b in pairs:
            per = [len(one.ids) if settings.get("per_token") else 1 for one in (a, b)]
            gap = said.ratio(a) / per[0] - said.ratio(b) / per[1]
            ipo = settings.get("loss") == "ipo"
            losses.append((gap - 1 / (2 * beta)) ** 2 if ipo else -scored.log_sigmoid(beta * gap))
        out.append(scored.mean(losses))
    return scored.mean(out)


def copg(said, groups, settings):
    beta, out = settings.get("beta", 0.1), []
    for group in groups:
        pairs = [(a, b) for i, a in enumerate(group) for b in group[i + 1 :]]
        squares = [(a.score - b.score - beta * (said.ratio(a) - said.ratio(b))) ** 2 for a, b in pairs]
        out += [scored.mean(squares) / (2 * beta)] if pairs else []
    return scored.mean(out)


def pro(said, groups, settings):
    out = []
    for group in differing(groups):
        loss = 0.0
        means = [said.log(one) / len(one.ids) for one in group]
        for k, one in enumerate(group):
            below = [i for i, other in enumerate(group) if other.score < one.score]
            if not below:
                continue
            if settings.get("temperature") == "constant":
                tau = dict.fromkeys(below, 1.0)
            else:
                tau = {i: one.score - group[i].score for i in below}
            first = torch.exp(max(tau.values()) * means[k])
            loss = loss - torch.log(first / (first + sum(torch.exp(tau[i] * means[i]) for i in below)))
        weight = settings.get("best_coefficient", 0.05) * (len(group) - 1) ** 2
        out.append(loss - weight * said.log(best(group)))
    return scored.mean(out)


def tpo(said, groups, settings, drawn):
    """`drawn`: example's id → ids of the reference that chance drew; none for an example without one."""
    beta, alpha = settings.get("beta", 0.01), settings.get("alpha", 1.0)
    out = []
    for group in differing(groups):
        a, b = best(group), worst(group)
        per = [len(one.ids) if settings.get("per_token") else 1 for one in (a, b)]
        pair = -scored.log_sigmoid(beta * (said.log(a) / per[0] - said.log(b) / per[1]) - settings.get("margin", 0.0))
        reference = drawn.get(a.example.id)
        if reference is not None:
            target = scored.Response(a.example, reference, None)
            pair = pair - alpha * said.log(target) / len(reference)
        out.append(pair)
    return scored.mean(out)


SLOW = {"rft": rft, "dpo": dpo, "copg": copg, "pro": pro}
CASES = {
    "rft": [{}],
    "dpo": [
        {},
        {"pairs": "all", "beta": 0.5},
        {"per_token": True, "beta": 2.0},
        {"loss": "ipo", "beta": 0.2},
        {"loss": "ipo", "pairs": "all", "per_token": True},
    ],
    "copg": [{}, {"beta": 0.5}],
    "pro": [{}, {"temperature": "constant"}, {"temperature": "constant", "best_coefficient": 0.0}],
}


def begun(family, algorithm, folder, reward, examples=None, **settings):
    """A run and its state; the policy has moved since the reference was copied."""
    settings = {"epochs": 1, "minibatch_size": 24, "rollouts": 24, "samples_per_prompt": 4, **settings}
    run = tiny.run(family, algorithm, folder, reward=reward, **settings)
    run.trainer.examples = examples or run.trainer.examples
    state = algorithms.find_algorithm(algorithm).start(run.trainer, run.plan.config)
    scored.move(run.trainer.policy)
    return run, state


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", SLOW)
def test_the_loss_of_scored_responses_is_that_of_slow_loops(family, algorithm, tmp_path, monkeypatch):
    path, said = scored.write_file(tmp_path / "data.jsonl"), None
    for settings in CASES[algorithm] if family == "causal" else CASES[algorithm][-1:]:
        reward = scored.Recorder(gaps=True)
        run, state = begun(family, algorithm, tmp_path, reward, micro_batch_size=9, **settings)
        (step,), _ = scored.steps_of(run, state, monkeypatch)
        groups = scored.groups_of(reward.calls[0], 4)
        assert 0 < len(differing(groups)) < 6, "one group at least is flat"
        assert any(len(group) < 4 for group in groups), "one response at least has no score"
        said = said or scored.Said(run.trainer.policy, tiny.model(family))  # the policies of all settings are the same
        scored.assert_step(step, SLOW[algorithm](said, groups, settings), said.policy)
        run, state = begun(family, algorithm, tmp_path, scored.coarse, data=path, micro_batch_size=5, **settings)
        (step,), figures = scored.steps_of(run, state, monkeypatch)
        scored.assert_step(step, SLOW[algorithm](said, scored.groups_of_file(), settings), said.policy)
        tokens = sum(len(one.ids) for group in scored.groups_of_file() for one in group)
        assert (figures["episodes"], figures["tokens"], figures["reward_calls"]) == (15.0, tokens, 0.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_of_triples_is_that_of_slow_loops(family, tmp_path, monkeypatch):
    """Every example has one reference, so that no chance is left, and two have none."""
    some = [() if one.id in ("e2", "e5") else one.references[:1] for one in tiny.examples()]
    examples = [type(one)(one.id, one.prompt, kept) for one, kept in zip(tiny.examples(), some, strict=True)]
    drawn = {one.id: scored.ids_of(one.references[0]) for one in examples if one.references}
    path, cases = scored.write_file(tmp_path / "data.jsonl"), [{}, {"beta": 0.5, "alpha": 0.3}]
    for settings in [{"beta": 2.0, "per_token": True, "margin": 0.7}, *(cases if family == "causal" else [])]:
        given = {"examples": examples, "data": path, "micro_batch_size": 5, **settings}
        run, state = begun(family, "tpo", tmp_path, scored.fine, **given)
        (step,), _ = scored.steps_of(run, state, monkeypatch)
        said = scored.Said(run.trainer.policy, tiny.model(family))
        scored.assert_step(step, tpo(said, scored.groups_of_file(), settings, drawn), said.policy)


def test_one_of_several_references_is_drawn(tmp_path, monkeypatch):
    reward = scored.Recorder(scored.fine)
    run, state = begun("causal", "tpo", tmp_path, reward, rollouts=4, minibatch_size=4)
    said, found = scored.Said(run.trainer.policy, tiny.model("causal")), set()
    for n in range(6):
        (step,), _ = scored.steps_of(run, state, monkeypatch, n)
        (group,) = scored.groups_of(reward.calls[n], 4)
        texts = group[0].example.references
        losses = [scored.number(tpo(said, [group], {}, {group[0].example.id: scored.ids_of(text)})) for text in texts]
        (which,) = [i for i, loss in enumerate(losses) if abs(loss - scored.number(step.measured["loss/total"])) < 1e-5]
        found.add(which)
    assert found == {0, 1}


@functools.cache
def prompt_state(model, example_id):
    """The state that the first response token is predicted from."""
    (example,) = [one for one in tiny.examples() if one.id == example_id]
    return scored.states_of(model, scored.Response(example, [scored.EOS], None))[0].tolist()


def alol(said, worth, settings):
    """`worth`: of each response that is learnt, (response, A), by whom it is drawn aside."""
    variant, clip = settings["variant"], settings.get("clip", 0.9)

    def bounded(log_ratio):
        ratio = math.exp(log_ratio)
        return ratio if clip is None else max(1 - clip, min(1 + clip, ratio))

    losses = []
    for one, advantage in worth:
        now, before = said.now(one), said.before(one)
        gaps = [scored.number(n) - b for n, b in zip(now, before, strict=True)]
        if variant in ("alol", "r_lol"):
            loss = -advantage * bounded(sum(gaps)) * sum(now)
        elif variant == "sequence":
            loss = -advantage * sum(bounded(gap) * n for gap, n in zip(gaps, now, strict=True))
        else:
            loss = -advantage * sum(now)
        losses.append(loss + (0.3 * said.ratio(one) if variant == "kl" else 0.0))
    return scored.mean(losses)


@pytest.mark.parametrize(
    ("family", "variant", "clip", "of_file"),
    [
        *(("causal", "alol", clip, False) for clip in (0.9, 0.1, None)),
        *(("causal", "sequence", clip, clip is not None) for clip in (0.1, None)),
        *(("causal", variant, 0.9, False) for variant in ("reference_free", "kl", "r_lol")),
        ("seq2seq", "alol", 0.1, False),
        ("seq2seq", "sequence", 0.1, True),
    ],
)
def test_the_loss_of_leftover_lunch_is_that_of_slow_loops(family, variant, clip, of_file, tmp_path, monkeypatch):
    weight = 0.05 * torch.randn(32, generator=torch.Generator().manual_seed(4))
    settings = {"variant": variant, "clip": clip, "beta": 0.3, "priority": False, "rollouts": 24 if of_file else 12}
    reward = scored.Recorder(scored.fine, gaps=True)
    data = scored.write_file(tmp_path / "data.jsonl") if of_file else None
    run, state = begun(family, "alol", tmp_path, reward, data=data, micro_batch_size=5, **settings)
    state.memory = {"value_weight": weight, "value_bias": torch.tensor(1.25)}
    (step,), figures = scored.steps_of(run, state, monkeypatch, n=1)
    groups = scored.groups_of_file() if data else scored.groups_of(reward.calls[0], 4)
    said, reference = scored.Said(run.trainer.policy, tiny.model(family)), scored.in_double(tiny.model(family))
    worth, below = [], 0
    for one in (one for group in groups for one in group):
        value = 0.0
        if variant != "r_lol":
            features = prompt_state(reference, one.example.id)
            value = 1.25 + math.fsum(a * b for a, b in zip(weight.tolist(), features, strict=True))
        worth += [(one, one.score - value)] if one.score > value else []
        below += one.score <= value
    assert worth and (below > 0 or variant == "r_lol")
    # Weights A come from float32 states, A being a difference.
    scored.assert_step(step, alol(said, worth, settings), said.policy, 3 * EPS, 3 * EPS)
    given = sum(len(group) for group in groups)  # what only pads a smaller group is no response
    assert figures["objective/used"] == pytest.approx(len(worth) / given)
    flat = sum(len({one.score for one in group}) < 2 for group in groups)
    assert figures["objective/flat_groups"] == pytest.approx(flat / len(groups))


def test_leftover_lunch_draws_in_proportion_to_the_advantage(tmp_path, monkeypatch):
    """Four responses with the advantages 1, 2, 5 and none: over many updates the shares are 1/8, 2/8, 5/8 and 0."""
    rows = {"e0": [("a dog", 1.0), ("the cat", 2.0), ("red", 5.0), ("blue", 0.0)]}
    path = scored.write_file(tmp_path / "data.jsonl", rows)
    run, state = begun(
        "causal", "alol", tmp_path, scored.fine, data=path, rollouts=4, minibatch_size=4, variant="r_lol"
    )
    counts, chosen = dict.fromkeys((1.0, 2.0, 5.0, 0.0), 0), importlib.import_module("grue.algorithms.alol")

    def seen(trainer, state, config, groups, *rest, **named):
        for score in groups.scores.flatten().tolist():
            counts[score] += 1
        return {}

    monkeypatch.setattr(chosen, "improve", seen)
    for n in range(400):
        chosen.update(run.trainer, state, run.plan.config, n)
    shares = [count / 1200 for count in counts.values()]
    assert shares == pytest.approx([1 / 8, 2 / 8, 5 / 8, 0], abs=0.04)


def test_the_expected_reward_is_fitted_to_what_the_start_gets(tmp_path):
    """A reward that is known from the prompt alone is predicted; one that is the same for all is, by both families."""

    def of_the_prompt(examples, texts):
        return [len(example.prompt.split()) / 4 for example in examples]

    module = importlib.import_module("grue.algorithms.alol")
    for family, reward in (("causal", of_the_prompt), ("causal", scored.flat), ("seq2seq", scored.flat)):
        run, state = begun(family, "alol", tmp_path, reward, value_prompts=48)
        figures = module.fit_value(run.trainer, state, run.plan.config)
        assert (figures["prompts"], figures["reward_calls"]) == (48.0, 48.0)
        model = scored.in_double(tiny.model(family))
        weight, bias = state.memory["value_weight"].tolist(), scored.number(state.memory["value_bias"])
        for example in tiny.examples():
            value = bias + math.fsum(a * b for a, b in zip(weight, prompt_state(model, example.id), strict=True))
            assert value == pytest.approx(reward([example], [""])[0], abs=0.05 if reward is of_the_prompt else 1e-6)


def moved_on(run, state, monkeypatch, n=0):
    """Steps of an update whose policy moved after it was sampled; and the policy that was sampled."""
    of_its_own = {"mdpo": "grue.rl.experience", "grpo": "grue.algorithms.grpo"}
    module = importlib.import_module(of_its_own.get(run.plan.algorithm, "grue.algorithms.reinforce"))
    collect, sampled = module.collect, copy.deepcopy(run.trainer.policy)

    def collecting(*given):
        found = collect(*given)
        scored.move(run.trainer.policy, 0.03, seed=11)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(module, "collect", collecting)
        steps, figures = scored.steps_of(run, state, monkeypatch, n)
    return steps, figures, sampled


class Ratios:
    """What the policy now, the one that was sampled and the reference say of a response's tokens, by loops."""

    def __init__(self, run, sampled, family, temperature):
        self.policy, self.temperature = scored.in_double(run.trainer.policy), temperature
        self.sampled, self.reference = scored.in_double(sampled), scored.in_double(tiny.model(family))

    def of(self, one):
        """Lists of log π (with gradients), log π_old and log π_0."""
        now = scored.token_logs(self.policy, one.example, one.ids, self.temperature)
        with torch.no_grad():
            old, before = (
                [scored.number(x) for x in scored.token_logs(model, one.example, one.ids, self.temperature)]
                for model in (self.sampled, self.reference)
            )
        return now, old, before


def clipped(ratio, advantage, low, high):
    """−min(r·A, clip(r)·A), with a gradient."""
    inside = 1 - low <= scored.number(ratio) <= 1 + high
    bounded = ratio if inside else torch.tensor(min(max(scored.number(ratio), 1 - low), 1 + high))
    return -min(ratio * advantage, bounded * advantage, key=scored.number)


def penalty(now, old, before, estimator, corrected):
    gap, ratio = now - before, torch.exp(now - old)
    kl = {"k1": gap, "k2": gap**2 / 2, "k3": torch.exp(-gap) - 1 + gap}[estimator]
    if not corrected:
        return kl
    return kl * (scored.number(ratio) if estimator == "k2" else ratio)


GRPO = [
    {"ratio_of": "responses", "clip": 0.01, "clip_high": 0.02},
    {"loss_over": "constant", "scale_by": "nothing"},
    {"loss_over": "tokens", "clip_high": 0.28, "kl_estimator": "k2"},
    {"kl_estimator": "k1", "kl_corrected": True},
    {"kl_estimator": "k2", "kl_corrected": True, "loss_over": "constant"},
    {"kl_corrected": True, "ratio_of": "responses", "clip": 0.01},
]


@pytest.mark.parametrize("case", range(len(GRPO)))
def test_the_loss_of_grpo_and_its_relatives_is_that_of_slow_loops(case, tmp_path, monkeypatch):
    family, settings, reward = FAMILIES[case % 2], GRPO[case], scored.Recorder(scored.fine, gaps=True)
    task = tiny.task(family, temperature=3.0, max_new_tokens=16)
    sizes = {"rollouts": 12, "minibatch_size": 12 if case > 2 else 8, "micro_batch_size": 3, "kl_coefficient": 0.3}
    run, state = begun(family, "grpo", tmp_path, reward, task_=task, **sizes, **settings)
    steps, _, sampled = moved_on(run, state, monkeypatch)
    responses, says = reward.calls[0], Ratios(run, sampled, family, 3.0)
    assert sorted(row for step in steps for row in step.rows) == [
        row for row in range(12) if responses[row].score is not None
    ]
    assert len({len(response.ids) for response in responses}) > 1
    over, low = settings.get("loss_over", "responses"), settings.get("clip", 0.2)
    high, everywhere = settings.get("clip_high", low), 0
    for step in steps:
        total, tokens, outside = 0.0, 0, 0
        for row in step.rows:
            siblings = [one.score for one in responses[row - row % 4 : row - row % 4 + 4] if one.score is not None]
            middle = scored.mean(siblings)
            advantage = responses[row].score - middle if len(siblings) > 1 else 0.0
            if settings.get("scale_by") != "nothing" and len(siblings) > 1:
                variance = sum((score - middle) ** 2 for score in siblings) / (len(siblings) - 1)
                advantage /= math.sqrt(variance) + 1e-4
            now, old, before = says.of(responses[row])
            shared = torch.exp(scored.mean([n - o for n, o in zip(now, old, strict=True)]))
            losses = []
            for n, o, b in zip(now, old, before, strict=True):
                ratio = shared if settings.get("ratio_of") == "responses" else torch.exp(n - o)
                outside += not 1 - low <= scored.number(ratio) <= 1 + high
                kl = penalty(n, o, b, settings.get("kl_estimator", "k3"), settings.get("kl_corrected", False))
                losses.append(clipped(ratio, advantage, low, high) + 0.3 * kl)
            tokens += len(losses)
            total = total + sum(losses) / {"tokens": 1, "responses": len(losses), "constant": 16}[over]
        loss = total / (tokens if over == "tokens" else len(step.rows))
        # Of single tokens it is a mean over them, whatever the loss divides by, which all rows together tell.
        if over == "tokens" or (len(steps) == 1 and settings.get("ratio_of") != "responses"):
            assert scored.number(step.measured["policy/clip_fraction"]) == pytest.approx(outside / tokens)
        everywhere += outside
        scored.assert_step(step, loss, says.policy, gradient=2 * EPS)
    assert everywhere > 0


@pytest.mark.parametrize(
    ("algorithm", "family", "coefficient", "whitened"),
    [
        ("reinforce_plus_plus", "causal", 0.3, False),
        ("reinforce_plus_plus", "seq2seq", 0.0, False),
        ("reinforce", "seq2seq", 0.3, False),
        ("rloo", "causal", 0.3, True),
    ],
)
def test_the_loss_of_reinforce_and_its_relatives_is_that_of_slow_loops(
    algorithm, family, coefficient, whitened, tmp_path, monkeypatch
):
    reward, task = scored.Recorder(scored.fine, gaps=True), tiny.task(family, temperature=3.0, max_new_tokens=16)
    sizes = {"rollouts": 12, "minibatch_size": 12, "micro_batch_size": 5, "samples_per_prompt": 1}
    sizes |= {"task_": task, "kl_coefficient": coefficient, "whiten_advantages": whitened}
    sizes |= tiny.SMALL.get(algorithm, {})
    run, state = begun(family, algorithm, tmp_path, reward, **sizes)
    (step,), _, sampled = moved_on(run, state, monkeypatch)
    says = Ratios(run, sampled, family, 3.0)
    rows = [(row, says.of(one), one.score) for row, one in enumerate(reward.calls[0]) if one.score is not None]
    assert len(rows) < 12 and len({len(old) for _, (_, old, _), _ in rows}) > 1
    worth = {}
    for row, (_, old, before), score in rows:
        kls = [o - b for o, b in zip(old, before, strict=True)]
        worth[row] = [score - coefficient * sum(kls[t:]) for t in range(len(kls))]
    if algorithm == "reinforce_plus_plus":
        judged = iter(scored.standard([value for values in worth.values() for value in values]))
    else:  # a response as a whole, less the mean of all, or of its siblings
        whole, advantages = {row: values[0] for row, values in worth.items()}, []
        for row, value in whole.items():
            siblings = [whole[other] for other in whole if other // 3 == row // 3 and other != row]
            others = whole.values() if algorithm == "reinforce" else siblings
            advantages.append(value - scored.mean(others) if others else 0.0)
        advantages = scored.standard(advantages) if whitened else advantages
        judged = iter(of for of, values in zip(advantages, worth.values(), strict=True) for _ in values)
    pairs = [(n, o) for _, (now, old, _), _ in rows for n, o in zip(now, old, strict=True)]
    ratios = [torch.exp(n - o) for n, o in pairs]
    loss = scored.mean(clipped(ratio, next(judged), 0.2, 0.2) for ratio in ratios)
    scored.assert_step(step, loss, says.policy, gradient=2 * EPS)
    outside = scored.mean(not 0.8 <= scored.number(ratio) <= 1.2 for ratio in ratios)
    assert scored.number(step.measured["policy/clip_fraction"]) == pytest.approx(outside) and outside > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_of_mirror_descent_is_that_of_slow_loops(family, tmp_path, monkeypatch):
    """Half-way through the run t is half of what it was; advantages are those of a critic that says 0."""
    reward, task = scored.Recorder(scored.fine), tiny.task(family, temperature=3.0, max_new_tokens=16)
    courses = [(0, True, 0.5), (2, True, 0.25), (2, False, 0.5)]
    for n, anneal, size in courses if family == "causal" else courses[1:2]:
        sizes = {"rollouts": 12, "minibatch_size": 12, "micro_batch_size": 5, "samples_per_prompt": 1, "updates": 4}
        sizes |= {"kl_coefficient": 0.3, "step_size": 0.5, "anneal": anneal, "gamma": 0.9, "gae_lambda": 1.0}
        run, state = begun(family, "mdpo", tmp_path, reward, task_=task, **sizes)
        (step,), figures, sampled = moved_on(run, state, monkeypatch, n)
        assert figures["policy/step_size"] == pytest.approx(size)
        says, worth = Ratios(run, sampled, family, 3.0), []
        rows = [(says.of(one), one.score) for one in reward.calls[-1]]
        for (_, old, before), score in rows:
            rewards = [-0.3 * (o - b) for o, b in zip(old, before, strict=True)]
            rewards[-1] += score
            worth.append([sum(0.9 ** (k - t) * rewards[k] for k in range(t, len(old))) for t in range(len(old))])
        advantages, losses = iter(scored.standard([value for row in worth for value in row])), []
        for (now, old, _), _ in rows:
            for n_, o in zip(now, old, strict=True):
                ratio = torch.exp(n_ - o)
                losses.append((ratio * (n_ - o) - ratio + 1) / size - ratio * next(advantages))
        scored.assert_step(step, scored.mean(losses), says.policy, gradient=2 * EPS, name="loss/policy")


@pytest.mark.parametrize(("family", "algorithm"), [("causal", "grpo"), ("seq2seq", "dpo"), ("causal", "ppo")])
def test_references_are_learnt_beside_in_one_step(family, algorithm, tmp_path, monkeypatch):
    """The gradient grows by that of the mean over the references' tokens, times the coefficient."""
    settings = {"epochs": 1, "minibatch_size": 12, **tiny.SMALL.get(algorithm, {})}
    found = []
    for weight in (0.0, 0.7):
        run = tiny.run(family, algorithm, tmp_path, reward=scored.fine, supervised_coefficient=weight, **settings)
        # One pair to draw, so that no chance is left.
        run.trainer.examples = [type(one)(one.id, one.prompt, ()) for one in tiny.examples()]
        one = run.trainer.examples[4] = tiny.examples()[4]
        run.trainer.examples[4] = type(one)(one.id, one.prompt, one.references[:1])
        state = algorithms.find_algorithm(algorithm).start(run.trainer, run.plan.config)
        found.append(scored.steps_of(run, state, monkeypatch))
    (plain,), (mixed,) = found[0][0], found[1][0]
    said = scored.Said(run.trainer.policy, run.trainer.policy)
    target = scored.Response(run.trainer.examples[4], scored.ids_of(run.trainer.examples[4].references[0]), None)
    loss = -0.7 * said.log(target) / len(target.ids)
    assert found[1][1]["loss/supervised"] == pytest.approx(scored.number(loss), rel=EPS)
    assert "loss/supervised" not in found[0][1]
    assert scored.close(mixed.gradient - plain.gradient, said.gradient(loss), 3 * EPS)
