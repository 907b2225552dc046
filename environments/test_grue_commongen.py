"""The package grue-commongen in verifiers, without doubles: its prompts, its reward, and two steps of training.

verifiers 0.4 has no trainer, and prime-rl's needs a GPU, so that the policy gradient is written out here; responses go
the whole way, from an endpoint through verifiers' harness to the reward of a trace.
"""

import asyncio
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

import pytest
import torch
import verifiers.v1 as vf

import grue
from grue.lm.load import load_language_model, locate_model

AGENT = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}


def environment(**taskset):
    """Return the environment as verifiers loads it, by its name."""
    return vf.load_environment(vf.resolve_env_config({"taskset": {"id": "grue-commongen", **taskset}, "agent": AGENT}))


@contextmanager
def endpoint(answer):
    """Serve `answer`, a function from the last message to a reply, as an endpoint that streams; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = {"role": "assistant", "content": answer(asked["messages"][-1]["content"])}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            about = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "policy"}
            chunks = [
                {**about, "choices": [{"index": 0, "delta": reply, "finish_reason": None}]},
                {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage},
            ]
            body = "".join(f"data: {chunk}\n\n" for chunk in [*map(json.dumps, chunks), "[DONE]"]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def play(env, tasks, address, each=1):
    """Return the traces of `each` episodes of every task."""

    async def episodes():
        context = vf.ModelContext(model="policy", client=vf.EvalClientConfig(base_url=address))
        slots = [slot for task in tasks for slot in env.slots(task, each)]
        async with env.serving():
            return await asyncio.gather(*(env.run_slot(slot, context) for slot in slots))

    traces = [trace for episode in asyncio.run(episodes()) for trace in episode.traces]
    assert len(traces) == len(tasks) * each and not [trace.errors for trace in traces if trace.errors]
    return traces


def test_the_prompts_are_those_of_the_split():
    for taskset, split, count in (({}, "rl", 3000), ({"split": "validation"}, "validation", 500)):
        tasks = list(environment(**taskset).taskset)
        asked = [(task.data.id, task.data.prompt, task.data.split) for task in tasks]
        assert asked == [(one.id, one.prompt, split) for one in grue.examples("commongen", split)]
        assert len(asked) == count


def test_a_split_that_is_not_served():
    with pytest.raises(grue.errors.ConfigError, match="The split 'test' is not one of rl and validation"):
        next(iter(environment(split="test").taskset))


def test_a_reply_is_scored_by_meteor_and_coverage():
    """Known answers: a reference is worth almost 1, nothing of it 0, and two concepts of five cover 0.4."""
    env = environment(split="validation")
    task = next(iter(env.taskset))
    example = grue.examples("commongen", "validation")[0]
    assert task.data.prompt == example.prompt
    concepts = example.prompt.rstrip(".").split(": ")[1].split()
    for reply, coverage, meteor in (
        (example.references[0], 1, pytest.approx(1, abs=0.01)),
        ("?", 0, 0),
        (" ".join(concepts[:2]), 2 / len(concepts), None),
    ):
        with endpoint(lambda prompt, reply=reply: reply) as address:
            (trace,) = play(env, [task], address)
        assert trace.metrics["reward/coverage"] == pytest.approx(coverage)
        if meteor is not None:
            assert trace.metrics["reward/meteor"] == meteor
        assert trace.reward == pytest.approx(
            sum(trace.metrics[f"reward/{name}"] for name in ("meteor", "coverage")) / 2
        )


def test_a_server_makes_a_task_from_its_data_alone():
    """As verifiers' environment server does, on which prime-rl trains."""
    env = environment(split="validation")
    task = next(iter(env.taskset))
    kind = type(env.taskset).task_type()
    again = kind(kind.data_type().model_validate(task.data.model_dump()), env.taskset.config.task)
    example = grue.examples("commongen", "validation")[0]
    trace = vf.Trace.model_construct(root_reply=example.references[0], rewards={}, metrics={})
    asyncio.run(again.score(trace))
    assert trace.metrics["reward/coverage"] == 1


def test_two_steps_of_training():
    torch.manual_seed(1)
    policy, tokenizer = load_language_model("causal", locate_model("mini:causal"))
    before = [weight.detach().clone() for weight in policy.parameters()]
    one_at_a_time = Lock()

    def sample(prompt):
        asked = tokenizer(prompt, return_tensors="pt")
        with one_at_a_time, torch.no_grad():
            drawn = policy.generate(**asked, do_sample=True, max_new_tokens=24, pad_token_id=tokenizer.eos_token_id)
        return tokenizer.decode(drawn[0, asked["input_ids"].shape[1] :], skip_special_tokens=True)

    def log_probability(prompt, reply):
        asked = tokenizer(prompt, return_tensors="pt")["input_ids"]
        said = tokenizer(reply, return_tensors="pt")["input_ids"]
        logits = policy(input_ids=torch.cat((asked, said), dim=1)).logits[:, asked.shape[1] - 1 : -1]
        return -torch.nn.functional.cross_entropy(logits[0], said[0])

    def objective(traces, advantages):
        terms = [
            advantage * log_probability(trace.task.data.prompt, trace.last_reply)
            for trace, advantage in zip(traces, advantages, strict=True)
            if advantage and trace.last_reply
        ]
        return torch.stack(terms).mean()

    env = environment()
    tasks = list(env.taskset.take(2))
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
    with endpoint(sample) as address:
        for _ in range(2):
            traces = play(env, tasks, address, each=4)
            rewards = torch.tensor([trace.reward for trace in traces]).view(2, 4)
            advantages = (rewards - rewards.mean(1, keepdim=True)).flatten().tolist()
            assert any(advantages), "every reply of a group has the same reward"
            start = objective(traces, advantages)
            (-start).backward()
            optimizer.step()
            optimizer.zero_grad()
            assert objective(traces, advantages) > start, "what was rewarded is no more likely than before"
    assert any(bool((old != new).any()) for old, new in zip(before, policy.parameters(), strict=True))
