"""From a request to plans: everything that decides how a run goes, before anything is loaded."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grue import claims, files
from grue.algorithms import system_of
from grue.data.scored import read_header
from grue.errors import ConfigError
from grue.evaluation import reward_models
from grue.evaluation.rewards import check_reward, code_of
from grue.lm import checkpoint
from grue.lm.device import multiplies_bfloat16, scoring_device
from grue.metrics.own import code_sha256
from grue.metrics.registry import factory_of
from grue.records import check_system_name, with_backbone
from grue.rl.settings import Common, RewardedConfig
from grue.runs import learned, rewarded
from grue.runs.algorithms import PASSED, split_algorithm
from grue.runs.named import ImpactPrompts, parse_reference, parse_select
from grue.runs.recipes import adds_mask, make_config
from grue.runs.recorded import effective_settings
from grue.runs.request import RunRequest
from grue.task_files import SUITES
from grue.tasks import Backbone, Task, split_of

OF_ALL_STAGES = ("precision",)
"""Settings of how the machine computes, which apply to a warm start, too; the others apply to the last stage alone."""

WORTH_CASTING = 2**21
"""Numbers in the states of a micro-batch from which bfloat16 is used on a GPU.

On an H200, T5-base was .78 times as fast at a million, GPT-2 1.9 times at 5.5 million.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides how a run goes.

    Attributes:
        system: Name of the system, and of its folder.
        init: Checkpoint that the policy starts from; None starts from the backbone.
        backbone: Model to start from instead of the task's own.
    """

    task: Task
    algorithm: str
    config: Common
    reward: str
    seed: int
    system: str
    folder: Path
    init: Path | None = None
    backbone: Backbone | None = None
    data_dir: Path | None = None
    offline: bool = False

    @property
    def start(self) -> Backbone:
        """The model that the policy starts from if there is no checkpoint to start from."""
        return self.backbone or self.task.backbone

    @property
    def title(self) -> str:
        """What the run is, in a few words."""
        return f"{self.algorithm} on {self.task.name}, seed {self.seed}"

    @property
    def checkpoint(self) -> Path:
        """The folder of the best checkpoint once there is one."""
        return self.folder / "checkpoint"

    @property
    def anchors(self) -> tuple[Path, ...]:
        """The checkpoints whose mean is the `reference`; empty if it is the start."""
        folders = parse_reference(self.config.reference) if isinstance(self.config, RewardedConfig) else ()
        return tuple(checkpoint.find_checkpoint(folder) for folder in folders)

    @property
    def split(self) -> str:
        """The split whose examples are learned from."""
        return self.task.data.reward_split if isinstance(self.config, RewardedConfig) else "train"

    @property
    def validated_on(self) -> int:
        """How many examples of the validation split checkpoints are compared on."""
        most = self.config.validation_examples
        return min(most, split_of(self.task, "validation").examples or most)

    @property
    def validation_label(self) -> str:
        """`validated_on` in words; the size of the user's own data may not be known yet."""
        counted = split_of(self.task, "validation").examples
        how = ", answered as rollouts are drawn" if self.config.validate_on == "rollouts" else ""
        return f"validated on {'' if counted else 'at most '}{self.validated_on} examples{how}"

    @property
    def learned_reward(self) -> str:
        """The run's reward, or the reward that a file of scored responses states; "" if it has no header.

        Raises:
            DataError: The file cannot be read.
        """
        data = learned.data_of(self.config)
        return self.reward if data is None else learned.reward_of(read_header(data))

    @property
    def reward_label(self) -> str:
        """`learned_reward` in words; a DataError if the file cannot be read."""
        return learned.reward_label(self.learned_reward)

    def record(self) -> dict[str, Any]:
        """Return the content of `config.toml`; its hash is the identity of the configuration.

        Its "reward" is what is learned from. With a file of scored responses, it is what the file's header states, ""
        if it has none; "validation_reward" is then the run's own. The user's code is identified by its file's hash.
        What was moved since the run began is said to lie where it lay then.

        Raises:
            ConfigError: The `config.toml` in the run's folder cannot be read.
            DataError: A file or folder that is part of the configuration is missing or damaged.
        """
        from grue.data.load import local_data_id
        from grue.lm.load import weights_id

        manifest = None if self.init is None else checkpoint.read_manifest(self.init)
        began = self.folder / "config.toml"
        held = files.read_toml(began) if began.exists() else {}
        record = {
            "suite": self.task.suite,
            "task": self.task.name,
            "task_hash": self.task.hash,
            "algorithm": self.algorithm,
            "reward": self.reward,
            "seed": self.seed,
            "backbone": self.start.model,
            "backbone_weights": weights_id(self.start.model, self.start.revision),
            "data_sha256": local_data_id(self.task, self.data_dir, self.split, "validation"),
            "data_dir": "" if self.data_dir is None else str(self.data_dir.resolve()),
            "init_sha256": "" if manifest is None else manifest.weights,
            "config": effective_settings(files.plain(self.config)),
        }
        models = reward_models.recorded(self.reward, self.task)
        if (data := learned.data_of(self.config)) is not None:
            record |= {"reward": self.learned_reward, "validation_reward": self.reward}
            models = learned.models_of(read_header(data))
        code = code_of(self.reward, self.task)
        # One that was passed as an object has a hash in its name.
        own = (name for name in self.algorithm.split("+") if ":" in name and name not in PASSED)
        code |= {name: code_sha256(name, "algorithm") for name in own}
        record |= {"code_sha256": code} if code else {}
        record |= self._named_files() | ({"reward_models": models} if models else {})
        return claims.as_held(held, record)

    def _named_files(self) -> dict[str, str]:
        """Return hashes of the content that `select`, `reference` and `data` name, if they are set."""
        if not isinstance(self.config, RewardedConfig):
            return {}
        hashes = {}
        select, folders = parse_select(self.config.select), self.anchors
        if isinstance(select, ImpactPrompts):
            hashes["select_sha256"] = files.sha256_file(select.run / rewarded.NAME)
        if folders:
            hashes["reference_sha256"] = files.sha256_json(
                [checkpoint.read_manifest(folder).weights for folder in folders]
            )
        if (data := learned.data_of(self.config)) is not None:
            hashes["scored_sha256"] = files.sha256_file(data)
        return hashes


def stages_of(request: RunRequest) -> list[Plan]:
    """Return the runs of a request: `supervised+nlpo` is two, the first shared by all that start from it.

    Raises:
        UnknownName, ConfigError: The algorithm, one of its settings, the reward, a metric of the task, the system's
            name or a value is wrong; or, with precision "auto", GRUE_DEVICE.
        DataError: The requested backbone, or that of the user's own task, cannot be used; the task has
            no split to train or to validate on; or the file of scored responses that the settings name cannot be read.
    """
    task, algorithm = request.task, request.algorithm
    for needed in ("train", "validation"):
        split_of(task, needed)
    stages = split_algorithm(algorithm)
    backbone = own_backbone = request.backbone if request.backbone != task.backbone.model else None
    if request.warm_start:
        _check_warm_start(request, stages)
        stages, backbone = stages[1:], task.backbone.warm_start
    if request.init is not None and len(stages) > 1:
        raise ConfigError(
            f"--init starts from a checkpoint; with it, write --algo {stages[-1]} instead of {algorithm}."
        )
    if request.reward == "":
        raise ConfigError("--reward: is empty; name a reward, or leave it out for the task's.")
    start = None if request.init is None else checkpoint.find_checkpoint(request.init)
    family = task.backbone.family
    if own_backbone is not None:
        from grue.lm.load import family_of

        family = family_of(own_backbone if start is None else str(start))
    plans: list[Plan] = []
    for stage in stages:
        last = stage == stages[-1]
        name = algorithm if last else stage  # a warm start keeps its algorithm's name, and with it its recipe
        overrides = {key: value for key, value in request.settings.items() if last or key in OF_ALL_STAGES}
        config = make_config(task, name, overrides, request.preset if last else None, encoder=family == "seq2seq")
        if config.precision == "auto":
            model = Backbone(family, str(start or backbone)) if start or backbone else task.backbone
            config = replace(config, precision="bfloat16" if bfloat16_pays(task, config, model) else "float32")
        default_system = with_backbone(system_of(name) + ("-masked" if adds_mask(name, config) else ""), own_backbone)
        title = check_system_name(default_system if request.system is None or not last else request.system)
        if family == "causal" and config.freeze_encoder:  # as the recipe of a task for encoder-decoders says
            if "freeze_encoder" in request.settings and last:
                raise ConfigError(f"freeze_encoder needs an encoder; {own_backbone} is a causal model.")
            config = replace(config, freeze_encoder=False)
        plans.append(
            Plan(
                task=task,
                algorithm=name,
                config=config,
                reward=(request.reward or task.reward) if last else task.reward,
                seed=request.seed,
                system=title,
                folder=request.runs / task.suite / task.name / title / f"seed-{request.seed}",
                init=plans[-1].checkpoint if plans else start,
                backbone=Backbone(family, backbone) if backbone else None,
                data_dir=request.data_dir,
                offline=request.offline,
            )
        )
    if request.init is None and (request.backbone is not None or task.suite not in SUITES):
        check_backbone(plans[0])
    for spec in task.metrics:  # refused before a folder is claimed
        factory_of(spec, task.folder)
    check_reward(plans[-1].reward, task)
    learned.check_reward_of_data(plans[-1].config, plans[-1].reward, task)
    return plans


def bfloat16_pays(task: Task, config: Common, start: Backbone) -> bool:
    """Whether bfloat16 is faster where the run is planned, by what is known of the device and the sizes alone.

    A CPU that multiplies it is faster at all sizes measured, a GPU if its kernels are long: in short ones, casts cost
    more than they save (docs/background/speed.md).
    """
    device = scoring_device()
    if not multiplies_bfloat16(device) or device.type == "cpu":
        return multiplies_bfloat16(device)
    from grue.lm.load import check_language_model

    prompt, response = task.prompt.max_tokens, task.rollout.max_new_tokens
    length = prompt + response if start.family == "causal" else max(prompt, response)
    width: int = check_language_model(start.family, start.model, start.revision).get_text_config().hidden_size
    return config.micro_batch_size * length * width >= WORTH_CASTING


def check_backbone(plan: Plan) -> None:
    """Refuse a model that a run cannot start from, without reading its weights.

    Raises:
        UnknownName, DataError: It is missing, damaged or of the other family.
        ConfigError: The task's texts do not fit into its positions.
    """
    from grue.lm.checks import check_positions
    from grue.lm.load import check_language_model

    start = plan.start
    check_positions(check_language_model(start.family, start.model, start.revision), start.model, plan.task)


def _check_warm_start(request: RunRequest, stages: tuple[str, ...]) -> None:
    task = request.task
    where = f"{task.suite}/{task.name}"
    if not task.backbone.warm_start:
        raise ConfigError(f"--warm-start: {where} names no published model; write --algo {'+'.join(stages)} alone.")
    if len(stages) < 2 or request.init is not None or request.backbone is not None:
        raise ConfigError(
            f"--warm-start replaces the supervised stage ({task.backbone.warm_start} on {where}): "
            "write it with --algo supervised+ALGORITHM, and without --init and --backbone."
        )
