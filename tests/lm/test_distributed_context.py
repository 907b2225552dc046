"""The processes of a run and their collectives: a single process, and two over gloo on the CPU; and where bfloat16 is fast."""

import os

import pytest
from support.late import late
from support.processes import (
    LAUNCHED,
    launch,
    no_launcher,  # noqa: F401  # autouse: an import is enough
)

from grue.errors import ConfigError

torch, distributed, device = late("torch"), late("grue.lm.distributed"), late("grue.lm.device")

PRIMITIVES = """
import torch
from grue.lm.distributed import join_processes, leave_processes

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
    out[dtype] = distributed.gather_rows((rows % 3).to(dtype))
out["vector"] = distributed.gather_rows(torch.full((1 + r,), float(r)))
out["left"] = distributed.gather_rows(rows, side="left")
out["deep"] = distributed.gather_rows(torch.full((1, 1 + r, 2), r, dtype=torch.uint8))
out["none of mine"] = distributed.gather_rows(torch.full((3 * r, 2), 7.0))
out["nothing"] = distributed.gather_rows(torch.zeros(0, 4))
out["turned"] = distributed.gather_rows(torch.arange(6.0).reshape(3, 2).T)
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


def test_two_processes_gather_sum_and_speak_for_all(primitives):
    assert [one["context"] for one in primitives] == [(0, 2, "cpu", True), (1, 2, "cpu", False)]
    for one in primitives:
        assert one["gather"] == ["00", "01", "10"], "in the order of ranks"
        assert one["empty"] == ["only"]
        assert one["any"] == [False, True, True]
        assert one["sum"].tolist() == [3.0, 20.0]
        assert one["maximum"].tolist() == [2.0, 0.0]


def test_rows_of_any_dtype_and_shape_are_gathered_and_widened(primitives):
    """Rank 0 has two rows of three, rank 1 three rows of two; the missing column is filled with 0."""
    wanted = torch.tensor([[1, 2, 0], [1, 2, 0], [1, 2, 0], [0, 1, 0], [2, 0, 0]])
    for one in primitives:
        dtypes = [key for key in one if isinstance(key, torch.dtype)]
        assert len(dtypes) == 7
        for dtype in dtypes:
            assert one[dtype].dtype == dtype and torch.equal(one[dtype], wanted.to(dtype))
        assert one["vector"].tolist() == [0.0, 1.0, 1.0]
        assert one["left"].tolist() == [[1, 2, 3], [4, 5, 6], [0, 1, 2], [0, 3, 4], [0, 5, 6]]
        assert one["deep"].tolist() == [[[0, 0], [0, 0]], [[1, 1], [1, 1]]]
        assert one["none of mine"].tolist() == [[7.0, 7.0]] * 3
        assert one["nothing"].shape == (0, 4)
        assert one["turned"].tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]] * 2


def test_gradients_are_summed_and_missing_ones_count_as_zero(primitives):
    wanted = [3.0, 23.0, 43.0, 31.0, None, 52.0, 123.0, None]
    for one in primitives:
        for gradient, value in zip(one["gradients"], wanted, strict=True):
            assert gradient is None if value is None else (gradient == value).all()
        assert one["gradients"][6].dtype == torch.float64


SILENCE = """
import torch
from grue.errors import TrainingError
from grue.lm.distributed import join_processes, leave_processes

distributed = join_processes()
if distributed.rank == 1:
    open(f"{OUT}/pipe").read()  # until the other gives up
else:
    try:
        distributed.gather(["hello"])
    except TrainingError as error:
        torch.save(str(error), f"{OUT}/0.pt")
    open(f"{OUT}/pipe", "w").close()
leave_processes()
"""


def test_when_a_process_dies_or_hangs_the_others_say_so(primitives, tmp_path):
    assert "Process 0 of 2 could not reduce with the others: one of them has stopped" in primitives[0]["death"]
    assert "death" not in primitives[1]
    os.mkfifo(tmp_path / "pipe")
    saved, _ = launch(SILENCE, tmp_path, GRUE_TIMEOUT="0.05")
    assert "could not gather objects with the others" in saved[0] and "GRUE_TIMEOUT" in saved[0]


def test_a_share_is_contiguous_fair_and_complete():
    for size in range(1, 6):
        for count in range(12):
            shares = [range(count)[distributed.DistributedContext(rank, size).share(count)] for rank in range(size)]
            assert [row for share in shares for row in share] == list(range(count))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_single_process_gets_back_what_it_passes():
    alone, rows, parameter = distributed.DistributedContext(), torch.ones(2, 3), torch.zeros(2, requires_grad=True)
    assert alone.gather_rows(rows) is alone.sum(rows) is alone.maximum(rows) is rows
    assert alone.gather((1, 2)) == [1, 2]
    assert alone.any(True) and not alone.any(False) and alone.is_main
    alone.sum_gradients([parameter])
    assert parameter.grad is None
    alone.barrier()
    distributed.leave_processes()


@pytest.mark.parametrize("given", [{}, {"MASTER_ADDR": "127.0.0.1"}, {**LAUNCHED, "WORLD_SIZE": "1"}])
def test_a_single_process_needs_no_group(given, monkeypatch):
    """A cluster sets the address for everyone."""
    for name, value in {**given, "GRUE_DEVICE": "cpu"}.items():
        monkeypatch.setenv(name, value)
    assert distributed.join_processes() == distributed.DistributedContext()
    assert not torch.distributed.is_initialized()
    monkeypatch.setenv("GRUE_DEVICE", "warp")
    with pytest.raises(ConfigError, match="GRUE_DEVICE is 'warp', which torch cannot use here"):
        distributed.join_processes()


def test_a_launch_that_cannot_be_is_explained(monkeypatch, refused):
    nothing = {"RANK": None, "WORLD_SIZE": None, "LOCAL_RANK": None, "ACCELERATE_MIXED_PRECISION": "no"}
    for changes in (
        *({"RANK": value} for value in (None, "2", "-1")),
        *({"GRUE_TIMEOUT": value} for value in ("soon", "-1", "nan")),
        *({"MASTER_PORT": ""}, {"WORLD_SIZE": "two"}, {"ACCELERATE_MIXED_PRECISION": "bf16"}, nothing),
        *({"ACCELERATE_USE_DEEPSPEED": "true"}, {"ACCELERATE_USE_FSDP": "true"}),
    ):
        with monkeypatch.context() as patch, refused(ConfigError):
            for name, value in {**LAUNCHED, "GRUE_DEVICE": "cpu", **changes}.items():
                patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)
            distributed.join_processes()
        assert not torch.distributed.is_initialized()


def test_what_accelerate_sets_for_several_processes_is_accepted(monkeypatch):
    """The environment that it prepares, joined by one process in place of torch's launcher."""
    launching = pytest.importorskip("accelerate.commands.launch")
    options = "--multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no"
    command = [*options.split(), "script.py"]
    prepared = launching.prepare_multi_gpu_env(launching.launch_command_parser().parse_args(command))
    set_by_it = {name: value for name, value in prepared.items() if os.environ.get(name) != value}
    assert any(name.startswith("ACCELERATE_") for name in set_by_it)
    for name, value in {**set_by_it, **LAUNCHED, "WORLD_SIZE": "1", "GRUE_DEVICE": "cpu"}.items():
        monkeypatch.setenv(name, value)
    assert distributed.join_processes() == distributed.DistributedContext()


def test_a_cpu_with_instructions_for_it_multiplies_bfloat16_and_a_gpu_speaks_for_itself(monkeypatch):
    for able, expected in (
        ({"amx_bf16": True, "avx512_bf16": False}, True),
        ({"avx512_bf16": True}, True),
        ({"avx512_bf16": False, "avx512_f": True, "amx_tile": True}, False),
        ({}, False),
    ):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda able=able: able, raising=False)
        assert device.multiplies_bfloat16(torch.device("cpu")) is expected
        assert not device.multiplies_bfloat16(torch.device("mps"))
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)  # an older torch cannot say
    assert not device.multiplies_bfloat16(torch.device("cpu"))
    for able in (True, False):  # a GPU that only emulates bfloat16 is not fast in it
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation, able=able: able)
        assert device.multiplies_bfloat16(torch.device("cuda")) is able
