"""Available memory, and how much a run needs: a sweep that starts too many runs at once loses them all."""

from collections.abc import Iterable
from pathlib import Path

from grue.errors import DataError, UnknownName
from grue.lm.device import available as available
from grue.sweep.jobs import Job
from grue.sweep.record import SweepEvent, alike

# Bytes of a worker without a model: Python, torch and transformers. Measured: 0.4 to 0.6 GB.
BASE = 700_000_000
# At most so many copies of the weights in reinforcement learning: policy, reference, critic, mask, gradients and two
# moments of policy and critic, and half as much for activations. Measured peaks of mini runs are lower.
COPIES = 16
# The same for evaluation alone: the file's content, the model in float32, and its caches.
COPIES_READ = 4


def resident(pid: int, proc: Path = Path("/proc")) -> int:
    """Return the resident bytes of a process; 0 if it has ended."""
    try:
        status = (proc / str(pid) / "status").read_text()
    except OSError:
        return 0
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(sizes[0]) * 1024 if sizes else 0


def expected(job: Job, weights: int | None, past: Iterable[SweepEvent]) -> int | None:
    """Return the most bytes that a job needs: the peak of the same run with other seeds, or else by the model's size.

    Args:
        weights: Bytes of the model, 0 if it answers elsewhere; None if it is not on this machine.
        past: Events of jobs that ended.

    Returns:
        None if neither is known.
    """
    peaks = [event.peak_memory for event in alike(job, past) if event.peak_memory]
    if peaks:
        return max(peaks)
    copies = COPIES if job.trains else COPIES_READ
    return None if weights is None else BASE + copies * weights


def weights_size(model: str) -> int | None:
    """Return the bytes of a model's weights; None if it is not on this machine."""
    from grue.lm.folder import locate_model

    try:
        folder = Path(locate_model(model))
    except (DataError, UnknownName):
        return None  # the run's worker reports what is wrong
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")] if folder.is_dir() else []
    return sum(sizes) or None
