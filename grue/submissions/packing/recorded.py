"""What a run's folder records of its configuration, as what a submission carries; see `configuration`."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from grue import files
from grue.errors import ConfigError
from grue.lm.checkpoint import MANIFEST, CheckpointManifest, run_of
from grue.records import Result, with_backbone
from grue.submissions.configuration import Configuration, Stage, demands, names_of_stages
from grue.submissions.folder import read_declared
from grue.task_files import SUITES, load_task, task_names


def configuration_of_run(folder: Path, result: Result) -> tuple[Configuration | None, str]:
    """Return the configuration of the run that `result` in a folder is of, or why it cannot be submitted.

    Both are nothing for what was not trained, or not on a task of a board.
    """
    recorded = result.system.get("config_sha256")
    on_board = result.suite in SUITES and result.task in task_names(result.suite)
    if result.status == "failed" or not isinstance(recorded, str) or not on_board:
        return None, ""
    folder = run_of(folder)
    path = folder / "config.toml"
    if not path.is_file():
        return None, f"{folder} has no config.toml"
    record = files.read_toml(path)
    if record.get("data_dir"):
        return None, f"{folder} was trained on a folder of this machine (--data-dir)"
    stage, task = stage_of(record, str(path)), load_task(result.task, result.suite)
    for why in demands(Configuration(1, (stage,)), task):
        return None, f"{folder}: {why.rstrip('.')}"
    stages: tuple[Stage, ...] = ()
    if record.get("init_sha256"):
        other = None if stage.backbone == task.backbone.model else stage.backbone
        first = _first_stage(folder.absolute(), record, other)
        if first is None:
            return None, f"{folder} began from a checkpoint whose run is not beside it"
        stages = (first,)
    last = as_recorded(record, recorded)
    if last is None:
        return None, f"{path} does not have the hash that the result records"
    return Configuration(1, (*stages, last)), ""


def _first_stage(folder: Path, record: Mapping[str, Any], backbone: str | None) -> Stage | None:
    """Return the supervised run that a run began from, where `grue train` puts it; None if that is not there.

    Args:
        backbone: The model that both began from, if it is not the task's.
    """
    first, *chain = names_of_stages(record["algorithm"])
    own, named = (folder.parent.parent / name / folder.name for name in (first, with_backbone(first, backbone)))
    beside = named if named.is_dir() else own
    path = beside / "checkpoint" / MANIFEST
    if not chain or not path.is_file() or not (beside / "config.toml").is_file():
        return None
    manifest, start = files.load_json(path, CheckpointManifest), files.read_toml(beside / "config.toml")
    if manifest.weights != record["init_sha256"] or start.get("init_sha256") or start.get("data_dir"):
        return None
    stage_of(start, str(beside / "config.toml"))
    return as_recorded(start, manifest.config_sha256) or stage_of(_with_all_settings(start))


def as_recorded(record: Mapping[str, Any], sha256: str) -> Stage | None:
    """Return the stage that a record tells of, with the settings that are turned off; None if its hash is another."""
    from grue.runs.recorded import LATER

    whole = _with_all_settings(record)
    # What a record on disk lacks is turned off, or came later and has the value with which it changes nothing.
    unchanged = {key: value for key, value in whole["config"].items() if key in record["config"] or key not in LATER}
    for config in (whole["config"], unchanged):
        if files.sha256_json({**whole, "config": config}) == sha256:
            return stage_of({**whole, "config": config})
    return None


def _with_all_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the settings that it does not name: turned off if they can be, else their defaults."""
    from grue.runs.algorithms import find_card
    from grue.runs.recorded import effective_settings

    settings = find_card(record["algorithm"].split("+")[-1]).settings
    optional = {name for name, hint in get_type_hints(settings).items() if type(None) in get_args(hint)}
    defaults = {field.name: None if field.name in optional else field.default for field in fields(settings)}
    return {**record, "config": effective_settings({**defaults, **record["config"]})}


def stage_of(record: Mapping[str, Any], where: str = "config.toml") -> Stage:
    """Return the stage that a record tells of, as it is; a ConfigError names `where` it is from if it is none."""
    return read_declared(Stage, record, where, ConfigError)
