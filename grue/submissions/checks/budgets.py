"""What a result states that its training took, against what can be: of itself, and by the configuration."""

from collections.abc import Iterator, Mapping
from typing import Any

from grue.records import COSTS, Cost, Result

ASKS_MORE = ("redraws", "calibration_samples", "select")
"""Settings that make a run ask the reward about more texts than its updates state."""
MOST = 2**53  # beyond, not every whole number is a number of JSON


# --- what a result states --------------------------------------------------------------------------------------------


def stated(result: Result) -> tuple[Mapping[Cost, Any], Mapping[Cost, Any]]:
    """Return what a result states until the kept update, and of the whole run, whether or not it can be."""
    return _costs(result.system.get("training")), _costs(last_of(result).get("training"))


def last_of(result: Result) -> Mapping[str, Any]:
    """Return what a result states of the last checkpoint of its run."""
    last = result.system.get("last")
    return last if isinstance(last, Mapping) else {}


def amounts(costs: Mapping[Cost, Any]) -> dict[Cost, float]:
    """Return the stated costs that can be; what cannot counts as not stated."""
    return {cost: value for cost, said in costs.items() if (value := amount(cost, said)) is not None}


def amount(cost: Cost, value: Any) -> float | None:
    """Return a stated cost as a number from 0 on, whole for all but seconds; None for what cannot be."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= MOST):
        return None
    return float(value) if cost == "seconds" or float(value).is_integer() else None


def _costs(found: Any) -> dict[Cost, Any]:
    return {cost: found[cost] for cost in COSTS if cost in found} if isinstance(found, Mapping) else {}


# --- against what can be ---------------------------------------------------------------------------------------------


def impossible(result: Result) -> Iterator[str]:
    """Yield what no training can have taken."""
    kept, whole = stated(result)
    for where, costs in (("training", kept), ("last: training", whole)):
        for cost, value in costs.items():
            if amount(cost, value) is None:
                yield f"{where}: {cost}: states {value!r}, which cannot be"
    parts, totals = amounts(kept), amounts(whole)
    for cost, part in parts.items():
        if part > totals.get(cost, part):
            yield f"{cost}: states {part:,.0f} until the kept update and {totals[cost]:,.0f} in the whole run"


def other_calls(config: Mapping[str, Any], from_backbone: bool, result: Result) -> Iterator[str]:
    """Yield where a result states other reward calls than its configuration makes.

    It makes updates × rollouts, and `_calls_of_first_update` beside them. A response to which the reward does not
    apply was a call too. A supervised stage before makes none. What began from a checkpoint that no stage of the
    configuration made may have more, and so may what asks beside its rollouts (`ASKS_MORE`).

    Args:
        config: Settings of the last stage.
        from_backbone: Whether there is no stage before it.
    """
    system, ends = result.system, last_of(result).get("update")
    rollouts, updates = (amount("steps", config.get(name, 0)) for name in ("rollouts", "updates"))
    if rollouts is None or updates is None:
        return
    more = (from_backbone and bool(system.get("start"))) or any(config.get(name) for name in ASKS_MORE)
    for what, update, costs in zip(("kept", "last"), (system.get("update"), ends), stated(result), strict=True):
        spent, reached = amounts(costs), amount("steps", update)
        calls, episodes = spent.get("reward_calls"), spent.get("episodes")
        if reached is None:
            if calls is not None:
                yield f"reward_calls: states {calls:,.0f} until the {what} update, and not which update that is."
            continue
        if calls is None:
            if episodes is not None and episodes < reached * rollouts:
                least = f"its configuration makes {reached * rollouts:,.0f} at least"
                yield f"episodes: states {episodes:,.0f} until the {what} update; {least}."
            continue
        made = reached * rollouts + _calls_of_first_update(config, reached)
        if calls < made or (calls > made and not more):
            yield f"reward_calls: states {calls:,.0f} until the {what} update; its configuration makes {made:,.0f}."
    if ends is not None and rollouts and ends != updates:
        yield f"last: update: states {ends!r}; its configuration makes {updates:,.0f}."


def _calls_of_first_update(config: Mapping[str, Any], update: float) -> float:
    """Return what the first update asks beside its rollouts: A-LoL's answers to fit a value, which `r_lol` has none of.

    Args:
        update: The update that was reached; 0 is before the first.
    """
    if not update or config.get("variant") == "r_lol":
        return 0.0
    return amount("reward_calls", config.get("value_prompts", 0)) or 0.0
