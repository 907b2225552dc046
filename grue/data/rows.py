"""Helpers of the data sets: checked values of rows, and ids."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from grue.errors import DataError
from grue.files import sha256_text

Row = Mapping[str, Any]
Rows = Iterable[Row]
Progress = Callable[[int, int], None]  # bytes done, bytes in all (0 if unknown)


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


def short_hash(text: str) -> str:
    """Return the first 16 hex digits of the text's sha256."""
    return sha256_text(text)[:16]


def numbered(name: str, times: dict[int, int]) -> str:
    """Return an id, with a number appended if it was used before: -2, -3 and so on.

    Args:
        times: How often each id was used, keyed by eight bytes of its hash to save memory.
    """
    key = int(short_hash(name), 16)
    times[key] = times.get(key, 0) + 1
    return name if times[key] == 1 else f"{name}-{times[key]}"


def text_of(value: Any, name: str, where: str) -> str:
    """Return a value that should be a string; a DataError if it is not a string, or UTF-8 cannot encode it."""
    if not isinstance(value, str):
        raise DataError(f"{where}: {name} should be a string, found {value!r:.80}.")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(f"{where}: {name} has half of a surrogate pair at character {error.start}.") from error
    return value


def texts_of(values: Any, name: str, where: str) -> tuple[str, ...]:
    """Return the values of a list of strings; a DataError if it is not a list of strings."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise DataError(f"{where}: {name} should be a list of strings, found {values!r:.80}.")
    return tuple(text_of(value, f"{name}[{number}]", where) for number, value in enumerate(values))


def with_columns(rows: Iterable[Row], name: str, *columns: str) -> Iterator[tuple[str, Row]]:
    """Yield each row with its place, for messages; a DataError if a row lacks one of the columns."""
    for number, row in enumerate(rows, start=1):
        if not all(column in row for column in columns):
            raise DataError(
                f"{name}, row {number}: expected the columns {', '.join(columns)}; found {', '.join(map(str, row))}. "
                "Is this the right data set?"
            )
        yield f"{name}, row {number}", row


def facts_of(row: Row, where: str, position: int | None = None) -> dict[str, Any]:
    """Return a row's facts for `meta`, which the metric `facts` reads; {} if the data set has none.

    Args:
        row: A row, whose column `facts` is a table, or a list of tables if it makes several examples.
        position: The position of the table in that list.

    Raises:
        DataError: The list has no table at the position.
    """
    facts = row.get("facts")
    if facts is None or position is None:
        return {} if facts is None else {"facts": facts}
    if not isinstance(facts, Sequence) or len(facts) <= position:
        raise DataError(f"{where}: facts should be a list with a table for each utterance, found {facts!r:.80}.")
    return {"facts": facts[position]}


def within(value: Any, key: str) -> Any:
    """Return a field of a nested column, or None; for a list, the list of its items' fields."""
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [within(each, key) for each in value]
    return None
