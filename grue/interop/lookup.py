"""Which example a trainer's prompt is: found by the id that it carries, else by its text."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from grue.data.examples import ExampleFile
from grue.data.load import load_examples
from grue.errors import DataError, TrainingError, escaped
from grue.evaluation.prompting import content_text
from grue.records import Example
from grue.tasks import Task

Message = Mapping[str, Any]
"""A chat message: `role` and `content`, which is a text, or a list of parts of which those with `text` count."""
Said = str | Sequence[Message]
"""A prompt or a response: a text, or a conversation."""


class Lookup:
    """The examples of one split or several of a task.

    Attributes:
        source: The task as exported data names it: "mini/imdb".

    Raises:
        DataError: There is no such split, or its data is not available.
    """

    def __init__(self, task: Task, splits: Sequence[str], data_dir: Path | None, offline: bool) -> None:
        self.source = f"{task.suite}/{task.name}"
        self._splits = splits
        self._files = [load_examples(task, split, data_dir, offline).examples for split in splits]

    def __iter__(self) -> Iterator[Example]:
        return chain.from_iterable(self._files)

    def by_id(self, identity: object, split: object = None) -> Example:
        """Return the example with an id.

        Args:
            split: The split that it is from, where that is known; else an id says which example it is on its own.

        Raises:
            TrainingError: There is none in these splits, or `split` is none of them.
            DataError: Two splits have the id with different content, and `split` does not say which one is meant.
        """
        if split is not None and split not in self._splits:
            raise TrainingError(
                f"The id '{escaped(identity)}' is of the split '{escaped(split)}', but this reward is of "
                f"{self._title}; name the split with split=…"
            )
        chosen = [n for n, name in enumerate(self._splits) if split in (None, name)]
        found = {n: self._files[n][self._ids[n][str(identity)]] for n in chosen if str(identity) in self._ids[n]}
        if not found:
            raise self._unknown(f"The id '{escaped(identity)}'")
        self._refuse_two_contents(found)
        return next(iter(found.values()))

    def refuse_shared_ids(self) -> None:
        """Refuse splits of which an id names different examples, for trainers that hand over no split.

        Raises:
            DataError: An id is in two splits with different content.
        """
        for later, earlier in ((n, m) for n in range(len(self._files)) for m in range(n)):
            for identity, row in self._ids[later].items():
                if identity in self._ids[earlier]:
                    example = self._files[earlier][self._ids[earlier][identity]]
                    self._refuse_two_contents({earlier: example, later: self._files[later][row]})

    def _refuse_two_contents(self, found: Mapping[int, Example]) -> None:
        """Refuse examples of one id, each of another split, that are not the same."""
        first = next(iter(found.values()))
        if any(example != first for example in found.values()):
            names = " and ".join(self._splits[n] for n in found)
            raise DataError(
                f"{self.source}: the id '{escaped(first.id)}' is in the splits {names} with different content, so that "
                "it does not say whose references count. Give every row an id that no other split has, or name one "
                'split with split=…; verl may have both: `grue data export --format verl` writes extra_info["split"].'
            )

    def by_prompt(self, prompt: Said) -> Example:
        """Return the example with a prompt; of a conversation, the last message of the user is looked up.

        Raises:
            TrainingError: There is none in these splits, or several have this prompt.
        """
        text = text_of(prompt, "user")
        if self._counts[text] > 1:
            raise TrainingError(
                f"{self._counts[text]} examples of {self._title} have the prompt '{escaped(text, 80)}', which does "
                "not say whose references count; keep the ids that `grue data export` writes."
            )
        if text not in self._prompts:
            raise self._unknown(f"The prompt '{escaped(text, 80)}'")
        split, row = self._prompts[text]
        return self._files[split][row]

    @cached_property
    def _ids(self) -> list[dict[str, int]]:
        """For each split: id → row."""
        return [{value: row for row, value in enumerate(_column(file, "id"))} for file in self._files]

    @cached_property
    def _prompts(self) -> dict[str, tuple[int, int]]:
        """Prompt → split and row."""
        return {
            value: (n, row) for n, file in enumerate(self._files) for row, value in enumerate(_column(file, "prompt"))
        }

    @cached_property
    def _counts(self) -> Counter[str]:
        """How many examples have a prompt; one that several splits share by its id is one example."""
        pairs = {
            pair for file in self._files for pair in zip(_column(file, "id"), _column(file, "prompt"), strict=True)
        }
        return Counter(prompt for _, prompt in pairs)

    @property
    def _title(self) -> str:
        return f"{self.source} {' and '.join(self._splits)}"

    def _unknown(self, what: str) -> TrainingError:
        return TrainingError(
            f"{what} is no example of {self._title}; name the split with split=…, or train on what "
            "`grue data export --format …` writes."
        )


def _column(file: ExampleFile, name: str) -> list[str]:
    return list(file.column(name).to_pylist())


def text_of(said: Said, role: str) -> str:
    """Return a text, or that of the last message of a role in a conversation.

    Raises:
        TrainingError: It is neither, or nobody has that role.
    """
    if isinstance(said, str):
        return said
    messages = [message for message in said if isinstance(message, Mapping)] if isinstance(said, Sequence) else []
    found = [message.get("content") for message in messages if message.get("role") == role]
    if not found:
        raise TrainingError(f"'{escaped(said, 80)}' is neither a text nor a conversation with a message of the {role}.")
    return content_text(found[-1])
