"""Describe which policy a run kept: how much better it was on validation than the start, and how certain that is."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from grue.lm.checkpoint import FINAL
from grue.runs.plan import Plan

Line = Mapping[str, float]

COMPARED = ("validation/preference", "validation/reward")
NOISE = 2
"""Standard errors within which a difference counts as noise."""


def choice(plan: Plan, kept_update: int, lines: Sequence[Line], beside: str = "") -> Iterator[str]:
    """Yield which update a finished run kept and why; and how to evaluate its last policy, if that is another one.

    `beside` are further options that `grue evaluate --checkpoint` needs, a space before them.
    """
    validations = {int(line["update"]): line for line in lines if any(name in line for name in COMPARED)}
    last = max(validations, default=kept_update)
    changed = f": {change(validations, kept_update)}" if kept_update and kept_update in validations else ""
    if plan.config.keep == "last":
        yield f"kept update {kept_update}: the last{changed}"
        return
    why = "the best on validation" if kept_update else "none was better on validation"
    yield f"kept update {kept_update}: {why}{changed}"
    if last != kept_update:
        command = f"grue evaluate --checkpoint {shlex.quote(str(plan.folder / FINAL))}{beside}"
        yield f"the last, update {last}: {change(validations, last)}; `{command}`"


def change(validations: Mapping[int, Line], update: int) -> str:
    """Return the validation results of the start and of a later update, with standard errors where they are known."""
    start, end = validations.get(0, {}), validations[update]
    by, form = ("preference", ".1f") if "validation/preference" in end else ("reward", ".3f")
    text = f"{by} {measured(start, by, form)} → {measured(end, by, form)}"
    if "validation/gain_error" in end:
        gain, error = end["validation/gain"], end["validation/gain_error"]
        noise = ", within noise" if abs(gain) < NOISE * error else ""
        text += f" (difference {gain:+{form}} ± {error:{form}}, paired by prompt{noise})"
    natural = "validation/naturalness"
    return text + (f", naturalness {start[natural]:.1f} → {end[natural]:.1f}" if natural in end and start else "")


def measured(line: Line, by: str, form: str) -> str:
    """Return a figure of a validation with its standard error, if that is known; "?" if the line is not there."""
    value, error = line.get(f"validation/{by}"), line.get("validation/error")
    return "?" if value is None else f"{value:{form}}" + ("" if error is None else f" ± {error:{form}}")
