import functools
import os
import tempfile
from pathlib import Path

import frozen
import pytest

# One thread a process: two torch processes with two threads each slow each other tenfold.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
# What tests load is cached, too, but never among the user's own data.
CACHE = tempfile.TemporaryDirectory(prefix="grue-cache-")
os.environ["GRUE_CACHE"] = CACHE.name


def pytest_configure(config):
    """Name the folder of the golden traces (support/golden.py), which outlive a session."""
    if cache := getattr(config, "cache", None):
        os.environ["GRUE_GOLDEN_TRACES"] = str(cache.mkdir("golden"))


@functools.cache
def left_out(config):
    """The folders of which nothing changed since they passed, but those that the command line names."""
    named = {part for arg in config.args for part in Path(arg.split("::")[0]).parts}
    return [name for name in frozen.unchanged() if name not in named]


def pytest_ignore_collect(collection_path, config):
    return True if collection_path.parent.name == "tests" and collection_path.name in left_out(config) else None


def pytest_make_parametrize_id(val):
    """Name bytes by their length: archives hold the second in which they were packed, and pytest-xdist wants equal names."""
    return f"{len(val)}_bytes" if isinstance(val, bytes) else None


def pytest_terminal_summary(terminalreporter):
    """Print what was left out, and what tests measured: the largest difference between a metric and its reference."""
    config = terminalreporter.config
    if names := left_out(config):
        folders = ", ".join(f"tests/{name}" for name in names)
        terminalreporter.write_line(f"Left out, unchanged since they passed: {folders}; `make test-frozen` runs them.")
    if config.option.markexpr:
        terminalreporter.write_line(f"Only the tests that -m {config.option.markexpr!r} selects were run.")
    measured = [
        (report.nodeid.split("::")[-1], value)
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "largest difference"
    ]
    if measured:
        terminalreporter.section("largest differences from the reference libraries")
        for name, value in sorted(measured):
            terminalreporter.write_line(f"{name:84} {value}")


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """Let `os.fsync` do nothing: nobody cuts the power here, and thousands of small files would be waited for.

    That it is called, and before what, is what test_files.py and test_states.py look at.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def hub():
    """A server of this process that speaks the hub's API."""
    from support import hub_server

    with hub_server.serving() as served:
        yield served


@pytest.fixture
def waited(hub, monkeypatch, tmp_path):
    """The hub's client connected to it; the seconds that it would have waited."""
    from support import hub_server

    with hub_server.connected(hub, monkeypatch, tmp_path) as seconds:
        yield seconds


@pytest.fixture
def refused(snapshot, tmp_path_factory):
    """`with refused(ConfigError):` expects that error, and its message of the snapshot file."""
    from support.refusals import Messages, Refused

    return Refused(snapshot.use_extension(Messages), tmp_path_factory.getbasetemp())
