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
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.chat_models import chat_model
from support.served import served
from support.sweeps import end_all, ended, events, record_of, start, states, sweep_command, wait_until, workers

from grue import __version__, files
from grue.cli.main import main
from grue.errors import ConfigError, DataError
from grue.sweep.on_ray import NodeExpectation, RayExecutor, check_node, room
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


# --- without Ray -----------------------------------------------------------------------------------------------------


def refused(tmp_path, *more):
    done = CliRunner().invoke(main, sweep_command(tmp_path, "--executor", "ray", *more))
    assert done.exit_code == 2, done.output
    return done.output


def test_without_ray_it_is_said_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert refused(tmp_path) == "Error: --executor ray needs Ray, which is not installed: pip install 'grue[ray]'.\n"


def test_a_part_of_several_gpus_is_refused(tmp_path):
    assert refused(tmp_path, "--gpus", "1.5") == "Error: --gpus 1.5: more than one GPU must be a whole number.\n"


@pytest.mark.parametrize("address", ["ray://head:10001", "head", ":6379", "head:", "head:ssh"])
def test_an_address_of_another_kind_is_refused(tmp_path, address):
    assert f"Error: --address {address}: write host:port of the cluster's head" in refused(
        tmp_path, "--address", address
    )


def test_where_nothing_listens_it_is_said_at_once(tmp_path):
    port = free_port()
    said = refused(tmp_path, "--address", f"127.0.0.1:{port}")
    assert f"Error: --address 127.0.0.1:{port}: no Ray cluster can be reached there" in said
    assert f"`ray start --head --port={port}` on its first node starts one" in said


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
        ([a_node(CPU=8.0, GPU=2.0)], 1, 0.5, 4),
        ([a_node(CPU=8.0, GPU=2.0)], 1, 0.6, 2),  # not 3: a run is on one GPU
        ([a_node(CPU=16.0, GPU=1.0)], 1, 0.1, 10),
        ([a_node(CPU=3.0, GPU=4.0)], 1, 0.5, 3),
        ([a_node(CPU=8.0, GPU=5.0)], 1, 2.0, 2),
        ([{"Alive": True, "Resources": {}}], 1, 0.0, 0),
    ],
)
def test_a_node_has_room_for_as_many_runs_as_its_cpus_and_gpus_allow(nodes, cpus, gpus, runs):
    assert room(nodes, cpus, gpus) == runs


@pytest.fixture
def origin(tmp_path):
    grid = tmp_path / "sweep.toml"
    grid.write_text('tasks = ["imdb"]\n')
    return NodeExpectation(
        version=__version__, grid_path=grid, grid_hash=files.sha256_file(grid), stop_path=tmp_path / "stop-0"
    )


def test_a_node_that_sees_the_folder_and_has_the_same_version_may_work(origin):
    assert check_node(origin) is None


def test_a_node_that_sees_another_folder_may_not(origin):
    origin.grid_path.write_text('tasks = ["commongen"]\n')
    with pytest.raises(DataError, match="All nodes must share the folder of runs under the same path"):
        check_node(origin)
    origin.grid_path.unlink()
    with pytest.raises(DataError, match=f"does not see {origin.grid_path} as the machine"):
        check_node(origin)


def test_a_node_with_another_version_may_not(origin, monkeypatch):
    monkeypatch.setattr("grue.sweep.on_ray.__version__", "0.0.9")
    with pytest.raises(ConfigError, match=f"has grue 0.0.9; the sweep was started with {__version__}"):
        check_node(origin)


# --- two nodes on this machine ---------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def end_with_this_process():
    """Have the kernel send SIGTERM to this process when its parent dies, so that a killed pytest leaves no cluster."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def start_node(*options):
    """Start a node of one CPU in a session of its own; return when it is up."""
    command = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--num-cpus=1"]
    node = subprocess.Popen(
        [*command, "--node-ip-address=127.0.0.1", "--object-store-memory=80000000", "--disable-usage-stats", *options],
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


@pytest.fixture
def sweeping():
    """Start sweeps, and leave nothing of them behind."""
    begun = []

    def begin(*command):
        begun.append(start(*command))
        return begun[-1]

    yield begin
    for process in begun:
        end_all(process)


def contents(runs, name):
    return {path.relative_to(runs): path.read_bytes() for path in runs.glob(f"mini/*/*/*/{name}")}


def updates_of(runs, job):
    path = runs / "mini" / job / "train.jsonl"
    lines = [line for _, line in files.read_jsonl(path)] if path.exists() else []
    return [line["update"] for line in lines if "seconds" in line and "update" in line]


@slow
def test_what_fits_no_node_is_refused(two_nodes, tmp_path):
    import ray

    address, *_ = two_nodes
    record = Record(tmp_path)
    record.grid_path.parent.mkdir()
    record.grid_path.write_text("")
    with pytest.raises(ConfigError, match="No node of the Ray cluster has 1 CPU and 100 GPUs for a run"):
        RayExecutor(record, JobContext(runs=tmp_path), jobs=None, cpus=1, gpus=100.0, address=address)
    assert not ray.is_initialized()


@slow
def test_two_nodes_give_what_one_machine_gives(sweeping, two_nodes, tmp_path):
    address, head, other = two_nodes
    local, ray = tmp_path / "local", tmp_path / "ray"
    wanted = {"tasks": "commongen", "algos": "ppo,nlpo"}
    process = sweeping(*sweep_command(ray, "--executor", "ray", "--address", address, **wanted))
    wait_until(process, lambda: workers(head) and workers(other))
    assert {*workers(head), *workers(other)} == {"commongen/ppo/seed-1", "commongen/nlpo/seed-1"}
    assert ended(process)[:2] == (0, "2 runs: 2 finished\n")
    assert ended(sweeping(*sweep_command(local, **wanted)))[0] == 0
    for name in ("predictions.jsonl", "checkpoint/model.safetensors"):
        made = contents(ray, name)
        assert len(made) == 2
        assert made == contents(local, name)
    assert not [*(ray / "sweep").glob("stop-*")]


def asking(folder, name, **asked):
    """A grid of two small tasks and one model, with how it is asked."""
    tasks = []
    for number in (1, 2):
        rows = [{"id": f"{n}", "prompt": f"a film of {n + number}", "reference": f"part {n}"} for n in range(4)]
        files.write_jsonl(folder / f"rows-{number}.jsonl", rows)
        table = {
            "reward": "rouge1",
            "metrics": [{"name": "rouge1", "axis": "preference", "range": [0, 1]}],
            "data": {"sources": [{"kind": "local", "files": {"test": f"rows-{number}.jsonl"}}]},
            "prompt": {"max_tokens": 16, "chat": {"version": 1, "user": "{prompt}"}},
            "decoding": {"max_new_tokens": 9},
            "backbone": {"family": "causal", "model": "mini:causal"},
        }
        files.write_toml(folder / f"task-{number}.toml", table)
        tasks.append(str(folder / f"task-{number}.toml"))
    files.write_toml(folder / f"{name}.toml", {"tasks": tasks, "models": [{"model": str(folder / "tiny"), **asked}]})
    return "sweep", "--config", str(folder / f"{name}.toml"), "--runs", str(folder / name)


@slow
def test_a_chat_model_behind_an_address_is_asked_from_two_nodes(sweeping, two_nodes, tmp_path):
    address, head, other = two_nodes
    model = chat_model(tmp_path / "tiny")
    with served(model, tmp_path / "log") as url:
        command = asking(tmp_path, "ray", endpoint={"url": url, "concurrency": 2})
        process = sweeping(*command, "--executor", "ray", "--address", address)
        wait_until(process, lambda: workers(head) and workers(other))
        assert ended(process)[:2] == (0, "2 runs: 2 finished\n")
    assert ended(sweeping(*asking(tmp_path, "local", chat=True)))[:2] == (0, "2 runs: 2 finished\n")
    for number in (1, 2):
        place = f"own/task-{number}/tiny+chat/seed-1"
        there, here = tmp_path / "ray" / place, tmp_path / "local" / place
        assert (there / "predictions.jsonl").read_bytes() == (here / "predictions.jsonl").read_bytes()
        assert files.read_json(there / "result.json")["system"]["endpoint"]["requests"] == 4


@slow
def test_a_node_that_dies_takes_no_run_with_it(sweeping, two_nodes, tmp_path):
    address, _, other = two_nodes
    command = sweep_command(
        tmp_path, "--executor", "ray", "--address", address, "--no-evaluate", tasks="commongen", seeds="1-4", updates=6
    )
    process = sweeping(*command)

    def a_run_of_the_other_node():
        ended = (
            {job for job, state in states(tmp_path) if state == "finished"} if record_of(tmp_path).ended() else set()
        )
        return next((job for job in workers(other) if ended and job not in ended and updates_of(tmp_path, job)), None)

    lost = wait_until(process, a_run_of_the_other_node)
    kill_node(other)
    code, output, errors = ended(process)
    assert (code, output) == (0, "4 runs: 4 finished\n"), errors
    jobs = [f"commongen/ppo/seed-{seed}" for seed in range(1, 5)]
    seen = Counter(states(tmp_path))
    assert [seen[job, "running"] for job in jobs] == [1 + (job == lost) for job in jobs]
    assert [seen[job, "failed"] for job in jobs] == [int(job == lost) for job in jobs]
    assert [seen[job, "finished"] for job in jobs] == [1] * 4
    [(_, message)] = [(job, message) for job, state, message in events(tmp_path) if state == "failed"]
    assert message.startswith(("WorkerCrashedError: ", "NodeDiedError: "))
    assert {job: updates_of(tmp_path, job) for job in jobs} == {job: [*range(1, 7)] for job in jobs}


# --- a cluster of its own --------------------------------------------------------------------------------------------


@slow
def test_ctrl_c_saves_what_runs_and_the_same_command_goes_on(sweeping, tmp_path):
    pytest.importorskip("ray")
    command = sweep_command(tmp_path, "--executor", "ray", "--jobs", "1", "--no-evaluate", tasks="commongen", updates=6)
    job = "commongen/ppo/seed-1"
    process = sweeping(*command)
    wait_until(process, lambda: updates_of(tmp_path, job))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    code, output, errors = ended(process)
    assert code == 130, errors
    assert states(tmp_path) == [(job, "running"), (job, "stopped")]
    assert [*(tmp_path / "mini" / job / "states").iterdir()]
    deadline = time.monotonic() + 120  # Ray kills its workers behind itself
    while workers(process):
        assert time.monotonic() < deadline, "a worker outlives its cluster"
        time.sleep(0.1)
    assert not [*(tmp_path / "sweep").glob("stop-*")]
    done = len(updates_of(tmp_path, job))
    assert done < 6
    code, output, errors = ended(sweeping(*command))
    assert (code, output) == (0, "1 run: 1 finished\n"), errors
    assert updates_of(tmp_path, job) == [1, 2, 3, 4, 5, 6]
