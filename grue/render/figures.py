"""Single figures as text: a dash for what is unknown, intervals by their ends, p values."""

from grue.stats.intervals import Interval

UNKNOWN = "–"


def figure(value: float | None, form: str) -> str:
    """Return a figure in a format; a dash for an unknown one."""
    return UNKNOWN if value is None else f"{value:{form}}"


def ends(interval: Interval | None, form: str) -> str:
    """Return an interval by its ends."""
    return UNKNOWN if interval is None else f"[{interval.low:{form}}, {interval.high:{form}}]"


def p_value(p: float | None) -> str:
    """Return a p value."""
    return UNKNOWN if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
