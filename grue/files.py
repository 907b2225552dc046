"""Reading and writing: strict TOML and JSON into dataclasses, atomic writes, hashes.

Every error names the file and the line or key. A reader never sees a half-written file: writers fill a temporary
neighbour and rename it.
"""

import gzip
import hashlib
import json
import math
import os
import secrets
import tomllib
import types
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import tomli_w

from grue.errors import ConfigError, DataError, GrueError, did_you_mean

T = TypeVar("T")


# --- dictionaries into dataclasses -----------------------------------------------------------------------------------


def from_dict(cls: type[T], data: Mapping[str, Any], where: str) -> T:
    """Build the dataclass `cls` from plain data, refusing what it does not declare.

    Args:
        cls: A dataclass of scalars, Literals, tuples, mappings and further dataclasses.
        data: Its values by name; keys with a default may be missing.
        where: File (and table) the data came from, for messages.

    Raises:
        ConfigError: An unknown or missing key, or a value of another type; names the key and the nearest spelling.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: expected a table, found {_shown(data)}.")
    hints = get_type_hints(cls)
    known = {f.name: f for f in fields(cast(Any, cls)) if f.init}
    for key in data:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}.")
    for name, f in known.items():
        if name not in data and f.default is MISSING and f.default_factory is MISSING:
            raise ConfigError(f"{where}: the key {name!r} is missing.")
    values = {key: _convert(hints[key], value, f"{where}: {key}") for key, value in data.items()}
    return cls(**values)


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(args, value, where)
    if origin is Literal:
        if not any(type(value) is type(arg) and value == arg for arg in args):  # True is not 1 here
            close = did_you_mean(value, [a for a in args if isinstance(a, str)]) if isinstance(value, str) else ""
            raise ConfigError(f"{where}: {_shown(value)} is not one of {', '.join(map(str, args))}.{close}")
        return value
    if is_dataclass(hint):
        return from_dict(cast(type, hint), value, where)
    if origin is tuple:
        return _convert_tuple(args, value, where)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: expected a table, found {_shown(value)}.")
        return {key: _convert(args[1], item, f"{where}.{key}") for key, item in value.items()}
    if hint is float and type(value) in (int, float):
        return _finite(value, where)
    if type(value) is not hint:
        raise ConfigError(f"{where}: expected {_type_name(hint)}, found {_shown(value)}.")
    return value


def _finite(value: float, where: str) -> float:
    with suppress(OverflowError):  # raised by a whole number beyond a float's range
        if math.isfinite(value):
            return float(value)
    raise ConfigError(f"{where}: expected a finite number, found {_shown(value)}.")


def _convert_union(choices: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in choices:
        return None
    choices = tuple(c for c in choices if c is not type(None))
    if len(choices) == 1:
        return _convert(choices[0], value, where)
    for choice in choices:
        try:
            return _convert(choice, value, where)
        except ConfigError:
            continue
    raise ConfigError(f"{where}: expected {' or '.join(map(_type_name, choices))}, found {_shown(value)}.")


def _convert_tuple(args: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where}: expected a list, found {_shown(value)}.")
    if args[-1] is Ellipsis:
        args = (args[0],) * len(value)
    if len(args) != len(value):
        raise ConfigError(f"{where}: expected {len(args)} values, found {len(value)}.")
    return tuple(_convert(arg, item, f"{where}[{i}]") for i, (arg, item) in enumerate(zip(args, value, strict=True)))


def _type_name(hint: Any) -> str:
    return {"str": "a string", "int": "a whole number", "float": "a number", "bool": "true or false"}.get(
        getattr(hint, "__name__", ""), str(hint)
    )


def _shown(value: Any) -> str:
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 80 else shown[:79] + '…'}"


def json_schema(cls: type) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of what `from_dict` accepts for the dataclass `cls`."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": cls.__name__, **_schema_of(cls)}


def _schema_of(hint: Any) -> dict[str, Any]:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if hint is type(None):
        return {"type": "null"}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(arg) for arg in args]}
    if origin is Literal:
        return {"enum": list(args)}
    if is_dataclass(hint):
        return _object_schema(cast(type, hint))
    if origin is tuple:
        if args[-1] is Ellipsis:
            return {"type": "array", "items": _schema_of(args[0])}
        return {
            "type": "array",
            "prefixItems": [_schema_of(arg) for arg in args],
            "minItems": len(args),
            "maxItems": len(args),
        }
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(args[1])}
    return {"type": {str: "string", int: "integer", float: "number", bool: "boolean"}[hint]}


def _object_schema(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    known = [f for f in fields(cast(Any, cls)) if f.init]
    required = [f.name for f in known if f.default is MISSING and f.default_factory is MISSING]
    properties = {f.name: _schema_of(hints[f.name]) for f in known}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


# --- TOML ------------------------------------------------------------------------------------------------------------


def read_text(path: Path, error_class: type[GrueError] = DataError) -> str:
    """Read a UTF-8 file; line ends stay as they are.

    Raises:
        DataError: The file is missing, unreadable or not UTF-8; `error_class` names another class for that.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise error_class(f"{path}: not valid UTF-8 at byte {error.start}.") from error
    except OSError as error:
        raise error_class(f"{path}: cannot be read: {_reason(error)}.") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: The file is missing, or is not TOML (duplicate keys included); names the line.
    """
    try:
        return tomllib.loads(read_text(path, ConfigError))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}.") from error


def load_toml(path: Path, cls: type[T]) -> T:
    """Read a TOML file into the dataclass `cls`; see `from_dict` for what is refused."""
    return from_dict(cls, read_toml(path), str(path))


def write_toml(path: Path, value: Any) -> None:
    """Write a dataclass or dictionary as TOML, leaving out None, which TOML cannot say."""
    write_text(path, tomli_w.dumps(_without_none(plain(value))))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


# --- JSON ------------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Turn dataclasses, mappings and sequences into the dictionaries and lists that JSON knows."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return [plain(item) for item in value] if listed else value


def canonical_json(value: Any) -> str:
    """Return the one JSON spelling of `value`: sorted keys, no spaces, no escapes beyond the needed.

    Raises:
        ValueError: `value` holds NaN or an infinity, which JSON cannot say.
    """
    return json.dumps(plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def indented_json(value: Any) -> str:
    """Return `value` as JSON for people to read: indented, keys in their own order, with a last line end.

    Raises:
        ValueError: `value` holds NaN or an infinity, which JSON cannot say.
    """
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        DataError: The file is missing, is not UTF-8 or not strict JSON: a key that stands twice in an object, NaN, a
            number beyond a float's range and half of a surrogate pair are refused.
    """
    return _parse_json(read_text(path), str(path))


def load_json(path: Path, cls: type[T]) -> T:
    """Read a JSON file into the dataclass `cls`.

    Raises:
        DataError: The file cannot be read, or does not say what `cls` declares (see `from_dict`).
    """
    data = read_json(path)
    try:
        return from_dict(cls, data, str(path))
    except ConfigError as error:
        raise DataError(str(error)) from error


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically.

    Raises:
        ValueError: `value` holds NaN or an infinity; nothing is written.
        DataError: The place cannot be written.
    """
    write_text(path, indented_json(value))


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    r"""Yield (line number, object) of a JSON-lines file; lines end at "\n" only, blank lines are skipped.

    A file whose name ends in `.gz` is unpacked on the way.

    Raises:
        DataError: The file is missing or damaged, or a line is not UTF-8, not strict JSON (see `read_json`) or not an
            object; names the line.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as handle:
            for number, raw in enumerate(handle, start=1):
                record = _parse_line(raw, f"{path}, line {number}")
                if record is not None:
                    yield number, record
    except (OSError, EOFError, zlib.error) as error:
        after = f" after line {number}" if number else ""
        raise DataError(f"{path}: cannot be read{after}: {_reason(error)}.") from error


def _parse_line(raw: bytes, where: str) -> dict[str, Any] | None:
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not valid UTF-8 at byte {error.start}; save the file as UTF-8.") from error
    if not line.strip():
        return None
    record = _parse_json(line, where)
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected an object, found {_shown(record)}.")
    return record


def write_jsonl(path: Path, records: Iterable[Any]) -> None:
    """Write one canonical JSON object a line, atomically."""
    write_text(path, "".join(canonical_json(record) + "\n" for record in records))


def append_jsonl(path: Path, records: Iterable[Any]) -> None:
    """Append one canonical JSON object a line, all of them or none.

    Raises:
        DataError: The place cannot be written; a part that was written is taken back.
    """
    data = "".join(canonical_json(record) + "\n" for record in records).encode("utf-8")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as handle:
            before = handle.tell()
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[handle.write(rest) :]
            except BaseException:
                with suppress(OSError):  # the first error is the one to tell
                    handle.truncate(before)
                raise
    except OSError as error:
        raise _cannot_write(path, error) from error


def drop_torn_line(path: Path) -> None:
    """Cut off a last line without its newline, which a killed writer left behind."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


def _parse_json(text: str, where: str) -> Any:
    try:
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_parse_float, object_pairs_hook=_refuse_twins
        )
        if "\\ud" in text.lower():  # an escape may hide half of a surrogate pair, which no file can hold
            canonical_json(value).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not valid JSON: {error}.") from error
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _parse_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits} is beyond the range of a number")
    return value


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in an object")
    return found


# --- text and hashes -------------------------------------------------------------------------------------------------


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically: a temporary neighbour is filled, flushed to disk and renamed.

    Raises:
        DataError: The place cannot be written; the old content is still there.
    """
    data = text.encode("utf-8")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):  # it may not be there, and the first error is the one to tell
                temporary.unlink()
            raise
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: cannot be written: {_reason(error)}; what was saved before is untouched.")


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def sha256_text(text: str) -> str:
    """Return the hex sha256 of the text's UTF-8 bytes."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def sha256_json(value: Any) -> str:
    """Return the hex sha256 of the canonical JSON of `value`."""
    return sha256_text(canonical_json(value))


def sha256_file(path: Path) -> str:
    """Return the hex sha256 of a file's bytes.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {_reason(error)}.") from error
