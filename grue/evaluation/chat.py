"""Answers of a chat model: the task's conversation in its own chat template, decoded as the task says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue.evaluation.predict import as_predictions, as_responses, continuations
from grue.evaluation.prompting import Asking, answer_in
from grue.lm.chat import ChatTemplate, chat_template
from grue.lm.checks import check_conversation
from grue.lm.model import eos_id, is_seq2seq
from grue.lm.plain_text import rendered_ids
from grue.lm.seeds import sample_seed
from grue.lm.tokens import Tokens, padded
from grue.records import Example, Prediction
from grue.tasks import Generation, Task


@dataclass(frozen=True, slots=True)
class Chatting:
    """A model that answers a task's chat prompt.

    Attributes:
        settings: The task's decoding without its least length and stop strings: a reply ends where the model ends it.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    template: ChatTemplate
    asking: Asking
    settings: Generation
    seed: int

    def answer(self, examples: Sequence[Example]) -> list[Prediction]:
        """Answer a batch of examples."""
        prompts = self.prompts(examples)
        drawn = []
        for number in range(self.settings.samples):
            seed, end = sample_seed(self.seed, number), self.template.end
            loaded = self.model, self.tokenizer
            continued = continuations(loaded, prompts, examples, self.settings, seed, end)
            replies = as_responses(self.tokenizer, *continued, self.settings.stop)
            drawn.append([replace(reply, text=answer_in(self.asking.chat, reply.text)) for reply in replies])
        return as_predictions(examples, *drawn)

    def prompts(self, examples: Sequence[Example]) -> Tokens:
        """Return the conversations of a batch of examples, untruncated, with only the template's special tokens."""
        model, rows = self.model, [rendered_ids(self.tokenizer, text) for text in self._texts(examples)]
        return padded(rows, eos_id(model, self.tokenizer), model.device, left=not is_seq2seq(model))

    def count_tokens(self, examples: Sequence[Example]) -> int:
        """Return the number of tokens of all conversations."""
        rows = [rendered_ids(self.tokenizer, text) for text in self._texts(examples)]
        tokens, name = max((len(row), example.id) for row, example in zip(rows, examples, strict=True))
        check_conversation(self.model, tokens, self.settings.max_new_tokens, name)
        return sum(map(len, rows))

    def _texts(self, examples: Sequence[Example]) -> list[str]:
        return [self.template.render(self.asking.conversation(example.prompt)) for example in examples]


def chatting(
    name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: Task, asking: Asking, seed: int
) -> Chatting:
    """Return a model that answers a task's chat prompt.

    Raises:
        ConfigError: Its tokenizer has no chat template.
        DataError: Its chat template cannot be applied.
    """
    template = chat_template(name, tokenizer)
    return Chatting(model, tokenizer, template, asking, unbounded(task.decoding), seed)


def unbounded(decoding: Generation) -> Generation:
    """Return how a chat model's replies are decoded: as the task says, but only the model ends them."""
    return replace(decoding, min_new_tokens=0, stop=())
