"""Reading and writing: strict TOML and JSON into dataclasses, atomic writes, hashes.

Every error names the file and the line or key. A reader never sees a half-written file: writers fill a temporary
file beside it and rename it.
"""

import codecs
import gzip
import hashlib
import json
import math
import os
import secrets
import shutil
import sys
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from grue.errors import ConfigError, DataError, GrueError
from grue.shapes import from_dict, shown

T = TypeVar("T")

TORN = "{}: the last line is incomplete, as after a kill, and was left out."
"""A warning about a file whose last line is incomplete."""
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MARK = "\ufeff"
"""The byte order mark that some editors put at the beginning of a file; it is not part of the text."""
STDIN = Path("-")
"""Standard input, where a file of JSON lines is read."""


# --- TOML ------------------------------------------------------------------------------------------------------------


def read_text(path: Path, error_class: type[GrueError] = DataError) -> str:
    """Read a UTF-8 file, with its line ends unchanged."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        cure = "; it is UTF-16: save it as UTF-8" if error.object[:2] in UTF_16 else ""
        raise error_class(f"{path}: not valid UTF-8 at byte {error.start}{cure}.") from error
    except OSError as error:
        raise error_class(f"{path}: cannot be read: {reason(error)}.") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a byte order mark at its beginning is left out."""
    try:
        return tomllib.loads(read_text(path, ConfigError).removeprefix(MARK))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}.") from error


def load_toml(path: Path, cls: type[T]) -> T:
    """Read a TOML file into the dataclass `cls`; see `from_dict` for what is refused."""
    return from_dict(cls, read_toml(path), str(path))


def write_toml(path: Path, value: Any) -> None:
    """Write a dataclass or dictionary as TOML, leaving out None, which TOML cannot express."""
    write_text(path, tomli_w.dumps(_without_none(plain(value))))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


# --- JSON ------------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return dataclasses, mappings and sequences as the dictionaries and lists of JSON.

    A field marked `LATER` is left out if it has its default.
    """
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((f, getattr(value, f.name)) for f in fields(value))
        return {f.name: plain(item) for f, item in pairs if not ("later" in f.metadata and item == f.default)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return [plain(item) for item in value] if listed else value


def canonical_json(value: Any) -> str:
    """Return `value` as canonical JSON: sorted keys, no spaces, no unneeded escapes.

    Raises:
        ValueError: `value` contains NaN or an infinity, which JSON cannot express.
    """
    return json.dumps(plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def indented_json(value: Any) -> str:
    """Return `value` as readable JSON: indented, keys in their order, with a final line end.

    Raises:
        ValueError: `value` contains NaN or an infinity, which JSON cannot express.
    """
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        DataError: The file is missing, not UTF-8 or not strict JSON: a repeated key in an object, NaN, a number beyond
            a float's range and half of a surrogate pair are refused.
    """
    return _parse_json(read_text(path), str(path))


def load_json(path: Path, cls: type[T]) -> T:
    """Read a JSON file into the dataclass `cls`; a DataError says what does not fit (see `from_dict`)."""
    return from_dict(cls, read_json(path), str(path), DataError)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically.

    Raises:
        ValueError: `value` contains NaN or an infinity; nothing is written.
        DataError: The file cannot be written.
    """
    write_text(path, indented_json(value))


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    r"""Yield (line number, object) of a JSON-lines file; lines end at "\n" only, blank lines are skipped.

    A file whose name ends in `.gz` is decompressed; a byte order mark at the beginning is left out. The path `-` is
    standard input.

    Raises:
        DataError: The file is missing or damaged, or a line is not UTF-8, not strict JSON (see `read_json`) or not an
            object; names the line.
    """
    number = 0
    try:
        with _opened(path) as handle:
            for number, raw in enumerate(handle, start=1):
                line = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                record = _parse_line(line, f"{path}, line {number}")
                if record is not None:
                    yield number, record
    except (OSError, EOFError, zlib.error) as error:
        after = f" after line {number}" if number else ""
        raise DataError(f"{path}: cannot be read{after}: {reason(error)}.") from error


def _opened(path: Path) -> AbstractContextManager[Iterable[bytes]]:
    if path == STDIN:
        return nullcontext(sys.stdin.buffer)
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def read_growing_jsonl(path: Path) -> tuple[list[tuple[int, dict[str, Any]]], bool]:
    """Read a JSON-lines file that may still be written: its complete lines, numbered, and whether the last one is torn.

    A last line without its end is being written or was cut off by a kill; it is left out (see `TORN`).
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {reason(error)}.") from error
    *lines, rest = content.split(b"\n")
    parsed = ((number, _parse_line(raw, f"{path}, line {number}")) for number, raw in enumerate(lines, start=1))
    return [(number, record) for number, record in parsed if record is not None], bool(rest)


def decoded(raw: bytes, where: str) -> str:
    """Return the text of a part of a file, named by `where`; a DataError if it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not valid UTF-8 at byte {error.start}; save the file as UTF-8.") from error


def _parse_line(raw: bytes, where: str) -> dict[str, Any] | None:
    line = decoded(raw, where)
    if not line.strip():
        return None
    record = _parse_json(line, where)
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected an object, found {shown(record)}.")
    return record


def write_jsonl(path: Path, records: Iterable[Any]) -> None:
    """Write one canonical JSON object per line, atomically."""
    write_text(path, "".join(canonical_json(record) + "\n" for record in records))


def append_jsonl(path: Path, records: Iterable[Any]) -> None:
    """Append one canonical JSON object per line, all or none.

    Raises:
        DataError: The file cannot be written; a partial write is undone.
    """
    rest = memoryview("".join(canonical_json(record) + "\n" for record in records).encode("utf-8"))
    with _reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as handle:
            before = handle.tell()
            try:
                while rest:
                    rest = rest[handle.write(rest) :]
            except BaseException:
                with suppress(OSError):  # the first error is the one to report
                    handle.truncate(before)
                raise


def drop_torn_line(path: Path) -> None:
    """Remove a last line without its newline, as left by a killed writer."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)


def _parse_json(text: str, where: str) -> Any:
    try:
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_parse_float, object_pairs_hook=_refuse_twins
        )
        if "\\ud" in text.lower():  # an escape may hide half of a surrogate pair, which UTF-8 cannot encode
            canonical_json(value).encode("utf-8")
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise DataError(f"{where}: not valid JSON: {error.msg.removesuffix(' at')} at {place}.") from error
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
    table = dict(pairs)
    if len(table) < len(pairs):
        counted = Counter(key for key, _ in pairs)
        twin = next(key for key, number in counted.items() if number > 1)
        raise ValueError(f"the key {twin!r} is repeated in an object")
    return table


# --- YAML ------------------------------------------------------------------------------------------------------------


def yaml_text(value: Any) -> str:
    """Return a table or list as YAML, its keys in their order.

    Raises:
        ValueError: It contains NaN or an infinity.
    """
    import yaml

    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    data = json.loads(text.encode("utf-8", "replace"))  # no tuples and no shared references
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=float("inf")))


# --- text and hashes -------------------------------------------------------------------------------------------------


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically: a temporary file beside it is filled, flushed to disk and renamed.

    A device or pipe, such as /dev/stdout, is written to instead of replaced.

    Raises:
        DataError: The file cannot be written; its old content is unchanged.
    """
    data = text.encode("utf-8")
    if path.exists() and not (path.is_file() or path.is_dir()):
        with _reported(path, ""):
            path.write_bytes(data)
        return
    with _reported(path), replacing(path) as temporary:
        temporary.write_bytes(data)


@contextmanager
def _reported(path: Path, kept: str = "; what was saved before is unchanged") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {reason(error)}{kept}.") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path` to write to; flushed to disk, it replaces `path` if the block succeeds.

    Raises:
        OSError: It cannot be written; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        flush_to_disk(temporary)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):  # it may not exist, and the first error is the one to report
            temporary.unlink()
        raise


def refuse_there(path: Path, force: bool) -> None:
    """Refuse to replace an existing file without `force`, or a folder."""
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; name a file to write.")
    if path.exists() and not force:
        raise ConfigError(f"{path}: already exists; choose another file, or replace it with --force.")


def refuse_input(output: Path, inputs: Iterable[Path]) -> None:
    """Refuse to overwrite an input; a ConfigError if the file to write is one of the files to read."""
    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            raise ConfigError(f"{output}: is read as {path} and would be lost; name another file to write.")


def sha256_text(text: str) -> str:
    """Return the hex sha256 of the text's UTF-8 bytes."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def sha256_json(value: Any) -> str:
    """Return the hex sha256 of the canonical JSON of `value`."""
    return sha256_text(canonical_json(value))


def sha256_file(path: Path) -> str:
    """Return the hex sha256 of a file's bytes; a DataError if the file cannot be read."""
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {reason(error)}.") from error


# --- writing that survives a crash -----------------------------------------------------------------------------------


def flush_to_disk(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, would survive a power cut.

    Raises:
        OSError: It cannot be written to disk.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing_folder(folder: Path, flush: bool = True) -> Iterator[Path]:
    """Yield a new folder beside `folder` to fill; flushed to disk, it takes its place if the block succeeds.

    The real name never refers to a half-written folder. Leftovers of a killed process are removed by the next call, and
    `restore_folder` undoes a replacement that was interrupted between its two renames.

    Args:
        flush: Whether to flush each file; not needed if a manifest's hashes show damage, and slow for 100,000 files.

    Raises:
        OSError: It cannot be written; the old folder is unchanged, and nothing is left behind.
    """
    restore_folder(folder)
    new, previous = _beside(folder, "new"), _beside(folder, "previous")
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        yield new
        for path in (*new.rglob("*"), new) if flush else ():
            if not path.is_symlink():
                flush_to_disk(path)
        shutil.rmtree(previous, ignore_errors=True)
        for attempt in ("first", "last"):
            if folder.exists():
                os.replace(folder, previous)
            try:
                os.replace(new, folder)
                break
            except OSError:
                # A concurrent reader may have just restored the old folder: try once more.
                if attempt == "last" or not folder.exists():
                    restore_folder(folder)
                    raise
        flush_to_disk(folder.absolute().parent)
        shutil.rmtree(previous, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def restore_folder(folder: Path) -> None:
    """Restore a folder that a crash between the two renames of a replacement left under its temporary name."""
    previous = _beside(folder, "previous")
    if previous.exists() and not folder.exists():
        os.replace(previous, folder)


def _beside(folder: Path, suffix: str) -> Path:
    absolute = folder.absolute()
    return absolute.with_name(f".{absolute.name}.{suffix}")


def reason(error: BaseException) -> str:
    """Return why a write failed: the operating system's words, even if a library's exception hides them."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error).rstrip(".") or type(error).__name__
