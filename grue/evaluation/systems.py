"""Systems to evaluate: a checkpoint of GRUE, a model made elsewhere, one behind an address, or a baseline."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue import files
from grue.errors import ConfigError, UnknownName, instead
from grue.evaluation import reward_models
from grue.evaluation.best_of import BestOf
from grue.evaluation.endpoint import Endpoint, checked
from grue.evaluation.guided import Guided, folder_of, rewards_in
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
        guided: How its decoding is guided; None if it is not.
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
    guided: Guided | None = None
    chat: bool = False
    shots: bool = False
    endpoint: Endpoint | None = None
    prompting: Mapping[str, Any] | None = None

    @property
    def loaded(self) -> LoadedModel:
        """Its model and tokenizer, which only some systems have."""
        assert self.model is not None and self.tokenizer is not None
        return self.model, self.tokenizer


def checkpoint_system(task: Task, folder: Path) -> System:
    """Return the system of a checkpoint of GRUE; for the last of a run that keeps its best, this is NAME+last."""
    manifest = checkpoint.read_manifest(folder)
    checkpoint.check_task(manifest, folder, task)
    family = family_of(str(folder))
    model, tokenizer = _load(family, str(folder))
    name = f"{manifest.system}{LAST}" if manifest.kept == "final" else manifest.system
    record = {
        "name": name,
        "algorithm": manifest.algorithm,
        "backbone": manifest.backbone,
        "parameters": _parameters(model),
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
    record |= _trained_on(folder, manifest)
    return System(name, record, manifest.seed, manifest.weights, model, tokenizer)


def _trained_on(folder: Path, manifest: checkpoint.CheckpointManifest) -> dict[str, Any]:
    """Return a result's record of the reward that a checkpoint was trained on, "" for none, and its reward models.

    It is empty if the reward is unknown; a run that learned from a file without a stated reward records "".
    """
    if manifest.algorithm == "supervised":
        return {"reward": ""}
    config = _configuration(folder, manifest)
    known = {key: config[key] for key in ("reward", "reward_models") if config.get(key)}
    return known if "reward" in known else {}


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

    With a chat prompt it is another system than with plain prompts, and a causal model, whatever the task's backbone.

    Args:
        model: A folder or a hub id; with `endpoint` the model's name at the server.
        chat: Whether a model on this machine gets the task's chat prompt.
        name: Of the system. [default: `external_name`]

    Raises:
        ConfigError: The task has no chat prompt, the tokenizer no chat template, the endpoint or the name is invalid,
            or the endpoint names another model.
        DataError: The model is not available, or not causal though it chats.
    """
    if endpoint is not None and endpoint.model not in ("", model):
        raise ConfigError(f"The endpoint's model is {endpoint.model!r}, and {model!r} is to be evaluated; name one.")
    name = external_name(model, chat=chat, endpoint=endpoint) if name is None else check_name(name)
    if endpoint is not None:
        endpoint = checked(replace(endpoint, model=model))
        chat = not endpoint.completions
    if chat:
        chat_prompt(task)
    if endpoint is not None:
        record: dict[str, Any] = {"name": name, "algorithm": ENDPOINT, "backbone": model}
        return System(name, record, seed, "", chat=chat, endpoint=endpoint)
    family: Family = "causal" if chat else family_of(model)
    loaded, tokenizer = _load(family, model)
    record = {"name": name, "algorithm": EXTERNAL, "backbone": model, "parameters": _parameters(loaded)}
    system = System(name, record | _family(family, task), seed, weights_id(model), loaded, tokenizer, chat=chat)
    if chat:
        chat_template(model, tokenizer)
    return system


def external_name(model: str, *, chat: bool = False, endpoint: Endpoint | None = None) -> str:
    """Return the name of the system of a model made elsewhere: the model's, with how it is prompted."""
    if endpoint is None:
        name = model_word(str(Path(model).resolve()) if Path(model).is_dir() else model)  # "." and ".." are no names
        return f"{name}+{CHAT}" if chat else name
    last = re.sub(r"[^A-Za-z0-9_.+-]+", "-", model.rstrip("/").rpartition("/")[2])
    name = f"{last.lstrip('_.+-')[:LONGEST_MODEL]}+{'completions' if endpoint.completions else CHAT}"
    if not SYSTEM_NAME.fullmatch(name) or name.startswith("+"):
        raise ConfigError(f"The model {model!r} gives no name for the system; name it with --system.")
    return name


def check_name(name: str) -> str:
    """Return the user's name for the system of a model made elsewhere, checked."""
    if check_system_name(name) in BASELINES:
        raise ConfigError(f"--system {name}: is the name of a baseline; choose another.")
    return name


def _family(family: Family, task: Task) -> dict[str, str]:
    """Return a result's record of a model's family: nothing if it is that of the task's backbone."""
    return {} if family == task.backbone.family else {"family": family}


def _parameters(model: PreTrainedModel) -> int:
    return sum(weight.numel() for weight in model.parameters())


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
    record = {"name": baseline, "algorithm": baseline, "backbone": backbone.model, "parameters": _parameters(model)}
    weights = weights_id(backbone.model, backbone.revision)
    return System(baseline, record, seed, weights, model, tokenizer, shots=baseline == "few-shot")


def _load(family: Family, name: str, revision: str = "") -> LoadedModel:
    """Load a model onto the GPU, if there is one."""
    model, tokenizer = load_language_model(family, name, revision)
    model.to(scoring_device())  # type: ignore[arg-type]  # a decorated method that the checker cannot read
    return model, tokenizer


def require_plain(system: System) -> None:
    """Check that a system is not shown examples, where samples are drawn from plain prompts."""
    if system.shots:
        raise ConfigError(f"{system.name} is shown examples, which `grue evaluate` alone does; give zero-shot.")


def with_best_of(system: System, best_of: BestOf, task: Task) -> System:
    """Return the system that draws several samples and picks one; it is another system with its own name."""
    return replace(_decoded(system, best_of.name, [best_of.pick_by], task, "--best-of"), best_of=best_of)


def with_guide(system: System, guided: Guided, task: Task) -> System:
    """Return the system whose decoding is guided; it is another system with its own name.

    It is optimised for what its guides were trained on, too.
    """
    own = rewards_in(guided.settings)
    rewards = set(own)
    models = list(system.record.get("reward_models", ()))
    for folder in map(Path, map(folder_of, guided.weights)):
        if checkpoint.is_checkpoint(folder):
            trained = _trained_on(folder, checkpoint.read_manifest(folder))
            rewards |= {trained["reward"]} if trained.get("reward") else set()
            models += [model for model in trained.get("reward_models", ()) if model not in models]
    record = {**system.record, "reward_models": models} if models else system.record
    guided = replace(guided, rewards=tuple(sorted(rewards)))
    return replace(_decoded(replace(system, record=record), guided.name, own, task, "--decode"), guided=guided)


def _decoded(system: System, suffix: str, rewards: Iterable[str], task: Task, option: str) -> System:
    """Return a system with the name of a way to decode, and the models of the rewards that it reads."""
    if system.chat or system.endpoint is not None:
        raise ConfigError(f"{system.name}: of a chat model or an endpoint, one reply is taken; leave {option} out.")
    require_plain(system)
    if system.model is None:
        raise ConfigError(f"The baseline {system.name!r} has no model to draw samples from; leave {option} out.")
    name = f"{system.name}+{suffix}"
    record = {**system.record, "name": name}
    if models := [model for reward in rewards for model in reward_models.recorded(reward, task)]:
        earlier = [model for model in record.get("reward_models", ()) if model not in models]
        record["reward_models"] = [*earlier, *models]
    return replace(system, name=name, record=record)
