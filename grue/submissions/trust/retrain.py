"""Retraining: a run of a row, trained again from its configuration, and compared with the row.

Everything in a configuration is looked at before anything is loaded: nothing that a submission names is imported, read
from this machine's files, or downloaded unless that was allowed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from grue import files
from grue.data.load import local_data_id
from grue.errors import DataError, SubmissionError
from grue.evaluation.scoring import SCORED
from grue.evaluation.systems import checkpoint_system
from grue.lm.checkpoint import FINAL
from grue.lm.load import family_of, is_here, weights_id
from grue.provenance import code_version
from grue.records import Axis, Result
from grue.rl.settings import RewardedConfig
from grue.runs import train as training
from grue.runs.algorithms import find_card
from grue.runs.observers import Observer
from grue.runs.plan import Plan
from grue.runs.recipes import checked_settings
from grue.stats.intervals import Interval, prediction_interval
from grue.submissions.configuration import Stage, demands, differences, origin_of, read_configuration
from grue.submissions.folder import CONFIG, place_of
from grue.submissions.trust.models import answer_again
from grue.submissions.trust.runs import Target
from grue.tasks import Backbone, Task

MOST_TEXTS = 2_000_000
"""Texts of a run, sampled or learned from; the largest of ours takes a fiftieth of them."""
LARGEST = {"lora_rank": 1024, "micro_batch_size": 4096}  # what takes memory at once
OF_THE_MACHINE = ("save_every", "keep_last")  # settings that change no weight
PASSES = ("epochs", "critic_epochs", "cg_steps", "line_search_steps")
LEVEL = 0.95  # of the intervals of a further seed, both axes together
FEWEST = 2  # other seeds, below which there is no interval
ROUNDING = 1e-6  # points of 100, by which a score may lie outside


@dataclass(frozen=True, slots=True)
class Retraining:
    """What is to be trained, settled before anything is loaded.

    Attributes:
        stages: The runs that it takes.
        texts: About how many texts are sampled or learned from.
    """

    target: Target
    stages: tuple[Plan, ...]
    texts: int

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint that the row was answered with: of its best policy, or of its last."""
        last = self.stages[-1]
        final = self.target.result.system.get("kept") == "last" and last.config.keep == "best"
        return last.folder / FINAL if final else last.checkpoint

    def __str__(self) -> str:
        return f"{self.target}: {self.stages[-1].algorithm}, about {self.texts:,} texts; {self.target.folder / CONFIG}"


def plan_retraining(target: Target, runs: Path, download: bool = False, most: int = MOST_TEXTS) -> Retraining:
    """Settle how a run is trained again, in folders under `runs`, where each version of the code has its own.

    Args:
        download: Whether a model of the hub may be loaded that is not the task's own.
        most: Texts that training may take.

    Raises:
        SubmissionError: The row carries no configuration, or one that cannot be trained here; says why.
        DataError: The configuration cannot be read, or a model or data have changed since.
    """
    path = target.folder / CONFIG
    if not path.is_file():
        raise SubmissionError(f"{target}: has no {CONFIG}; ask its authors to pack it again with `grue submit pack`.")
    configuration = read_configuration(path)
    wrong = [*demands(configuration, target.task), *differences(configuration, target.result, target.task.reward)]
    if wrong:
        raise SubmissionError(f"{path}: {wrong[0]}")
    code = code_version()
    runs = runs / str(code["commit"] or code["version"])[:12]
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
    return Retraining(target, tuple(plans), texts)


def _plan(target: Target, stage: Stage, runs: Path, init: Path | None, download: bool) -> Plan:
    task, where = target.task, f"{target.folder / CONFIG}: {stage.algorithm}"
    settings = find_card(stage.algorithm.split("+")[-1]).settings
    config = checked_settings(settings, stage.config, task, where)
    for name, largest in LARGEST.items():
        if getattr(config, name) > largest:
            raise SubmissionError(f"{where}: {name} is {getattr(config, name):,}; at most {largest:,} is trained here.")
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
        Interrupted: `stop` asked for it.
        DataError, TrainingError: As for training.
    """
    for plan in planned.stages:
        training.train(plan, watching, stop)


@dataclass(frozen=True, slots=True)
class Compared:
    """A run that was trained again, beside that of the row.

    Attributes:
        passed: Whether it is the row's run, or one as the row's other seeds are.
        line: What was seen.
    """

    passed: bool
    line: str


def compare(planned: Retraining, progress: Callable[[int, int], None]) -> Compared:
    """Evaluate the run that was trained again, and compare it with the row.

    Raises:
        DataError: Something cannot be read.
    """
    target = planned.target
    system = checkpoint_system(target.task, planned.checkpoint)
    share, now = answer_again(target, system, planned.stages[-1].folder, progress)
    same = "equal weights" if system.weights == target.weights else "other weights"
    compared = judge(share, now, target.result, target.others)
    return Compared(compared.passed, f"{target}: {compared.line} ({same}, {share:.1%} equal texts)")


def judge(share: float, now: Result, then: Result, others: Sequence[Result]) -> Compared:
    """Say whether a run that was trained again is that of the row, or is one as its other seeds are.

    Equal texts decide. Else each axis must lie in the prediction interval of the row's other seeds, at 95 % for all
    axes together (Bonferroni). Fewer than two other seeds decide nothing.

    Args:
        share: Of equal texts, 0–1.
        others: The results of the row's other seeds on the task, that of the seed itself left out.
    """
    if share == 1:
        return Compared(True, "equal texts")
    axes: dict[Axis, float] = {axis: value for axis in SCORED if (value := getattr(now, axis)) is not None}
    if not axes:
        return Compared(False, "undecided, since it has no score")
    inside, lines = True, []
    for axis, value in axes.items():
        known = [other for result in others if (other := getattr(result, axis)) is not None]
        interval: Interval | None = (
            prediction_interval(known, 1 - (1 - LEVEL) / len(axes)) if len(known) >= FEWEST else None
        )
        if interval is None:
            return Compared(False, f"undecided, since {axis} has {len(known)} other seeds")
        inside &= interval.low - ROUNDING <= value <= interval.high + ROUNDING
        lines.append(
            f"{axis} {getattr(then, axis):.2f} → {value:.2f}, expected {interval.low:.2f} to {interval.high:.2f}"
        )
    return Compared(inside, f"{'inside' if inside else 'outside'}: {'; '.join(lines)}")
