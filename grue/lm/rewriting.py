"""What a rewriter reads: a prompt with a response to it, to which it answers with a better response.

Sequence-to-sequence reward modelling: Zhou et al. (2024, arXiv 2409.00162).
"""

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue.errors import ConfigError
from grue.lm.checks import POSITIONS
from grue.lm.constraints import end_ids
from grue.lm.model import display_name, eos_id, is_seq2seq
from grue.lm.tokens import Tokens, padded


def with_responses(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompts: Tokens, responses: Tokens, longest: int
) -> Tokens:
    """Return prompts [B, P], each with its response [B, T] and an end token behind it, padded as prompts are.

    `longest` is how many tokens the better response may have.

    Raises:
        ConfigError: The model has too few positions for them.
    """
    eos = eos_id(model, tokenizer)
    ends = end_ids(model, eos)
    rows = [
        [*prompt, *response, *([] if response and response[-1] in ends else [eos])]
        for prompt, response in zip(prompts.lists(), responses.lists(), strict=True)
    ]
    read, room = max(map(len, rows)), getattr(model.config, POSITIONS, None)
    needed = read if is_seq2seq(model) else read + longest
    if room is not None and needed > room:
        raise ConfigError(
            f"{display_name(model)}: a prompt and its response take {read} tokens, a better one up to {longest}, but "
            f"it has {room} positions; take a rewriter with more, or a task with shorter prompts."
        )
    filler = eos if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    return padded(rows, filler, model.device, left=not is_seq2seq(model))
