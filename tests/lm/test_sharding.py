"""Weights sharded over two processes (gloo, CPU) learn, decode and are saved like whole ones; and what is refused."""

from dataclasses import replace

import pytest
from support.late import late, lates
from support.processes import no_launcher, together  # noqa: F401  # autouse: an import is enough

from grue.errors import ConfigError
from grue.rl.settings import Common

torch, hf, distributed, sharding = lates("torch transformers grue.lm.distributed grue.lm.sharding")
training = late("grue.runs.train")

CASES = (("causal", False), ("seq2seq", True))
"""(family, whether policy and critic share their trunk)"""

SHARDED = """
from contextlib import nullcontext
from copy import deepcopy
import torch
from support import tiny
from torch import nn
from grue.lm.distributed import join_processes, leave_processes
from grue.lm.critic import Critic
from grue.lm.tokens import Tokens
from grue.lm.forward import forward, Steps
from grue.lm.sharding import gathered, load_whole, model_of, shard, whole

distributed = join_processes()
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
    unit = shard([policy, critic], optimizer, distributed) if split else None
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
            parts = torch.arange(5)[distributed.rank :: distributed.size].split(1)
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
        step, drawn, seen = Steps(made[0], prompts), None, []
        for _ in range(steps):
            seen.append(step(drawn)[0])
            drawn = seen[-1].argmax(-1)
    return torch.stack(seen)


for family, shared in CASES:
    plain, split = make(False, shared), make(True, shared)
    one = {"weights there": sum(p.to_local().numel() for p in split[2]) / sum(p.numel() for p in plain[2])}
    one["decoded"] = float((decode(split, 3 + 2 * distributed.rank) - decode(plain, 3 + 2 * distributed.rank)).abs().max())
    one["norms"] = (train(plain, 2), train(split, 2))
    one["states"] = (state(plain), state(split))
    again = make(True, shared)
    for target, value in zip((again[0], again[1], again[3]), state(plain), strict=True):
        load_whole(target, value)
    one["resumed"] = (train(plain, 1), train(again, 1), state(plain), state(again))
    one["decoded after"] = float((decode(again, 4) - decode(plain, 4)).abs().max())
    folder = f"{OUT}/{family}"
    weights = whole(again[0].state_dict())
    if distributed.is_main:
        model_of(again[0], weights).save_pretrained(folder)
    out[family, shared] = one
torch.save(out, f"{OUT}/{distributed.rank}.pt")
leave_processes()
"""


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sharded")
    return together(f"CASES = {CASES}\n{SHARDED}", folder), folder


def leaves(tree):
    """Return the tensors of nested lists and dictionaries by their place."""
    if isinstance(tree, torch.Tensor):
        return {"": tree}
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list | tuple) else ()
    return {f"{key}.{rest}": tensor for key, inner in pairs for rest, tensor in leaves(inner).items()}


@pytest.mark.parametrize(("family", "shared"), CASES)
def test_sharded_weights_learn_like_whole_ones_and_are_saved_like_any_model(sharded, family, shared):
    both, folder = sharded
    for saved in both:
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
    auto = hf.AutoModelForCausalLM if family == "causal" else hf.AutoModelForSeq2SeqLM
    loaded, wanted = auto.from_pretrained(folder / family), both[0][family, shared]["resumed"][3][0]
    for name, tensor in loaded.state_dict().items():
        assert torch.equal(tensor, wanted[name])
    assert loaded.lm_head.weight is loaded.get_input_embeddings().weight


def test_what_cannot_be_sharded_is_refused(refused):
    one_gpu = distributed.DistributedContext(1, 2, torch.device("cuda", 0))
    sharded = Common(learning_rate=1e-3, sharded=True)
    for settings, processes in (
        (sharded, distributed.DistributedContext()),
        (replace(sharded, sharded=False), one_gpu),
    ):
        training.check_processes(settings, processes)
    with refused(ConfigError):
        training.check_processes(sharded, one_gpu)
    assert "lora_rank" in "".join(replace(sharded, lora_rank=2).problems())


def test_a_single_process_shards_nothing():
    state = {"weight": torch.ones(2)}
    assert sharding.whole(state) is state
    with sharding.gathered(None):
        assert not torch.distributed.is_initialized()
