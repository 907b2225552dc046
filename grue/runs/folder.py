"""The folder of a run: who holds it, whether it is finished, and whose configuration it is."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grue import files
from grue.errors import ConfigError
from grue.runs.plan import Plan


def finished(plan: Plan) -> bool:
    """Whether the folder holds this very run, finished.

    Raises:
        ConfigError: It holds a run of another configuration.
    """
    log = plan.folder / "train.jsonl"
    if not log.exists() or not (plan.folder / "config.toml").exists():
        return False
    lines = log.read_bytes().rstrip(b"\n").rsplit(b"\n", 1)
    if not lines[-1].startswith(b'{"finished":true'):
        return False
    _refuse_other_configuration(plan)
    return True


def claim_folder(plan: Plan) -> None:
    """Write `config.toml`, or make sure that the one that is there says the same."""
    if (plan.folder / "config.toml").exists():
        _refuse_other_configuration(plan)
    else:
        files.write_toml(plan.folder / "config.toml", plan.record())


@contextmanager
def sole_owner(folder: Path) -> Iterator[None]:
    """Hold the run's folder, so that no second process trains in it; the lock is released on exit.

    Raises:
        ConfigError: Another process holds it.
        DataError: The folder cannot be written.
    """
    refusal = f"{folder}: another process is training here; wait for it, or choose --system NAME."
    with files.sole_owner(folder, refusal):
        yield


def _refuse_other_configuration(plan: Plan) -> None:
    path = plan.folder / "config.toml"
    old, new = _flat(files.read_toml(path)), _flat(plan.record())
    differing = [key for key in sorted(old | new) if old.get(key) != new.get(key)]
    if differing:
        key = differing[0]
        raise ConfigError(
            f"{path}: this folder holds a run with {key} = {old.get(key)!r}, not {new.get(key)!r}"
            f"{f' (and {len(differing) - 1} more differences)' if len(differing) > 1 else ''}. "
            "Choose another --system name for the new configuration, or remove the folder."
        )


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    nested = {f"config.{key}": value for key, value in record.get("config", {}).items() if value is not None}
    return {key: value for key, value in record.items() if key != "config"} | nested
