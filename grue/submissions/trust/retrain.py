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
from grue.evaluation.systems import checkpoint_system
from grue.lm.checkpoint import FINAL
from grue.lm.load import family_of, is_here, weights_id
from grue.provenance import code_version
from grue.records import SCORED, Result
from grue.rl.settings import RewardedConfig
from grue.runs import train as training
from grue.runs.algorithms import find_card
from grue.runs.observers import Observer
from grue.runs.plan import Plan
from grue.runs.recipes import checked_settings
from grue.stats.intervals import prediction_interval
from grue.submissions.configuration import Stage, demands, differences, origin_of, read_configuration
from grue.submissions.folder import CONFIG, place_of
from grue.submissions.trust.models import Target, answer_again
from grue.tasks import Backbone, Task

MOST_TEXTS = 2_000_000
"""Texts of a run, sampled or learned from; the largest of ours takes a fiftieth of them."""
LARGEST = {"lora_rank": 1024, "micro_batch_size": 4096}  # what takes memory at once
OF_THE_MACHINE = ("save_every", "keep_last")  # settings that change no weight
PASSES = ("epochs", "critic_epochs", "cg_steps", "line_search_steps")
LEVEL = 0.95  # of the intervals of a further seed, both axes together
ROUNDING = 1e-6  # points of 100, by which a score may lie outside


@dataclass(frozen=True, slots=True)
class Retraining:
    """What is to be trained, settled before anything is loaded: the runs that it takes, and about how many texts."""

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
        algorithm = self.stages[-1].algorithm
        return f"{self.target}: {algorithm}, about {self.texts:,} texts; {self.target.configuration}"


def plan_retraining(target: Target, runs: Path, download: bool = False, most: int = MOST_TEXTS) -> Retraining:
    """Settle how a run is trained again, in folders under `runs`, where each version of the code has its own.

    Raises:
        SubmissionError: The row carries no configuration, or one that cannot be trained here; says why.
        DataError: The configuration cannot be read, or a model or data have changed since.
    """
    path = target.configuration
    if not path.is_file():
        raise SubmissionError(f"{target}: has no {CONFIG}; ask its authors to pack it again with `grue submit pack`.")
    configuration = read_configuration(path)
    for fault in (*demands(configuration, target.task), *differences(configuration, target.result)):
        raise SubmissionError(f"{path}: {fault}")
    code = code_version()
    runs = runs / str(code["commit"] or code["version"])[:12]
    plans: list[Plan] = []
    for stage in configuration.stages:
        plans.append(_plan(target, stage, runs, plans[-1].checkpoint if plans else None, download))
    plans[-1] = _in_folder(plans[-1], runs, place_of(target.system).name)
    texts = sum(map(planned_texts, plans))
    if texts > most:
        raise SubmissionError(
            f"{target}: training would take about {texts:,} texts, and {most:,} are allowed; allow them with "
            f"--at-most {texts}."
        )
    return Retraining(target, tuple(plans), texts)


def _plan(target: Target, stage: Stage, runs: Path, init: Path | None, download: bool) -> Plan:
    task, where = target.task, f"{target.configuration}: {stage.algorithm}"
    settings = find_card(stage.algorithm.split("+")[-1]).settings
    backbone = _backbone(stage, task, where, download)
    encoder = (backbone or task.backbone).family == "seq2seq"
    config = checked_settings(settings, stage.config, task, where, encoder)
    for name, largest in LARGEST.items():
        if getattr(config, name) > largest:
            raise SubmissionError(f"{where}: {name} is {getattr(config, name):,}; at most {largest:,} is trained here.")
    defaults: dict[str, Any] = {field.name: field.default for field in fields(settings) if field.name in OF_THE_MACHINE}
    plan = Plan(
        task=task,
        algorithm=stage.algorithm,
        config=replace(config, **defaults),
        reward=stage.reward,
        seed=target.seed,
        system="",
        folder=runs,
        init=init,
        backbone=backbone,
    )
    for noun, recorded, now in (
        ("the task", stage.task_hash, task.hash),
        ("the backbone", stage.backbone_weights, weights_id(plan.start.model, plan.start.revision)),
        ("the task's local data", stage.data_sha256, local_data_id(task)),
    ):
        if recorded != now:
            raise DataError(
                f"{where}: {noun} had the hash {recorded!r}, and has {now!r}. Retrain with the version of grue that "
                "the results name."
            )
    return _in_folder(plan, runs, f"{stage.algorithm}-{files.sha256_json([files.plain(stage), plan.config])[:8]}")


def _in_folder(plan: Plan, runs: Path, system: str) -> Plan:
    folder = runs / plan.task.suite / plan.task.name / system / f"seed-{plan.seed}"
    return replace(plan, system=system, folder=folder)


def _backbone(stage: Stage, task: Task, where: str, download: bool) -> Backbone | None:
    """Return the model to start from, None for the task's own."""
    if stage.backbone == task.backbone.model:
        return None
    if origin_of(stage.backbone, task) == "hub" and not download:
        raise SubmissionError(f"{where}: starts from {stage.backbone!r} of the hub; allow that with --allow-download.")
    _, at, revision = stage.backbone_weights.rpartition("@")
    revision = revision if at and revision != "main" else ""
    is_known = is_here(stage.backbone, revision)  # what is yet to be fetched is taken for the task's kind
    family = family_of(stage.backbone, revision) if is_known else task.backbone.family
    return Backbone(family, stage.backbone, revision)


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
    """Carry out the runs; raises as training does, and the same call resumes what was interrupted."""
    for plan in planned.stages:
        training.train(plan, watching, stop)


def compare(planned: Retraining, progress: Callable[[int, int], None]) -> tuple[bool, str]:
    """Evaluate the run that was trained again; return whether it is the row's or like its other seeds, and a line."""
    target = planned.target
    system = checkpoint_system(target.task, planned.checkpoint)
    share, now = answer_again(target, system, planned.stages[-1].folder, progress)
    passed, line = judge(share, now, target.result, target.others)
    same = "equal weights" if system.weights == target.weights else "other weights"
    return passed, f"{target}: {line} ({same}, {share:.1%} equal texts)"


def judge(share: float, now: Result, then: Result, others: Sequence[Result]) -> tuple[bool, str]:
    """Say whether a run that was trained again is that of the row, or is one as its other seeds are, and why.

    Equal texts decide. Else each axis must lie in the prediction interval of the row's other seeds, at 95 % for all
    axes together (Bonferroni). Fewer than two other seeds decide nothing.

    Args:
        share: Of equal texts, 0–1.
        others: The results of the row's other seeds on the task, that of the seed itself left out.
    """
    if share == 1:
        return True, "equal texts"
    scores = {axis: score for axis in SCORED if (score := getattr(now, axis)) is not None}
    if not scores:
        return False, "undecided, since it has no score"
    inside, lines = True, []
    for axis, score in scores.items():
        known = [value for result in others if (value := getattr(result, axis)) is not None]
        interval = prediction_interval(known, 1 - (1 - LEVEL) / len(scores))
        if interval is None:
            return False, f"undecided, since {axis} has {len(known)} other seeds"
        inside &= interval.low - ROUNDING <= score <= interval.high + ROUNDING
        expected = f"expected {interval.low:.2f} to {interval.high:.2f}"
        lines.append(f"{axis} {getattr(then, axis):.2f} → {score:.2f}, {expected}")
    return inside, f"{'inside' if inside else 'outside'}: {'; '.join(lines)}"
