"""What the tests of scored responses share: slow losses in double precision, and updates whose steps are only seen."""

import copy
import math
from dataclasses import dataclass

import pytest
import torch
from support import exactness, tiny

from grue.data.scored_lines import ScoredHeader
from grue.files import write_jsonl
from grue.rl import optimize
from grue.runs.algorithms import find_algorithm

EOS = 1


def coarse(examples, texts):
    """A reward of a few values, so that siblings often score alike."""
    return [0.75 * (text.count("a") > 2) - 0.25 for text in texts]


fine = exactness.letters


def flat(examples, texts):
    return [0.3] * len(texts)


class Recorder:
    """A reward that remembers whose responses it saw, as ids, and what it gave; None for some where `gaps`."""

    def __init__(self, reward=coarse, gaps=False):
        self.reward, self.gaps, self.calls = reward, gaps, []
        self.__name__ = "recorder"

    def __call__(self, examples, texts, token_ids):
        given = self.reward(examples, texts)
        if self.gaps:
            given = [None if sum(ids) % 5 == 0 else one for ids, one in zip(token_ids, given, strict=True)]
        self.calls.append([Response(*one) for one in zip(examples, map(list, token_ids), given, strict=True)])
        return given


@dataclass
class Response:
    """A response to an example: its ids, the end token included, and what it is worth; None without a score."""

    example: object
    ids: list
    score: float | None


def groups_of(responses, size):
    """Neighbours, `size` each, without those that have no score."""
    rows = [responses[i : i + size] for i in range(0, len(responses), size)]
    return [[one for one in row if one.score is not None] for row in rows]


# --- files -----------------------------------------------------------------------------------------------------------

# Groups of one to four responses, ties, an empty text, one longer than the task allows (8 tokens).
FILE = {
    "e0": [("the dog sees a cat", 0.5), ("a cat", 0.5), ("the the the", 0.25), ("red blue small ball house", 1.5)],
    "e1": [("near the house", -0.5), ("", 0.75)],
    "e2": [("the man runs in the red house near a small tree and sees", 1.0), ("bird", 0.25), ("a bird likes", 0.5)],
    "e3": [("likes", 0.5)],
    "e4": [("a tree", 0.25), ("the small tree", 0.25)],
    "e5": [("a ball", 2.0), ("man finds ball", 0.125), ("man", 0.125)],
}


def write_file(path, groups=None):
    rows = (groups or FILE).items()
    lines = [{"id": key, "responses": [{"text": text, "reward": worth} for text, worth in said]} for key, said in rows]
    write_jsonl(path, lines)
    return str(path)


def header(task, **said):
    """The header of a file of responses that were drawn and rewarded."""
    known = {"suite": task.suite, "task": task.name, "task_hash": task.hash, "generation": task.rollout}
    known |= {"split": "train", "reward": "rouge1", "checkpoint": "sha", "system": "s", "seed": 1, "seconds": 2.0}
    return ScoredHeader(grue="scored responses", schema=1, **{**known, **said})


def ids_of(text):
    """One token a word, the end, and no more than 8."""
    return [*(3 + tiny.WORDS.index(word) for word in text.split()), EOS][:8]


def groups_of_file(groups=None):
    examples = {example.id: example for example in tiny.examples()}
    return [
        [Response(examples[key], ids_of(text), reward) for text, reward in rows]
        for key, rows in (groups or FILE).items()
    ]


# --- slow log-probabilities ------------------------------------------------------------------------------------------


def in_double(model):
    return copy.deepcopy(model).double()


def prompt_of(model, example):
    """The ids of an example's prompt, as the model's family reads it."""
    return tiny.tokenizer("seq2seq" if model.config.is_encoder_decoder else "causal")(example.prompt)["input_ids"]


def logits_of(model, one):
    """The logits of a response's tokens, as lists."""
    return exactness.alone(model, prompt_of(model, one.example), one.ids)


def states_of(model, one):
    """The states that a response's tokens are predicted from."""
    return exactness.plain(model, prompt_of(model, one.example), one.ids)[1]


def token_logs(model, example, ids, temperature=1.0):
    """log π of each token as a number that autograd knows: one response alone, no padding, sums by hand."""
    logits = exactness.plain(model, prompt_of(model, example), ids)[0] / temperature
    return [logits[t, token] - logits[t].exp().sum().log() for t, token in enumerate(ids)]


class Said:
    """What two models say of responses, each asked once."""

    def __init__(self, policy, reference):
        self.policy, self.reference = in_double(policy), in_double(reference)
        self._known = {}

    def now(self, one):
        """log π of each token of a response."""
        return self._once("now", self.policy, one)

    def before(self, one):
        """log π_0 of each token, as floats."""
        return [value.item() for value in self._once("before", self.reference, one)]

    def log(self, one):
        return sum(self.now(one))

    def ratio(self, one):
        """h = log π − log π_0 of a response."""
        return self.log(one) - sum(self.before(one))

    def _once(self, which, model, one):
        key = which, one.example.id, tuple(one.ids)
        if key not in self._known:
            self._known[key] = token_logs(model, one.example, one.ids)
        return self._known[key]

    def gradient(self, loss):
        return gradient_of(loss, self.policy)


def gradient_of(loss, model):
    parameters = list(model.parameters())
    found = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
    pairs = zip(found, parameters, strict=True)
    return torch.cat([torch.zeros_like(p).flatten() if g is None else g.flatten() for g, p in pairs])


def log_sigmoid(x):
    return -torch.log(1 + torch.exp(-x))


def begun(algorithm, folder, family="causal", **settings):
    """A tiny run, its algorithm and its state."""
    run = tiny.run(family, algorithm, folder, **{"reward": fine, **tiny.SMALL.get(algorithm, {}), **settings})
    learner = find_algorithm(algorithm)
    return run, learner, learner.start(run.trainer, run.plan.config)


# --- updates that are seen and not taken -----------------------------------------------------------------------------


@dataclass
class Step:
    """A step that an update would take: the gradient of the policy, and what was measured."""

    gradient: torch.Tensor
    measured: dict
    rows: list


def move(model, spread=0.05, seed=7):
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
            parameter.add_(spread * noise)


def steps_of(run, state, monkeypatch, n=0):
    """Carry out one update whose steps are not taken; return them, and the update's figures."""
    steps, rows_of = [], []
    gradient_of_minibatch = optimize.minibatch_gradient

    def seen(trainer, rows, weights, losses_of, size, *counts):
        if not counts:  # that of the references beside, in the same step
            return gradient_of_minibatch(trainer, rows, weights, losses_of, size)
        rows_of.append(rows.tolist())
        measured = gradient_of_minibatch(trainer, rows, weights, losses_of, size, *counts)
        steps.append(Step(torch.empty(0), measured, rows.tolist()))
        return measured

    def taken(trainer, optimizer, config, where):
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in state.policy.parameters()]
        steps[-1].gradient = torch.cat([part.flatten() for part in parts]).double()
        optimizer.zero_grad(set_to_none=True)
        return steps[-1].gradient.norm()

    with monkeypatch.context() as patch:
        patch.setattr(optimize, "minibatch_gradient", seen)
        patch.setattr(optimize, "step", taken)
        patch.setattr(optimize, "check_ratio", lambda *given: None)  # the policy has moved on purpose
        update = find_algorithm(run.plan.algorithm).update
        figures = update(run.trainer, state, run.plan.config, n)
    return steps, figures


def close(found, exact, tolerance=1e-5):
    """Whether a float32 gradient is the double one up to rounding: float32 has 6e-8, a pass adds up thousands."""
    return float((found - exact).norm()) <= tolerance * float(exact.norm()) and float(exact.norm()) > 0


def assert_step(step, loss, model, rel=1e-5, gradient=1e-5, name="loss/total"):
    """Compare a step with that of a slow loss of a model in double precision."""
    assert number(step.measured[name]) == pytest.approx(number(loss), rel=rel, abs=1e-6)
    assert close(step.gradient, gradient_of(loss, model), gradient)


def number(x):
    """A tensor of one number as a float, whether autograd follows it or not."""
    return x.item() if isinstance(x, torch.Tensor) else float(x)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def standard(values):
    """Values with mean 0 and deviation 1, as PPO's advantages are."""
    middle = mean(values)
    spread = math.sqrt(mean([(value - middle) ** 2 for value in values]) + 1e-8)
    return [(value - middle) / spread for value in values]
