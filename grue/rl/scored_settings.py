"""Settings of algorithms that learn from scored responses: samples, or those of a file."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from grue.bounds import POSITIVE, SEVERAL
from grue.rl.settings import RewardedConfig

OF_DRAWS = ("sample_from", "mask", "redraws", "reward_scale", "normalize_terms")
"""Settings that only affect the samples of an update."""
OF_SAMPLES = (
    *("rollout_temperature", "rollout_top_k", "calibration_samples", "calibration_tilt", "missing_eos_penalty"),
    *("overlong_buffer", "overlong_penalty", "reward_clip"),
)
"""Settings that affect all sampling and rewarding, even before the first update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredConfig(RewardedConfig):
    """Settings of algorithms that learn from scored responses.

    The likelihood of a response is the model's own: over the whole vocabulary, at temperature 1.

    Attributes:
        sample_from: Which policy draws the responses of an update: the current one ("policy") or the initial one
            ("start").
        data: File of scored responses to learn from instead of samples; an update takes `rollouts` /
            `samples_per_prompt` of its lines. Settings of sampling and scoring are then refused.
    """

    samples_per_prompt: Annotated[int, SEVERAL] = 8
    epochs: Annotated[int, POSITIVE] = 1
    sample_from: Literal["policy", "start"] = "policy"
    data: str | None = None

    @property
    def needs_rewards(self) -> bool:
        """Whether a file to learn from must have rewards, not only an order."""
        return False

    @property
    def draws_beside_data(self) -> bool:
        """Whether samples of the initial policy are also drawn and rewarded if a file is learnt from."""
        return False

    @property
    def unread(self) -> frozenset[str]:
        """The settings of samples that have no effect because a file is learnt from."""
        if self.data is None:
            return frozenset()
        return frozenset(OF_DRAWS if self.draws_beside_data else (*OF_DRAWS, *OF_SAMPLES))

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; see `Common.problems`."""
        yield from RewardedConfig.problems(self)
        for setting in fields(self):
            name = setting.name
            if name in self.unread and getattr(self, name) != setting.default:
                yield f"{name} applies to drawn samples, and the responses come from data; leave {name} out."
        if self.data is not None and (self.select is not None or self.train_share is not None):
            yield "data already defines what is learnt from; leave out select and train_share, or filter its lines."
