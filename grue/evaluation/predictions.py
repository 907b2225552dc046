"""Read predictions and the user's own examples from files; put predictions into the order of examples."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import DataError, GrueError, SubmissionError
from grue.records import Example, Prediction
from grue.shapes import from_dict


def match(examples: Sequence[Example], predictions: Iterable[Prediction]) -> list[Prediction]:
    """Return the predictions in the order of the examples."""
    predictions = list(predictions)
    by_id = {prediction.id: prediction for prediction in predictions}
    expected = {example.id: None for example in examples}
    problems = {
        "missing": [name for name in expected if name not in by_id],
        "unknown": [name for name in by_id if name not in expected],
        "given more than once": [name for name, count in Counter(p.id for p in predictions).items() if count > 1],
    }
    for other in predictions:
        if len(other.draws) != len(predictions[0].draws):
            raise SubmissionError(unequal_draws(predictions[0], other))
    if any(problems.values()):
        faults = "; ".join(f"{len(names)} {kind} ({_few(names)})" for kind, names in problems.items() if names)
        raise SubmissionError(
            f"The predictions do not fit the {len(expected)} examples: {faults}. "
            "Write exactly one prediction for each example; an empty text is allowed."
        )
    return [by_id[name] for name in expected]


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")


def read_predictions(path: Path, error: type[GrueError] = SubmissionError) -> list[Prediction]:
    """Read a predictions file: one JSON object per line, {"id": string, "text": string, "truncated": true or false}.

    `truncated` is optional. If several texts were drawn for each example, `more` holds the others, a list of
    such objects without ids, equally many in each line.

    Raises:
        DataError: The file is missing, or a line is not UTF-8 or not a JSON object.
        SubmissionError: A line has an unknown or missing key, or a value of another type; the message names the line.
            With `error`, an error of that class.
    """
    return _read(path, files.read_jsonl(path), error)


def _read(
    path: Path, lines: Iterable[tuple[int, Mapping[str, Any]]], error: type[GrueError] = SubmissionError
) -> list[Prediction]:
    predictions: list[Prediction] = []
    for number, record in lines:
        predictions.append(from_dict(Prediction, record, f"{path}, line {number}", error))
        if len(predictions[-1].draws) != len(predictions[0].draws):
            raise error(f"{path}, line {number}: {unequal_draws(predictions[0], predictions[-1])}")
    return predictions


def unequal_draws(first: Prediction, other: Prediction) -> str:
    """Return the message about two predictions with different numbers of texts."""
    return (
        f"{other.id!r} has {len(other.draws)} of the texts that were drawn for an example, and {first.id!r} has "
        f"{len(first.draws)}; give all examples equally many."
    )


def read_predictions_in_order(path: Path) -> list[Prediction]:
    """Read predictions as `read_predictions`; lines without ids, or of plain text, have their numbers as ids."""
    if path.suffix != ".gz" and not files.read_text(path).removeprefix(files.MARK).lstrip().startswith("{"):
        return read_plain_predictions(path)
    return _read(path, _numbered(path))


def _numbered(path: Path) -> Sequence[tuple[int, Mapping[str, Any]]]:
    """Return the numbered objects of a file, with their places as ids if none has an id."""
    lines = list(files.read_jsonl(path))
    if any("id" in record for _, record in lines):
        return lines
    return [(number, {"id": str(place), **record}) for place, (number, record) in enumerate(lines, start=1)]


def read_plain_predictions(path: Path) -> list[Prediction]:
    """Read plain text, one prediction per line; ids are line numbers."""
    return [Prediction(str(number), text) for number, text in enumerate(_plain_lines(path), start=1)]


def prediction_record(prediction: Prediction) -> dict[str, object]:
    """Return the line of a predictions file: id and text, and `truncated` and `more` unless they are empty."""
    record = dict(files.plain(prediction))
    return record if prediction.truncated else {key: value for key, value in record.items() if key != "truncated"}


def write_predictions(path: Path, predictions: Sequence[Prediction]) -> None:
    """Write a whole predictions file, atomically."""
    files.write_jsonl(path, map(prediction_record, predictions))


# --- the user's own examples -----------------------------------------------------------------------------------------


def read_examples(path: Path) -> list[Example]:
    """Read examples: one JSON object per line, {"id", "references", "prompt", "meta"}; the last two are optional.

    If no line has an id, the numbers of the lines are the ids.
    """
    examples: dict[str, Example] = {}
    for number, record in _numbered(path):
        where = f"{path}, line {number}"
        example = from_dict(Example, {"prompt": "", **record}, where, DataError)
        if examples.setdefault(example.id, example) is not example:
            raise DataError(f"{where}: the id {example.id!r} is repeated; ids must be distinct.")
    if not examples:
        raise DataError(f"{path} contains no example; write one JSON object per line.")
    return list(examples.values())


def checked_examples(examples: Sequence[Example], name: str) -> list[Example]:
    """Return examples that were made in Python, checked like those of a file."""
    if not examples:
        raise DataError(f"{name} is empty; there is nothing to score against.")
    ids: set[str] = set()
    checked = []
    for place, example in enumerate(examples):
        where = f"{name}[{place}]"
        try:
            record = {field.name: getattr(example, field.name) for field in fields(Example)}
            checked.append(from_dict(Example, record, where, DataError))
            files.sha256_json(checked[-1])
        except AttributeError as error:
            raise DataError(f"{where}: expected a grue.Example, found {example!r}.") from error
        except (TypeError, ValueError) as error:  # JSON cannot hold it
            raise DataError(f"{where}: no file can hold it: {error}.") from error
        if example.id in ids:
            raise DataError(f"{where}: the id {example.id!r} is repeated; ids must be distinct.")
        ids.add(example.id)
    return checked


def read_plain_examples(paths: Sequence[Path]) -> list[Example]:
    """Read references from plain text, one per line; several files hold several references of the same examples."""
    columns = [_plain_lines(path) for path in paths]
    for path, column in zip(paths, columns, strict=True):
        if not column:
            raise DataError(f"{path} is empty; references need one line for each prediction.")
        if len(column) != len(columns[0]):
            raise DataError(
                f"{path} has {len(column)} lines, but {paths[0]} has {len(columns[0])}; "
                "references need one line for each prediction."
            )
    return [Example(str(number), "", tuple(row)) for number, row in enumerate(zip(*columns, strict=True), start=1)]


def _plain_lines(path: Path) -> list[str]:
    r"""Return a file's lines, which only "\n" and "\r\n" end, not Unicode's other line ends."""
    text = files.read_text(path).removeprefix(files.MARK)  # some editors write a byte order mark
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    written = [line for line in lines if line.strip()]
    if written and all(map(_is_object, written)):
        raise DataError(
            f'{path}: its lines are JSON objects, and --references is for plain text. For {{"id", "text"}} lines give '
            '--examples FILE, of {"id", "references"} lines (own_examples="FILE" in Python).'
        )
    return lines if lines[-1] else lines[:-1]


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
