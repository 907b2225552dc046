"""Where models compute: the environment variable GRUE_DEVICE, else the GPU if there is one, else the CPU.

And whether bfloat16 is fast there.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from grue.errors import ConfigError

if TYPE_CHECKING:
    import torch


def scoring_device() -> "torch.device":
    """Return the device that models score on.

    Raises:
        ConfigError: torch cannot use the device that GRUE_DEVICE names.
    """
    import torch

    wanted = os.environ.get("GRUE_DEVICE", "")
    if not wanted:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:  # what torch raises for devices that it lacks
        raise ConfigError(
            f"GRUE_DEVICE is {wanted!r}, which torch cannot use here: {str(error).splitlines()[0].rstrip('.')}. "
            "Set it to cpu, cuda or cuda:<number>, or unset it."
        ) from error
    return device


def multiplies_bfloat16(device: "torch.device") -> bool:
    """Whether a device multiplies bfloat16 matrices in hardware; another CPU takes about eight times as long."""
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    able: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # older versions of torch cannot say
    return device.type == "cpu" and bool(able.get("amx_bf16") or able.get("avx512_bf16"))
