"""A reward model: a backbone of any family, and a head that maps its states to one number, the logit.

The head reads a causal backbone's state at the last token, the end of the text, and the mean state of any other. Of an
encoder-decoder only the encoder is used; the decoder is kept unchanged. By Bradley and Terry (1952) a text is better
than another with probability σ(difference of their logits / temperature), so that a constant has no effect: the head
has no bias.

B = texts, L = tokens, H = hidden size.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from grue import files
from grue.errors import ConfigError, DataError
from grue.files import reason
from grue.lm.device import scoring_device
from grue.lm.folder import header
from grue.lm.load import load_pretrained, require_finite
from grue.lm.model import display_name
from grue.lm.plain_text import save_tokenizer
from grue.lm.quiet import quiet
from grue.lm.reward_folder import HEAD, README, REWARD, SEEN, Pooling, RewardManifest, read_reward_manifest, sealed
from grue.lm.seeds import generator

TOLERANCE = 1e-3  # absolute and relative: below the effect of a later token or padding, above rounding


class RewardModel(nn.Module):
    """A backbone and its head."""

    def __init__(self, backbone: PreTrainedModel, pooling: Pooling, seed: int = 0) -> None:
        super().__init__()
        self.backbone = backbone
        self.pooling = pooling
        width = _states(backbone, torch.tensor([[3]], device=backbone.device), None).shape[-1]
        self.head = nn.Linear(width, 1, bias=False, device="meta").to_empty(device=backbone.device)
        drawn = torch.randn(1, width, generator=generator(seed, "reward head")) / (width + 1) ** 0.5
        self.head.weight.data.copy_(drawn)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the logits [B] of right-padded texts, ids and mask [B, L]."""
        states = _states(self.backbone, ids, mask, cache=False if self.pooling == "last" else None).float()
        if self.pooling == "last":
            pooled = states[torch.arange(len(states), device=states.device), mask.sum(1) - 1]
        else:
            pooled = (states * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True)
        logits: Tensor = self.head(pooled).squeeze(1)
        return logits

    def trained(self) -> dict[str, nn.Parameter]:
        """Return the trained weights by name: all that a logit depends on."""
        trunk = _trunk(self.backbone)
        named = {f"trunk.{name}": weight for name, weight in trunk.named_parameters() if not name.startswith("pooler.")}
        return {**named, "head.weight": self.head.weight}


def _trunk(backbone: PreTrainedModel) -> Any:
    return backbone.get_encoder() if backbone.config.is_encoder_decoder else backbone


def _states(backbone: PreTrainedModel, ids: Tensor, mask: Tensor | None, cache: bool | None = None) -> Tensor:
    more = {} if cache is None else {"use_cache": cache}
    attention = torch.ones_like(ids) if mask is None else mask.long()
    states: Tensor = _trunk(backbone)(input_ids=ids, attention_mask=attention, **more).last_hidden_state
    return states


@torch.no_grad()
def pooling_of(backbone: PreTrainedModel, tokens: int) -> Pooling:
    """Return a backbone's pooling: "last" if its states do not depend on later tokens.

    `tokens` is the size of its tokenizer's vocabulary. It is a ConfigError if the backbone cannot be run, or padding
    after a text changes the text's states.
    """
    rows = torch.tensor([[3, 5, 4], [3, 5, 6]], device=backbone.device) % tokens
    try:
        whole = _states(backbone, rows, None)
        padded = _states(backbone, rows[:1], torch.tensor([[1, 1, 0]], device=rows.device))
        short = _states(backbone, rows[:1, :2], None)
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ConfigError(
            f"{display_name(backbone)}: a pass over a batch fails ({type(error).__name__}: {str(error)[:120]}), so it "
            "cannot be a reward model; choose an encoder, a causal model or an encoder-decoder of texts."
        ) from error
    if not torch.allclose(padded[:, :2], short, atol=TOLERANCE, rtol=TOLERANCE):
        raise ConfigError(
            f"{display_name(backbone)}: padding changes its states, so it cannot be a reward model; choose another."
        )
    return "last" if torch.allclose(whole[0, :2], whole[1, :2], atol=TOLERANCE, rtol=TOLERANCE) else "mean"


def load_backbone(name: str, revision: str = "") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a reward model's backbone and tokenizer, which pads on the right and cuts on the left."""
    backbone, tokenizer = load_pretrained(AutoModel, name, revision)
    if tokenizer.pad_token_id is None and tokenizer.eos_token_id is None:
        raise DataError(
            f"{name}: its tokenizer has neither a pad nor an end token, so texts cannot be read in batches."
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side, tokenizer.truncation_side = "right", "left"
    return backbone, tokenizer


# --- folders ---------------------------------------------------------------------------------------------------------


def save_reward_model(
    folder: Path,
    model: RewardModel,
    tokenizer: PreTrainedTokenizerBase,
    manifest: RewardManifest,
    digests: Sequence[str],
    readme: str,
) -> RewardManifest:
    """Write a reward model's folder, which must not exist, atomically; return its manifest.

    Args:
        manifest: Its `files` and `sha256` are filled in here.
        digests: `seen_prompt` of each prompt used for training or model selection.
        readme: The card.

    Raises:
        DataError: It cannot be written.
    """
    try:
        with files.replacing_folder(folder) as new:
            with quiet():
                model.backbone.save_pretrained(new)
                save_tokenizer(tokenizer, new)
            save_file({"weight": model.head.weight.detach().cpu().contiguous()}, new / HEAD)
            for path in new.glob("*.safetensors"):
                shutil.copymode(new / "config.json", path)
            files.write_json(new / SEEN, sorted(set(digests)))
            sums = {path.name: files.sha256_file(path) for path in sorted(new.iterdir())}
            whole = sealed(replace(manifest, files=sums))
            files.write_json(new / REWARD, whole)
            files.write_text(new / README, readme)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise DataError(f"{folder}: the reward model cannot be written: {reason(error)}.") from error
    return whole


def seen_prompt(prompt: str) -> str:
    """Return the first 16 digits of a prompt's sha256, by which a reward model's folder recognises it."""
    return files.sha256_text(prompt)[:16]


def load_reward_model(folder: Path) -> tuple[RewardModel, PreTrainedTokenizerBase, RewardManifest]:
    """Load a reward model onto the scoring device, once per process as long as the folder does not change."""
    manifest = read_reward_manifest(folder)
    return (*_loaded(str(folder.resolve()), manifest.sha256), manifest)


@cache
def _loaded(folder: str, sha256: str) -> tuple[RewardModel, PreTrainedTokenizerBase]:
    manifest = read_reward_manifest(Path(folder))
    backbone, tokenizer = load_backbone(folder)
    model = RewardModel(backbone, manifest.pooling)
    shapes = header(Path(folder) / HEAD)
    if shapes != {"weight": tuple(model.head.weight.shape)}:
        raise DataError(f"{folder}: its {HEAD} is of another backbone; train it again with `grue tools reward train`.")
    weight = load_file(Path(folder) / HEAD)["weight"]
    require_finite(folder, HEAD, weight)
    model.head.weight.data.copy_(weight)
    return model.requires_grad_(False).to(scoring_device()), tokenizer
