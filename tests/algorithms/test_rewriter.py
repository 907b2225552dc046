"""Sequence-to-sequence reward modelling: what a rewriter learns, and what it says of a text, against slow loops."""

import dataclasses
import json

import pytest
from support.late import lates

from grue.errors import ConfigError, DataError

tiny, scored, exactness, algorithms = lates("support.tiny support.scored support.exactness grue.runs.algorithms")
rewards, rewriter, reward_models, checkpoint = lates(
    "grue.evaluation.rewards grue.evaluation.rewriter grue.evaluation.reward_models grue.lm.checkpoint"
)
FAMILIES = ["causal", "seq2seq"]
REWRITE = {"rewrite": True, "keep": "last"}


def behind(prompt, response):
    """What a rewriter reads: a prompt, a response to it, and its end."""
    return [*prompt, *response, *([] if response[-1] == scored.EOS else [scored.EOS])]


def logs(model, prompt, response, written):
    """log π of each token that is written behind a prompt and its response."""
    logits, _ = exactness.plain(model, behind(prompt, response), written)
    return [logits[t, token] - logits[t].exp().sum().log() for t, token in enumerate(written)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("of_file", [False, True])
def test_the_best_response_is_learnt_behind_each_response(family, of_file, tmp_path, monkeypatch):
    """Behind itself, too; of groups whose responses are equally good nothing is."""
    reward = scored.Recorder(gaps=True)
    settings = {"data": scored.write_file(tmp_path / "data.jsonl")} if of_file else {}
    run = tiny.run(
        family, "rft", tmp_path, reward=reward, epochs=1, rollouts=24, samples_per_prompt=4, minibatch_size=24,
        micro_batch_size=5, **REWRITE, **settings,
    )  # fmt: skip
    state = algorithms.find_algorithm("rft").start(run.trainer, run.plan.config)
    (step,), _ = scored.steps_of(run, state, monkeypatch)
    groups = scored.groups_of_file() if of_file else scored.groups_of(reward.calls[0], 4)
    model, terms = scored.in_double(run.trainer.policy), []
    for group in groups:
        if len({one.score for one in group}) > 1:
            best = max(group, key=lambda one: one.score)
            prompt = scored.prompt_of(model, best.example)
            terms += [-log for one in group for log in logs(model, prompt, one.ids, best.ids)]
    scored.assert_step(step, scored.mean(terms), model)


def trained(family, folder, algorithm="rft", **settings):
    """A run's folder, of two updates on pairs in which "the dog" is better than anything."""
    pairs = {one.id: [("the dog", 1.0), (f"a {tiny.WORDS[i]} cat", 0.0)] for i, one in enumerate(tiny.examples())}
    settings = {"data": scored.write_file(folder.with_suffix(".jsonl"), pairs), "updates": 2, **settings}
    return tiny.train(tiny.run(family, algorithm, folder, **settings)).plan.folder


def longest_parts(a, b):
    """Places of `a` in the longest common part of both, the first of several, and in those left and right of it."""
    best = (0, 0, 0)
    for i in range(len(a)):
        for j in range(len(b)):
            size = 0
            while i + size < len(a) and j + size < len(b) and a[i + size] == b[j + size]:
                size += 1
            best = max(best, (size, -i, -j))
    size, i, j = best[0], -best[1], -best[2]
    if not size:
        return set()
    right = {i + size + place for place in longest_parts(a[i + size :], b[j + size :])}
    return longest_parts(a[:i], b[:j]) | set(range(i, i + size)) | right


@pytest.mark.parametrize("family", FAMILIES)
def test_a_reward_is_what_the_rewriter_keeps_of_each_token(family, tmp_path):
    more = {"learning_rate": 1e-2, "updates": 8}
    folder, task = trained(family, tmp_path / "run", **REWRITE, **more), tiny.task(family)
    reward = rewards.make_reward(f"rewriter:{folder}", task, tiny.examples())
    kind = type(tiny.model(family))
    model = kind.from_pretrained(folder / "checkpoint").double().eval()
    texts = ["the dog", "a red cat", "the dog runs near a house", "", "the the dog", "a dog sees the dog"]
    examples, ids = tiny.examples()[:6], [scored.ids_of(text) for text in texts]
    (parts,), found = reward.parts(examples, texts, token_ids=ids, truncated=[False] * 6), []
    for example, response, values in zip(examples, ids, parts, strict=True):
        written = exactness.greedy(model, behind(scored.prompt_of(model, example), response), 8)
        kept = longest_parts(response, written)
        size = len(response)
        assert values == pytest.approx([(1 if place in kept else -1) / size for place in range(size)])
        found.append(sum(values))
    assert reward(examples, texts) == pytest.approx(found), "the tokens of a text whose tokens are unknown are its own"
    assert len(set(found)) > 1 and found[0] == max(found)


def test_a_rewriter_is_recorded_as_what_its_pairs_were_judged_by(tmp_path):
    folder, task = trained("causal", tmp_path / "run", **REWRITE), tiny.task("causal")
    (known,) = reward_models.recorded(f"0.5*rewriter:{folder} + rouge1", task)
    manifest = checkpoint.read_manifest(folder / "checkpoint")
    assert known == {"name": f"rewriter:{folder}", "sha256": manifest.weights, "judge": "", "split": "train"}
    (folder / "config.toml").write_text('reward = "facts"\n[config]\nrewrite = true\n')
    assert reward_models.recorded(f"rewriter:{folder}", task) == [{**known, "judge": "facts"}]
    assert rewards.code_of(f"rewriter:{folder}", task) == {}
    rewards.check_reward(f"rewriter:{folder}", task)


def test_what_is_no_rewriter_of_the_task_or_reads_other_tokens_is_refused(tmp_path, refused):
    task, place = tiny.task("causal"), tmp_path / "run"
    with refused(DataError):
        rewards.check_reward(f"rewriter:{tmp_path / 'nowhere'}", task)
    for algorithm in ("rft", "dpo"):
        folder = trained("causal", tmp_path / algorithm, algorithm)
        (folder / "config.toml").write_text('reward = "rouge1"\n[config]\nepochs = 2\n')
        with refused(DataError):
            rewards.check_reward(f"rewriter:{folder}", task)
    name = f"rewriter:{trained('causal', place, **REWRITE)}"
    with refused(DataError):
        rewards.check_reward(name, dataclasses.replace(task, name="other"))
    reward = rewards.make_reward(name, task, tiny.examples())
    for ids in ([5, 4, 1], [900, 1]):
        with refused(ConfigError):
            reward(tiny.examples()[:1], ["the dog"], token_ids=[ids], truncated=[False])
    weights = place / "checkpoint" / "grue.json"
    weights.write_text(json.dumps({**json.loads(weights.read_text()), "files": {}}))
    with refused(DataError):
        rewards.make_reward(name, task, tiny.examples())


def test_a_model_without_room_for_a_response_behind_the_prompt_is_refused(tmp_path, refused):
    run = tiny.run("causal", "rft", tmp_path, task_=tiny.task("causal", max_new_tokens=40), **REWRITE)
    with refused(ConfigError):
        tiny.updated(run)
