"""Conversations rendered by a model's chat template, and the token that ends a reply.

A template is Jinja from the model's folder; transformers runs it in a sandbox, without access to files or code.
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
        joined: Whether it has no system message, so that one is put before the first question.
        end: The token that ends a reply: the first special one after it, else the end-of-text token.
    """

    name: str
    tokenizer: PreTrainedTokenizerBase
    joined: bool
    end: int

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return a conversation for `rendered_ids`, up to the beginning of the reply.

        It raises a DataError if the template cannot be applied.
        """
        quoted = [{**message, "content": broken_up(message["content"], self.tokenizer)} for message in messages]
        return _rendered(self.name, self.tokenizer, _joined(quoted) if self.joined else quoted)


def chat_template(name: str, tokenizer: PreTrainedTokenizerBase) -> ChatTemplate:
    """Return the chat template of a model's tokenizer; a ConfigError without one, a DataError if it fails."""
    if not tokenizer.chat_template:
        raise ConfigError(
            f"{name}: its tokenizer has no chat template, so it is not a chat model; leave --chat out, or give a model "
            "tuned for chat."
        )
    try:
        joined = PROBE[0]["content"] not in _rendered(name, tokenizer, PROBE)
    except DataError:  # some templates raise at a system message
        joined = True
    probe = _joined(PROBE) if joined else PROBE
    if PROBE[1]["content"] not in _rendered(name, tokenizer, probe):
        raise DataError(f"{name}: its chat template leaves out the question; give a model with a working one.")
    rendered = _rendered(name, tokenizer, [*probe, REPLY], reply=True)
    after = rendered.rpartition(REPLY["content"])[2].lstrip()
    ends = {token: i for token, i in tokenizer.get_added_vocab().items() if token and after.startswith(token)}
    end = ends[max(ends, key=len)] if ends else tokenizer.eos_token_id
    return ChatTemplate(name, tokenizer, joined, int(end))


def _joined(messages: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Return a conversation with its system message put before the first question."""
    if messages[0]["role"] != "system":
        return list(messages)
    first = {"role": "user", "content": f"{messages[0]['content']}\n\n{messages[1]['content']}"}
    return [first, *messages[2:]]


def _rendered(
    name: str, tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], reply: bool = False
) -> str:
    """Return a conversation as text; `reply`: whether its last turn is the reply.

    Thinking is switched off (`enable_thinking`), since the task's length leaves no room for it.
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
        reason = escaped(" ".join(str(error).split()).rstrip(".") or type(error).__name__, 300)
        raise DataError(f"{name}: its chat template cannot be applied: {reason}.") from error


def cut_text(tokenizer: PreTrainedTokenizerBase, text: str, prompt: Prompt) -> str:
    """Return the part of a prompt that a task shows to a system, as text.

    It is that of `encode_prompts`, except that special tokens do not count. It is a DataError if the tokenizer has no
    offsets of its tokens.
    """
    if not tokenizer.is_fast:
        raise DataError(
            f"{tokenizer.name_or_path}: its tokenizer has no offsets of its tokens, so that prompts cannot be "
            "cut as text; give the task a backbone with a tokenizer.json."
        )
    spans = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)["offset_mapping"]
    if len(spans) <= prompt.max_tokens:
        return text
    if prompt.truncation == "left":
        return text[spans[-prompt.max_tokens][0] :]
    return text[: spans[prompt.max_tokens - 1][1]]
