"""Sweeps on Ray: nodes on the loopback give what one machine gives, and one that dies takes no run with it."""

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support import sweeps
from support.openai_server import serving

from grue import __version__, files
from grue.errors import ConfigError, DataError
from grue.sweep.on_ray import NodeExpectation, RayExecutor, check_node, room, work
from grue.sweep.record import Record
from grue.sweep.work import JobContext

slow = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def a_token_of_its_own():
    """Ray would take the token in the user's home, or make one there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        yield


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


# --- without Ray -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked",
    ["--gpus 1.5", *(f"--address {there}" for there in ("ray://head:10001", "head", ":6379", "head:", "head:ssh"))],
)
def test_what_cannot_be_asked_of_ray_is_refused(asked, tmp_path, refused):
    refused.command(*sweeps.sweep_command(tmp_path, "--executor", "ray", *asked.split()), code=2)


def test_without_ray_or_a_cluster_it_is_said_how_to_get_it(tmp_path, monkeypatch, refused):
    command, port = sweeps.sweep_command(tmp_path, "--executor", "ray"), free_port()
    with pytest.raises(ConfigError) as caught:
        RayExecutor(record_with_a_grid(tmp_path), JobContext(runs=tmp_path), None, address=f"127.0.0.1:{port}")
    assert f"--address 127.0.0.1:{port}: no Ray cluster can be reached there" in str(caught.value)
    assert f"`ray start --head --port={port}` on its first node starts one" in str(caught.value)
    monkeypatch.setitem(sys.modules, "ray", None)
    refused.command(*command, code=2)


def record_with_a_grid(runs):
    record = Record(runs)
    files.write_text(record.grid_path, 'tasks = ["imdb"]\n')
    return record


def a_node(alive=True, **resources):
    return {"Alive": alive, "Resources": resources}


@pytest.mark.parametrize(
    ("nodes", "cpus", "gpus", "runs"),
    [
        ([a_node(CPU=4.0), a_node(CPU=2.0)], 1, 0.0, 6),
        ([a_node(CPU=4.0), a_node(alive=False, CPU=2.0)], 1, 0.0, 4),
        ([a_node(CPU=3.0), a_node(CPU=3.0)], 2, 0.0, 2),  # not 3: a run is on one node
        ([a_node(CPU=8.0)], 1, 1.0, 0),
        ([a_node(CPU=8.0, GPU=2.0), a_node(CPU=8.0)], 1, 1.0, 2),
        ([a_node(CPU=8.0, GPU=2.0)], 1, 0.6, 2),  # not 3: a run is on one GPU
        ([a_node(CPU=16.0, GPU=1.0)], 1, 0.1, 10),
        ([a_node(CPU=3.0, GPU=4.0)], 1, 0.5, 3),
        ([a_node(CPU=8.0, GPU=5.0)], 1, 2.0, 2),
        ([a_node()], 1, 0.0, 0),
    ],
)
def test_a_node_has_room_for_as_many_runs_as_its_cpus_and_gpus_allow(nodes, cpus, gpus, runs):
    assert room(nodes, cpus, gpus) == runs


def expected_of(grid):
    folder, sha256 = grid.parent, files.sha256_file(grid)
    return NodeExpectation(
        version=__version__, grid_path=grid, grid_hash=sha256, stop_path=folder / "stop-0", working=folder
    )


def test_a_worker_works_where_the_sweep_was_started(tmp_path, monkeypatch):
    expected, seen = expected_of(record_with_a_grid(tmp_path).grid_path), []
    monkeypatch.chdir("/")
    monkeypatch.setattr("grue.sweep.on_ray.redirect_output", lambda log: None)
    monkeypatch.setattr("grue.sweep.on_ray.carry_out", lambda *_: seen.append(Path.cwd()))
    for working, there in ((tmp_path, tmp_path), (tmp_path / "not on this node", tmp_path)):
        work(None, None, tmp_path / "log", replace(expected, working=working))
        assert seen.pop() == there.resolve()


def test_a_node_may_work_that_sees_the_folder_and_has_the_same_version(tmp_path, monkeypatch):
    grid = record_with_a_grid(tmp_path).grid_path
    origin = expected_of(grid)
    assert check_node(origin) is None
    monkeypatch.setattr("grue.sweep.on_ray.__version__", "0.0.9")
    with pytest.raises(ConfigError, match=f"has grue 0.0.9; the sweep was started with {__version__}"):
        check_node(origin)
    monkeypatch.undo()
    grid.write_text('tasks = ["commongen"]\n')
    for lose in (lambda: None, grid.unlink):  # it sees another folder, or none
        lose()
        with pytest.raises(DataError, match=f"does not see {grid} as the machine.*All nodes must share the folder of"):
            check_node(origin)


# --- two nodes on this machine ---------------------------------------------------------------------------------------


def end_with_this_process():
    """Have the kernel send SIGTERM to this process when its parent dies, so that a killed pytest leaves no cluster."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def start_node(*options):
    """Start a node of one CPU in a session of its own; return when it is up."""
    command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=1", *options]
    node = subprocess.Popen(
        [*command, "--node-ip-address=127.0.0.1", "--object-store-memory=80000000", "--disable-usage-stats"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=end_with_this_process,
    )
    said = []
    for line in node.stdout:
        said.append(line)
        if "Ray runtime started" in line:
            return node
    kill_node(node)
    raise RuntimeError("".join(said))


def kill_node(node):
    """Kill all of a node at once, as when its power fails."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            if int(stat.rpartition(")")[2].split()[3]) == node.pid:
                os.kill(int(entry.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue
    node.wait()


@pytest.fixture(scope="module")
def two_nodes(a_token_of_its_own):
    """A cluster of two nodes with a CPU each: its address, the head, the other, which the last test to use it kills."""
    pytest.importorskip("ray")
    address = f"127.0.0.1:{(port := free_port())}"
    begun = []
    # Not tmp_path: the path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        try:
            begun.append(start_node("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}"))
            begun.append(start_node(f"--address={address}"))
            yield address, *begun
        finally:
            for node in reversed(begun):
                kill_node(node)


@slow
def test_two_nodes_give_what_one_machine_gives(sweeping, two_nodes, tmp_path):
    """Two runs that are trained, and a model behind an address, asked from there."""
    address, head, other = two_nodes
    made = {}
    with serving(reply=lambda body: f"a {body['prompt'].split()[-1]} runs") as served:
        endpoint = {"url": served.url, "completions": True}
        grid = {"tasks": [str(sweeps.small_task(tmp_path))], "algorithms": ["ppo", "nlpo"], "set": sweeps.SMALL}
        files.write_toml(tmp_path / "grid.toml", grid | {"models": [{"model": "theirs", "endpoint": endpoint}]})
        for name, options in (("ray", ("--executor", "ray", "--address", address)), ("local", ())):
            process = sweeping(
                "sweep", "--config", str(tmp_path / "grid.toml"), "--runs", str(tmp_path / name), *options
            )
            if name == "ray":
                sweeps.wait_until(process, lambda: sweeps.workers(head) and sweeps.workers(other))
            sweeps.ends_well(process, "3 runs: 3 finished")
            made[name] = {
                path.relative_to(tmp_path / name): path.read_bytes()
                for wanted in ("predictions.jsonl", "checkpoint/model.safetensors")
                for path in (tmp_path / name).glob(f"own/words/*/*/{wanted}")
            }
    assert len(made["ray"]) == 3 + 2
    assert made["ray"] == made["local"]
    result = files.read_json(tmp_path / "ray/own/words/theirs+completions/seed-1/result.json")
    assert result["system"]["endpoint"]["requests"] == 8
    assert not [*(tmp_path / "ray/sweep").glob("stop-*")]


@slow
def test_a_run_is_saved_by_ctrl_c_and_goes_on_elsewhere_and_a_node_that_dies_takes_none_with_it(
    sweeping, two_nodes, tmp_path
):
    """The first command has a cluster of its own; the second one is the same on two nodes, of which one dies."""
    address, _, other = two_nodes
    runs, jobs = tmp_path / "runs", [f"own/words/ppo/seed-{seed}" for seed in (1, 2, 3)]
    task = sweeps.small_task(tmp_path)
    command = sweeps.sweep_command(runs, "--executor", "ray", "--no-evaluate", tasks=task, seeds="1-3", updates=12)
    process = sweeping(*command, "--jobs", "1")
    sweeps.wait_until(process, lambda: sweeps.updates_of(runs, jobs[0]))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    sweeps.ends_with(process, 130)
    assert sweeps.states(runs) == [(jobs[0], "running"), (jobs[0], "stopped")]
    assert [*(runs / jobs[0] / "states").iterdir()]
    wait_for_none(process)
    assert not [*(runs / "sweep").glob("stop-*")]
    assert 0 < len(sweeps.updates_of(runs, jobs[0])) < 12

    process = sweeping(*command, "--address", address)
    lost = sweeps.wait_until(
        process,
        lambda: next((job for job in sweeps.workers(other) if 0 < len(sweeps.updates_of(runs, job)) < 12), None),
    )
    kill_node(other)
    sweeps.ends_well(process, "3 runs: 3 finished")
    seen = Counter(sweeps.states(runs))
    assert [seen[job, "running"] for job in jobs] == [1 + (job == jobs[0]) + (job == lost) for job in jobs]
    assert [seen[job, "failed"] for job in jobs] == [int(job == lost) for job in jobs]
    assert [seen[job, "finished"] for job in jobs] == [1] * 3
    [message] = [message for _, state, message in sweeps.events(runs) if state == "failed"]
    assert message.startswith(("WorkerCrashedError: ", "NodeDiedError: "))
    assert {job: sweeps.updates_of(runs, job) for job in jobs} == {job: [*range(1, 13)] for job in jobs}


def wait_for_none(process):
    """Ray kills its workers behind itself."""
    deadline = time.monotonic() + 120
    while sweeps.workers(process):
        assert time.monotonic() < deadline, "a worker outlives its cluster"
        time.sleep(0.1)
