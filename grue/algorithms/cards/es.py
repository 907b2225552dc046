"""The settings of `grue/algorithms/es.py`."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

from grue.bounds import POSITIVE, Paper
from grue.rl.settings import OF_A_MASK, AlgorithmCard, RewardedConfig

WITHOUT_EFFECT = frozenset(
    {
        *("samples_per_prompt", "rollout_temperature", "rollout_top_k", "redraws", "epochs", "minibatch_size"),
        *("mask", *OF_A_MASK, "calibration_samples", "calibration_tilt", "dropout", "supervised_coefficient"),
        *("reference", "gradient_checkpointing", "log_prob_chunk"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ESConfig(RewardedConfig):
    """Evolution strategies (Salimans et al. 2017): weights move along noise whose greedy answers score higher.

    An update takes `rollouts` responses in all, as with any other algorithm: 2 · perturbations members answer
    rollouts / (2 · perturbations) prompts each.

    Attributes:
        learning_rate: Roughly how far a step moves each weight. A shared recipe's rate suits gradients and is too small
            here: set it together with `noise`.
        perturbations: Pairs of perturbed policies per update, each θ + σε and θ − σε.
        noise: σ, the standard deviation of a weight's perturbation. With too little, members give the same answers
            (`es/tied` near 1), above all in bfloat16; with too much, none answers well.
    """

    learning_rate: Annotated[float, POSITIVE, Paper("0.01; Qiu et al. 5e-4")] = 5e-4
    perturbations: Annotated[int, POSITIVE, Paper("Qiu et al. 30 members")] = 8
    noise: Annotated[float, POSITIVE, Paper("0.02; Qiu et al. 1e-3")] = 0.01

    @property
    def prompts(self) -> int:
        """Prompts of one update, which all members answer."""
        return self.rollouts // (2 * self.perturbations)

    @property
    def greedy(self) -> bool:
        """True: members differ only in their weights."""
        return True

    @property
    def read(self) -> "ESConfig":
        """These settings with the defaults of those that have no effect here, which a shared recipe may set."""
        own: dict[str, Any] = {field.name: field.default for field in fields(self) if field.name in WITHOUT_EFFECT}
        return replace(self, **{**own, "samples_per_prompt": 1, "epochs": 1, "minibatch_size": 1})

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; see `Common.problems`."""
        yield from RewardedConfig.problems(self.read)
        members = 2 * self.perturbations
        if self.rollouts % members:
            yield (
                f"rollouts {self.rollouts} is not a multiple of 2 · perturbations = {members}: every member answers "
                "the same prompts; change one of them."
            )
        if self.sharded:
            yield "sharded cannot be combined with es, which perturbs whole weights; set sharded = false."


CARD = AlgorithmCard(settings=ESConfig, without_effect=WITHOUT_EFFECT)
