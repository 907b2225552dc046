"""Evolution strategies: perturbed policies are compared by their answers, without a gradient of the policy.

Salimans et al. (2017, arXiv 1703.03864), applied to language models by Qiu et al. (2025, 2509.24372). Pairs of
policies θ ± σε_k, ε_k ~ N(0, I), answer the same prompts of an update, greedily. A member's fitness F is the mean score
of its answers, shaped to its centred rank among all 2n members, from −½ to ½, and

    g = 1/(2nσ) · Σ_k (F(θ + σε_k) − F(θ − σε_k)) · ε_k

estimates the gradient of the shaped fitness, smoothed by the noise. The optimiser takes −g. Its norm is far above any
clipping norm, so `max_grad_norm` makes all steps equally long, and `learning_rate` alone decides how far weights move.

Differences from the papers: members of equal fitness share their mean rank, where OpenAI's code orders them by
position; if no pair differs, no step is taken; weight decay is AdamW's. OpenAI's code leaves out 1/σ. Qiu et al.
have neither pairs nor ranks nor an optimiser: they standardise the fitness, and their learning rate includes 1/σ.

In the code: noise is redrawn from the run's seed whenever it is needed, one stream for all weights of a pair. The
policy's own weights are restored from a copy: adding and subtracting would not return the same bits. All prompts of a
member are one batch, but members are run one by one: `torch.func.vmap` cannot map the sampler, which stops when every
row has ended and keeps keys and values in an object, and 2n copies of the weights would be needed.

n = pairs of an update, B = responses of an update, a member's adjacent, T = response time.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import torch
from torch import Tensor

from grue.algorithms.cards.es import CARD, ESConfig
from grue.errors import ConfigError, TrainingError
from grue.lm.constraints import find_stops
from grue.lm.distributed import rows_of
from grue.lm.forward import encode
from grue.lm.model import eos_id
from grue.lm.sampling import Rollout, sample_responses
from grue.lm.seeds import generator
from grue.lm.tokens import encode_prompts
from grue.rl import trainer as base
from grue.rl.optimize import step
from grue.rl.responses import (
    Responses,
    Sampled,
    by_rows,
    describe_responses,
    draw_positions,
    gather,
    reward_responses,
    score,
    show,
)
from grue.rl.settings import rollout_settings
from grue.rl.trainer import Trainer, TrainState, implement


def start(trainer: Trainer, config: ESConfig) -> TrainState:
    """Return the state before the first update; a ConfigError if there are more processes than pairs."""
    if config.perturbations < trainer.distributed.size:
        raise ConfigError(
            f"{trainer.distributed.size} processes share {config.perturbations} pairs of members; raise "
            "perturbations, or start fewer."
        )
    return base.start(trainer, config.read)


def update(trainer: Trainer, state: TrainState, config: ESConfig, n: int) -> dict[str, float]:
    """Let the members of update `n` answer, and take one step along the noise of the better ones."""
    responses = score(trainer, state, config.read, n, gather(trainer, answer(trainer, state, config, n)))
    fitness = member_fitness(responses, 2 * config.perturbations)
    shaped = centred_ranks(fitness).view(-1, 2)
    differences = shaped[:, 0] - shaped[:, 1]
    steps, norm = 0.0, 0.0
    if differences.any():
        add_gradient(trainer, config, differences / (2 * config.perturbations * config.noise), n)
        norm = float(step(trainer, state.optimizer, config, f"update {n}"))
        steps = 1.0
    valid = fitness[~fitness.isnan()]
    return {
        **describe_responses(responses),
        "es/fitness_sd": float(valid.std(correction=0)),
        "es/tied": tied_share(valid),
        "policy/grad_norm": norm,
        "policy/steps": steps,
        "steps": steps,
    }


# --- members ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def answer(trainer: Trainer, state: TrainState, config: ESConfig, n: int) -> Sampled:
    """Return the answers of this rank's members to the prompts of update `n`, with their rewards.

    The policy's weights are restored bit for bit.
    """
    policy = state.policy
    positions = draw_positions(len(trainer.examples), config.prompts, trainer.seed, n)
    examples = [trainer.examples[position] for position in positions.tolist()]
    prompts = encode_prompts(policy, trainer.tokenizer, [example.prompt for example in examples], trainer.task.prompt)
    settings = rollout_settings(trainer.task, config)
    first = torch.zeros(len(examples), settings.max_new_tokens)  # takes the first of equally likely tokens
    eos, stops = eos_id(policy, trainer.tokenizer), find_stops(trainer.tokenizer, settings.stop)
    encoded = None
    if config.freeze_encoder:
        with trainer.autocast():
            encoded = encode(policy, prompts)
    rollouts = []
    with closing(members(trainer, config, n)) as each:
        for _ in each:
            try:
                with trainer.autocast():
                    rollouts.append(
                        sample_responses(policy, prompts, settings, first, eos, encoded=encoded, stops=stops)
                    )
            except TrainingError as error:
                raise TrainingError(f"update {n}, a perturbed policy: {error} Or lower noise.") from error
    rollout = joined(rollouts)
    rewarded = reward_responses(trainer, examples * len(rollouts), rollout, n)
    share = len(rollouts) / (2 * config.perturbations)
    spent = [share * len(examples), float(rollout.responses.mask.sum()), float(len(rewarded.sums))]
    places = positions.repeat(len(rollouts)).to(rewarded.sums.device)
    sampled = Sampled(places, rollout, rewarded, rewarded.sums, torch.tensor(spent, dtype=torch.float64))
    show(trainer, sampled)
    return sampled


def members(trainer: Trainer, config: ESConfig, n: int) -> Generator[None, None, None]:
    """Give the policy the weights of each of this rank's members in turn, + before −; restore its own at the end."""
    weights = [weight.detach() for weight in learning(trainer)]
    centres = [weight.clone() for weight in weights]
    try:
        for pair in own_pairs(trainer, config):
            noise = list(draw_noise(trainer, n, pair))
            for scale in (config.noise, -config.noise):
                for weight, centre, drawn in zip(weights, centres, noise, strict=True):
                    torch.add(centre, drawn, alpha=scale, out=weight)
                yield
    finally:
        for weight, centre in zip(weights, centres, strict=True):
            weight.copy_(centre)


def own_pairs(trainer: Trainer, config: ESConfig) -> range:
    """Return this rank's share of the pairs."""
    return range(config.perturbations)[trainer.distributed.share(config.perturbations)]


def learning(trainer: Trainer) -> list[Tensor]:
    """Return the trained weights."""
    return [weight for weight in trainer.policy.parameters() if weight.requires_grad]


def draw_noise(trainer: Trainer, n: int, pair: int) -> Iterator[Tensor]:
    """Yield the noise of a pair of update `n` for each weight in turn, from a single stream."""
    chance = generator(trainer.seed, "perturbation", n, pair)
    for weight in learning(trainer):
        yield torch.randn(weight.shape, generator=chance).to(weight)


def joined(rollouts: Sequence[Rollout]) -> Rollout:
    """Return the answers of several members to the same prompts as one rollout, without supports."""
    return by_rows(rows_of, "right", *(replace(rollout, support=None, encoded=None) for rollout in rollouts))


# --- fitness ---------------------------------------------------------------------------------------------------------


def member_fitness(responses: Responses, count: int) -> Tensor:
    """Return the mean score of the scored answers of `count` members, [2n]; NaN for a member without any.

    Sums of float32 in float64 are exact here, so that equal fitness does not depend on the order of summation.
    """
    scores = responses.scores.masked_fill(~responses.scored, torch.nan)
    return scores.cpu().double().view(count, -1).nanmean(1)


def centred_ranks(fitness: Tensor) -> Tensor:
    """Return the ranks of fitnesses, from −½ for the lowest to ½ for the highest, [2n]; equal ones share their mean.

    A member without a fitness gets the middle, 0, and the others are ranked as if it did not exist.
    """
    valid = ~fitness.isnan()
    rivals = max(1, int(valid.sum()) - 1)
    values = fitness[valid]
    below = (values.unsqueeze(1) > values).sum(1) - (values.unsqueeze(1) < values).sum(1)
    return torch.zeros_like(fitness).masked_scatter(valid, below.to(fitness) / (2 * rivals))


def tied_share(fitness: Tensor) -> float:
    """Return the share of the members with the same fitness as another."""
    return float(((fitness.unsqueeze(1) == fitness).sum(1) > 1).double().mean())


# --- the step --------------------------------------------------------------------------------------------------------


def add_gradient(trainer: Trainer, config: ESConfig, weights: Tensor, n: int) -> None:
    """Give each weight this rank's share of −g, which the optimiser's step sums over the ranks.

    `weights` [n] are those of each pair's noise in g.
    """
    gradients = [torch.zeros_like(weight) for weight in learning(trainer)]
    for pair in own_pairs(trainer, config):
        for gradient, drawn in zip(gradients, draw_noise(trainer, n, pair), strict=True):
            gradient.sub_(drawn, alpha=float(weights[pair]))
    for weight, gradient in zip(learning(trainer), gradients, strict=True):
        weight.grad = gradient


ALGORITHM = implement(CARD, update, start=start)
