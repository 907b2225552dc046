"""Export results to other formats, and import other harnesses' answers."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from grue import files
from grue.api.examples import AnyTask, as_task, examples
from grue.api.train import Trained
from grue.data.hub.upload import Uploaded, check_repository, page_of, sizes_of, upload
from grue.errors import ConfigError
from grue.evaluation.predictions import write_predictions
from grue.lm.checkpoint import MANIFEST

if TYPE_CHECKING:
    from grue.exchange.answers import LoggedAnswer, Matched

Warn = Callable[[str], None]
Source = Literal["lm-eval", "inspect"]


@dataclass(frozen=True, slots=True)
class Pushed:
    """What was pushed, or would be: path in the repository → bytes, and the outcome unless it was a dry run."""

    sizes: dict[str, int]
    uploaded: Uploaded | None


def push(
    what: Trained | str | Path,
    to: str,
    *,
    private: bool = False,
    samples: bool = False,
    benchmark: str = "",
    endpoint_url: str = "",
    force: bool = False,
    dry_run: bool = False,
    warn: Warn = warnings.warn,
) -> Pushed:
    """Upload a checkpoint, its card and its scores to the Hugging Face hub, as `grue tools push` does.

    Args:
        what: The result of `train`, a run's folder or a checkpoint.
        to: The repository, "owner/name"; created if missing.
        private: Make it private.
        samples: Upload the predictions, their scores and the result too.
        benchmark: The data set on the hub whose leaderboard the scores are for. [default: the task's own]
        endpoint_url: The hub's address. [default: HF_ENDPOINT, or huggingface.co]
        force: Push even if the repository holds something other than a checkpoint of GRUE.
        dry_run: Return what would be uploaded, without token or connection.
        warn: Called if scores are left out.

    Raises:
        ConfigError: There is no token, or the repository cannot be written.
        DataError: The checkpoint or its evaluation is damaged, or the hub refuses.
    """
    from grue.exchange.measured import Described
    from grue.exchange.push import content_of, listed

    check_repository(to, endpoint_url)
    folder = what.checkpoint if isinstance(what, Trained) else Path(what)
    described = Described(model=to, benchmark=benchmark, source_url=page_of(to, endpoint_url))
    content = content_of(folder, described, samples, warn)
    sizes = sizes_of(content)
    if dry_run:
        return Pushed(sizes, None)
    done = upload(
        to,
        content,
        f"Upload {folder.name} with GRUE",
        mark=MANIFEST,
        listed=listed,
        endpoint=endpoint_url,
        private=private,
        force=force,
    )
    return Pushed(sizes, done)


def export(
    results: str | Path | Sequence[str | Path],
    form: str,
    output: str | Path,
    *,
    model: str = "",
    organization: str = "",
    benchmark: str = "",
    source_url: str = "",
    force: bool = False,
) -> None:
    """Write a system's results in another format, as `grue tools export` does.

    Args:
        results: A file `result.json` or a folder with such files, or several of these; several seeds become a mean with
            its interval.
        form: "every-eval-ever", "model-index" or "eval-results".
        model: The model's id on the hub.
        organization: Who evaluated.
        benchmark: The data set on the hub whose leaderboard the scores are for. [default: the task's own]
        source_url: Address of outputs or logs.
        force: Replace an existing file, unless it is an input.

    Raises:
        UnknownName: There is no such format.
        ConfigError: The file exists or is an input, or the results do not belong together.
        DataError: A result cannot be read, or is of a part of the split.
    """
    from grue.exchange.formats import FORMATS
    from grue.exchange.measured import Described, read_measured, result_files

    writer, output = FORMATS[form], Path(output)
    files.refuse_there(output, force)
    paths = result_files([Path(path) for path in ([results] if isinstance(results, str | Path) else results)])
    files.refuse_input(output, paths)
    measured = read_measured(paths)
    files.write_text(output, writer(measured, Described(model, organization, benchmark, source_url)))


def import_predictions(
    log: str | Path,
    output: str | Path,
    task: AnyTask,
    source: Source,
    *,
    suite: str = "mini",
    split: str | Path | None = None,
    filter: str | None = None,
    epoch: int | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
    force: bool = False,
    warn: Warn = warnings.warn,
) -> "Matched":
    """Write the answers in another harness's log as predictions for a task, as `grue tools import` does.

    Args:
        log: A sample log of lm-evaluation-harness (samples_*.jsonl), or a log of inspect_ai (.eval or .json).
        output: File to write, one {"id", "text"} a line.
        filter: With lm-eval, the filter whose answers to take, if there are several.
        epoch: With inspect, the epoch to take, if there are several.
        force: Replace an existing file, unless it is an input.
        warn: Called if the logged prompts are not the task's, a filter found no answer, or inspect's evaluation did
            not end well.

    Raises:
        ConfigError: The file exists or is an input, or the log holds several sets of answers and none was chosen.
        DataError: The log or the task's data cannot be read.
        SubmissionError: The answers do not fit the examples; the message says which and how many.
    """
    from grue.exchange.answers import matched

    log, output = Path(log), Path(output)
    files.refuse_there(output, force)
    files.refuse_input(output, [log])
    answers = _answers(log, source, filter, epoch, warn)
    of_task = as_task(task, suite)
    loaded = examples(of_task, split, data_dir=data_dir, offline=offline)
    result = matched(loaded, answers, log)
    if result.alike < len(result.predictions):
        alike = f"{result.alike} of {len(result.predictions)}"
        warn(f"{log}: only {alike} of the logged prompts contain the task's; were they asked the same?")
    write_predictions(output, result.predictions)
    return result


def _answers(log: Path, source: str, filter_name: str | None, epoch: int | None, warn: Warn) -> "list[LoggedAnswer]":
    from grue.exchange import inspect_log, lm_eval

    if source == "lm-eval":
        if epoch is not None:
            raise ConfigError("--epoch is of inspect's logs; lm-eval's have filters (--filter).")
        return lm_eval.read_answers(log, filter_name=filter_name, warn=warn)
    if source == "inspect":
        if filter_name is not None:
            raise ConfigError("--filter is of lm-eval's logs; inspect's have epochs (--epoch).")
        return inspect_log.read_answers(log, epoch=epoch, warn=warn)
    raise ConfigError(f"There is no harness {source!r} to import from. Known: lm-eval, inspect.")
