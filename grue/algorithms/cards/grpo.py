"""The settings of `grue/algorithms/grpo.py`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from grue.bounds import NON_NEGATIVE, POSITIVE, SEVERAL
from grue.rl.settings import AlgorithmCard, RolloutConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPOConfig(RolloutConfig):
    """Group relative policy optimisation (Shao et al. 2024): scores are standardised within a prompt's group.

    Attributes:
        kl_coefficient: Weight of the k3 estimate against the reference in the loss; scores carry no penalty.
        clip: ε below 1.
        clip_high: ε above 1 (DAPO's clip-higher); none takes `clip`.
        scale_by: Divisor of an advantage: the group's standard deviation, or nothing (Dr. GRPO). With `normalize_terms`
            the terms are divided instead.
        ratio_of: The unit of the clipped ratio: each token, or a response, by the mean of its tokens' log-ratios (GSPO,
            whose ε is about 3e-4).
        loss_over: Mean over all tokens of the batch (DAPO), or of each response's mean (the paper's), or of each
            response's sum over the longest length that the task allows ("constant", Dr. GRPO).
        kl_estimator: The penalty of a token by its log-ratio ℓ against the reference: k1 = ℓ, k2 = ℓ²/2,
            k3 = exp(−ℓ) − 1 + ℓ (Schulman 2020).
        kl_corrected: Weight it by the policy ratio, so that its gradient is that of the KL divergence; else k3's is
            that of the reverse divergence, and k1's is 0 on average.
    """

    samples_per_prompt: Annotated[int, SEVERAL] = 8
    epochs: Annotated[int, POSITIVE] = 1
    kl_coefficient: Annotated[float, NON_NEGATIVE] = 0.04
    clip: Annotated[float, POSITIVE] = 0.2
    clip_high: Annotated[float | None, POSITIVE] = None
    scale_by: Literal["group", "nothing"] = "group"
    ratio_of: Literal["tokens", "responses"] = "tokens"
    loss_over: Literal["tokens", "responses", "constant"] = "responses"
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    kl_corrected: bool = False

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; see `Common.problems`."""
        yield from RolloutConfig.problems(self)
        if self.normalize_terms and self.scale_by == "nothing":
            yield 'scale_by = "nothing" cannot be combined with normalize_terms, which divides each term; drop one.'
        if self.kl_estimator == "k1" and self.kl_coefficient and not self.kl_corrected:
            yield 'kl_estimator = "k1" has no gradient on average unless kl_corrected = true; set it, or use k2 or k3.'
        if self.ratio_of == "responses" and self.loss_over != "responses":
            yield (
                'ratio_of = "responses" gives a response one loss, which another mean would weight by its length; '
                'set loss_over = "responses".'
            )

    def idle(self) -> Iterator[tuple[str, str]]:
        """Yield settings that do nothing; see `Common.idle`."""
        yield from RolloutConfig.idle(self)
        if not self.kl_coefficient:
            yield (
                "kl_corrected",
                "kl_corrected does nothing where kl_coefficient is 0; set kl_coefficient, or leave it out.",
            )


CARD = AlgorithmCard(
    settings=GRPOConfig,
    presets={
        "dr_grpo": {"scale_by": "nothing", "loss_over": "constant", "kl_coefficient": 0.0},
        "dapo": {"clip_high": 0.28, "loss_over": "tokens", "kl_coefficient": 0.0, "redraws": 10},
        "gspo": {"ratio_of": "responses", "clip": 3e-4, "clip_high": 4e-4, "kl_coefficient": 0.0},
    },
)
