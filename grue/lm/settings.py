"""Settings of a run's models: precision, memory, which weights are trained, and sharding."""

from dataclasses import dataclass
from typing import Annotated, Literal

from grue.bounds import NON_NEGATIVE, POSITIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Settings of the models.

    Attributes:
        precision: Of the models' forward passes; weights, softmax, KL and advantages stay float32. "auto" is "bfloat16"
            where the machine that plans the run multiplies it in hardware (a GPU: and has much to multiply), else
            "float32".
        gradient_checkpointing: Recompute activations in the backward pass instead of keeping them.
        lora_rank: Rank of low-rank adapters that are trained in place of the weights; 0 trains all weights.
        lora_alpha: Scale of the adapters: their output counts lora_alpha / lora_rank times.
        freeze_encoder: Keep the encoder fixed, and run it once per rollout for policy, critic, reference and mask.
        log_prob_chunk: Tokens whose logits are in memory at once; 0 means those of a whole micro-batch.
        sharded: Shard the trained weights, their gradients and moments over the processes of the run. Their number
            may change when the run resumes; a single process holds everything.
    """

    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    gradient_checkpointing: bool = False
    lora_rank: Annotated[int, NON_NEGATIVE] = 0
    lora_alpha: Annotated[float, POSITIVE] = 16.0
    freeze_encoder: bool = False
    log_prob_chunk: Annotated[int, NON_NEGATIVE] = 0
    sharded: bool = False
