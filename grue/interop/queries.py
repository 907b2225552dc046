"""Extract the response from OpenRLHF's decoded text of prompt, response and special tokens."""

from typing import TYPE_CHECKING

from grue.errors import TrainingError, escaped

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def response_of(query: str, prompt: str, tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return the response of a query without special tokens; a TrainingError if it does not begin with the prompt.

    The query is prompt + response, decoded from their tokens with the special ones; the prompt is as it was tokenised,
    without special tokens except those of a chat template.
    """
    begin = str(tokenizer.decode(_ids(prompt, tokenizer)))  # decoding may change white space, say
    for prefix in (begin, prompt):
        if query.startswith(prefix):
            rest = query[len(prefix) :]
            return str(tokenizer.decode(_ids(rest, tokenizer), skip_special_tokens=True))
    raise TrainingError(
        f"The query '{escaped(query, 80)}' does not begin with its prompt '{escaped(prompt, 80)}': the prompt was cut, "
        "or the tokenizer is not that of the model. Raise --data.max_len, or name the model's tokenizer."
    )


def _ids(text: str, tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    return list(tokenizer(text, add_special_tokens=False, split_special_tokens=False)["input_ids"])
