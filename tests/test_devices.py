"""What the processes of a run tell each other: alone at no cost, and two of them by gloo on the CPU."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny import changed
from transformers import GPT2LMHeadModel, T5ForConditionalGeneration

from grue.errors import ConfigError, Unavailable
from grue.training.config import PPOConfig, TRPOConfig
from grue.training.devices import World, join_world, leave
from grue.training.sharding import check_sharding, gathered, whole

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
    here = f"{Path(__file__).parent.parent}{os.pathsep}{Path(__file__).parent}"
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


PRIMITIVES = """
import torch
from grue.training.devices import World, join_world, leave

world = join_world()
torch.set_num_threads(1)
r = world.rank
out = {"world": (world.rank, world.size, str(world.device), world.is_main)}
out["gather"] = world.gather([f"{r}{i}" for i in range(2 - r)])
out["empty"] = world.gather(["only"] if r else [])
out["any"] = [world.any(False), world.any(r == 1), world.any(True)]
out["broadcast"] = world.broadcast_object({"from": r})
out["sum"] = world.sum(torch.tensor([1.0 + r, 10.0]))
out["maximum"] = world.maximum(torch.tensor([1.0 + r, -r]))
rows = torch.arange(1, 1 + (2 + r) * (3 - r)).reshape(2 + r, 3 - r)
for dtype in (torch.int64, torch.int32, torch.float32, torch.float64, torch.bfloat16, torch.uint8, torch.bool):
    out[str(dtype)] = world.gather_rows((rows % 3).to(dtype), fill=1)
out["vector"] = world.gather_rows(torch.full((1 + r,), float(r)))
out["left"] = world.gather_rows(rows, fill=9, side="left")
out["deep"] = world.gather_rows(torch.full((1, 1 + r, 2), r, dtype=torch.uint8), fill=255)
out["none of mine"] = world.gather_rows(torch.full((3 * r, 2), 7.0))
out["nothing"] = world.gather_rows(torch.zeros(0, 4))
out["turned"] = world.gather_rows(torch.arange(6.0).reshape(3, 2).T)
try:
    world.gather_rows(torch.zeros(1, 1, 1 + r))
except ValueError as error:
    out["refused"] = str(error)
try:
    world.gather_rows(torch.zeros(1, dtype=torch.float32 if r else torch.float64))
except ValueError as error:
    out["dtypes"] = str(error)
"""

GRADIENTS = """
from grue.training import devices

devices.BUCKET = 8  # several buckets, one of them a single large gradient
sizes = [(3,), (2, 2), (20,), (1,), (2,), (3,)]
parameters = [torch.zeros(size, requires_grad=True) for size in sizes]
parameters.append(torch.zeros(2, dtype=torch.float64, requires_grad=True))
parameters.append(torch.zeros(2, requires_grad=False))
for i, parameter in enumerate(parameters[:7]):
    if i != 4 and not (i == 3 and r == 1) and not (i == 5 and r == 0):
        parameter.grad = torch.full_like(parameter, 10.0 * i + r + 1)
world.sum_gradients(iter(parameters))
out["gradients"] = [parameter.grad for parameter in parameters]
"""

END = """
world.barrier()
leave()
leave()
torch.save(out, f"{OUT}/{r}.pt")
"""


@pytest.fixture(scope="module")
def primitives(tmp_path_factory):
    return together(PRIMITIVES + GRADIENTS + END, tmp_path_factory.mktemp("primitives"))


def test_two_processes_know_who_they_are(primitives):
    assert [one["world"] for one in primitives] == [(0, 2, "cpu", True), (1, 2, "cpu", False)]


def test_objects_are_gathered_in_the_order_of_ranks(primitives):
    for one in primitives:
        assert one["gather"] == ["00", "01", "10"]
        assert one["empty"] == ["only"]
        assert one["broadcast"] == {"from": 0}


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
            shares = [range(count)[World(rank, size).share(count)] for rank in range(size)]
            assert [row for share in shares for row in share] == list(range(count))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_world_of_one_gives_back_what_it_got():
    world, rows = World(), torch.ones(2, 3)
    assert world.gather_rows(rows) is rows
    assert world.sum(rows) is rows
    assert world.maximum(rows) is rows
    assert world.gather((1, 2)) == [1, 2]
    assert world.broadcast_object(rows) is rows
    assert world.any(True) and not world.any(False)
    assert world.is_main
    parameter = torch.zeros(2, requires_grad=True)
    world.sum_gradients([parameter])
    assert parameter.grad is None
    world.barrier()
    leave()


def test_without_a_launcher_there_is_one_process(monkeypatch):
    monkeypatch.setenv("GRUE_DEVICE", "cpu")
    assert join_world() == World()
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")  # a cluster sets it for everyone
    assert join_world() == World()
    assert not torch.distributed.is_initialized()


def test_a_launch_of_one_process_needs_no_group(monkeypatch):
    for name, value in {**LAUNCHED, "WORLD_SIZE": "1", "GRUE_DEVICE": "cpu"}.items():
        monkeypatch.setenv(name, value)
    assert join_world() == World()
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RANK": None}, "The environment holds WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, but not RANK: start"),
        (
            {"MASTER_PORT": ""},
            "but not MASTER_PORT: .*, or unset RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR to run in one",
        ),
        ({"RANK": "2"}, "RANK is 2, WORLD_SIZE 2, LOCAL_RANK 0: ranks count from 0"),
        ({"RANK": "-1"}, "RANK is -1"),
        ({"WORLD_SIZE": "two"}, "must be whole numbers: .*'two'"),
        ({"GRUE_DEVICE": "warp"}, "GRUE_DEVICE is 'warp', which torch cannot use here"),
        ({"GRUE_TIMEOUT": "soon"}, "GRUE_TIMEOUT is 'soon': it takes the minutes"),
        ({"GRUE_TIMEOUT": "-1"}, "GRUE_TIMEOUT is '-1'"),
        ({"GRUE_TIMEOUT": "nan"}, "GRUE_TIMEOUT is 'nan'"),
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, "ACCELERATE_USE_DEEPSPEED is set: .* without DeepSpeed"),
        (
            {"ACCELERATE_USE_FSDP": "true"},
            "ACCELERATE_USE_FSDP is set: .*with --multi_gpu and without --use_fsdp, and give grue --set sharded=true",
        ),
        ({"ACCELERATE_MIXED_PRECISION": "bf16"}, "--mixed_precision bf16; .* --set precision=bfloat16"),
        (
            {"RANK": None, "WORLD_SIZE": None, "LOCAL_RANK": None, "ACCELERATE_MIXED_PRECISION": "no"},
            "accelerate launch started one process where several were asked for: .*--multi_gpu --num_processes N",
        ),
    ],
)
def test_a_launch_that_cannot_be_is_explained(changes, message, monkeypatch):
    for name, value in {**LAUNCHED, "GRUE_DEVICE": "cpu", **changes}.items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        join_world()
    assert not torch.distributed.is_initialized()


def test_accelerate_launches_two_processes(tmp_path):
    pytest.importorskip("accelerate")
    path = tmp_path / "script.py"
    path.write_text(f"OUT = {str(tmp_path)!r}\n" + WHO)
    command = "-m accelerate.commands.launch --multi_gpu --num_processes 2 --main_process_port 0".split()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, *command, str(path)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1)] == [[0, 2, "cpu"], [1, 2, "cpu"]]


WHO = """
import torch
from grue.training.devices import join_world, leave

world = join_world()
torch.save([world.rank, world.size, str(world.device)], f"{OUT}/{world.rank}.pt")
leave()
"""

DEATH = """
import os, torch
from grue.errors import TrainingError
from grue.training.devices import join_world

world = join_world()
if world.rank == 1:
    os._exit(7)
try:
    while True:
        world.any(False)
except TrainingError as error:
    torch.save(str(error), f"{OUT}/0.pt")
"""


def test_when_a_process_dies_the_others_say_so(tmp_path):
    saved, ends = launch(DEATH, tmp_path)
    assert [code for _, code in ends] == [0, 7]
    assert "Process 0 of 2 could not reduce with the others: one of them has stopped" in saved[0]


SILENCE = """
import time, torch
from grue.errors import TrainingError
from grue.training.devices import join_world

world = join_world()
if world.rank == 1:
    time.sleep(5)
else:
    try:
        world.gather(["hello"])
    except TrainingError as error:
        torch.save(str(error), f"{OUT}/0.pt")
"""


def test_when_a_process_hangs_the_others_give_up_after_the_timeout(tmp_path):
    saved, _ = launch(SILENCE, tmp_path, GRUE_TIMEOUT="0.05")
    assert "could not gather objects with the others" in saved[0]
    assert "GRUE_TIMEOUT" in saved[0]


SHARDED = """
from contextlib import nullcontext
from copy import deepcopy
import tiny, torch
from torch import nn
from grue.training.devices import join_world, leave
from grue.training.policy import Critic, Tokens, forward, next_logits
from grue.training.sharding import gathered, load_whole, model_of, shard, whole

world = join_world()
torch.set_num_threads(1)
out = {}
chance = torch.Generator().manual_seed(5)
prompts = Tokens(torch.randint(3, 20, (5, 4), generator=chance), torch.ones(5, 4, dtype=torch.bool))
responses = Tokens(torch.randint(3, 20, (5, 6), generator=chance), torch.ones(5, 6, dtype=torch.bool))


def make(split, shared):
    policy = tiny.model(family)
    torch.manual_seed(1)
    critic = Critic(policy, shared=shared)
    nn.init.normal_(critic.head.weight)
    parameters = list({id(p): p for m in (policy, critic) for p in m.parameters()}.values())
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, eps=1e-2)
    unit = shard([policy, critic], optimizer, world) if split else None
    return policy, critic, optimizer.param_groups[0]["params"], optimizer, unit


def loss(policy, critic, rows):
    mine, said = prompts.rows(rows), responses.rows(rows)
    logits, states = forward(policy, mine, said, states=critic.trunk is None)
    values = critic(mine, said, states)
    losses = -logits.log_softmax(-1).gather(-1, said.ids.unsqueeze(-1)).squeeze(-1) + (values - 1) ** 2
    return losses.sum() / 30


def train(made, steps):
    policy, critic, parameters, optimizer, unit = made
    norms = []
    for _ in range(steps):
        if unit is None:
            loss(policy, critic, torch.arange(5)).backward()
        else:
            parts = torch.arange(5)[world.rank :: world.size].split(1)
            for i in range(3):  # one process has three, the other two and a third that counts nothing
                part = parts[min(i, len(parts) - 1)]
                (unit(lambda: {"loss": loss(policy, critic, part)})["loss"] * float(i < len(parts))).backward()
        norms.append(float(whole(nn.utils.clip_grad_norm_(parameters, 0.5))))
        optimizer.step()
        optimizer.zero_grad()
    return norms


def state(made):
    return deepcopy(whole([one.state_dict() for one in (made[0], made[1], made[3])]))


def decode(made, steps):
    with torch.no_grad(), gathered(made[4]) if made[4] else nullcontext():
        step, drawn, seen = next_logits(made[0], prompts), None, []
        for _ in range(steps):
            seen.append(step(drawn))
            drawn = seen[-1].argmax(-1)
    return torch.stack(seen)


for family in ("causal", "seq2seq"):
    for shared in (False, True):
        plain, split = make(False, shared), make(True, shared)
        one = {"weights there": sum(p.to_local().numel() for p in split[2]) / sum(p.numel() for p in plain[2])}
        one["decoded"] = float((decode(split, 3 + 2 * world.rank) - decode(plain, 3 + 2 * world.rank)).abs().max())
        one["norms"] = (train(plain, 2), train(split, 2))
        one["states"] = (state(plain), state(split))
        again = make(True, shared)
        for target, value in zip((again[0], again[1], again[3]), state(plain), strict=True):
            load_whole(target, value)
        one["resumed"] = (train(plain, 1), train(again, 1), state(plain), state(again))
        one["decoded after"] = float((decode(again, 4) - decode(plain, 4)).abs().max())
        folder = f"{OUT}/{family}-{shared}"
        weights = whole(again[0].state_dict())
        if world.is_main:
            model_of(again[0], weights).save_pretrained(folder)
        out[family, shared] = one
torch.save(out, f"{OUT}/{world.rank}.pt")
leave()
"""


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharded")
    return together(SHARDED, folder), folder


def leaves(tree):
    """Return the tensors of nested lists and dictionaries by their place."""
    if isinstance(tree, torch.Tensor):
        return {"": tree}
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list | tuple) else ()
    return {f"{key}.{rest}": tensor for key, inner in pairs for rest, tensor in leaves(inner).items()}


@pytest.mark.parametrize("family", ["causal", "seq2seq"])
@pytest.mark.parametrize("shared", [True, False])
def test_split_weights_learn_like_whole_ones(sharded, family, shared):
    for saved in sharded[0]:
        one = saved[family, shared]
        assert one["weights there"] < 0.6
        assert one["decoded"] == 0 and one["decoded after"] < 1e-4
        assert one["norms"][1] == pytest.approx(one["norms"][0], rel=1e-5)
        for plain, split in (one["states"], one["resumed"][2:]):
            wanted, found = leaves(plain), leaves(split)
            assert list(wanted) == list(found) and len(wanted) > 50
            for place, tensor in wanted.items():
                torch.testing.assert_close(found[place], tensor, rtol=1e-5, atol=1e-6)
        assert one["resumed"][1] == pytest.approx(one["resumed"][0], rel=1e-5)


@pytest.mark.parametrize("family", ["causal", "seq2seq"])
def test_split_weights_are_saved_as_any_model(sharded, family):
    (saved, _), folder = sharded
    kind = {"causal": GPT2LMHeadModel, "seq2seq": T5ForConditionalGeneration}[family]
    loaded = kind.from_pretrained(folder / f"{family}-False")
    wanted = saved[family, False]["resumed"][3][0]
    for name, tensor in loaded.state_dict().items():
        assert torch.equal(tensor, wanted[name])
    assert loaded.lm_head.weight is loaded.get_input_embeddings().weight


@pytest.mark.parametrize(
    ("config", "world", "message"),
    [
        (TRPOConfig(sharded=True), World(), "TRPO's step takes all weights as one vector; set sharded = false"),
        (PPOConfig(sharded=True, lora_rank=2), World(), "set sharded = false or lora_rank = 0"),
        (PPOConfig(sharded=True), World(1, 2, torch.device("cuda", 0)), "every process needs a GPU of its own"),
    ],
)
def test_what_cannot_be_split_is_refused(config, world, message):
    with pytest.raises(ConfigError, match=message):
        check_sharding(config, world)
    check_sharding(changed(config, sharded=False), world)


def test_a_torch_that_cannot_split_is_refused(monkeypatch):
    monkeypatch.delattr("torch.distributed.fsdp.FSDPModule.set_force_sum_reduction_for_comms")
    check_sharding(PPOConfig(sharded=True), World())  # one process has all weights
    with pytest.raises(Unavailable, match="upgrade torch"):
        check_sharding(PPOConfig(sharded=True), World(0, 2))


def test_without_other_processes_nothing_is_split():
    state = {"weight": torch.ones(2)}
    assert whole(state) is state
    with gathered(None):
        assert not torch.distributed.is_initialized()
