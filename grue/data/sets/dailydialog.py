"""DailyDialog: the next utterance of a dialogue.

Source: Li et al. 2017, "DailyDialog: A Manually Labelled Multi-turn Dialogue Dataset".
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from grue.data.archives import File, FolderRows, lines, nearest_one, split_names
from grue.data.rows import Row, facts_of, numbered, short_hash, texts_of, with_columns
from grue.errors import DataError
from grue.records import Example

CONTEXT = 5  # utterances in a prompt; an utterance with fewer before it is not an example
END_OF_UTTERANCE = "<EOU>"


def examples(rows: Iterable[Row]) -> Iterator[Example]:
    """Yield one example per utterance with at least five before it: those five are the prompt, it is the reference.

    " <EOU>" follows each of the five, as in RL4LMs, whose utterances have spaces around them; the reference ends where
    the utterance does. `meta` has what the intent metric reads: "intent" of the reference, 0–3 for inform, question,
    directive and commissive, and "last_utterance"; also "emotion" of the reference, 0–6. An id is the hash of the five
    and the reference, so that an example that is in two splits has one id even if the dialogues begin differently.
    """
    times: dict[int, int] = {}
    for where, row in with_columns(rows, "dailydialog", "dialog", "act", "emotion"):
        utterances = [utterance.strip() for utterance in texts_of(row["dialog"], "dialog", where)]
        acts = _labels(row["act"], "act", range(1, 5), len(utterances), where)
        emotions = _labels(row["emotion"], "emotion", range(7), len(utterances), where)
        for position in range(CONTEXT, len(utterances)):
            *context, answer = utterances[position - CONTEXT : position + 1]
            whole = short_hash("\n".join((*context, answer)))
            yield Example(
                id=numbered(f"dailydialog-{whole}", times),
                prompt="".join(f"{utterance} {END_OF_UTTERANCE} " for utterance in context).rstrip(),
                references=(answer,) if answer else (),
                meta={
                    "intent": acts[position] - 1,
                    "last_utterance": context[-1],
                    "emotion": emotions[position],
                    **facts_of(row, where, position),
                },
            )


def _labels(values: Any, name: str, allowed: range, count: int, where: str) -> list[int]:
    if not isinstance(values, Sequence) or not all(type(value) is int and value in allowed for value in values):
        raise DataError(f"{where}: {name} should be numbers from {allowed[0]} to {allowed[-1]}, found {values!r:.80}.")
    if len(values) != count:
        raise DataError(f"{where}: {count} utterances, but {len(values)} under {name}; the numbers should be equal.")
    return list(values)


def read_folder(folder: Path, split: str) -> FolderRows:
    """Return the rows of `dialogues_<split>.txt`, or of `dialogues.txt` in a folder of the split's name.

    The files of acts and emotions are beside it: `dialogues_act…` and `dialogues_emotion…`.
    """
    names = split_names(split)
    patterns = [pattern for name in names for pattern in (f"dialogues_{name}.txt", f"{name}/dialogues.txt")]
    dialogues = nearest_one(folder, *patterns)
    ending = dialogues.name.removeprefix("dialogues")
    acts, emotions = (dialogues.beside(f"dialogues_{kind}{ending}") for kind in ("act", "emotion"))
    return FolderRows((dialogues, acts, emotions), lambda: _dialogues(dialogues, acts, emotions))


def _dialogues(dialogues: File, acts: File, emotions: File) -> Iterator[Row]:
    for number, row in enumerate(zip_longest(lines(dialogues), lines(acts), lines(emotions)), start=1):
        where = f"{dialogues}, line {number}"
        if None in row:
            raise DataError(f"{where}: {acts.name} or {emotions.name} has more or fewer lines.")
        dialogue, *labels = row
        if not "".join(row).strip():
            continue
        utterances = [utterance.strip() for utterance in dialogue.strip().removesuffix("__eou__").split("__eou__")]
        act, emotion = (_integers(label, where) for label in labels)
        if not len(utterances) == len(act) == len(emotion):
            counts = f"{len(utterances)} utterances, {len(act)} acts and {len(emotion)} emotions"
            raise DataError(f"{where}: {counts}; the numbers should be equal.")
        yield {"dialog": utterances, "act": act, "emotion": emotion}


def _integers(line: str, where: str) -> list[int]:
    try:
        return [int(number) for number in line.split()]
    except ValueError as error:
        raise DataError(f"{where}: acts and emotions should be whole numbers, found {line!r}.") from error
