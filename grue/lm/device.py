"""The device of models: the environment variable GRUE_DEVICE, else the GPU if there is one, else the CPU.

Also whether bfloat16 is fast there, and how much memory is left.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from grue.errors import ConfigError

if TYPE_CHECKING:
    import torch


def scoring_device() -> "torch.device":
    """Return the device that models score on; a ConfigError if torch cannot use the one that GRUE_DEVICE names."""
    import torch

    name = os.environ.get("GRUE_DEVICE", "")
    if not name:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:  # torch raises these for devices that it lacks
        raise ConfigError(
            f"GRUE_DEVICE is {name!r}, which torch cannot use here: {str(error).splitlines()[0].rstrip('.')}. "
            "Set it to cpu, cuda or cuda:<number>, or unset it."
        ) from error
    return device


def multiplies_bfloat16(device: "torch.device") -> bool:
    """Whether a device multiplies bfloat16 matrices in hardware; other CPUs take about eight times as long."""
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    able: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # missing in older versions of torch
    return device.type == "cpu" and bool(able.get("amx_bf16") or able.get("avx512_bf16"))


def available_on(device: "torch.device") -> int | None:
    """Return the free memory of a device in bytes, or None if unknown."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available() if device.type == "cpu" else None


def available(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the bytes available to new processes, or None on systems other than Linux."""
    if not meminfo.exists():
        return None
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    free = int(fields["MemAvailable"].split()[0]) * 1024
    limit, used = cgroup / "memory.max", cgroup / "memory.current"
    if limit.exists() and used.exists() and limit.read_text().strip() != "max":
        # The page cache counts towards the limit, but is released on demand.
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        taken = int(used.read_text()) - int(stat.get("inactive_file", 0))
        free = min(free, int(limit.read_text()) - taken)
    return free
