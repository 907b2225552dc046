"""What the tests of several processes share: scripts run in two of them by gloo on the CPU, and no launcher around."""

import os
import socket
import subprocess
import sys

import pytest
import torch
from support.paths import ROOT, TESTS

LAUNCHED = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in (*LAUNCHED, "GRUE_DEVICE", "GRUE_TIMEOUT", *(n for n in os.environ if n.startswith("ACCELERATE_"))):
        monkeypatch.delenv(name, raising=False)


def launch(script, folder, processes=2, **environment):
    """Run a script in several processes; return what each saved, and its exit code and output."""
    path = folder / "script.py"
    path.write_text(f"OUT = {str(folder)!r}\n" + script)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    here = f"{ROOT}{os.pathsep}{TESTS}"
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": here}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", str(path)],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(processes)
    ]
    try:
        ends = [(process.communicate(timeout=300)[0], process.returncode) for process in started]
    finally:
        for process in started:
            process.kill()
    saved = [folder / f"{rank}.pt" for rank in range(processes)]
    return [torch.load(one, weights_only=False) if one.exists() else None for one in saved], ends


def together(script, folder, **environment):
    """Run a script in two processes, both of which must end well; return what each saved."""
    saved, ends = launch(script, folder, **environment)
    assert [code for _, code in ends] == [0, 0], ends
    return saved
