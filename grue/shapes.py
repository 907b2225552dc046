"""Dataclasses as the schema of files: plain data read into them strictly, and their JSON Schema.

A key that a dataclass does not declare is refused, with its place and the nearest known spelling.
"""

import math
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from grue.errors import ConfigError, did_you_mean, instead

T = TypeVar("T")

MOST_FAULTS = 10  # named in one message
LATER: Mapping[str, Any] = {"later": True}
"""Metadata of a field that came later: files leave it out where it has its default, so that older ones keep bytes and
hashes."""


def from_dict(cls: type[T], data: Mapping[str, Any], where: str) -> T:
    """Build the dataclass `cls` from plain data, refusing what it does not declare.

    Args:
        cls: A dataclass of scalars, Literals, tuples, mappings and further dataclasses.
        data: Its values by name; keys with a default may be missing.
        where: The file (and table) that the data is from, for messages.

    Raises:
        ConfigError: Unknown or missing keys, or values of the wrong type; names each, with the nearest spelling.
    """
    try:
        return cast(T, _reader(cast(Any, cls))(data))
    except _Misfit as misfit:
        lines = [f"{where}{place}: {why}" for place, why in misfit.faults]
        more = [f"{where}: {len(lines) - MOST_FAULTS} more faults."] if len(lines) > MOST_FAULTS else []
        raise ConfigError("\n".join([*lines[:MOST_FAULTS], *more])) from None


class _Misfit(Exception):
    """Values of the wrong type; their places are built from the inside outwards while the error is raised.

    Attributes:
        faults: (place, what is wrong there).
    """

    def __init__(self, why: str = "", faults: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(why)
        self.faults = faults or [("", why)]

    def within(self, place: str) -> list[tuple[str, str]]:
        """Return the faults as seen from outside of `place`."""
        return [(place + inner, why) for inner, why in self.faults]


Reader = Callable[[Any], Any]


@cache
def _reader(hint: Any) -> Reader:
    """Return the function that reads plain data into the type `hint`; cached, since boards read a million values."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin in (Union, types.UnionType):
        return _union_reader(args)
    if origin is Literal:
        return _literal_reader(args)
    if is_dataclass(hint):
        return _dataclass_reader(cast(type, hint))
    if origin is tuple:
        return _tuple_reader(args)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_reader(args[1])
    return _read_float if hint is float else _plain_reader(hint)


def _dataclass_reader(cls: type) -> Reader:
    hints = get_type_hints(cls)
    known = {f.name: f for f in fields(cast(Any, cls)) if f.init}
    readers = {name: (_kind(hints[name]), _reader(hints[name])) for name in known}
    required = [name for name, f in known.items() if f.default is MISSING and f.default_factory is MISSING]

    def read(data: Any) -> Any:
        if type(data) is not dict and not isinstance(data, Mapping):
            raise _Misfit(f"expected a table, found {shown(data)}.")
        faults: list[tuple[str, str]] = []
        if data.keys() != readers.keys():
            faults += [("", f"unknown key {key!r}.{instead(key, readers)}") for key in data if key not in readers]
            faults += [("", f"the key {name!r} is missing.") for name in required if name not in data]
        values = {}
        for key, value in data.items():
            if key not in readers:
                continue
            kind, read_value = readers[key]
            try:
                values[key] = value if type(value) is kind else read_value(value)
            except _Misfit as misfit:
                faults += misfit.within(f": {key}")
        if faults:
            raise _Misfit(faults=faults)
        return cls(**values)

    return read


def _kind(hint: Any) -> Any:
    """Return the type whose values need no reader, as most do; None if all values of the hint need one."""
    return hint if hint in (str, int, bool) else None


def _mapping_reader(hint: Any) -> Reader:
    kind, read_item = _kind(hint), _reader(hint)

    def read(value: Any) -> Any:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise _Misfit(f"expected a table, found {shown(value)}.")
        if hint is Any:
            return dict(value)
        items, faults = {}, []
        for key, item in value.items():
            try:
                items[key] = item if type(item) is kind else read_item(item)
            except _Misfit as misfit:
                faults += misfit.within(f".{key}")
        if faults:
            raise _Misfit(faults=faults)
        return items

    return read


def _tuple_reader(args: tuple[Any, ...]) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _Misfit(f"expected a list, found {shown(value)}.")
        hints = (args[0],) * len(value) if args[-1] is Ellipsis else args
        if len(hints) != len(value):
            raise _Misfit(f"expected {len(hints)} values, found {len(value)}.")
        items: list[Any] = []
        faults: list[tuple[str, str]] = []
        for place, (hint, item) in enumerate(zip(hints, value, strict=True)):
            try:
                items.append(_reader(hint)(item))
            except _Misfit as misfit:
                faults += misfit.within(f"[{place}]")
        if faults:
            raise _Misfit(faults=faults)
        return tuple(items)

    return read


def _literal_reader(args: tuple[Any, ...]) -> Reader:
    known = {(type(arg), arg) for arg in args}  # True is not 1 here

    def read(value: Any) -> Any:
        if isinstance(value, list | dict) or (type(value), value) not in known:
            close = did_you_mean(value, [a for a in args if isinstance(a, str)]) if isinstance(value, str) else ""
            raise _Misfit(f"{shown(value)} is not one of {', '.join(map(str, args))}.{close}")
        return value

    return read


def _union_reader(choices: tuple[Any, ...]) -> Reader:
    some = [choice for choice in choices if choice is not type(None)]
    readers = [_reader(choice) for choice in some]

    def read(value: Any) -> Any:
        if value is None and len(some) < len(choices):
            return None
        if len(readers) == 1:
            return readers[0](value)
        for read_choice in readers:
            try:
                return read_choice(value)
            except _Misfit:
                continue
        raise _Misfit(f"expected {' or '.join(map(_type_name, some))}, found {shown(value)}.")

    return read


def _plain_reader(hint: Any) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not hint:
            raise _Misfit(f"expected {_type_name(hint)}, found {shown(value)}.")
        return value

    return read


def _read_float(value: Any) -> float:
    if type(value) is float and -math.inf < value < math.inf:
        return value
    if type(value) not in (int, float):
        raise _Misfit(f"expected a number, found {shown(value)}.")
    with suppress(OverflowError):  # an integer beyond a float's range
        if math.isfinite(value):
            return float(value)
    raise _Misfit(f"expected a finite number, found {shown(value)}.")


def id_cure(record: Mapping[str, Any]) -> str:
    """Return what to do where a record's id is a number; a message ends with it. Empty for any other."""
    given = record.get("id")
    return f' Write the id as a string, such as "{given:.0f}".' if type(given) in (int, float) else ""


def _type_name(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return "a list"
    return {"str": "a string", "int": "a whole number", "float": "a number", "bool": "true or false"}.get(
        getattr(hint, "__name__", ""), str(hint)
    )


def shown(value: Any) -> str:
    """Return type and value for a message, JSON's word for nothing; the value is cut to 80 characters."""
    if value is None:
        return "null"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:79] + '…'}"


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
