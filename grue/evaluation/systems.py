"""Systems to evaluate: a checkpoint of GRUE, a model made elsewhere, one behind an address, or a baseline."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue import files
from grue.errors import ConfigError, UnknownName, instead
from grue.evaluation import reward_models
from grue.evaluation.best_of import BestOf
from grue.evaluation.endpoint import Endpoint, checked
from grue.evaluation.prompting import CHAT, ENDPOINT, chat_prompt, require_shots
from grue.lm import checkpoint
from grue.lm.chat import chat_template
from grue.lm.device import scoring_device
from grue.lm.load import LoadedModel, family_of, load_language_model, weights_id
from grue.lookups.find import find_lookup
from grue.records import BASELINES, EXTERNAL, LAST, LOOKUPS, SYSTEM_NAME, UNFINISHED, check_system_name, model_word
from grue.tasks import Family, Task

LONGEST_MODEL = 40  # characters of a model's name in its system's name


@dataclass(frozen=True, slots=True)
class System:
    """A system to evaluate.

    Attributes:
        record: Its description in the result.
        seed: The seed that it was trained with, and that its sampling draws from.
        weights: sha256 of the weights, so that predictions of other weights are not mistaken for its own.
        best_of: How it picks one of several samples; None if it decodes as the task says.
        chat: Whether it gets the task's chat prompt.
        shots: Whether it is shown examples of the training split before each prompt.
        endpoint: Its address if it answers elsewhere; it then has no model and no weights.
        prompting: A result's record of its chat prompt or examples, once it is known.
    """

    name: str
    record: Mapping[str, Any]
    seed: int
    weights: str
    model: PreTrainedModel | None = None
    tokenizer: PreTrainedTokenizerBase | None = None
    best_of: BestOf | None = None
    chat: bool = False
    shots: bool = False
    endpoint: Endpoint | None = None
    prompting: Mapping[str, Any] | None = None


def checkpoint_system(task: Task, folder: Path) -> System:
    """Return the system of a checkpoint of GRUE; for the last of a run that keeps its best, this is NAME+last.

    Raises:
        DataError: It is not a checkpoint, is damaged, or belongs to another task.
    """
    manifest = checkpoint.read_manifest(folder)
    checkpoint.check_task(manifest, folder, task)
    family = family_of(str(folder))
    model, tokenizer = _load(family, str(folder))
    name = f"{manifest.system}{LAST}" if manifest.kept == "final" else manifest.system
    record = {
        "name": name,
        "algorithm": manifest.algorithm,
        "backbone": manifest.backbone,
        "parameters": sum(p.numel() for p in model.parameters()),
        "training": dict(manifest.training),
        "update": manifest.update,
        "validation": dict(manifest.validation),
        "config_sha256": manifest.config_sha256,
    }
    record |= _family(family, task)
    if manifest.kept != "best":
        record["kept"] = "last"
    if manifest.start:
        record["start"] = manifest.start
    if manifest.machine:
        record["machine"] = manifest.machine
    if last := checkpoint.last_of_run(folder, manifest):
        training = dict(last.training)
        record["last"] = {"update": last.update, "validation": dict(last.validation), "training": training}
    if checkpoint.is_unfinished(folder):
        record[UNFINISHED] = True
    if (reward := _reward_of(folder, manifest)) is not None:
        record["reward"] = reward
    if models := _reward_models_of(folder, manifest, reward):
        record["reward_models"] = models
    return System(name, record, manifest.seed, manifest.weights, model, tokenizer)


def _reward_of(folder: Path, manifest: checkpoint.CheckpointManifest) -> str | None:
    """Return the reward that a checkpoint in its run's folder was trained on, "" for none; None if it is unknown.

    A run that learned from a file without a stated reward records "".

    Raises:
        DataError: The run's configuration cannot be read.
    """
    if manifest.algorithm == "supervised":
        return ""
    reward = _configuration(folder, manifest).get("reward")
    return reward if isinstance(reward, str) and reward else None


def _reward_models_of(folder: Path, manifest: checkpoint.CheckpointManifest, reward: str | None) -> Any:
    """Return the reward models that a checkpoint's run recorded; None if there are none."""
    return _configuration(folder, manifest).get("reward_models") if reward else None


def _configuration(folder: Path, manifest: checkpoint.CheckpointManifest) -> dict[str, Any]:
    """Return the configuration of a checkpoint's run if it is beside it, or else {}.

    A checkpoint that was copied to another run has another `config_sha256` than that run's own checkpoints. The
    file itself cannot be hashed here: it lacks the settings that are turned off, whose names only `rl` knows.
    """
    run = folder.resolve().parent
    if not (run / "config.toml").is_file():
        return {}
    config = files.read_toml(run / "config.toml")
    same = all(config.get(key) == getattr(manifest, key) for key in ("suite", "task", "algorithm", "seed"))
    places = [run / name / checkpoint.MANIFEST for name in ("checkpoint", checkpoint.FINAL)]
    own = [files.load_json(place, checkpoint.CheckpointManifest) for place in places if place.is_file()]
    return config if same and all(of_run.config_sha256 == manifest.config_sha256 for of_run in own) else {}


def external_system(
    task: Task, model: str, seed: int, *, chat: bool = False, endpoint: Endpoint | None = None, name: str | None = None
) -> System:
    """Return the system of a model that was made elsewhere.

    Args:
        model: A folder or a hub id; with `endpoint` the model's name at the server.
        chat: Whether a model on this machine gets the task's chat prompt.
        name: Of the system. [default: `external_name`]

    Raises:
        ConfigError: The task has no chat prompt, the tokenizer no chat template, the endpoint or the name is invalid,
            or the endpoint names another model.
        DataError: The model is not available.
    """
    if endpoint is not None and endpoint.model not in ("", model):
        raise ConfigError(f"The endpoint's model is {endpoint.model!r}, and {model!r} is to be evaluated; name one.")
    name = external_name(model, chat=chat, endpoint=endpoint) if name is None else check_name(name)
    if endpoint is not None:
        return _behind_address(task, replace(endpoint, model=model), seed, name)
    return (_asked_by_chat if chat else _as_it_is)(task, model, seed, name)


def external_name(model: str, *, chat: bool = False, endpoint: Endpoint | None = None) -> str:
    """Return the name of the system of a model made elsewhere: the model's, with how it is prompted.

    Raises:
        ConfigError: An endpoint's name for its model cannot be made into one.
    """
    if endpoint is None:
        name = model_word(str(Path(model).resolve()) if Path(model).is_dir() else model)  # "." and ".." are no names
        return f"{name}+{CHAT}" if chat else name
    last = re.sub(r"[^A-Za-z0-9_.+-]+", "-", model.rstrip("/").rpartition("/")[2])
    name = f"{last.lstrip('_.+-')[:LONGEST_MODEL]}+{'completions' if endpoint.completions else CHAT}"
    if not SYSTEM_NAME.fullmatch(name) or name.startswith("+"):
        raise ConfigError(f"The model {model!r} gives no name for the system; name it with --system.")
    return name


def check_name(name: str) -> str:
    """Return the user's name for the system of a model made elsewhere, checked.

    Raises:
        ConfigError: It is invalid, or a baseline's.
    """
    if check_system_name(name) in BASELINES:
        raise ConfigError(f"--system {name}: is the name of a baseline; choose another.")
    return name


def _family(family: Family, task: Task) -> dict[str, str]:
    """Return a result's record of a model's family: nothing if it is that of the task's backbone."""
    return {} if family == task.backbone.family else {"family": family}


def _as_it_is(task: Task, model: str, seed: int, name: str) -> System:
    """Return the system of a Hugging Face model, a folder or a hub id, that answers the plain prompts."""
    return _loaded(task, model, seed, name, family_of(model))


def _loaded(task: Task, model: str, seed: int, name: str, family: Family) -> System:
    loaded, tokenizer = _load(family, model)
    record = {
        "name": name,
        "algorithm": EXTERNAL,
        "backbone": model,
        "parameters": sum(p.numel() for p in loaded.parameters()),
        **_family(family, task),
    }
    return System(name, record, seed, weights_id(model), loaded, tokenizer)


def _asked_by_chat(task: Task, model: str, seed: int, name: str) -> System:
    """Return the system of a chat model with the task's chat prompt: another system than the model with plain prompts.

    It is a causal model, whatever family the task's backbone is of.

    Raises:
        ConfigError: The task has no chat prompt, or the model's tokenizer no chat template.
        DataError: The model is not available, or not causal.
    """
    chat_prompt(task)
    plain = _loaded(task, model, seed, name, "causal")
    assert plain.tokenizer is not None
    chat_template(model, plain.tokenizer)
    return replace(plain, chat=True)


def _behind_address(task: Task, endpoint: Endpoint, seed: int, name: str) -> System:
    """Return the system of a model behind an address, with the task's chat prompt or its plain prompts.

    Raises:
        ConfigError: The endpoint is invalid, or the task has no chat prompt.
    """
    endpoint = checked(endpoint)
    if not endpoint.completions:
        chat_prompt(task)
    record = {"name": name, "algorithm": ENDPOINT, "backbone": endpoint.model}
    return System(name, record, seed, "", chat=not endpoint.completions, endpoint=endpoint)


def baseline_system(task: Task, baseline: str, seed: int) -> System:
    """Return one of `BASELINES` as a system.

    Raises:
        UnknownName: There is no such baseline.
        ConfigError: The task does not have this lookup, or shows no examples for few-shot.
        DataError: The backbone of zero-shot or few-shot is not available.
    """
    if baseline not in BASELINES:
        raise UnknownName(f"There is no baseline {baseline!r}.{instead(baseline, BASELINES)}")
    if baseline in LOOKUPS:
        find_lookup(task, baseline)
    if baseline == "few-shot":
        require_shots(task)
    if baseline not in ("zero-shot", "few-shot"):
        return System(baseline, {"name": baseline, "algorithm": baseline}, seed, baseline)
    backbone = task.backbone
    model, tokenizer = _load(backbone.family, backbone.model, backbone.revision)
    parameters = sum(p.numel() for p in model.parameters())
    record = {"name": baseline, "algorithm": baseline, "backbone": backbone.model, "parameters": parameters}
    weights = weights_id(backbone.model, backbone.revision)
    return System(baseline, record, seed, weights, model, tokenizer, shots=baseline == "few-shot")


def _load(family: Family, name: str, revision: str = "") -> LoadedModel:
    """Load a model onto the GPU, if there is one."""
    model, tokenizer = load_language_model(family, name, revision)
    model.to(scoring_device())  # type: ignore[arg-type]  # a decorated method that the checker cannot read
    return model, tokenizer


def require_plain(system: System) -> None:
    """Check that a system is not shown examples, where samples are drawn from plain prompts.

    Raises:
        ConfigError: It is.
    """
    if system.shots:
        raise ConfigError(f"{system.name} is shown examples, which `grue evaluate` alone does; give zero-shot.")


def with_best_of(system: System, best_of: BestOf, task: Task) -> System:
    """Return the system that draws several samples and picks one; it is another system with its own name.

    Args:
        task: Its file may name the reward model that the metric `model` picks by.

    Raises:
        ConfigError: It has no model to draw from.
    """
    if system.chat or system.endpoint is not None:
        raise ConfigError(f"{system.name}: of a chat model or an endpoint, one reply is taken; leave --best-of out.")
    require_plain(system)
    if system.model is None:
        raise ConfigError(f"The baseline {system.name!r} has no model to draw samples from; leave --best-of out.")
    name = f"{system.name}+{best_of.name}"
    record = {**system.record, "name": name}
    if models := reward_models.recorded(best_of.pick_by, task):
        earlier = [model for model in record.get("reward_models", ()) if model not in models]
        record["reward_models"] = [*earlier, *models]
    return replace(system, name=name, record=record, best_of=best_of)
