"""What the tests of several processes share: scripts run in two of them by gloo on the CPU, and no launcher around."""

import multiprocessing
import os
import socket
import sys
from pathlib import Path

import pytest

LAUNCHED = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in (*LAUNCHED, "GRUE_DEVICE", "GRUE_TIMEOUT", *(n for n in os.environ if n.startswith("ACCELERATE_"))):
        monkeypatch.delenv(name, raising=False)


def launch(script, folder, processes=2, **environment):
    """Run a script in several processes, forked from this one; return what each saved, and its exit code and output."""
    import torch
    import transformers  # noqa: F401  # once for all

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **environment}
    code, ranks = f"OUT = {str(folder)!r}\n" + script, range(processes)
    started = [start(code, folder / f"{rank}.log", RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank in ranks]
    try:
        for process in started:
            process.join(300)
    finally:
        for process in started:
            process.kill()
            process.join()
    saved = [folder / f"{rank}.pt" for rank in ranks]
    loaded = [torch.load(one, weights_only=False) if one.exists() else None for one in saved]
    return loaded, [((folder / f"{rank}.log").read_text(), started[rank].exitcode) for rank in ranks]


def start(code, output, **environment):
    """Start a process, forked from this one, that runs a script and writes what it prints to a file."""
    process = multiprocessing.get_context("fork").Process(target=_run, args=(code, output, environment))
    process.start()
    return process


def _run(code, output, environment):
    out = Path(output).open("w", buffering=1)  # noqa: SIM115  # until the process ends
    for descriptor in (1, 2):
        os.dup2(out.fileno(), descriptor)
    sys.stdout = sys.stderr = out
    os.environ.update(environment)
    exec(compile(code, "script", "exec"), {"__name__": "__main__"})


def together(script, folder, **environment):
    """Run a script in two processes, both of which must end well; return what each saved."""
    saved, ends = launch(script, folder, **environment)
    assert [code for _, code in ends] == [0, 0], ends
    return saved
