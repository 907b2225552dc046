"""A rewriter as a reward, `rewriter:DIR`: what it keeps of a response is good, and what it replaces is not.

Sequence-to-sequence reward modelling (Zhou et al. 2024, arXiv 2409.00162). The rewriter, a language model that was
trained by `grue train --algo rft --set rewrite=true --set data=PAIRS`, reads prompt and response and writes a better
one, taking the likeliest token at each step. The two are aligned by their longest common parts. Of a response of T
tokens, each that is kept has the value 1/T, each other −1/T: their sum is between −1 and 1.

The alignment and the equal weights of tokens are ours, as is the division by T, without which a longer response could
gain more.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import ConfigError, DataError
from grue.lm import checkpoint
from grue.records import Example
from grue.tasks import Task

REWRITER = "rewriter:"
BATCH = 128
HOW = "`grue train --algo rft --set rewrite=true --set keep=last --set data=PAIRS` makes one"

Feedback = Callable[..., Sequence[float | list[float]]]


def check_rewriter(name: str, task: Task) -> checkpoint.CheckpointManifest:
    """Return the manifest of the rewriter that a reward names."""
    folder = checkpoint.find_checkpoint(Path(name.removeprefix(REWRITER)))
    manifest = checkpoint.read_manifest(folder)
    checkpoint.check_task(manifest, folder, task)
    settings = _configuration(folder).get("config", {"rewrite": True})
    if manifest.algorithm.rpartition("+")[2] != "rft" or not settings.get("rewrite"):
        raise DataError(f"{folder}: trained by {manifest.algorithm}, and not to rewrite responses; {HOW}.")
    return manifest


def recorded_rewriter(name: str, task: Task) -> dict[str, str]:
    """Return what is recorded of a rewriter: name, sha256, and judge and split of its pairs."""
    manifest = check_rewriter(name, task)
    judge = _configuration(checkpoint.find_checkpoint(Path(name.removeprefix(REWRITER)))).get("reward", "")
    return {"name": name, "sha256": manifest.weights, "judge": judge, "split": task.data.reward_split}


def _configuration(folder: Path) -> dict[str, Any]:
    """Return the configuration of a checkpoint's run, {} if it is not beside it."""
    path = folder.resolve().parent / "config.toml"
    return files.read_toml(path) if path.is_file() else {}


def rewriter_feedback(name: str, task: Task) -> Feedback:
    """Return the function of (examples, texts) that values each token of a text, or the text if tokens are unknown."""
    import torch

    from grue.lm.constraints import find_stops
    from grue.lm.device import scoring_device
    from grue.lm.load import family_of, load_language_model
    from grue.lm.model import eos_id
    from grue.lm.rewriting import with_responses
    from grue.lm.sampling import sample_responses
    from grue.lm.tokens import Tokens, decode_responses, encode_prompts, encode_responses, length_batches, padded

    check_rewriter(name, task)
    folder = str(checkpoint.find_checkpoint(Path(name.removeprefix(REWRITER))))
    model, tokenizer = load_language_model(family_of(folder), folder)
    model.eval().to(scoring_device())
    eos, stops = eos_id(model, tokenizer), find_stops(tokenizer, task.rollout.stop)
    likeliest = replace(task.rollout, do_sample=True, top_k=1, top_p=1.0, temperature=1.0)
    longest = likeliest.max_new_tokens

    def written(prompts: Tokens, responses: Tokens) -> list[list[int]]:
        read = with_responses(model, tokenizer, prompts, responses, longest)
        out: list[list[int]] = [[]] * len(read.ids)
        for rows in length_batches(read.mask, torch.arange(len(read.ids)), BATCH):
            uniforms = torch.zeros(len(rows), longest)
            rollout = sample_responses(model, read.rows(rows), likeliest, uniforms, eos, stops=stops)
            for row, ids in zip(rows.tolist(), rollout.responses.lists(), strict=True):
                out[row] = ids
        return out

    def feedback(
        examples: Sequence[Example],
        texts: Sequence[str],
        token_ids: Sequence[Sequence[int]] | None = None,
        truncated: Sequence[bool] | None = None,
    ) -> Sequence[float | list[float]]:
        prompts = encode_prompts(model, tokenizer, [example.prompt for example in examples], task.prompt)
        if token_ids is None:
            responses = encode_responses(model, tokenizer, texts, longest)
        else:
            inside = all(0 <= token < len(tokenizer) for row in token_ids for token in row)
            responses = padded(token_ids, eos, model.device)
            cut = torch.tensor([False] * len(texts) if truncated is None else list(truncated))
            if not inside or decode_responses(tokenizer, responses, cut, task.rollout.stop) != list(texts):
                raise ConfigError(
                    f"{name}: reads other tokens than the policy writes; train the rewriter from the policy's backbone."
                )
        values = [token_feedback(*pair) for pair in zip(responses.lists(), written(prompts, responses), strict=True)]
        return values if token_ids is not None else [sum(row) for row in values]

    return feedback


def token_feedback(response: Sequence[int], written: Sequence[int]) -> list[float]:
    """Return the value of each token of a response, by what was written in its place."""
    size = len(response)
    values = [-1.0 / size for _ in response]
    for block in SequenceMatcher(None, response, written, autojunk=False).get_matching_blocks():
        values[block.a : block.a + block.size] = [1.0 / size] * block.size
    return values
