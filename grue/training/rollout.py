"""Rollouts: drawing responses, and measuring what they are worth.

The sampler stores, for every token, which part of the vocabulary was open when it was drawn. Log-probabilities are
later renormalised over exactly that support, so that what is optimised is what was sampled: for top-k, top-p, a
minimum length and NLPO's mask alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grue.records import Example
from grue.tasks import Generation
from grue.training import functional as rl
from grue.training.config import PPOConfig
from grue.training.policy import Critic, Tokens, forward, next_logits


@dataclass(frozen=True, slots=True)
class Mask:
    """NLPO's restriction of the sampler: where it comes from, and the rule that turns logits into what stays open.

    Attributes:
        model: The masking policy; None takes the logits of the policy itself.
        rule: Logits [B, V] → bool [B, V].
    """

    model: PreTrainedModel | None
    rule: Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Rollout:
    """Sampled responses.

    Attributes:
        prompts: What was asked.
        responses: What was drawn, the end token included.
        support: Bit-packed [B, T, ⌈V/8⌉], True where the vocabulary was open; None where all of it always was.
        truncated: [B], True where the response reached the length limit before it ended.
        mask_size: Mean share of the vocabulary that the sampler left open.
    """

    prompts: Tokens
    responses: Tokens
    support: Tensor | None
    truncated: Tensor
    mask_size: float

    def open_vocabulary(self, rows: Tensor, length: int, size: int) -> Tensor | None:
        """Return the support of some rows and the first `length` tokens as bool [b, length, size]."""
        return None if self.support is None else rl.unpack_bits(self.support[rows, :length], size)


def derived_seed(seed: int, *purpose: str | int) -> int:
    """Return a seed for one purpose of one run, so that no draw depends on how many came before it."""
    return int.from_bytes(sha256(repr((seed, *purpose)).encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """Return a CPU generator with a seed of its own; see `derived_seed`."""
    return torch.Generator().manual_seed(derived_seed(seed, *purpose))


def draw_examples(examples: Sequence[Example], count: int, seed: int, update: int) -> list[Example]:
    """Return the examples of one update: every example comes once before any comes twice.

    The order is a function of seed and update alone, so that an interrupted run goes on where it was.
    """
    drawn: list[Example] = []
    for position in range(update * count, (update + 1) * count):
        epoch, index = divmod(position, len(examples))
        if index == 0 or not drawn:
            order = torch.randperm(len(examples), generator=generator(seed, "order", epoch)).tolist()
        drawn.append(examples[order[index]])
    return drawn


def example_uniforms(seed: int, examples: Sequence[Example], length: int) -> Tensor:
    """Return uniforms [B, length] that depend on nothing but the seed and each example's id."""
    rows = [torch.rand(length, generator=generator(seed, "example", example.id)) for example in examples]
    return torch.stack(rows)


@torch.no_grad()
def sample_responses(
    policy: PreTrainedModel, prompts: Tokens, settings: Generation, uniforms: Tensor, eos: int, mask: Mask | None = None
) -> Rollout:
    """Draw a response to every prompt.

    Args:
        uniforms: [B, max_new_tokens] in [0, 1): the only source of chance.
        eos: Id that ends a response; closed before `min_new_tokens`, always open after.
        mask: NLPO's mask, laid over the vocabulary before top-k and top-p.
    """
    step = next_logits(policy, prompts)
    mask_step = next_logits(mask.model, prompts) if mask is not None and mask.model is not None else None
    running = torch.ones(len(prompts.ids), dtype=torch.bool, device=prompts.ids.device)
    uniforms = uniforms.to(prompts.ids.device)
    drawn: Tensor | None = None
    tokens, counts, supports = [], [], []
    for t in range(settings.max_new_tokens):
        logits = step(drawn).float() / settings.temperature
        mask_logits = mask_step(drawn).float() if mask_step else logits
        support = _support(logits, mask_logits, settings, mask, eos, closed_eos=t < settings.min_new_tokens)
        drawn = torch.where(running, rl.sample(rl.restrict(logits, support), uniforms[:, t]), eos)
        tokens.append(drawn)
        counts.append(running)
        supports.append(support)
        running = running & (drawn != eos)
        if not running.any():
            break
    responses = Tokens(torch.stack(tokens, 1), torch.stack(counts, 1))
    packed, share = _pack(supports, responses.mask)
    return Rollout(prompts, responses, packed, running, share)


def _support(
    logits: Tensor, mask_logits: Tensor, settings: Generation, mask: Mask | None, eos: int, closed_eos: bool
) -> Tensor | None:
    """Return what is open for the next token, [B, V], or None if everything is."""
    support: Tensor | None = None
    if closed_eos:
        support = torch.ones_like(logits, dtype=torch.bool)
        support[:, eos] = False
    if mask is not None:
        # The nucleus is taken of what may be drawn at all, so that a closed end token cannot be all of it.
        opened = mask.rule(rl.restrict(mask_logits, support))
        opened[:, eos] = True
        support = opened if support is None else support & opened
    if settings.top_k:
        kept = rl.top_k_support(rl.restrict(logits, support), settings.top_k)
        support = kept if support is None else support & kept
    if settings.top_p < 1.0:
        kept = rl.top_p_support(rl.restrict(logits, support), settings.top_p)
        support = kept if support is None else support & kept
    return support


def _pack(supports: list[Tensor | None], counts: Tensor) -> tuple[Tensor | None, float]:
    known = [support for support in supports if support is not None]
    if not known:
        return None, 1.0
    dense = torch.stack([torch.ones_like(known[0]) if support is None else support for support in supports], 1)
    share = rl.masked_mean(dense.float().mean(-1), counts)
    return rl.pack_bits(dense), float(share)


@dataclass(frozen=True, slots=True)
class Scored:
    """What the policy says of drawn tokens, each [B, T], 0 where nothing counts.

    Attributes:
        plain: log π over the whole vocabulary.
        restricted: log π renormalised over the support.
        entropy: Of the restricted distribution; None unless asked for.
        values: The critic's; None without one.
    """

    plain: Tensor
    restricted: Tensor
    entropy: Tensor | None
    values: Tensor | None

    @property
    def log_mass(self) -> Tensor:
        """The log of the probability inside the support: what renormalising takes off."""
        return self.plain - self.restricted


def score_tokens(
    policy: PreTrainedModel,
    critic: Critic | None,
    rollout: Rollout,
    rows: Tensor,
    temperature: float,
    entropy: bool,
) -> Scored:
    """Run policy and critic over some rows of a rollout, trimmed to their longest; with gradients if enabled."""
    prompts, responses = rollout.prompts.rows(rows), rollout.responses.rows(rows)
    shared = critic is not None and critic.trunk is None
    logits, states = forward(policy, prompts, responses, states=shared)
    logits = logits.float() / temperature
    support = rollout.open_vocabulary(rows, responses.ids.shape[1], logits.shape[-1])
    # After the end a row's stored token may be closed: its log-probability is minus infinity, so it is cut out
    # rather than multiplied by 0.
    beyond = ~responses.mask
    plain = rl.log_probs(logits, responses.ids).masked_fill(beyond, 0.0)
    restricted = plain if support is None else rl.log_probs(logits, responses.ids, support).masked_fill(beyond, 0.0)
    return Scored(
        plain=plain,
        restricted=restricted,
        entropy=rl.entropy(logits, support) * responses.mask if entropy else None,
        values=None if critic is None else critic(prompts, responses, states) * responses.mask,
    )


@torch.no_grad()
def score_all(
    policy: PreTrainedModel, critic: Critic | None, rollout: Rollout, temperature: float, micro_batch: int
) -> Scored:
    """Run `score_tokens` over a whole rollout in micro-batches of similar length, padded back to [B, T]."""
    size, width = rollout.responses.ids.shape
    parts: dict[str, Tensor] = {}
    for rows in length_batches(rollout.responses.mask, torch.arange(size), micro_batch):
        scored = score_tokens(policy, critic, rollout, rows, temperature, entropy=critic is not None)
        for name in Scored.__slots__:
            part = getattr(scored, name)
            if part is not None:
                whole = parts.setdefault(name, torch.zeros(size, width, device=part.device))
                whole[rows.to(part.device), : part.shape[1]] = part.float()
    return Scored(**{name: parts.get(name) for name in Scored.__slots__})  # type: ignore[arg-type]


def length_batches(mask: Tensor, rows: Tensor, size: int) -> list[Tensor]:
    """Split rows into batches of at most `size`, similar lengths together, so that little padding is computed."""
    if len(rows) <= size:
        return [rows]
    lengths = mask[rows.to(mask.device)].sum(1).cpu()
    return list(rows[lengths.argsort(stable=True)].split(size))


@dataclass(frozen=True, slots=True)
class Experience:
    """A rollout with everything that one update learns from; tensors are [B, T] and 0 where nothing counts.

    Attributes:
        scores: [B], the reward function's values, less the penalty of those that never ended.
        log_probs: Of the drawn tokens under the rollout policy, as the ratio needs them.
        kl: Estimate against the reference at each token, as the penalty takes it.
        kl_vocabulary: The same over the full vocabulary, for the log.
        entropy, log_mass: Of the rollout policy, for the log.
    """

    rollout: Rollout
    scores: Tensor
    log_probs: Tensor
    kl: Tensor
    kl_vocabulary: Tensor
    entropy: Tensor
    log_mass: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


def evaluate_rollout(
    policy: PreTrainedModel,
    critic: Critic,
    reference: PreTrainedModel,
    rollout: Rollout,
    scores: Tensor,
    kl_coefficient: float,
    temperature: float,
    config: PPOConfig,
) -> Experience:
    """Turn a rollout and its scores [B] into advantages and returns."""
    mask = rollout.responses.mask
    now = score_all(policy, critic, rollout, temperature, config.micro_batch_size)
    before = score_all(reference, None, rollout, temperature, config.micro_batch_size)
    assert now.values is not None and now.entropy is not None
    scores = scores.to(mask.device) - config.missing_eos_penalty * rollout.truncated
    kl_vocabulary = rl.kl_k1(now.plain, before.plain)
    kl = rl.kl_k1(now.restricted, before.restricted) if config.kl_over == "support" else kl_vocabulary
    rewards = rl.token_rewards(scores, kl, mask, kl_coefficient)
    advantages, returns = rl.gae(rewards, now.values, mask, config.gamma, config.gae_lambda)
    return Experience(
        rollout=rollout,
        scores=scores,
        log_probs=now.restricted if config.ratio_over == "support" else now.plain,
        kl=kl,
        kl_vocabulary=kl_vocabulary,
        entropy=now.entropy,
        log_mass=now.log_mass,
        values=now.values,
        advantages=rl.whiten(advantages, mask) if config.whiten_advantages else advantages,
        returns=returns,
    )
