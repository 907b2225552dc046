"""How fast a machine does passes, and how long a sweep of runs takes on several of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costs.work import Pass


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU as its maker describes it.

    Attributes:
        bfloat16: FLOP/s of dense matrix products.
        float32: The same without tensor cores, which torch leaves unused for float32 unless told.
        bandwidth: Bytes/s of its memory.
        memory: Bytes.
    """

    name: str
    bfloat16: float
    float32: float
    bandwidth: float
    memory: float


# NVIDIA's data sheets; dense, not sparse.
CARDS = (
    Card("H100 SXM", 989e12, 67e12, 3.35e12, 80e9),
    Card("A100 80 GB", 312e12, 19.5e12, 2.04e12, 80e9),
    Card("L4", 121e12, 30.3e12, 0.30e12, 24e9),
)


@dataclass(frozen=True, slots=True)
class Rates:
    """What a program reaches on a card.

    Attributes:
        compute: Share of the card's FLOP/s.
        bandwidth: Share of the card's bytes/s.
        host: Kind of pass → seconds in which the host launches it, however small its matrices.
        waits: Whether the host waits for the arithmetic, as a CPU must that does it itself; a GPU works beside it.
    """

    card: Card
    compute: float
    bandwidth: float
    host: Mapping[str, float]
    waits: bool = False


def seconds_of(one: Pass, rates: Rates) -> float:
    """Return the seconds of passes: whatever of arithmetic, memory and host takes longest, and what no model does."""
    device, host = device_seconds(one, rates), host_seconds(one.kind, rates.host)
    return one.count * ((device + host if rates.waits else max(device, host)) + one.seconds)


def device_seconds(one: Pass, rates: Rates) -> float:
    """Return the seconds that one pass keeps the device busy."""
    peak = rates.card.bfloat16 if one.half else rates.card.float32
    return max(one.flops / (rates.compute * peak), one.bytes / (rates.bandwidth * rates.card.bandwidth))


def host_seconds(kind: str, host: Mapping[str, float]) -> float:
    """Return the host's seconds for one pass; an encoder's grow with its layers."""
    if not kind:
        return 0.0
    if kind.startswith("layers "):
        return int(kind.removeprefix("layers ")) * host["layer"]
    return host[kind]


def total_seconds(passes: Iterable[Pass], rates: Rates) -> float:
    """Return the seconds of all passes, one after the other."""
    return sum(seconds_of(one, rates) for one in passes)


def by_phase(passes: Iterable[Pass], rates: Rates) -> dict[str, float]:
    """Return phase → seconds."""
    found: dict[str, float] = {}
    for one in passes:
        found[one.phase] = found.get(one.phase, 0.0) + seconds_of(one, rates)
    return found


def bound_by(passes: Iterable[Pass], rates: Rates) -> dict[str, float]:
    """Return what limits → seconds: arithmetic, memory, host, or the words that one core scores."""
    found = dict.fromkeys(("arithmetic", "memory", "host", "words"), 0.0)
    for one in passes:
        peak = rates.card.bfloat16 if one.half else rates.card.float32
        limits = {
            "arithmetic": one.flops / (rates.compute * peak),
            "memory": one.bytes / (rates.bandwidth * rates.card.bandwidth),
            "host": host_seconds(one.kind, rates.host),
        }
        found[max(limits, key=lambda name: limits[name])] += one.count * max(limits.values())
        found["words"] += one.count * one.seconds
    return found


# --- a sweep ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Timed:
    """A job: its id, its seconds, and the id of the job that it starts from."""

    id: str
    seconds: float
    after: str | None = None


def makespan(jobs: Sequence[Timed], workers: int) -> float:
    """Return the seconds until all jobs are done: a free worker takes the first job that can start, as a sweep does.

    Raises:
        SystemExit: A job waits for one that is not there.
    """
    waiting, running, done, now = list(jobs), {}, set[str](), 0.0
    while waiting or running:
        for job in [each for each in waiting if each.after is None or each.after in done][: workers - len(running)]:
            waiting.remove(job)
            running[job.id] = now + job.seconds
        if not running:
            raise SystemExit(f"{waiting[0].id} waits for {waiting[0].after}, which is not there.")
        now = min(running.values())
        ended = {name for name, end in running.items() if end <= now}
        done |= ended
        running = {name: end for name, end in running.items() if name not in ended}
    return now


def longest_first(jobs: Sequence[Timed]) -> list[Timed]:
    """Return the jobs with the longest chains first: what a sweep would do if it knew how long its jobs take."""
    behind: dict[str, float] = {}
    for job in jobs:
        if job.after is not None:
            behind[job.after] = max(behind.get(job.after, 0.0), job.seconds)
    return sorted(jobs, key=lambda job: -(job.seconds + behind.get(job.id, 0.0)))


# --- what was measured -----------------------------------------------------------------------------------------------


def assumed(card: Card, compute: float, bandwidth: float, host: Mapping[str, float], factor: float) -> Rates:
    """Return the rates of a card that nobody measured here; `factor` multiplies the host's seconds."""
    return Rates(card, compute, bandwidth, {kind: factor * seconds for kind, seconds in host.items()})


def measured(results: Mapping[str, Any]) -> Rates:
    """Return the rates of the machine that a file of results was measured on."""
    peak = results["peak"]
    card = Card(
        results["machine"]["device"], peak["bfloat16"], peak["float32"], peak["bandwidth"], peak.get("memory", 0.0)
    )
    return Rates(card, results["compute"], 1.0, results["host"], waits=results["device"] == "cpu")
