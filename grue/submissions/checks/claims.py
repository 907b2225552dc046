"""What a result states of itself and its training, against what can be and what its configuration makes."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from grue.bounds import COUNT, FIGURE, PERCENT, Bounds
from grue.errors import ConfigError, escaped
from grue.records import BASELINES, COSTS, Cost, Result
from grue.submissions.folder import SHA256, read_declared

ASKS_MORE = ("redraws", "calibration_samples", "select")
"""Settings that make a run ask the reward about more texts than its updates state."""
MOST = 2**53  # beyond, not every whole number is a number of JSON
REACHABLE = "reachable"
"""How the gain is computed that no policy of the same KL exceeds (`grue tools frontier`)."""


@dataclass(frozen=True, slots=True)
class StatedFigures:
    """What is read of a result's `validation` and `frontier`, which may state more.

    Attributes:
        kl: From the start in nats a response, computed over whole distributions: never negative but for rounding.
        share: Of the gain that can be reached at that KL; of a gain that one kind of policy attains it may be above 1.
    """

    kl: Annotated[float | None, Bounds(least=-1e-3)] = None
    preference: Annotated[float | None, PERCENT] = None
    naturalness: Annotated[float | None, PERCENT] = None
    reward: Annotated[float | None, FIGURE] = None
    sampled_reward: Annotated[float | None, FIGURE] = None
    gain: Annotated[float | None, FIGURE] = None
    share: Annotated[float | None, FIGURE] = None
    how: str = ""
    prompts: Annotated[int | None, COUNT] = None
    samples: Annotated[int | None, COUNT] = None


def untrue(result: Result) -> Iterator[str]:
    """Yield what a result states and no run can have: a KL below 0, a share above 1, a hash that is none."""
    system, last, counts = result.system, last_of(result), result.counts
    parts = {"validation": system.get("validation"), "last: validation": last.get("validation")}
    for place, figures in (parts | {"frontier": system.get("frontier")}).items():
        try:
            read = read_declared(StatedFigures, _table(figures), place, ConfigError)
        except ConfigError as refusal:
            yield str(refusal).rstrip(".")
            continue
        if read.how == REACHABLE and read.share is not None and read.share > 1:
            yield f"{place}: share: states {read.share:g} of what can be reached, which is 1 at most"
    whole, samples = counts.get("expected", math.inf), counts.get("samples", 1)
    if samples < 1:
        yield f"counts: samples: states {samples:,}; one text at least is drawn for an example"
    most = {"empty": whole * samples, "truncated": whole * samples, "samples": math.inf}
    for key, n in counts.items():
        if not 0 <= n <= most.get(key, whole):
            of = f"{most.get(key, whole):,} {'texts' if samples > 1 else 'examples'}"
            yield f"counts: {key}: states {n:,} of {of}"
    yield from (f"timing: {key}: must be at least 0, found {took:g}" for key, took in result.timing.items() if took < 0)
    hashes: dict[str, Any] = {f"hashes: {key}": value for key, value in result.hashes.items()}
    hashes |= {f"system: {key}": system.get(key) or None for key in ("weights", "start", "config_sha256")}
    for key, value in hashes.items():
        is_named = key == "system: weights" and ("@" in str(value) or value in BASELINES)  # a model of the hub, or none
        if value is not None and not is_named and not SHA256.fullmatch(str(value)):
            yield f"{key}: {escaped(value, 70)!r} is no sha256, which has 64 hexadecimal digits"
    kept, spent = costs_of(result)
    for where, costs in (("training", kept), ("last: training", spent)):
        for cost, value in costs.items():
            if amount(cost, value) is None:
                yield f"{where}: {cost}: states {value!r}, which cannot be"
    totals = amounts(spent)
    for cost, part in amounts(kept).items():
        if part > totals.get(cost, part):
            yield f"{cost}: states {part:,.0f} until the kept update and {totals[cost]:,.0f} in the whole run"


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


# --- costs -----------------------------------------------------------------------------------------------------------


def costs_of(result: Result) -> tuple[Mapping[Cost, Any], Mapping[Cost, Any]]:
    """Return what a result states until the kept update, and of the whole run, whether or not it can be."""
    kept, whole = (_table(part.get("training")) for part in (result.system, last_of(result)))
    return {cost: kept[cost] for cost in COSTS if cost in kept}, {cost: whole[cost] for cost in COSTS if cost in whole}


def last_of(result: Result) -> Mapping[str, Any]:
    """Return what a result states of the last checkpoint of its run."""
    return _table(result.system.get("last"))


def amounts(costs: Mapping[Cost, Any]) -> dict[Cost, float]:
    """Return the stated costs that can be; what cannot counts as not stated."""
    return {cost: read for cost, value in costs.items() if (read := amount(cost, value)) is not None}


def amount(cost: Cost, value: Any) -> float | None:
    """Return a stated cost as a number from 0 on, whole for all but seconds; None for what cannot be."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= MOST):
        return None
    return float(value) if cost == "seconds" or float(value).is_integer() else None


def other_calls(config: Mapping[str, Any], from_backbone: bool, result: Result) -> Iterator[str]:
    """Yield where a result states other reward calls than its configuration makes: updates × rollouts.

    A-LoL fits its value in the first update to further answers. What began from a checkpoint that no stage of the
    configuration made may have more calls, and so may what asks beside its rollouts (`ASKS_MORE`).

    Args:
        from_backbone: Whether there is no stage before it; a supervised stage makes no calls.
    """
    last = last_of(result)
    rollouts, updates = (amount("steps", config.get(name, 0)) for name in ("rollouts", "updates"))
    if rollouts is None or updates is None:
        return
    may_have_more = (from_backbone and bool(result.system.get("start"))) or any(map(config.get, ASKS_MORE))
    ends = {"kept": result.system.get("update"), "last": last.get("update")}
    for (which, update), costs in zip(ends.items(), costs_of(result), strict=True):
        spent, reached = amounts(costs), amount("steps", update)
        calls, episodes = spent.get("reward_calls"), spent.get("episodes")
        if reached is None:
            if calls is not None:
                yield f"reward_calls: states {calls:,.0f} until the {which} update, and not which update that is."
            continue
        made = reached * rollouts
        if calls is None:
            if episodes is not None and episodes < made:
                least = f"its configuration makes {made:,.0f} at least"
                yield f"episodes: states {episodes:,.0f} until the {which} update; {least}."
            continue
        if reached and config.get("variant") != "r_lol":  # it has the setting, and fits no value
            made += amount("reward_calls", config.get("value_prompts", 0)) or 0.0
        if calls < made or (calls > made and not may_have_more):
            yield f"reward_calls: states {calls:,.0f} until the {which} update; its configuration makes {made:,.0f}."
    if ends["last"] is not None and rollouts and ends["last"] != updates:
        yield f"last: update: states {ends['last']!r}; its configuration makes {updates:,.0f}."
