"""The folder of a run: whether it is finished, and which run and configuration it belongs to.

Until a run is finished, the file `run_id` distinguishes it from another run of the same configuration: it holds an id
that is drawn at the run's start and repeated in its states.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from grue import claims, files
from grue.errors import DataError
from grue.lm.checkpoint import RUN_ID
from grue.runs import log
from grue.runs.plan import Plan

CONFIG = "config.toml"


def finished(plan: Plan) -> bool:
    """Whether the folder holds this very run, finished.

    Raises:
        ConfigError: It holds a run of another configuration.
        DataError: It holds a finished run whose configuration is missing, or whose log was cut.
    """
    path = plan.folder / log.NAME
    if not path.exists():
        return False
    *_, last = path.read_bytes().splitlines(keepends=True) or [b""]
    if not last.startswith(b'{"finished":true'):
        return False
    if not last.endswith(b"\n"):
        if (plan.folder / RUN_ID).exists():
            return False  # killed while writing the line
        raise DataError(f"{path}: its last line was cut. Restore the file, or remove the folder to train again.")
    if not (plan.folder / CONFIG).exists():
        raise DataError(
            f"{plan.folder}: holds a finished run without its {CONFIG}. Restore the file, or remove the folder to "
            "train again."
        )
    _refuse_other_configuration(plan, plan.record())
    return True


def claim_folder(plan: Plan, record: Mapping[str, Any] | None = None) -> None:
    """Write `config.toml`, or check that the existing one says the same; `record` is `Plan.record`, if it is known."""
    record = plan.record() if record is None else record
    if (plan.folder / CONFIG).exists():
        _refuse_other_configuration(plan, record)
    else:
        files.write_toml(plan.folder / CONFIG, record)


def owner_of(plan: Plan, configuration: str) -> dict[str, str | int]:
    """Return what identifies the run that a state belongs to: its folder, its configuration's hash and its id.

    Raises:
        DataError: The folder's run id cannot be read.
    """
    path = plan.folder / RUN_ID
    return {
        "task": f"{plan.task.suite}/{plan.task.name}",
        "system": plan.system,
        "seed": plan.seed,
        "configuration": configuration,
        "run id": files.read_text(path).strip() if path.exists() else "",
    }


def begin(plan: Plan) -> None:
    """Write a new id for the run that begins in the folder."""
    files.write_text(plan.folder / RUN_ID, f"{secrets.token_hex(16)}\n")


def _refuse_other_configuration(plan: Plan, record: Mapping[str, Any]) -> None:
    path = plan.folder / CONFIG
    saved = files.read_toml(path)
    cure = (
        "Give the new configuration a name of its own (--system) or another folder of runs, as a warm start needs, or "
        "remove this one."
    )
    claims.refuse_other(path, "a run", saved, {**dict.fromkeys(saved), **files.plain(record)}, cure)
