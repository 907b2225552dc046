"""A run's settings as its record keeps them: without those that change nothing, so that old hashes stay valid."""

from collections.abc import Mapping
from typing import Any

from grue.rl.settings import OF_A_MASK

LATER: Mapping[str, Any] = {
    **{"select": None, "reference": None, "redraws": 0, "calibration_samples": 0, "calibration_tilt": 0.0},
    **{"supervised_coefficient": 0.0, "overlong_buffer": 0, "overlong_penalty": 1.0},
    **{"ratio_of": "tokens", "kl_estimator": "k3", "kl_corrected": False, "importance_cap": 2.0},
    **{"validate_on": "decoding", "keep": "best", "rewrite": False},
}
"""Settings that were added after runs had been recorded, with the values that change nothing."""


def effective_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those of `LATER` that change nothing, so that the hashes of older runs stay valid."""
    masked = settings.get("mask") is not None
    return {
        key: value
        for key, value in settings.items()
        if not (key in LATER and value == LATER[key])
        and (masked or key not in (*OF_A_MASK, "mask", "mass_coefficient"))
    }
