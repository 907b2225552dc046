"""What a run that learns from a file of scored responses has learned from: the file's reward, or its judge.

Such a run asks its own reward (`--reward`) in validation alone, and A-LoL also for V_0; what its responses were
rewarded with is what the file's header states. A file without a header does not say: the reward is then unknown, "",
as in a header of pairs whose source did not say.
"""

from pathlib import Path

from grue.data.pairs import PairsHeader
from grue.data.scored import read_header
from grue.data.scored_lines import Header, ScoredHeader
from grue.errors import ConfigError, DataError
from grue.evaluation import reward_models
from grue.lm.reward_folder import read_reward_manifest
from grue.metrics.card import MODEL
from grue.rl.settings import Common, ScoredConfig
from grue.tasks import Task

UNKNOWN = ""


def data_of(config: Common) -> Path | None:
    """Return the file of scored responses that settings name; None where they name none."""
    return Path(config.data) if isinstance(config, ScoredConfig) and config.data is not None else None


def reward_of(made: Header | None) -> str:
    """Return what the responses of a file were rewarded with, "people" if people judged them; "" if it is unknown."""
    if made is None:
        return UNKNOWN
    return made.judge if isinstance(made, PairsHeader) else made.reward


def reward_label(reward: str) -> str:
    """Return what a run learned from, for people to read."""
    return reward or "unknown: that of a file"


def models_of(made: Header | None) -> list[reward_models.Recorded]:
    """Return what is known of the reward models behind a file, as `reward_models.recorded` has it.

    A header states their sha256; judge and split are those of the folder, if that is here and still is that model.
    """
    stated = made.reward_models if isinstance(made, ScoredHeader) else {}
    return [_model(name, sha256) for name, sha256 in stated.items()]


def _model(name: str, sha256: str) -> reward_models.Recorded:
    known = {"name": name, "sha256": sha256}
    try:
        manifest = read_reward_manifest(Path(name.removeprefix(MODEL)))
    except DataError:
        return known  # of another machine: submissions are told that judge and split are not stated
    same = manifest.sha256 == sha256
    return known | ({"judge": manifest.judge, "split": manifest.split} if same else {})


def check_reward_of_data(config: Common, reward: str, task: Task) -> None:
    """Refuse a file that is not there, or whose rewards are compared with those of another reward.

    Raises:
        ConfigError: A method that fits V_0 to the run's reward would subtract it from rewards of another.
        DataError: The file cannot be read.
    """
    path = data_of(config)
    if path is None:
        return
    made = read_header(path)
    assert isinstance(config, ScoredConfig)
    if made is None or not config.draws_beside_data:
        return
    theirs = {one["name"]: one["sha256"] for one in models_of(made)}
    ours = {one["name"]: one["sha256"] for one in reward_models.recorded(reward, task)}
    if reward_of(made) != reward or theirs != ours:
        raise ConfigError(
            f"{path}: its responses were rewarded with {reward_of(made)!r}, and this run's V_0 would be fitted to "
            f"{reward!r}{', another model' if reward_of(made) == reward else ''}; set --reward to the file's, or take "
            "a file of this one."
        )
