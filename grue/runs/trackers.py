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
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Shown:
    """A run that a service shows; every function may raise any exception.

    Attributes:
        figures: Shows numbers by name after so many updates.
        samples: Shows prompts, responses and scores after so many updates.
        warning: Shows a warning after so many updates.
        close: Ends the run with an exit code.
    """

    figures: Callable[[Mapping[str, Any], int], None]
    samples: Callable[[Sequence[tuple[str, str, float]], int], None]
    warning: Callable[[str, int], None]
    close: Callable[[int], None]


def tensorboard(plan: Plan, done: int) -> Shown:
    """Write a run's figures to `<run>/tensorboard`, for `tensorboard --logdir runs`.

    When a run resumes, what it logged after that update is purged.
    """
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(plan.folder / "tensorboard"), purge_step=done + 1)

    def figures(values: Mapping[str, Any], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    def show_text(name: str, text: str, step: int) -> None:
        # TensorBoard reads Markdown; an indented block is shown as it is.
        writer.add_text(name, "\n".join(f"    {line}" for line in text.split("\n")), step)
        writer.flush()

    def samples(rows: Sequence[tuple[str, str, float]], step: int) -> None:
        texts = (f"{prompt}\n→ {text}\n({score:.3f})" for prompt, text, score in rows)
        show_text("samples", "\n\n".join(texts), step)

    if done == 0:
        show_text("config", json.dumps(described(plan), indent=2), 0)
    return Shown(figures, samples, partial(show_text, "warnings"), lambda exit_code: writer.close())


def weights_and_biases(plan: Plan, done: int) -> Shown:
    """Show a run on wandb.ai, or keep it in `<run>/wandb` for `wandb sync` where WANDB_MODE=offline.

    A run's id is in `<run>/wandb/grue-id`. Steps that Weights & Biases already has are not sent again: a resumed
    run repeats some.
    """
    wandb = import_module("wandb")
    place = plan.folder / "wandb" / "grue-id"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        # The configuration's hash is not enough: the same configuration may run in several folders.
        files.write_text(place, f"{files.sha256_json(described(plan))[:8]}-{secrets.token_hex(4)}\n")
    run = wandb.init(
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

    def warning(message: str, step: int) -> None:
        run.alert(title="warning", text=f"update {step}: {message}", level="WARN")

    return _tables(run, wandb, int(run.step), warning, lambda exit_code: run.finish(exit_code=exit_code))


def trackio(plan: Plan, done: int) -> Shown:
    """Keep a run in trackio's own database, for `trackio show --project grue`; TRACKIO_SPACE_ID shows it on a Space.

    trackio identifies a run by its name and cannot remove steps: what a resumed run repeats appears twice.
    """
    library: Any = import_module("trackio")
    run = library.init(
        project=PROJECT,
        name=run_name(plan),
        group=f"{plan.task.suite}/{plan.task.name}",
        config=described(plan),
        resume="allow" if done else "never",
        embed=False,
    )

    def warning(message: str, step: int) -> None:
        with redirect_stdout(io.StringIO()):  # trackio would print it, too
            run.alert(title="warning", text=message, step=step)

    return _tables(run, library, 0, warning, lambda exit_code: library.finish())


def _tables(
    run: Any, library: Any, begin: int, warning: Callable[[str, int], None], close: Callable[[int], None]
) -> Shown:
    """Return a run of Weights & Biases, or of trackio, which has the same functions, from the step `begin` on."""

    def figures(values: Mapping[str, Any], step: int) -> None:
        if step >= begin:
            run.log(dict(values), step=step)

    def samples(rows: Sequence[tuple[str, str, float]], step: int) -> None:
        figures({"samples": library.Table(columns=list(COLUMNS), data=[list(row) for row in rows])}, step)

    return Shown(figures, samples, warning, close)


# By the name of the package that each needs, which is also the extra that installs it.
BACKENDS: Mapping[str, Callable[[Plan, int], Shown]] = {
    "tensorboard": tensorboard,
    "wandb": weights_and_biases,
    "trackio": trackio,
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
        backend: Starts a run, or resumes it after so many updates.
        warn: Called with the number of updates done and a message, once, if the backend fails.
    """

    def __init__(self, name: str, backend: Callable[[Plan, int], Shown], warn: Callable[[int, str], None]) -> None:
        self.name, self.backend, self.warn = name, backend, warn
        self._samples: deque[tuple[str, str, float]] = deque(maxlen=SAMPLES)
        self._shown: Shown | None = None
        self._began = False
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
        self._done = done
        self._shown = self._guarded(self.backend, plan, done)
        self._began = True

    def updated(self, done: int, total: int, line: Mapping[str, float]) -> None:
        """Show an update's figures."""
        self._done = done
        self._tell("figures", line, done)

    def sampled(self, example: Example, text: str, score: float) -> None:
        """Keep a response for the next validation."""
        self._samples.append((example.prompt, text, score))

    def validated(self, done: int, figures: Mapping[str, float], best: bool) -> None:
        """Show a validation's figures and the last responses before it."""
        self._tell("figures", {f"validation/{name}": value for name, value in figures.items()}, done)
        if self._samples:
            self._tell("samples", list(self._samples), done)
        self._samples.clear()

    def warned(self, done: int, message: str) -> None:
        """Show a warning."""
        self._tell("warning", message, done)

    def close(self, exit_code: int = 0) -> None:
        """End the run that is open, if one is."""
        self._tell("close", exit_code)
        self._shown = None

    def _tell(self, what: str, *values: Any) -> None:
        if self._shown is not None:
            self._guarded(getattr(self._shown, what), *values)

    def _guarded(self, function: Callable[..., Any], *values: Any) -> Any:
        """Call the backend; after an error it is closed, and None is returned."""
        try:
            with redirect_stdout(sys.stderr):  # stdout is for the checkpoints' paths
                return function(*values)
        except Exception as error:
            self._shown, why = None, reason(error)
            if not self._began:
                cure = "Fix this, or use another --tracker, or --tracker none."
                raise TrainingError(f"{self.name} cannot start: {why}. {cure}") from error
            self.warn(self._done, f"{self.name} failed and is disabled: {why}. Training continues.")
            return None


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
    trackers = [Tracker(name, BACKENDS[name], warn) for name in chosen(names)]
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
