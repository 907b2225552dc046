"""`grue generate` and `grue data check`, as a person sees them."""

import json
from dataclasses import replace

import pytest
from support.commands import grue, printed_json
from support.late import late

import grue as package
from grue import files
from grue.data.load import load_examples
from grue.data.scored import read_scored
from grue.errors import ConfigError
from grue.task_files import load_task

saved, tiny, checkpoints = late("support.saved"), late("support.tiny"), late("grue.lm.checkpoint")
TASK = load_task("commongen")
SCORED = ("--samples", 2, "--score", "--reward", "mean_length")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A tiny model that says to be trained on mini's CommonGen, with seed 3."""
    folder = tmp_path_factory.mktemp("run") / "checkpoint"
    manifest = replace(saved.MANIFEST, suite="mini", task="commongen", task_hash=TASK.hash, seed=3)
    model, tokenizer = tiny.model("seq2seq"), tiny.tokenizer("seq2seq")
    checkpoints.save_checkpoint(folder, model, tokenizer, manifest, TASK.decoding, "# A card\n")
    return folder


@pytest.fixture(scope="module")
def rewarded():
    """The examples whose prompts are learned from by reward."""
    return load_examples(TASK, "rl").examples


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def command(checkpoint, *arguments):
    return "generate", "--checkpoint", checkpoint, "--output", "out.jsonl", "--limit", 3, *arguments


def generate(checkpoint, *arguments):
    done = grue(*command(checkpoint, *arguments))
    assert done.stdout == "out.jsonl\n"
    return done.stderr


def test_scored_samples_of_a_checkpoint(checkpoint, rewarded, tmp_path, refused):
    asked = (*SCORED, "--temperature", 0.5)
    assert generate(checkpoint, *asked) == ""
    found = read_scored(tmp_path / "out.jsonl", TASK, rewarded)
    assert [group.example for group in found.groups] == list(rewarded[:3])
    made = found.made
    assert (made.seed, made.system, made.samples, made.reward, made.split) == (3, "ppo", 2, "mean_length", "rl")
    assert made.generation == replace(TASK.rollout, temperature=0.5)
    generate(checkpoint, *asked)
    assert read_scored(tmp_path / "out.jsonl", TASK, rewarded) == found
    refused.command(*command(checkpoint, *asked, "--seed", 4), code=2)

    done = grue("data", "check", "out.jsonl").stdout  # the header names the task
    assert done.startswith("out.jsonl: fine, rewards for mini/commongen\n")
    assert "  made      2 samples a prompt of rl from ppo (" in done
    assert ", seed 3, temperature 0.5, reward mean_length\n  took      3 prompts, 6 reward calls, " in done
    refused.command("data", "check", "out.jsonl", "--task", "imdb", code=3)
    header, *rest = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    for change in ({"suite": "/etc"}, {"task": "/etc/x.toml"}, {"suite": "own", "task": "x"}):  # it opens no file
        files.write_jsonl(tmp_path / "bad.jsonl", [{**header, **change}, *rest])
        refused.command("data", "check", "bad.jsonl", code=2)


def test_a_system_is_named_with_its_task(checkpoint, rewarded, tmp_path, refused):
    generate("zero-shot", "--task", "commongen", *SCORED, "--seed", 5)
    made = read_scored(tmp_path / "out.jsonl", TASK, rewarded).made
    assert (made.system, made.seed, made.prompts) == ("zero-shot", 5, 3)
    refused.command(*command("lead", "--task", "commongen", *SCORED), code=2)
    (tmp_path / "out.jsonl").unlink()
    said = generate(checkpoint, "--samples", 4, "--score", "--reward", "support.rewards:of_those_that_end")
    assert said.endswith(" of 12 responses are left out: the reward does not apply.\n")
    kept = [len(line["responses"]) for _, line in files.read_jsonl(tmp_path / "out.jsonl") if "id" in line]
    assert int(said.split()[0]) == 12 - sum(kept) > 0


@pytest.mark.parametrize("asked", ["--samples 4", "--score", "--temperature 2", "--samples 4 --score --temperature 0"])
def test_what_does_not_go_together_says_what_to_do(asked, checkpoint, tmp_path, refused):
    refused.command(*command(checkpoint, *asked.split()), code=2)
    assert not list(tmp_path.iterdir())


def test_what_is_no_checkpoint_and_no_file_to_write_is_refused(checkpoint, tmp_path, refused):
    for what in (".", "zero-shot"):
        refused.command(*command(what), code=2)
    with refused(ConfigError):
        package.generate(checkpoint, tmp_path / "x", reward="meteor")
    (tmp_path / "out.jsonl").mkdir()
    refused.command(*command(checkpoint, *SCORED), code=2)


def checked(path, *lines):
    files.write_jsonl(path, lines)
    return grue("data", "check", path.name, "--task", "commongen").stdout


def test_a_file_of_ones_own_is_looked_at(rewarded, tmp_path, refused):
    path = tmp_path / "own.jsonl"
    responses = [[("a b c", 1), ("", 3)], [("d", 2), ("d", 2)]]
    lines = [
        {"id": one.id, "responses": [{"text": text, "reward": reward} for text, reward in some]}
        for one, some in zip(rewarded, responses, strict=False)
    ]
    shown = checked(path, *lines)
    digest = read_scored(path, TASK, rewarded).sha256
    assert f"  sha256    {digest}\n" in shown
    refused.message(shown.replace(digest, "<sha256>"))
    ranking = {"id": rewarded[2].id, "ranking": ["a", "b", "c"]}
    assert checked(path, ranking).startswith("own.jsonl: fine, rankings for")
    files.write_jsonl(path, ({"prompt": rewarded[2].prompt, "chosen": "a", "rejected": bad} for bad in ("b", "c")))
    found = printed_json("data", "check", path.name, "--task", "commongen")
    assert (found["form"], found["prompts"], found["groups"], found["rewards"]) == ("pairs", 1, 2, None)


def test_what_training_cuts_and_what_it_reads_as_text_is_said(rewarded, tmp_path):
    path, long = tmp_path / "own.jsonl", "the dog " * 14
    pairs = [(long, f"{long}the dog"), ("a<eos>", "b <pad> c<eos>"), (long, "a")]
    ids = [one.id for one in rewarded[:3]]
    shown = checked(path, *({"id": i, "chosen": a, "rejected": b} for i, (a, b) in zip(ids, pairs, strict=True)))
    assert "  targets   3 of 6 responses are cut to 24 tokens, of up to 32, and learnt without their end; 0 " in shown
    equal = f"equal     1 lines have responses of unequal worth that are equal once they are cut (in {ids[0]!r})"
    assert equal in shown and f"read as text: <eos> in 2, <pad> in 1 (in {ids[1]!r})" in shown
    files.write_jsonl(path, [{"id": ids[0], "responses": [{"text": "a", "reward": 1, "truncated": True}]}])
    found = printed_json("data", "check", path.name, "--task", "commongen")["cuts"]
    assert (found["truncated"], found["responses"]["longest"], found["prompts"]["texts"]) == (1, 1, 1)
    assert "mini/commongen train: 800 examples" in grue("data", "check", "--task", "commongen").stdout
    shown = grue("data", "check", "--task", "commongen", "--split", "test").stdout
    assert " references are cut to 24 tokens" in shown and "equal" not in shown
    assert "with --task the task" in grue("data", "check", code=2).stderr
