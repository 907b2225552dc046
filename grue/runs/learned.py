"""The reward behind a file of scored responses: what a run that trains on the file has learned from.

Such a run uses its own reward (`--reward`) only in validation, and to fit V_0 (A-LoL, `dapo_advantage`); the file's
header states the reward of its responses. Without a header, or in a header of pairs whose source did not say, the
reward is unknown, "".
"""

from contextlib import suppress
from pathlib import Path

from grue.data.pairs import PairsHeader
from grue.data.scored import read_header
from grue.data.scored_lines import Header, ScoredHeader
from grue.errors import ConfigError, DataError
from grue.evaluation import reward_models
from grue.lm.reward_folder import read_reward_manifest
from grue.metrics.card import MODEL
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import Common
from grue.tasks import Task

UNKNOWN = ""


def data_of(config: Common) -> Path | None:
    """Return the file of scored responses that settings name; None where they name none."""
    return Path(config.data) if isinstance(config, ScoredConfig) and config.data is not None else None


def reward_of(header: Header | None) -> str:
    """Return what the responses of a file were rewarded with, "people" if people judged them; "" if it is unknown."""
    if header is None:
        return UNKNOWN
    return header.judge if isinstance(header, PairsHeader) else header.reward


def reward_label(reward: str) -> str:
    """Return what a run learned from, for people to read."""
    return reward or "unknown: that of a file"


def models_of(header: Header | None) -> list[reward_models.Recorded]:
    """Return what is known of the reward models behind a file, in the form of `reward_models.recorded`.

    A header states their sha256; judge and split are read from the model's folder, if that still holds the same model.
    """
    models = []
    for name, sha256 in (header.reward_models if isinstance(header, ScoredHeader) else {}).items():
        recorded = {"name": name, "sha256": sha256}
        with suppress(DataError):  # trained elsewhere; a submission then reports that judge and split are not stated
            manifest = read_reward_manifest(Path(name.removeprefix(MODEL)))
            if manifest.sha256 == sha256:
                recorded |= {"judge": manifest.judge, "split": manifest.split}
        models.append(recorded)
    return models


def check_reward_of_data(config: Common, reward: str, task: Task) -> None:
    """Refuse a file that is not there, or whose rewards are compared with those of another reward.

    Raises:
        ConfigError: A method that fits V_0 to the run's reward would subtract it from values of another reward.
        DataError: The file cannot be read.
    """
    path = data_of(config)
    if path is None:
        return
    header = read_header(path)
    assert isinstance(config, ScoredConfig)
    if header is None or not config.draws_beside_data:
        return
    theirs = {model["name"]: model["sha256"] for model in models_of(header)}
    ours = {model["name"]: model["sha256"] for model in reward_models.recorded(reward, task)}
    of_file = reward_of(header)
    if of_file != reward or theirs != ours:
        raise ConfigError(
            f"{path}: its responses were rewarded with {of_file!r}, and this run's V_0 would be fitted to "
            f"{reward!r}{', another model' if of_file == reward else ''}; set --reward to the file's, or take a file "
            "of this one."
        )
