"""Trackers: TensorBoard, Weights & Biases and trackio, each an optional extra, as observers of a run.

Every tracker names a run suite/task/system/seed-N. A resumed run resumes there, too.
A requested tracker that cannot start is an error; one that fails later is reported once, then disabled for the rest of
the run: train.jsonl has everything that it would have shown.
"""

import io
import json
import os
import secrets
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from grue import files
from grue.errors import ConfigError, TrainingError, Unavailable, UnknownName
from grue.records import Example
from grue.runs.plan import Plan

# Responses that a validation shows: the last ones before it.
SAMPLES = 8
COLUMNS = ("prompt", "response", "score")
# The project that runs are filed under.
PROJECT = "grue"
# How long Weights & Biases may keep sending after a run; without a network it would wait for ever. Whatever is
# not sent stays in the run's folder.
FINISH_SECONDS = 300


class Backend(Protocol):
    """A service that shows runs; every method may raise any exception."""

    def open(self, plan: Plan, done: int) -> None:
        """Start a run, or resume it after `done` updates."""

    def figures(self, figures: Mapping[str, float], step: int) -> None:
        """Show numbers by name."""

    def samples(self, rows: Sequence[tuple[str, str, float]], step: int) -> None:
        """Show prompts, responses and scores."""

    def warning(self, message: str, step: int) -> None:
        """Show a warning."""

    def close(self, exit_code: int) -> None:
        """End the run that is open."""


class TensorBoard:
    """Writes a run's figures to `<run>/tensorboard`, for `tensorboard --logdir runs`.

    When a run resumes, what it logged after that update is purged.
    """

    def open(self, plan: Plan, done: int) -> None:
        """Open an event file."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(plan.folder / "tensorboard"), purge_step=done + 1)
        if done == 0:
            self._text("config", json.dumps(described(plan), indent=2), 0)

    def figures(self, figures: Mapping[str, float], step: int) -> None:
        """Write scalars."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def samples(self, rows: Sequence[tuple[str, str, float]], step: int) -> None:
        """Write a text."""
        self._text("samples", "\n\n".join(f"{prompt}\n→ {text}\n({score:.3f})" for prompt, text, score in rows), step)

    def warning(self, message: str, step: int) -> None:
        """Write a text."""
        self._text("warnings", message, step)

    def close(self, exit_code: int) -> None:
        """Close the event file."""
        self._writer.close()

    def _text(self, name: str, text: str, step: int) -> None:
        # TensorBoard reads Markdown; an indented block is shown as it is.
        self._writer.add_text(name, "\n".join(f"    {line}" for line in text.split("\n")), step)
        self._writer.flush()


class WeightsAndBiases:
    """Shows a run on wandb.ai, or keeps it in `<run>/wandb` for `wandb sync` where WANDB_MODE=offline.

    A run's id is in `<run>/wandb/grue-id`. Steps that Weights & Biases already has are not sent again: a resumed
    run repeats some.
    """

    def open(self, plan: Plan, done: int) -> None:
        """Create the run, or resume it."""
        wandb = import_module("wandb")
        place = plan.folder / "wandb" / "grue-id"
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            # The configuration's hash is not enough: the same configuration may run in several folders.
            files.write_text(place, f"{files.sha256_json(described(plan))[:8]}-{secrets.token_hex(4)}\n")
        self._table = wandb.Table
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=files.read_text(place).strip(),
            name=run_name(plan),
            group=f"{plan.task.suite}/{plan.task.name}",
            job_type=plan.algorithm,
            config=described(plan),
            dir=str(plan.folder),
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(console="off", quiet=True, finish_timeout=FINISH_SECONDS),
        )
        self._begin = int(self._run.step)

    def figures(self, figures: Mapping[str, Any], step: int) -> None:
        """Log numbers."""
        if step >= self._begin:
            self._run.log(dict(figures), step=step)

    def samples(self, rows: Sequence[tuple[str, str, float]], step: int) -> None:
        """Log a table."""
        self.figures({"samples": self._table(columns=list(COLUMNS), data=[list(row) for row in rows])}, step)

    def warning(self, message: str, step: int) -> None:
        """Raise an alert."""
        self._run.alert(title="warning", text=f"update {step}: {message}", level="WARN")

    def close(self, exit_code: int) -> None:
        """Send what remains."""
        self._run.finish(exit_code=exit_code)


class Trackio:
    """Keeps runs in trackio's own database, for `trackio show --project grue`; TRACKIO_SPACE_ID shows them on a Space.

    trackio identifies a run by its name and cannot remove steps: what a resumed run repeats appears twice.
    """

    def open(self, plan: Plan, done: int) -> None:
        """Create the run, or resume the latest of its name."""
        self._trackio: Any = import_module("trackio")
        self._run = self._trackio.init(
            project=PROJECT,
            name=run_name(plan),
            group=f"{plan.task.suite}/{plan.task.name}",
            config=described(plan),
            resume="allow" if done else "never",
            embed=False,
        )

    def figures(self, figures: Mapping[str, float], step: int) -> None:
        """Log numbers."""
        self._run.log(dict(figures), step=step)

    def samples(self, rows: Sequence[tuple[str, str, float]], step: int) -> None:
        """Log a table."""
        table = self._trackio.Table(columns=list(COLUMNS), data=[list(row) for row in rows])
        self._run.log({"samples": table}, step=step)

    def warning(self, message: str, step: int) -> None:
        """Raise an alert; trackio would print it, too."""
        with redirect_stdout(io.StringIO()):
            self._run.alert(title="warning", text=message, step=step)

    def close(self, exit_code: int) -> None:
        """Write what remains."""
        self._trackio.finish()


# By the name of the package that each needs, which is also the extra that installs it.
BACKENDS: Mapping[str, Callable[[], Backend]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "trackio": Trackio,
}


def run_name(plan: Plan) -> str:
    """Return a run's name in a tracker."""
    return f"{plan.task.suite}/{plan.task.name}/{plan.system}/seed-{plan.seed}"


def described(plan: Plan) -> dict[str, Any]:
    """Return the configuration to show: the content of config.toml, and the system's name."""
    return {"system": plan.system, **plan.record()}


class Tracker:
    """An observer that passes everything to a backend, and survives its errors.

    Args:
        name: The backend's name in messages.
        warn: Called with the number of updates done and a message, once, if the backend fails.
    """

    def __init__(self, name: str, backend: Backend, warn: Callable[[int, str], None]) -> None:
        self.name, self.backend, self.warn = name, backend, warn
        self._samples: deque[tuple[str, str, float]] = deque(maxlen=SAMPLES)
        self._began = self._open = False
        self._done = 0

    def planned(self, plan: Plan) -> None:
        """Do nothing: a run is shown once it starts."""

    def finished(self, plan: Plan) -> None:
        """Do nothing: the run is closed when the next one starts, or by `open_trackers`."""

    def started(self, plan: Plan, done: int, total: int) -> None:
        """Open the run.

        Raises:
            TrainingError: The backend does not start, and never did in this process; later this is only a warning.
        """
        self.close()
        self._samples.clear()
        self._done, self._open = done, True
        self._tell(self.backend.open, plan, done)
        self._began = True

    def updated(self, done: int, total: int, line: Mapping[str, float]) -> None:
        """Show an update's figures."""
        self._done = done
        self._tell(self.backend.figures, line, done)

    def sampled(self, example: Example, text: str, score: float) -> None:
        """Keep a response for the next validation."""
        self._samples.append((example.prompt, text, score))

    def validated(self, done: int, figures: Mapping[str, float], best: bool) -> None:
        """Show a validation's figures and the last responses before it."""
        self._tell(self.backend.figures, {f"validation/{name}": value for name, value in figures.items()}, done)
        if self._samples:
            self._tell(self.backend.samples, list(self._samples), done)
        self._samples.clear()

    def warned(self, done: int, message: str) -> None:
        """Show a warning."""
        self._tell(self.backend.warning, message, done)

    def close(self, exit_code: int = 0) -> None:
        """End the run that is open, if one is."""
        self._tell(self.backend.close, exit_code)
        self._open = False

    def _tell(self, method: Callable[..., None], *values: Any) -> None:
        """Call the backend unless it is closed; after an error, only the next run is told to it."""
        if not self._open:
            return
        try:
            with redirect_stdout(sys.stderr):  # stdout is for the checkpoints' paths
                method(*values)
        except Exception as error:
            self._open, why = False, reason(error)
            if not self._began:
                cure = "Fix this, or use another --tracker, or --tracker none."
                raise TrainingError(f"{self.name} cannot start: {why}. {cure}") from error
            self.warn(self._done, f"{self.name} failed and is disabled: {why}. Training continues.")


def reason(error: Exception) -> str:
    """Return an error's type and message on one line, without a full stop."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(".: ")


@contextmanager
def open_trackers(names: Sequence[str], warn: Callable[[int, str], None]) -> Iterator[list[Tracker]]:
    """Yield the named trackers, and close them in the end.

    Args:
        names: Keys of `BACKENDS`; or `none` alone; or nothing, which is TensorBoard where it is installed.
        warn: See `Tracker`.

    Raises:
        ConfigError, UnknownName: `none` together with others, or an unknown name.
        Unavailable: A tracker's package is not installed.
    """
    trackers = [Tracker(name, BACKENDS[name](), warn) for name in chosen(names)]
    exit_code = 1
    try:
        yield trackers
        exit_code = 0
    finally:
        for tracker in trackers:
            tracker.close(exit_code)


def chosen(names: Sequence[str]) -> list[str]:
    """Return the names of the requested backends, each once; see `open_trackers`."""
    if not names:
        return ["tensorboard"] if installed("tensorboard") else []
    requested = list(dict.fromkeys(names))
    if "none" in requested:
        if len(requested) > 1:
            raise ConfigError(f"--tracker none excludes the others; found {', '.join(requested)}.")
        return []
    for name in requested:
        if name not in BACKENDS:
            raise UnknownName(f"There is no tracker {name!r}; there are {', '.join(BACKENDS)}, none.")
        if not installed(name):
            raise Unavailable(f"--tracker {name}: its package is not installed; run: pip install 'grue[{name}]'")
    return requested


def installed(name: str) -> bool:
    """Whether a package is installed, not just a folder of its name in the working directory, as wandb leaves one."""
    spec = find_spec(name)
    return spec is not None and spec.origin is not None
