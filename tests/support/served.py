"""`transformers serve` in a process of its own, on 127.0.0.1."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

PATIENCE = 120  # seconds for the server to begin


@contextmanager
def served(model, log_path):
    """Serve the model of a folder; yields the base address. Skips the test where the server's packages are missing."""
    for name in ("fastapi", "uvicorn", "openai", "pydantic"):
        pytest.importorskip(name, reason=f"transformers serve needs {name}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code = "from transformers.cli.transformers import main; main()"
    command = [sys.executable, "-c", code, "serve", str(model), "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with log_path.open("wb") as log:
        process = subprocess.Popen([*command, "--host", "127.0.0.1"], stdout=log, stderr=log, env=environment)
        try:
            for _ in range(PATIENCE * 4):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                        break
                except (urllib.error.URLError, OSError):
                    assert process.poll() is None, log_path.read_text()
                    time.sleep(0.25)
            else:
                pytest.fail("the server did not begin")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(20)
