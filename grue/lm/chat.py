"""Conversations as a model's own chat template writes them, and where a reply to one ends.

A template is Jinja of the model's folder: transformers runs it in its sandbox, without access to files or code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from grue.errors import ConfigError, DataError, escaped
from grue.lm.plain_text import broken_up
from grue.lm.quiet import quiet
from grue.tasks import Prompt

PROBE = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is up?"})
REPLY = {"role": "assistant", "content": "Nothing much."}


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A tokenizer's chat template.

    Attributes:
        name: The model's name, for messages.
        joined: Whether it has no place for a system message, which then goes before the first question.
        end: The token that ends a reply: the first special one after it, else the end-of-text token.
    """

    name: str
    tokenizer: PreTrainedTokenizerBase
    joined: bool
    end: int

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return a conversation as `rendered_ids` reads it, up to where the reply begins.

        Raises:
            DataError: The template cannot be applied.
        """
        said = [{**one, "content": broken_up(one["content"], self.tokenizer)} for one in messages]
        return _rendered(self.name, self.tokenizer, _joined(said) if self.joined else said)


def chat_template(name: str, tokenizer: PreTrainedTokenizerBase) -> ChatTemplate:
    """Return the chat template of a model's tokenizer.

    Raises:
        ConfigError: It has none.
        DataError: It cannot be applied.
    """
    if not tokenizer.chat_template:
        raise ConfigError(
            f"{name}: its tokenizer has no chat template, so it is no chat model; leave --chat out, or give the model "
            "that was tuned for chat."
        )
    try:
        joined = PROBE[0]["content"] not in _rendered(name, tokenizer, PROBE)
    except DataError:  # some templates raise at a system message
        joined = True
    probe = _joined(PROBE) if joined else PROBE
    if PROBE[1]["content"] not in _rendered(name, tokenizer, probe):
        raise DataError(f"{name}: its chat template leaves out what is asked; give a model with a working one.")
    said = _rendered(name, tokenizer, [*probe, REPLY], reply=True)
    after = said.rpartition(REPLY["content"])[2].lstrip()
    ends = {token: i for token, i in tokenizer.get_added_vocab().items() if token and after.startswith(token)}
    end = ends[max(ends, key=len)] if ends else tokenizer.eos_token_id
    return ChatTemplate(name, tokenizer, joined, int(end))


def _joined(messages: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Return a conversation whose system message is the beginning of the first question."""
    if messages[0]["role"] != "system":
        return list(messages)
    first = {"role": "user", "content": f"{messages[0]['content']}\n\n{messages[1]['content']}"}
    return [first, *messages[2:]]


def _rendered(
    name: str, tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], reply: bool = False
) -> str:
    """Return a conversation as text; `reply`: whether its last turn is the reply.

    Templates that let a model think aloud are asked not to (`enable_thinking`), since the task's length leaves no room.
    """
    try:
        with quiet():
            return str(
                tokenizer.apply_chat_template(
                    [dict(message) for message in messages],
                    tokenize=False,
                    add_generation_prompt=not reply,
                    enable_thinking=False,
                )
            )
    except Exception as error:  # a template can raise anything
        told = escaped(" ".join(str(error).split()).rstrip(".") or type(error).__name__, 300)
        raise DataError(f"{name}: its chat template cannot be applied: {told}.") from error


def cut_text(tokenizer: PreTrainedTokenizerBase, text: str, prompt: Prompt) -> str:
    """Return the part of a prompt that a task lets a system see, as text.

    That of `encode_prompts`, but for the special tokens, which do not count here.

    Raises:
        DataError: The tokenizer does not tell where in a text its tokens are.
    """
    if not tokenizer.is_fast:
        raise DataError(
            f"{tokenizer.name_or_path}: its tokenizer does not tell where its tokens are in a text, so that prompts "
            "cannot be cut as text; give the task a backbone with a tokenizer.json."
        )
    spans = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    if len(spans) <= prompt.max_tokens:
        return text
    if prompt.truncation == "left":
        return text[spans[-prompt.max_tokens][0] :]
    return text[: spans[prompt.max_tokens - 1][1]]
