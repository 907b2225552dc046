"""Retraining: a run of a row, trained again from its configuration, evaluated, and compared with the row.

Everything in a configuration is looked at before anything is loaded: nothing that a submission names is imported, read
from this machine's files, or downloaded unless that was allowed.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from grue import files
from grue.data.load import local_data_id
from grue.errors import DataError, SubmissionError
from grue.evaluation.systems import checkpoint_system
from grue.lm.checkpoint import FINAL
from grue.lm.load import family_of, is_here, weights_id
from grue.provenance import code_version
from grue.rl.settings import RewardedConfig
from grue.runs import train as training
from grue.runs.algorithms import find_card
from grue.runs.observers import Observer
from grue.runs.plan import Plan
from grue.runs.recipes import checked_settings, make_config
from grue.submissions.configuration import (
    ALGORITHMS,
    Configuration,
    Stage,
    demands,
    differences,
    names_of_stages,
    origin_of,
    read_configuration,
)
from grue.submissions.configuration import SCHEMA_VERSION as SCHEMA
from grue.submissions.folder import CONFIG, place_of
from grue.submissions.packing.recorded import as_recorded, stage_of
from grue.submissions.trust.agreement import MadeAgain, judge_retrained
from grue.submissions.trust.reproduce import answer_again
from grue.submissions.trust.rows import Target, scores_of, weights_of
from grue.tasks import Backbone, Task

MOST_TEXTS = 2_000_000
"""Texts of a run, sampled or learned from; the largest of ours takes a fiftieth of them."""
LARGEST = {"lora_rank": 1024, "micro_batch_size": 4096}  # what takes memory at once
OF_THE_MACHINE = ("save_every", "keep_last")  # settings that change no weight
PASSES = ("epochs", "critic_epochs", "cg_steps", "line_search_steps")
CODE = "code.json"


@dataclass(frozen=True, slots=True)
class Retraining:
    """What is to be trained, settled before anything is loaded.

    Attributes:
        stages: The runs that it takes.
        origin: Where their configuration is from: "submitted", or "recipe" if the task's is the recorded one.
        texts: About how many texts are sampled or learned from.
    """

    target: Target
    stages: tuple[Plan, ...]
    origin: str
    texts: int

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint that the row was answered with: of its best policy, or of its last."""
        last = self.stages[-1]
        final = self.target.result.system.get("kept") == "last" and last.config.keep == "best"
        return last.folder / FINAL if final else last.checkpoint

    def __str__(self) -> str:
        said = {
            "submitted": f"configuration: {self.target.folder / CONFIG}",
            "recipe": "configuration: the task's recipe, whose hash equals the recorded one",
        }[self.origin]
        return f"{self.target}: {self.stages[-1].algorithm}, about {self.texts:,} texts; {said}"


def plan_retraining(target: Target, runs: Path, download: bool = False, most: int = MOST_TEXTS) -> Retraining:
    """Settle how a run is trained again, in folders under `runs`.

    Args:
        download: Whether a model of the hub may be loaded that is not the task's own.
        most: Texts that training may take.

    Raises:
        SubmissionError: The row carries no configuration, or one that cannot be trained here; says why.
        DataError: The configuration cannot be read, or a model or data have changed since.
    """
    if (target.folder / CONFIG).is_file():
        configuration, origin = read_configuration(target.folder / CONFIG), "submitted"
        wrong = [*demands(configuration, target.task), *differences(configuration, target.result, target.task.reward)]
        if wrong:
            raise SubmissionError(f"{target.folder / CONFIG}: {wrong[0]}")
    else:
        configuration, origin = _recipe(target), "recipe"
    plans: list[Plan] = []
    for stage in configuration.stages:
        plans.append(_plan(target, stage, runs, plans[-1].checkpoint if plans else None, download))
    last = replace(plans[-1], system=place_of(target.system).name)
    plans[-1] = replace(last, folder=_folder(runs, last))
    texts = sum(map(planned_texts, plans))
    if texts > most:
        raise SubmissionError(
            f"{target}: training would take about {texts:,} texts, and {most:,} are allowed; allow them with "
            f"--at-most {texts}."
        )
    return Retraining(target, tuple(plans), origin, texts)


def _recipe(target: Target) -> Configuration:
    """Return the configuration that `grue train` would have, if its hash is the recorded one.

    The first of two runs is not covered by that hash; its weights are compared once it is trained.
    """
    task, system = target.task, target.result.system
    recorded, algorithm = system.get("config_sha256"), system.get("algorithm")
    lacking = f"{target}: has no {CONFIG}, and its training was not by the task's recipe"
    if not isinstance(recorded, str) or not isinstance(algorithm, str):
        raise SubmissionError(f"{target}: the row does not say how it was trained, so it cannot be trained again.")
    names = names_of_stages(algorithm)
    if not set(algorithm.split("+")) <= ALGORITHMS:
        raise SubmissionError(f"{lacking}: {algorithm!r} is not grue's. Ask its authors to pack it again.")
    nowhere = Path()
    plans = [
        Plan(task=task, algorithm=name, config=make_config(task, name, {}), reward=task.reward, seed=target.seed,
             system=name, folder=nowhere)
        for name in names
    ]  # fmt: skip
    records = [plan.record() for plan in plans]
    start = str(system.get("start", ""))
    last = as_recorded({**records[-1], "init_sha256": start}, recorded)
    if last is None or bool(start) != (len(names) > 1):
        raise SubmissionError(
            f"{lacking}, whose hash is another. Ask its authors to pack it again with `grue submit pack`."
        )
    return Configuration(SCHEMA, (*map(stage_of, records[:-1]), last))


def _plan(target: Target, stage: Stage, runs: Path, init: Path | None, download: bool) -> Plan:
    task, where = target.task, f"{target.folder / CONFIG}: {stage.algorithm}"
    settings = find_card(stage.algorithm.split("+")[-1]).settings
    config = checked_settings(settings, stage.config, task, where)
    for name, most in LARGEST.items():
        if getattr(config, name) > most:
            raise SubmissionError(f"{where}: {name} is {getattr(config, name):,}; at most {most:,} is trained here.")
    usual: dict[str, Any] = {one.name: one.default for one in fields(settings) if one.name in OF_THE_MACHINE}
    plan = Plan(
        task=task,
        algorithm=stage.algorithm,
        config=replace(config, **usual),
        reward=stage.reward,
        seed=target.seed,
        system="",
        folder=runs,
        init=init,
        backbone=_backbone(stage, task, where, download),
    )
    _refuse_changed(plan, stage, where)
    plan = replace(plan, system=f"{stage.algorithm}-{files.sha256_json([files.plain(stage), plan.config])[:8]}")
    return replace(plan, folder=_folder(runs, plan))


def _folder(runs: Path, plan: Plan) -> Path:
    return runs / plan.task.suite / plan.task.name / plan.system / f"seed-{plan.seed}"


def _backbone(stage: Stage, task: Task, where: str, download: bool) -> Backbone | None:
    """Return the model to start from, None for the task's own.

    Raises:
        SubmissionError: It is another model of the hub, and that is not allowed.
    """
    if stage.backbone == task.backbone.model:
        return None
    if origin_of(stage.backbone, task) == "hub" and not download:
        raise SubmissionError(f"{where}: starts from {stage.backbone!r} of the hub; allow that with --allow-download.")
    _, at, revision = stage.backbone_weights.rpartition("@")
    revision = revision if at and revision != "main" else ""
    known = is_here(stage.backbone, revision)  # what is yet to be fetched is taken for the usual kind
    return Backbone(family_of(stage.backbone, revision) if known else task.backbone.family, stage.backbone, revision)


def _refuse_changed(plan: Plan, stage: Stage, where: str) -> None:
    for noun, recorded, now in (
        ("the task", stage.task_hash, plan.task.hash),
        ("the backbone", stage.backbone_weights, weights_id(plan.start.model, plan.start.revision)),
        ("the task's local data", stage.data_sha256, local_data_id(plan.task)),
    ):
        if recorded != now:
            raise DataError(
                f"{where}: {noun} had the hash {recorded!r}, and has {now!r}. Retrain with the version of grue that "
                "the results name."
            )


def planned_texts(plan: Plan) -> int:
    """Return about how many texts a run samples or learns from, those of its validations included."""
    config = plan.config
    if isinstance(config, RewardedConfig):
        passes = 1 + sum(getattr(config, name, 0) for name in PASSES)
        learned = config.updates * config.rollouts * passes
    else:
        learned = config.length * max(1, plan.task.data.splits["train"].examples)
    validations = 1 + config.length // config.validate_every
    return learned + validations * plan.validated_on


# --- carrying it out -------------------------------------------------------------------------------------------------


def train_again(planned: Retraining, watching: Observer, stop: Callable[[], bool] = lambda: False) -> None:
    """Carry out the runs; the same call resumes what was interrupted.

    Raises:
        SubmissionError: A folder holds a run that other code began.
        Interrupted: `stop` asked for it.
        DataError, TrainingError: As for training.
    """
    for plan in planned.stages:
        _claim(plan.folder)
        training.train(plan, watching, stop)


def compare(planned: Retraining, progress: Callable[[int, int], None]) -> MadeAgain:
    """Evaluate the run that was trained again, and compare it with the row.

    Raises:
        DataError: Something cannot be read.
    """
    target = planned.target
    system = checkpoint_system(target.task, planned.checkpoint)
    share, now = answer_again(target, system, planned.stages[-1].folder, progress)
    same = system.weights == weights_of(target)
    judged = judge_retrained(same, share, now, [scores_of(other) for other in target.others])
    return MadeAgain(target, judged.verdict, share, now, system.weights, judged.intervals)


def _claim(folder: Path) -> None:
    """Note which code trains in a folder: what older code trained says nothing of this one."""
    code = code_version()
    path, mine = folder / CODE, {key: code[key] for key in ("version", "commit")}
    if not path.exists():
        if folder.exists():
            raise SubmissionError(f"{folder}: was not begun by `grue submit retrain`; remove it, or choose --runs.")
        files.write_json(path, mine)
    elif (found := files.read_json(path)) != mine:
        raise SubmissionError(f"{folder}: was begun by other code ({found!r}); remove it, or choose another --runs.")
