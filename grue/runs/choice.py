"""Which policy a run kept, in words: how much better it was on validation than the start, and how sure that is."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from grue.lm.checkpoint import FINAL
from grue.runs.plan import Plan

Line = Mapping[str, float]

COMPARED = ("validation/preference", "validation/reward")
NOISE = 2
"""Standard errors within which a difference may well be chance."""


def choice(plan: Plan, kept: int, lines: Sequence[Line], beside: str = "") -> Iterator[str]:
    """Yield which update a finished run kept and why; and how its last policy is evaluated, if that is another one.

    Args:
        kept: The update.
        lines: Of the run's log.
        beside: What `grue evaluate --checkpoint` needs besides, a space before it.
    """
    found = {int(line["update"]): line for line in lines if any(name in line for name in COMPARED)}
    last = max(found, default=kept)
    changed = f": {change(found, kept)}" if kept and kept in found else ""
    if plan.config.keep == "last":
        yield f"kept update {kept}: the last{changed}"
        return
    yield f"kept update {kept}: {'the best on validation' if kept else 'none was better on validation'}{changed}"
    if last != kept:
        command = f"grue evaluate --checkpoint {shlex.quote(str(plan.folder / FINAL))}{beside}"
        yield f"the last, update {last}: {change(found, last)}; `{command}`"


def change(found: Mapping[int, Line], update: int) -> str:
    """Return what validation said of the start and of a later update, with standard errors where they are known.

    Args:
        found: Update → the line of its validation.
    """
    start, end = found.get(0, {}), found[update]
    by, form = ("preference", ".1f") if "validation/preference" in end else ("reward", ".3f")
    said = f"{by} {measured(start, by, form)} → {measured(end, by, form)}"
    if "validation/gain_error" in end:
        gain, error = end["validation/gain"], end["validation/gain_error"]
        noise = ", within noise" if abs(gain) < NOISE * error else ""
        said += f" (difference {gain:+{form}} ± {error:{form}}, paired by prompt{noise})"
    natural = "validation/naturalness"
    return said + (f", naturalness {start[natural]:.1f} → {end[natural]:.1f}" if natural in end and start else "")


def measured(line: Line, by: str, form: str) -> str:
    """Return a figure of a validation with its standard error, if that is known; "?" if the line is not there."""
    value, error = line.get(f"validation/{by}"), line.get("validation/error")
    return "?" if value is None else f"{value:{form}}" + ("" if error is None else f" ± {error:{form}}")
