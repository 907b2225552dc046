"""The processes of a run and their collectives: a single process, and two over gloo on the CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.processes import (
    LAUNCHED,
    launch,
    no_launcher,  # noqa: F401  # autouse: an import is enough
)

from grue.errors import ConfigError
from grue.lm.distributed import DistributedContext, join_processes, leave_processes

PRIMITIVES = """
import torch
from grue.lm.distributed import DistributedContext, join_processes, leave_processes

distributed = join_processes()
torch.set_num_threads(1)
r = distributed.rank
out = {"context": (distributed.rank, distributed.size, str(distributed.device), distributed.is_main)}
out["gather"] = distributed.gather([f"{r}{i}" for i in range(2 - r)])
out["empty"] = distributed.gather(["only"] if r else [])
out["any"] = [distributed.any(False), distributed.any(r == 1), distributed.any(True)]
out["sum"] = distributed.sum(torch.tensor([1.0 + r, 10.0]))
out["maximum"] = distributed.maximum(torch.tensor([1.0 + r, -r]))
rows = torch.arange(1, 1 + (2 + r) * (3 - r)).reshape(2 + r, 3 - r)
for dtype in (torch.int64, torch.int32, torch.float32, torch.float64, torch.bfloat16, torch.uint8, torch.bool):
    out[str(dtype)] = distributed.gather_rows((rows % 3).to(dtype), fill=1)
out["vector"] = distributed.gather_rows(torch.full((1 + r,), float(r)))
out["left"] = distributed.gather_rows(rows, fill=9, side="left")
out["deep"] = distributed.gather_rows(torch.full((1, 1 + r, 2), r, dtype=torch.uint8), fill=255)
out["none of mine"] = distributed.gather_rows(torch.full((3 * r, 2), 7.0))
out["nothing"] = distributed.gather_rows(torch.zeros(0, 4))
out["turned"] = distributed.gather_rows(torch.arange(6.0).reshape(3, 2).T)
try:
    distributed.gather_rows(torch.zeros(1, 1, 1 + r))
except ValueError as error:
    out["refused"] = str(error)
try:
    distributed.gather_rows(torch.zeros(1, dtype=torch.float32 if r else torch.float64))
except ValueError as error:
    out["dtypes"] = str(error)
"""

GRADIENTS = """
import grue.lm.distributed as module

module.BUCKET = 8  # several buckets, one of them a single large gradient
sizes = [(3,), (2, 2), (20,), (1,), (2,), (3,)]
parameters = [torch.zeros(size, requires_grad=True) for size in sizes]
parameters.append(torch.zeros(2, dtype=torch.float64, requires_grad=True))
parameters.append(torch.zeros(2, requires_grad=False))
for i, parameter in enumerate(parameters[:7]):
    if i != 4 and not (i == 3 and r == 1) and not (i == 5 and r == 0):
        parameter.grad = torch.full_like(parameter, 10.0 * i + r + 1)
distributed.sum_gradients(iter(parameters))
out["gradients"] = [parameter.grad for parameter in parameters]
"""

# Last of all, the second process dies; the first leaves as the command line does, and may do so twice.
DEATH = """
import os
from grue.errors import TrainingError

distributed.barrier()
if r == 1:
    torch.save(out, f"{OUT}/1.pt")
    os._exit(7)
try:
    while True:
        distributed.any(False)
except TrainingError as error:
    out["death"] = str(error)
leave_processes()
leave_processes()
torch.save(out, f"{OUT}/0.pt")
"""


@pytest.fixture(scope="module")
def primitives(tmp_path_factory):
    """What each of two processes saved, the second of which died at the end."""
    saved, ends = launch(PRIMITIVES + GRADIENTS + DEATH, tmp_path_factory.mktemp("primitives"))
    assert [code for _, code in ends] == [0, 7], ends
    return saved


def test_two_processes_know_who_they_are(primitives):
    assert [one["context"] for one in primitives] == [(0, 2, "cpu", True), (1, 2, "cpu", False)]


def test_objects_are_gathered_in_the_order_of_ranks(primitives):
    for one in primitives:
        assert one["gather"] == ["00", "01", "10"]
        assert one["empty"] == ["only"]


def test_one_process_can_speak_for_all_and_sums_are_of_all(primitives):
    for one in primitives:
        assert one["any"] == [False, True, True]
        assert one["sum"].tolist() == [3.0, 20.0]
        assert one["maximum"].tolist() == [2.0, 0.0]


@pytest.mark.parametrize("dtype", ["int64", "int32", "float32", "float64", "bfloat16", "uint8", "bool"])
def test_rows_of_any_dtype_are_gathered_and_widened(primitives, dtype):
    """Rank 0 has two rows of three, rank 1 three rows of two; the missing column is filled with 1."""
    wanted = torch.tensor([[1, 2, 0], [1, 2, 0], [1, 2, 1], [0, 1, 1], [2, 0, 1]]).to(getattr(torch, dtype))
    for one in primitives:
        assert one[f"torch.{dtype}"].dtype == wanted.dtype
        assert torch.equal(one[f"torch.{dtype}"], wanted)


def test_rows_of_other_shapes_are_gathered(primitives):
    for one in primitives:
        assert one["vector"].tolist() == [0.0, 1.0, 1.0]
        assert one["left"].tolist() == [[1, 2, 3], [4, 5, 6], [9, 1, 2], [9, 3, 4], [9, 5, 6]]
        assert one["deep"].tolist() == [[[0, 0], [255, 255]], [[1, 1], [1, 1]]]
        assert one["none of mine"].tolist() == [[7.0, 7.0]] * 3
        assert one["nothing"].shape == (0, 4)
        assert one["turned"].tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]] * 2


def test_rows_that_do_not_fit_together_are_refused_on_every_process(primitives):
    for one in primitives:
        assert "differ in more than their number and width" in one["refused"]
        assert "float64" in one["dtypes"]


def test_gradients_are_summed_and_missing_ones_count_as_zero(primitives):
    wanted = [3.0, 23.0, 43.0, 31.0, None, 52.0, 123.0, None]
    for one in primitives:
        for gradient, value in zip(one["gradients"], wanted, strict=True):
            assert gradient is None if value is None else (gradient == value).all()
        assert one["gradients"][6].dtype == torch.float64


def test_a_share_is_contiguous_fair_and_complete():
    for size in range(1, 6):
        for count in range(12):
            shares = [range(count)[DistributedContext(rank, size).share(count)] for rank in range(size)]
            assert [row for share in shares for row in share] == list(range(count))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_single_process_gets_back_what_it_passes():
    distributed, rows = DistributedContext(), torch.ones(2, 3)
    assert distributed.gather_rows(rows) is rows
    assert distributed.sum(rows) is rows
    assert distributed.maximum(rows) is rows
    assert distributed.gather((1, 2)) == [1, 2]
    assert distributed.any(True) and not distributed.any(False)
    assert distributed.is_main
    parameter = torch.zeros(2, requires_grad=True)
    distributed.sum_gradients([parameter])
    assert parameter.grad is None
    distributed.barrier()
    leave_processes()


def test_without_a_launcher_there_is_one_process(monkeypatch):
    monkeypatch.setenv("GRUE_DEVICE", "cpu")
    assert join_processes() == DistributedContext()
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")  # a cluster sets it for everyone
    assert join_processes() == DistributedContext()
    assert not torch.distributed.is_initialized()


def test_a_launch_of_one_process_needs_no_group(monkeypatch):
    for name, value in {**LAUNCHED, "WORLD_SIZE": "1", "GRUE_DEVICE": "cpu"}.items():
        monkeypatch.setenv(name, value)
    assert join_processes() == DistributedContext()
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RANK": None}, "The environment sets WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, but not RANK: start"),
        (
            {"MASTER_PORT": ""},
            "but not MASTER_PORT: .*, or unset RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR to run in a single",
        ),
        ({"RANK": "2"}, "RANK is 2, WORLD_SIZE 2, LOCAL_RANK 0: ranks count from 0"),
        ({"RANK": "-1"}, "RANK is -1"),
        ({"WORLD_SIZE": "two"}, "must be whole numbers: .*'two'"),
        ({"GRUE_DEVICE": "warp"}, "GRUE_DEVICE is 'warp', which torch cannot use here"),
        ({"GRUE_TIMEOUT": "soon"}, "GRUE_TIMEOUT is 'soon': give the minutes"),
        ({"GRUE_TIMEOUT": "-1"}, "GRUE_TIMEOUT is '-1'"),
        ({"GRUE_TIMEOUT": "nan"}, "GRUE_TIMEOUT is 'nan'"),
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, "ACCELERATE_USE_DEEPSPEED is set, .* without DeepSpeed"),
        (
            {"ACCELERATE_USE_FSDP": "true"},
            "ACCELERATE_USE_FSDP is set, .*with --multi_gpu and without --use_fsdp, and pass --set sharded=true to grue",
        ),
        ({"ACCELERATE_MIXED_PRECISION": "bf16"}, "--mixed_precision bf16, .* --set precision=bfloat16"),
        (
            {"RANK": None, "WORLD_SIZE": None, "LOCAL_RANK": None, "ACCELERATE_MIXED_PRECISION": "no"},
            "accelerate launch started one process where several were requested: .*--multi_gpu --num_processes N",
        ),
    ],
)
def test_a_launch_that_cannot_be_is_explained(changes, message, monkeypatch):
    for name, value in {**LAUNCHED, "GRUE_DEVICE": "cpu", **changes}.items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        join_processes()
    assert not torch.distributed.is_initialized()


def test_accelerate_launches_two_processes(tmp_path):
    pytest.importorskip("accelerate")
    path = tmp_path / "script.py"
    path.write_text(f"OUT = {str(tmp_path)!r}\n" + WHO)
    command = "-m accelerate.commands.launch --multi_gpu --num_processes 2 --main_process_port 0".split()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, *command, str(path)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1)] == [[0, 2, "cpu"], [1, 2, "cpu"]]


WHO = """
import torch
from grue.lm.distributed import join_processes, leave_processes

distributed = join_processes()
torch.save([distributed.rank, distributed.size, str(distributed.device)], f"{OUT}/{distributed.rank}.pt")
leave_processes()
"""


def test_when_a_process_dies_the_others_say_so(primitives):
    assert "Process 0 of 2 could not reduce with the others: one of them has stopped" in primitives[0]["death"]
    assert "death" not in primitives[1]


SILENCE = """
import time, torch
from grue.errors import TrainingError
from grue.lm.distributed import join_processes, leave_processes

distributed = join_processes()
if distributed.rank == 1:
    time.sleep(5)
else:
    try:
        distributed.gather(["hello"])
    except TrainingError as error:
        torch.save(str(error), f"{OUT}/0.pt")
leave_processes()
"""


def test_when_a_process_hangs_the_others_give_up_after_the_timeout(tmp_path):
    saved, _ = launch(SILENCE, tmp_path, GRUE_TIMEOUT="0.05")
    assert "could not gather objects with the others" in saved[0]
    assert "GRUE_TIMEOUT" in saved[0]
