"""Named values of settings, for `--preset`, and which of them a run has; free of torch, so that a board can show it."""

from collections.abc import Mapping
from typing import Any

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "dpo": {"ipo": {"loss": "ipo"}},
    "grpo": {
        "dr_grpo": {"scale_by": "nothing", "loss_over": "constant", "kl_coefficient": 0.0},
        "dapo": {"clip_high": 0.28, "loss_over": "tokens", "kl_coefficient": 0.0, "redraws": 10},
        "gspo": {"ratio_of": "responses", "clip": 3e-4, "clip_high": 4e-4, "kl_coefficient": 0.0},
    },
    # NLPO as the paper describes it, as the published code really ran it, and as it is stable.
    "nlpo": {
        "paper": {"mask_source": "periodic", "mass_coefficient": 0.0, "kl_over": "vocabulary", "ratio_over": "support"},
        "rl4lms": {
            "mask_source": "frozen",
            "mass_coefficient": 0.0,
            "min_tokens_to_keep": 100,
            "always_open": "special",
            "kl_over": "vocabulary",
            "ratio_over": "vocabulary",
        },
        "stable": {"mask_source": "periodic", "mass_coefficient": 0.1, "kl_over": "support", "ratio_over": "support"},
    },
    "tpo": {"tpo-l": {"per_token": True, "margin": 0.5}},
}
"""Algorithm → preset → its settings; "paper" is among them where the defaults are not the paper's."""
OWN_SETTINGS = "own settings"
"""The name of settings that are neither the paper's nor another preset."""


def preset_of(algorithm: str, config: Mapping[str, Any]) -> str:
    """Return the preset that a run's settings agree with, however they were set; empty if the defaults are the paper's.

    Args:
        algorithm: The last stage counts, as in `supervised+nlpo`.
        config: The run's settings; one that is turned off is None or missing.
    """
    known = PRESETS.get(algorithm.rpartition("+")[2], {})
    for name, settings in known.items():
        if all(config.get(key) == value for key, value in settings.items()):
            return name
    return OWN_SETTINGS if "paper" in known else ""
