"""Find the example of a trainer's prompt, by its id or else by its text."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from grue.data.examples import ExampleFile
from grue.errors import ConfigError, DataError, TrainingError, escaped
from grue.evaluation.prompting import content_text
from grue.records import Example

Message = Mapping[str, Any]
"""A chat message: `role` and `content`, which is a text, or a list of parts, some of which have a `text`."""
TextOrChat = str | Sequence[Message]
"""A prompt or a response: a text, or a conversation."""


class Lookup:
    """The examples of one or several splits of a task.

    Attributes:
        source: The task's name in exported data: "mini/imdb".
        splits: The names of the splits.
    """

    def __init__(self, source: str, splits: Sequence[str], files: Sequence[ExampleFile]) -> None:
        self.source = source
        self.splits = splits
        self._files = files

    def of(self, split: str | None) -> ExampleFile:
        """Return the examples of a split, None for the first; a ConfigError if it is not one of these."""
        if split is None:
            return self._files[0]
        if split not in self.splits:
            raise ConfigError(
                f"The split '{escaped(split)}' is not one of {' and '.join(self.splits)}, whose prompts {self.source} "
                "has here; name it with split=…"
            )
        return self._files[self.splits.index(split)]

    def by_id(self, identity: object, split: object = None) -> Example:
        """Return the example with an id.

        Args:
            split: The split that it is from, if known; else the id alone must identify the example.

        Raises:
            TrainingError: There is none in these splits, or `split` is not one of them.
            DataError: Two splits have the id with different content, and `split` is not given.
        """
        if split is not None and split not in self.splits:
            raise TrainingError(
                f"The id '{escaped(identity)}' is of the split '{escaped(split)}', but this reward is of "
                f"{self._title}; name the split with split=…"
            )
        chosen = [n for n, name in enumerate(self.splits) if split in (None, name)]
        examples = {n: self._files[n][self._ids[n][str(identity)]] for n in chosen if str(identity) in self._ids[n]}
        if not examples:
            raise self._unknown(f"The id '{escaped(identity)}'")
        self._refuse_two_contents(examples)
        return next(iter(examples.values()))

    def refuse_shared_ids(self) -> None:
        """Raise a DataError if an id is in two splits with different content, for trainers that pass no split."""
        for later, earlier in ((n, m) for n in range(len(self._files)) for m in range(n)):
            for identity, row in self._ids[later].items():
                if identity in self._ids[earlier]:
                    example = self._files[earlier][self._ids[earlier][identity]]
                    self._refuse_two_contents({earlier: example, later: self._files[later][row]})

    def _refuse_two_contents(self, examples: Mapping[int, Example]) -> None:
        """Refuse different examples with one id, each of another split."""
        first = next(iter(examples.values()))
        if any(example != first for example in examples.values()):
            names = " and ".join(self.splits[n] for n in examples)
            raise DataError(
                f"{self.source}: the id '{escaped(first.id)}' is in the splits {names} with different content, so that "
                "it does not say whose references count. Give every row an id that no other split has, or name one "
                'split with split=…; verl may have both: `grue data export --format verl` writes extra_info["split"].'
            )

    def by_prompt(self, prompt: TextOrChat) -> Example:
        """Return the example with a prompt; for a conversation, the user's last message is looked up.

        It is a TrainingError if there is none in these splits, or several have this prompt.
        """
        text = text_of(prompt, "user")
        if text not in self._prompts:
            raise self._unknown(f"The prompt '{escaped(text, 80)}'")
        split, row, ids = self._prompts[text]
        if len(ids) > 1:
            raise TrainingError(
                f"{len(ids)} examples of {self._title} have the prompt '{escaped(text, 80)}', which does not say whose "
                "references count; keep the ids that `grue data export` writes."
            )
        return self._files[split][row]

    @cached_property
    def _ids(self) -> list[dict[str, int]]:
        """For each split: id → row."""
        return [{value: row for row, value in enumerate(_column(file, "id"))} for file in self._files]

    @cached_property
    def _prompts(self) -> dict[str, tuple[int, int, set[str]]]:
        """Prompt → split, row, and the ids of all examples that have it."""
        found: dict[str, tuple[int, int, set[str]]] = {}
        for n, file in enumerate(self._files):
            for row, (identity, prompt) in enumerate(zip(_column(file, "id"), _column(file, "prompt"), strict=True)):
                ids = found[prompt][2] if prompt in found else set()
                ids.add(identity)
                found[prompt] = n, row, ids
        return found

    @property
    def _title(self) -> str:
        return f"{self.source} {' and '.join(self.splits)}"

    def _unknown(self, subject: str) -> TrainingError:
        return TrainingError(
            f"{subject} is no example of {self._title}; name the split with split=…, or train on what "
            "`grue data export --format …` writes."
        )


def _column(file: ExampleFile, name: str) -> list[str]:
    return list(file.column(name).to_pylist())


def text_of(source: TextOrChat, role: str) -> str:
    """Return a text, or the text of a role's last message in a conversation; else raise a TrainingError."""
    if isinstance(source, str):
        return source
    messages = [message for message in source if isinstance(message, Mapping)] if isinstance(source, Sequence) else []
    contents = [message.get("content") for message in messages if message.get("role") == role]
    if not contents:
        raise TrainingError(
            f"'{escaped(source, 80)}' is neither a text nor a conversation with a message of the {role}."
        )
    return content_text(contents[-1])
