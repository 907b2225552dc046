"""Dataclasses as the schema of files: pydantic reads plain data into them strictly, and gives their JSON Schema.

A key that a dataclass does not declare is refused, with its place and the nearest known spelling; all faults of a file
are reported at once.
"""

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from grue.bounds import LARGEST, bounds_of
from grue.errors import ConfigError, GrueError, did_you_mean, instead, visible

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails, SchemaValidator

T = TypeVar("T")

MOST_FAULTS = 10  # named in one message
LATER: Mapping[str, Any] = {"later": True}
"""Metadata of a field that was added later: files leave it out if it has its default, so that older files keep their
bytes and hashes."""
UNKNOWN = "unexpected_keyword_argument"
OUT_OF_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
TYPE_NAMES = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", Any: "a value"}


def from_dict(cls: type[T], data: Mapping[str, Any], where: str, error: type[GrueError] = ConfigError) -> T:
    """Build the dataclass `cls` from plain data, refusing keys that it does not declare.

    Args:
        cls: A dataclass of scalars, Literals, tuples, mappings and further dataclasses.
        data: Its values by name; keys with a default may be missing.
        where: The file (and table) of the data, for messages.
        error: The class to raise.

    Raises:
        ConfigError: Unknown or missing keys, or values of the wrong type or out of bounds; names each, with the
            nearest spelling.
    """
    from pydantic_core import ValidationError

    wrapped = [dict(data) if isinstance(data, Mapping) else data]
    try:
        return cast(T, _validator(cast(Any, cls)).validate_python(wrapped)[0])
    except ValidationError as refusal:
        errors = refusal.errors(include_url=False, include_context=True, include_input=False)
        errors.sort(key=lambda fault: fault["type"] != UNKNOWN)  # a misspelled key explains a missing one
        faults = list(dict.fromkeys(f"{where}{_fault(cls, wrapped[0], fault)}" for fault in errors))
        left = len(faults) - MOST_FAULTS
        more = [f"{where}: {left} more fault{'s' if left > 1 else ''}."] if left > 0 else []
        raise error("\n".join([*faults[:MOST_FAULTS], *more])) from None


@cache
def _adapter(cls: type) -> "TypeAdapter[Any]":
    from pydantic import ConfigDict, TypeAdapter  # slow to import, and not every command reads a file

    # The configuration is set on a list, from which its parts inherit it: a dataclass accepts none here.
    return TypeAdapter(list[cls], config=ConfigDict(extra="forbid", allow_inf_nan=False))  # type: ignore[valid-type]


@cache
def _validator(cls: type) -> "SchemaValidator":
    from pydantic_core import SchemaValidator

    return SchemaValidator(_strict(_adapter(cls).core_schema))


def _strict(schema: Any) -> Any:
    """Return a schema of pydantic that does not convert numbers, texts and truth values.

    A strict schema as a whole would refuse a list for a tuple and a table for a dataclass. Keys of tables are texts in
    every file and are converted to the declared type.
    """
    if isinstance(schema, dict):
        inner = {key: part if key == "keys_schema" else _strict(part) for key, part in schema.items()}
        if schema.get("type") == "literal" and {type(choice) for choice in schema["expected"]} == {int}:
            return {"type": "chain", "steps": [{"type": "int", "strict": True}, inner]}  # true is not 1 here
        if schema.get("type") == "tuple":
            return {"type": "function-before", "function": {"type": "no-info", "function": _listed}, "schema": inner}
        return inner | {"strict": True} if schema.get("type") in ("str", "int", "float", "bool") else inner
    return [_strict(part) for part in schema] if isinstance(schema, list) else schema


def _listed(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError("not a list")  # a set has no order
    return value


def _fault(cls: type, data: Any, error: "ErrorDetails") -> str:
    """Return one of pydantic's errors as ": place: fault."."""
    kind, (_, *steps) = error["type"], error["loc"]
    hint, owner, value, place = cast(Any, cls), cls, data, ""
    for depth, step in enumerate(steps):
        last = depth == len(steps) - 1
        if last and kind == UNKNOWN:
            return f"{place}: unknown key {step!r}.{instead(str(step), [f.name for f in _known(hint)])}"
        if last and kind == "missing" and is_dataclass(hint):
            return f"{place}: the key {step!r} is missing."
        if steps[depth + 1 :] == ["[key]"]:
            return f"{place}: {_misfit(get_args(hint)[0], step)}"
        if (last and kind == "missing") or len(_choices(hint)) > 1:
            break
        if is_dataclass(hint):
            owner, hint = cast(Any, hint), _hints(cast(Any, hint))[str(step)]
        else:
            args = get_args(hint)
            hint = args[-1] if isinstance(step, str) else args[0] if args[-1] is Ellipsis else args[step]
        (hint,) = _choices(hint) if len(_choices(hint)) == 1 else (hint,)
        value = value[step]
        key = f"[{_label(value, step)}]" if isinstance(step, int) else f".{visible(step)}"
        place += key if place else f": {key.removeprefix('.')}"
    if kind in OUT_OF_BOUNDS:
        return f"{place}: {_beyond(owner, str(steps[-1]), value, error['ctx'])}"
    return f"{place}: {_misfit(hint, value)}{id_cure(value) if place == ': id' else ''}"


def _label(item: Any, index: int) -> object:
    """Return the label of an item of a list: a score's metric, another item's name, else its index."""
    names = (item.get(key) for key in ("metric", "name")) if isinstance(item, Mapping) else ()
    return next((name for name in names if isinstance(name, str) and name.isprintable()), index)


def _beyond(owner: type, name: str, value: Any, context: Mapping[str, Any]) -> str:
    bounds = bounds_of(owner)[name]
    most = f"at most {LARGEST}" if context.get("le") == LARGEST and value in bounds else bounds
    optional = any(f.name == name and f.default is None for f in _known(owner))
    return f"must be {most}, found {value}{'; or leave it out' if optional else ''}."


def _misfit(hint: Any, value: Any) -> str:
    args = get_args(hint)
    if get_origin(hint) is Literal:
        close = did_you_mean(value, [a for a in args if isinstance(a, str)]) if isinstance(value, str) else ""
        return f"{shown(value)} is not one of {', '.join(map(str, args))}.{close}"
    if get_origin(hint) is tuple and isinstance(value, Sequence) and not isinstance(value, str):
        return f"expected {len(args)} values, found {len(value)}."
    if hint is float and type(value) in (int, float):
        return f"expected a finite number, found {shown(value)}."
    return f"expected {_name(hint)}, found {shown(value)}."


def _name(hint: Any) -> str:
    """Return the name of a type in messages: "a string", "a whole number or a list"."""
    if len(_choices(hint)) > 1:
        return " or ".join(map(_name, _choices(hint)))
    if is_dataclass(hint) or (isinstance(get_origin(hint), type) and issubclass(get_origin(hint), Mapping)):
        return "a table"
    return "a list" if get_origin(hint) is tuple else TYPE_NAMES.get(hint, str(hint))


def _choices(hint: Any) -> list[Any]:
    """Return the types of a union except None, or the type itself."""
    args = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return [arg for arg in args if arg is not types.NoneType]


def _known(cls: Any) -> list[Any]:
    return [f for f in fields(cls) if f.init]


_hints = cache(get_type_hints)


def id_cure(value: Any) -> str:
    """Return the end of a message about a record's id that is a number; "" for any other."""
    return f' Write the id as a string, such as "{value:.0f}".' if type(value) in (int, float) else ""


def shown(value: Any) -> str:
    """Return type and value for a message, null for None; the value is cut to 80 characters."""
    if value is None:
        return "null"
    try:
        text = repr(value)
    except RecursionError:
        text = "that nests too deeply"
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:79] + '…'}"


def json_schema(cls: type) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of what `from_dict` accepts for the dataclass `cls`."""
    generated = _adapter(cls).json_schema()
    parts = generated.get("$defs", {})

    def inlined(schema: Any) -> Any:
        if isinstance(schema, list):
            return [inlined(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        whole = {**parts[schema["$ref"].rpartition("/")[2]], **schema} if "$ref" in schema else schema
        left_out = {"$ref"} | ({"title"} if isinstance(whole.get("title"), str) else set())
        return {key: inlined(part) for key, part in whole.items() if key not in left_out}

    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": cls.__name__}
    return {**head, **inlined(generated["items"])}
