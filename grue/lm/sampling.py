"""Sampling responses, together with the support of every draw.

The sampler stores for every token which part of the vocabulary was open when it was drawn. Log-probabilities are
later renormalised over exactly that support, so that the distribution optimised is the one sampled from: with top-k,
top-p, a minimum length, NLPO's mask and the model's own constraints (`lm/constraints.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grue.errors import TrainingError
from grue.lm import distributions
from grue.lm.constraints import Stops, end_ids, openings
from grue.lm.forward import Steps
from grue.lm.log_probs import TokenLogProbs, token_scores
from grue.lm.model import display_name, is_wide, vocabulary_size
from grue.lm.tokens import Tokens
from grue.tasks import Generation

# Which of the policy's scores of the drawn tokens a sampler keeps: "drawn" is log π over the supports, "scores" adds
# log π over the vocabulary and the entropy, "states" adds the states, which a critic on the policy's trunk reads.
KeptScores = Literal["drawn", "scores", "states"]

FINISHED = 0.25  # share of a batch that must have finished before it is removed, since that copies the cache


@dataclass(frozen=True, slots=True)
class Mask:
    """NLPO's restriction of the sampler: a masking policy, and the rule that maps its logits to a support.

    Attributes:
        model: The masking policy; None uses the policy's own logits.
        rule: Logits [B, V] → bool [B, V].
        always_open: Ids that the mask never closes, besides the end token.
    """

    model: PreTrainedModel | None
    rule: Callable[[Tensor], Tensor]
    always_open: tuple[int, ...] = ()


class Guide(Protocol):
    """Changes the logits of the next token while responses are drawn."""

    @property
    def droppable(self) -> bool:
        """Whether rows can leave the batch."""

    def keep(self, rows: Tensor) -> None:
        """Continue with only these rows of the batch, [b] indices."""

    def __call__(self, logits: Tensor, drawn: Tensor | None, running: Tensor) -> Tensor:
        """Return other logits [B, V].

        Args:
            logits: Of the policy, minus infinity where it may not draw.
            drawn: The tokens drawn last, [B]; None at the first step.
            running: [B], False where a response has ended; the logits of such rows are not used.
        """


@dataclass(frozen=True, slots=True)
class Begun:
    """Responses that are continued.

    Attributes:
        steps: A decoder that has seen all tokens but the last.
        tokens: [B, t], with t ≥ 1; none has ended before its last token.
    """

    steps: Steps
    tokens: Tensor


@dataclass(frozen=True, slots=True)
class Rollout:
    """Sampled responses.

    Attributes:
        prompts: The prompts, [B, P].
        responses: The drawn tokens, [B, T], the end token included.
        support: Bit-packed [B, T, ⌈V/8⌉], True for the open tokens; None if all always were open.
        truncated: [B], True where the response reached the length limit before it ended.
        mask_size: [B, T], the share of the vocabulary that the sampler left open.
        disagreement: [B, T], 1 where the policy's likeliest token lay outside NLPO's mask; None without a mask.
        encoded: [B, P, H], a frozen encoder's states of the prompts; None if every model runs its own encoder.
        sampler_scores: The policy's scores of the tokens when they were drawn; None unless requested.
    """

    prompts: Tokens
    responses: Tokens
    support: Tensor | None
    truncated: Tensor
    mask_size: Tensor
    disagreement: Tensor | None = None
    encoded: Tensor | None = None
    sampler_scores: TokenLogProbs | None = None

    def rows(self, rows: Tensor) -> tuple[Tokens, Tokens, Tensor | None]:
        """Return prompts, responses and a frozen encoder's states of some rows."""
        encoded = None if self.encoded is None else self.encoded[rows]
        return self.prompts.rows(rows), self.responses.rows(rows), encoded

    def open_vocabulary(self, rows: Tensor, length: int, size: int) -> Tensor | None:
        """Return the support of some rows and the first `length` tokens as bool [b, length, size].

        Where no token counts, all is open: padding has nothing open, and its probabilities would be NaN.
        """
        if self.support is None:
            return None
        uncounted = ~self.responses.mask[rows, :length, None]
        return distributions.unpack_bits(self.support[rows, :length], size) | uncounted


@torch.no_grad()
def sample_responses(
    policy: PreTrainedModel,
    prompts: Tokens,
    settings: Generation,
    uniforms: Tensor,
    eos: int,
    mask: Mask | None = None,
    encoded: Tensor | None = None,
    keep: KeptScores | None = None,
    stops: Stops | None = None,
    guide: Guide | None = None,
    begun: Begun | None = None,
) -> Rollout:
    """Draw a response to every prompt.

    Args:
        uniforms: [B, max_new_tokens] in [0, 1): the only source of randomness.
        eos: Id that ends a response, beside the policy's own end tokens; they are closed before `min_new_tokens`, and
            never closed by the mask after.
        mask: NLPO's mask, applied before top-k and top-p.
        encoded: [B, P, H], the states of a frozen encoder.
        keep: What to keep in `sampler_scores`.
        stops: The stop strings of `settings` for the policy's tokenizer. The token that completes one ends the response
            and is part of it; tokens that contain one are closed before `min_new_tokens`.
        guide: Changes the policy's logits; what is kept in the rollout is of the changed ones.
        begun: Responses to continue up to `max_new_tokens`, those tokens included; only the others are returned.

    Raises:
        TrainingError: No token can be drawn; see `broken_logits`.
    """
    assert (stops.texts if stops else ()) == settings.stop, "the stop strings must be those of the settings"
    step = begun.steps if begun else Steps(policy, prompts, states=keep == "states", encoded=encoded)
    mask_step = None
    if mask is not None and mask.model is not None:
        mask_step = Steps(mask.model, prompts, encoded=encoded)
    steps: list[Steps | Guide] = [each for each in (step, mask_step, guide) if each is not None]
    size, uniforms = len(prompts.ids), uniforms.to(prompts.ids.device)
    rows = torch.arange(size, device=uniforms.device)  # the prompts that are still computed
    running = torch.ones_like(rows, dtype=torch.bool)
    drawn: Tensor | None = None
    ends = end_ids(policy, eos)
    closing = [*ends, *(stops.ids if stops else ())]
    ending = torch.tensor(closing, device=rows.device)
    vocabulary, wide = vocabulary_size(policy), is_wide(policy)
    allowed_at = openings(policy, closing, settings.min_new_tokens, vocabulary)
    before = torch.empty(size, 0, dtype=torch.long, device=rows.device)
    if begun is not None:
        before, drawn = begun.tokens, begun.tokens[:, -1]
        running = ~torch.isin(drawn, ending)
        if stops is not None and stops.spread:
            running = running & ~stops.spelled(before)
    tokens, counts, supports, sizes, disagreements, sampler_scores = [], [], [], [], [], []

    def spread(values: Tensor, fill: float = 0) -> Tensor:
        """Put the computed rows at their prompts' places, and `fill` where a response has ended before."""
        if len(rows) == size:
            return values
        return values.new_full((size, *values.shape[1:]), fill).index_copy_(0, rows, values)

    for t in range(before.shape[1], settings.max_new_tokens):
        raw, state = step(drawn)
        raw = raw.float()
        broken = distributions.broken(raw)
        allowed = allowed_at(t)
        if guide is not None:
            raw = guide(distributions.restrict(raw, allowed), drawn, running)
            broken = broken | distributions.broken(raw)
        logits = raw if settings.temperature == 1.0 else raw / settings.temperature
        mask_logits = mask_step(drawn)[0].float() if mask_step else raw
        if mask_step:
            broken = broken | distributions.broken(mask_logits)
        opened = _mask_support(mask_logits, running, mask, ends, allowed)
        support = _support(logits, opened, settings, allowed)
        chosen = distributions.sample(distributions.restrict(logits, support), uniforms[rows, t])
        drawn = torch.where(running, chosen, eos)
        tokens.append(spread(drawn, eos))
        counts.append(spread(running))
        supports.append(None if support is None else spread(distributions.pack_bits(support)))
        full = torch.ones_like(uniforms[rows, t])
        share = full if support is None else support.sum(-1, dtype=torch.int32) / logits.shape[-1]
        sizes.append(spread(share, 1.0))
        if opened is not None:
            disagreements.append(spread(~opened.gather(-1, logits.argmax(-1, keepdim=True)).squeeze(-1)))
        if keep is not None:
            everything = keep != "drawn"
            scores = token_scores(logits, drawn, support, 1.0, want_plain=everything, want_entropy=everything)
            scores = [score.masked_fill(~running, 0.0) for score in scores] + ([] if state is None else [state])
            sampler_scores.append([spread(score) for score in scores])
        broken, running = broken & running, running & ~torch.isin(drawn, ending)
        if stops is not None and stops.spread:
            running = running & ~stops.spelled(torch.cat([before, torch.stack(tokens, 1)], 1)[rows])
        stopped, going = torch.stack([broken.any(), running.sum()]).tolist()  # one synchronisation with the GPU
        if stopped:
            raise broken_logits(policy)
        if not going:
            break
        if wide and going <= (1.0 - FINISHED) * len(rows) and all(each.droppable for each in steps):
            left = running.nonzero().squeeze(1)
            rows, running, drawn = rows[left], running[left], drawn[left]
            for each in steps:
                each.keep(left)
    return Rollout(
        prompts,
        Tokens(torch.stack(tokens, 1), torch.stack(counts, 1)),
        _stack_supports(supports, vocabulary),
        truncated=spread(running),
        mask_size=torch.stack(sizes, 1),
        disagreement=torch.stack(disagreements, 1).float() if disagreements else None,
        encoded=encoded,
        sampler_scores=_stack_scores(sampler_scores),
    )


def broken_logits(model: PreTrainedModel) -> TrainingError:
    """Return the error for logits from which no token can be drawn."""
    return TrainingError(
        f"{display_name(model)}: its logits hold NaN or +∞, or no finite number at all, so no token can be drawn. If "
        "the model was trained here, it has diverged: train it with a lower learning rate. If not, it is damaged or "
        "does not work at this precision."
    )


def _mask_support(
    logits: Tensor, running: Tensor, mask: Mask | None, ends: list[int], allowed: Tensor | None
) -> Tensor | None:
    """Return the support that NLPO's mask leaves, [B, V]; finished responses are skipped.

    The rule sees only drawable tokens, so that it cannot leave only a closed end token.
    """
    if mask is None:
        return None
    drawable = distributions.restrict(logits, allowed)
    if running.all():
        opened = mask.rule(drawable)
    else:
        opened = torch.zeros_like(logits, dtype=torch.bool)
        opened[running] = mask.rule(drawable[running])
    opened[:, [*ends, *mask.always_open]] = True
    return opened


def _support(logits: Tensor, opened: Tensor | None, settings: Generation, allowed: Tensor | None) -> Tensor | None:
    """Return the support of the next token, [B, V], or None if the whole vocabulary is open."""
    support = opened
    if allowed is not None:
        support = allowed.expand_as(logits) if support is None else support & allowed
    if settings.top_k:
        likeliest = distributions.top_k_support(distributions.restrict(logits, support), settings.top_k)
        support = likeliest if support is None else support & likeliest
    if settings.top_p < 1.0:
        likeliest = distributions.top_p_support(distributions.restrict(logits, support), settings.top_p)
        support = likeliest if support is None else support & likeliest
    return support


def _stack_supports(packed: list[Tensor | None], vocabulary: int) -> Tensor | None:
    """Stack the steps' bit-packed supports to [B, T, ⌈V/8⌉]; a step without one left the whole vocabulary open."""
    stored = [support for support in packed if support is not None]
    if not stored:
        return None
    everything = distributions.pack_bits(
        torch.ones(len(stored[0]), vocabulary, dtype=torch.bool, device=stored[0].device)
    )
    return torch.stack([everything if support is None else support for support in packed], 1)


def _stack_scores(steps: list[list[Tensor]]) -> TokenLogProbs | None:
    """Stack the scores kept at each step: those of `token_scores`, then the states, if kept."""
    if not steps:
        return None
    restricted, *more = (torch.stack(column, 1) for column in zip(*steps, strict=True))
    plain, entropy, states = (*more, None, None, None)[:3]
    return TokenLogProbs(plain, restricted, entropy, states)
