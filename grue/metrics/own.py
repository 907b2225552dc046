"""Functions that a user wrote, `module:function`, as rewards and as metrics.

Such a function takes (examples, texts) and returns one number per text, the higher the better.
"""

import dis
import hashlib
import importlib
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal

from grue.errors import ConfigError, DataError, GrueError, TrainingError, did_you_mean
from grue.metrics.metric import Average, MetricFactory
from grue.records import Example

TextFunction = Callable[[Sequence[Example], Sequence[str]], Sequence[float]]
Checked = Callable[[Sequence[Example], Sequence[str]], list[float]]
Noun = Literal["reward", "metric", "loss"]

ERRORS: dict[Noun, type[GrueError]] = {"reward": TrainingError, "metric": DataError, "loss": ConfigError}

EXECUTED: dict[ModuleType, str] = {}
"""Imported module → sha256 of the file that was executed, which may have changed since; "" without a file."""
ADDED: set[str] = set()
"""Folders that were added to `sys.path`."""


def function_metric(path: str, folders: Sequence[Path] = (), suggestions: Iterable[str] = ()) -> MetricFactory:
    """Return the factory of the metric `path`, "module:function": the mean of what the function returns.

    Its signature has the sha256 of the module's file, so that values of different code can be distinguished. Arguments
    and errors as for `import_from`; a function that is missing, built in or not of two arguments is a ConfigError, too.
    """
    module = import_from(path, "metric", folders, suggestions)
    function = attribute_of(module, path, "metric")
    check_signature("metric", path, function)
    values = checked_values("metric", path, guarded("metric", path, function))
    if not EXECUTED[module]:
        raise ConfigError(f"The metric {path!r}: {module.__name__} is built in; name a function in a file of your own.")
    signature = f"{path}|sha256:{EXECUTED[module][:16]}|corpus:mean"
    return lambda: Average(signature, values)


def code_sha256(path: str, noun: str, folders: Sequence[Path] = ()) -> str:
    """Return the sha256 of the file of "module:function", looked up as `import_from` does; "" if it has none."""
    return EXECUTED[import_from(path, noun, folders)]


def import_from(path: str, noun: str, folders: Sequence[Path] = (), suggestions: Iterable[str] = ()) -> ModuleType:
    """Return the module of "module:function", installed, in the working directory or in one of `folders`.

    A file that has changed since it was imported is executed again, for notebooks that rewrite it.

    Args:
        suggestions: Names of metrics, to suggest one if there is no such module.

    Raises:
        ConfigError: There is no such module, importing it fails, or this process has another module of that name.
    """
    module = path.partition(":")[0]
    searched = list(dict.fromkeys(map(str, [Path.cwd(), *(folder.resolve() for folder in folders)])))
    importlib.invalidate_caches()  # the file may be newer than the finders' cache of its folder
    _refuse_namesake(path, noun, searched)
    for folder in searched:
        if folder not in sys.path:
            sys.path.append(folder)  # it stays: a function may import other modules there when it is called
            ADDED.add(folder)
    try:
        return _executed(importlib.import_module(module))
    except ModuleNotFoundError as error:
        if error.name is None or f"{module}.".startswith(f"{error.name}."):
            places = " nor in ".join(searched)
            raise ConfigError(
                f"The {noun} {path!r}: the module {module!r} cannot be imported: it is not installed, nor in {places}."
                f"{did_you_mean(path, suggestions)}"
            ) from error
        raise ConfigError(f"The {noun} {path!r}: {module} needs the module {error.name!r}; install it.") from error
    except Exception as error:
        raise ConfigError(f"The {noun} {path!r}: importing {module} fails: {_described(error)}.") from error


def _executed(module: ModuleType) -> ModuleType:
    """Return a module, executed again if its file has changed, and record the sha256 of what was executed."""
    source = getattr(module, "__file__", None)
    text = Path(source).read_bytes() if source is not None else b""
    sha256 = hashlib.sha256(text).hexdigest() if source is not None else ""
    if EXECUTED.setdefault(module, sha256) != sha256:
        exec(compile(text, str(source), "exec"), vars(module))  # `reload` may miss an edit within the same second
        EXECUTED[module] = sha256
    return module


def _refuse_namesake(path: str, noun: str, searched: Sequence[str]) -> None:
    """Raise a ConfigError if two modules have that name: in the searched folders, or imported, say of another task."""
    package = path.partition(":")[0].partition(".")[0]
    installed = [folder for folder in sys.path if folder not in ADDED]
    origins = [getattr(PathFinder.find_spec(package, [folder]), "origin", None) for folder in searched]
    found = list(dict.fromkeys(Path(origin).resolve() for origin in origins if origin))  # a link is no other file
    elsewhere = [folder for folder in installed if folder and folder not in searched]  # `python -m` adds "", the cwd
    if len(found) > 1 and PathFinder.find_spec(package, elsewhere) is None:
        raise ConfigError(f"The {noun} {path!r}: is it of {found[0]} or of {found[1]}? Rename one of the files.")
    expected = getattr(PathFinder.find_spec(package, [*installed, *searched]), "origin", None)
    imported = getattr(sys.modules.get(package), "__file__", None)
    if expected and imported and Path(expected).resolve() != Path(imported).resolve():
        raise ConfigError(
            f"The {noun} {path!r}: this process has imported {imported} as {package!r}, so it cannot import "
            f"{expected}. Rename one of the files, or use them in separate processes."
        )


def attribute_of(module: ModuleType, path: str, noun: Noun) -> TextFunction:
    """Return the function of "module:function"; a ConfigError if the module has none of that name."""
    attribute = path.partition(":")[2]
    function: TextFunction | None = getattr(module, attribute, None)
    if not callable(function):
        close = did_you_mean(attribute, [name for name, thing in vars(module).items() if callable(thing)])
        where = getattr(module, "__file__", None) or "built in"
        raise ConfigError(
            f"The {noun} {path!r}: {module.__name__} has no function {attribute!r}.{close} The module is {where}."
        )
    return function


def check_signature(noun: Noun, name: str, function: Callable[..., Any], keywords: Iterable[str] = ()) -> None:
    """Raise a ConfigError if a user's function cannot be called with (examples, texts) and these keywords."""
    try:
        inspect.signature(function).bind((), (), **dict.fromkeys(keywords))
    except TypeError as error:
        raise ConfigError(f"The {noun} {name!r} must be a function of (examples, texts): {error}.") from error
    except ValueError:
        pass  # a function without a signature, such as some written in C


def guarded(noun: Noun, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` so that what it raises becomes a GrueError that names the example.

    It takes (examples, texts), and as keywords further sequences with an entry for each text. `function` gets copies,
    so that changing them has no effect elsewhere.
    """

    def guard(examples: Sequence[Example], texts: Sequence[str], **more: Sequence[Any]) -> Any:
        try:
            return function([*examples], [*texts], **{key: [*map(copy, values)] for key, values in more.items()})
        except GrueError:
            raise
        except Exception as error:
            culprit, cause = f"a batch of {len(texts)} texts, but for none of them alone", error
            for place, (example, text) in enumerate(zip(examples, texts, strict=True)):
                try:
                    function([example], [text], **{key: [values[place]] for key, values in more.items()})
                except Exception as alone:
                    culprit, cause = f"the example {example.id!r}; the text was {text[:80]!r}", alone
                    break
            raise ERRORS[noun](f"The {noun} {name!r} raised {_described(cause)} for {culprit}.") from cause

    return guard


def checked_values(noun: Noun, name: str, function: TextFunction) -> Checked:
    """Return `function` with its values checked: one per text, each a finite number; errors are those of `noun`."""

    def check(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        values = function(examples, texts)
        check_count(noun, name, values, len(texts))
        for example, text, value in zip(examples, texts, values, strict=True):
            if not is_finite(value):
                raise ERRORS[noun](
                    f"The {noun} {name!r} gave {value!r} for the example {example.id!r}; "
                    f"a {noun} must be a finite number. The text was {text[:80]!r}."
                )
        return [float(value) for value in values]

    return check


def check_count(noun: Noun, name: str, values: Any, texts: int) -> None:
    """Check that there are as many values as texts; errors are those of `noun`."""
    if not hasattr(values, "__len__") or len(values) != texts:
        returned = f"{len(values)} values" if hasattr(values, "__len__") else f"{values!r}"
        raise ERRORS[noun](f"The {noun} {name!r} gave {returned} for {texts} texts; return one number per text.")


def is_finite(value: Any) -> bool:
    """Whether something is a number, and neither NaN nor infinite."""
    try:
        return not isinstance(value, str) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last two: a tensor of several numbers
        return False


NO_SOURCE = (AttributeError, OSError, TypeError, ValueError)
"""What `source_of` raises if a function's source or values cannot be read."""


def source_of(function: Callable[..., Any]) -> list[Any]:
    """Return what distinguishes a function from another of its name: source, captured values, and the globals it reads.

    The functions it calls are not covered. It raises one of `NO_SOURCE` if these cannot be read.
    """
    plain = inspect.unwrap(function)
    code = plain.__code__  # only a plain function has code
    text = [inspect.getsource(code), [columns for _, _, *columns in code.co_positions()]]  # a line may hold several
    captured = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    bound = [getattr(function, key, None) for key in ("__self__", "__defaults__", "__kwdefaults__")]
    values = {key: value for key, value in _globals(plain).items() if isinstance(value, int | float | str)}
    return [text, captured, bound, values]


def sources_of(functions: Iterable[Callable[..., Any]]) -> dict[str, list[Any]]:
    """Return `source_of` of functions and of the functions of their own modules that they call, by module and name.

    Of a `partial`, the arguments it sets count, too.
    """
    sources, seen, pending = dict[str, list[Any]](), set[Any](), list(functions)
    while pending:
        function = pending.pop()
        if function in seen:  # not by name: all lambdas of a module share one
            continue
        seen.add(function)
        if isinstance(function, partial):
            inner, source = function.func, [function.args, function.keywords]
            pending.append(inner)
        elif function.__module__.partition(".")[0] == "grue":
            continue
        else:
            inner, source = function, source_of(function)
            called = _globals(inspect.unwrap(function)).values()
            pending += [
                value for value in called if inspect.isfunction(value) and value.__module__ == function.__module__
            ]
        sources.setdefault(f"{inner.__module__}:{inner.__qualname__}", []).append(source)
    return sources


def _globals(function: Any) -> dict[str, Any]:
    """Return the global variables that a function reads and never sets."""

    def used(code: CodeType, operation: str) -> set[str]:
        direct = {instruction.argval for instruction in dis.get_instructions(code) if instruction.opname == operation}
        return direct.union(*(used(inner, operation) for inner in code.co_consts if isinstance(inner, CodeType)))

    names = used(function.__code__, "LOAD_GLOBAL") - used(function.__code__, "STORE_GLOBAL")
    return {name: function.__globals__.get(name) for name in sorted(names)}


def _described(error: BaseException) -> str:
    """Return an exception on one line: its class, its message and the line of code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
