"""`grue generate` and `grue data check`, as a person sees them."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from support import tiny
from support.saved import MANIFEST

import grue as package
from grue import files
from grue.cli.main import main
from grue.data.load import load_examples
from grue.data.scored import read_scored
from grue.errors import ConfigError
from grue.lm.checkpoint import save_checkpoint
from grue.task_files import load_task

TASK = load_task("commongen")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A tiny model that says to be trained on mini's CommonGen, with seed 3."""
    folder = tmp_path_factory.mktemp("run") / "checkpoint"
    manifest = replace(MANIFEST, suite="mini", task="commongen", task_hash=TASK.hash, seed=3)
    save_checkpoint(folder, tiny.model("seq2seq"), tiny.tokenizer("seq2seq"), manifest, TASK.decoding, "# A card\n")
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def grue(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


def generate(checkpoint, *arguments):
    return grue("generate", "--checkpoint", checkpoint, "--output", "out.jsonl", "--limit", 3, *arguments)


def test_predictions_are_written_as_before(checkpoint, tmp_path):
    done = generate(checkpoint)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "out.jsonl\n", "")
    answered = load_examples(TASK, "test").examples[:3]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [example.id for example in answered]
    assert all(set(line) <= {"id", "text", "truncated"} for line in lines)


def test_predictions_of_another_call_are_neither_kept_nor_mixed(checkpoint, tmp_path):
    assert generate(checkpoint).exit_code == 0
    before = (tmp_path / "out.jsonl").read_bytes()
    again = generate(checkpoint)
    assert (again.exit_code, again.stdout, again.stderr) == (0, "out.jsonl\n", "")
    for message, command in {
        "seed = 3, not 4": [checkpoint, "--seed", 4],
        "split = 'test', not 'train'": [checkpoint, "--split", "train"],
        "prompts = 3, not 5": [checkpoint, "--limit", 5],
        "checkpoint = '": ["zero-shot", "--task", "commongen", "--seed", 3],
    }.items():
        done = generate(*command)
        assert done.exit_code == 2 and f"Error: out.jsonl: holds responses with {message}" in done.stderr, done.output
        assert (tmp_path / "out.jsonl").read_bytes() == before


def test_a_folder_is_no_file_to_write(checkpoint, tmp_path):
    (tmp_path / "out.jsonl").mkdir()
    for options in ([], ["--samples", 2, "--score"]):
        done = generate(checkpoint, *options)
        assert done.exit_code == 2
        assert done.stderr.startswith("Error: out.jsonl: is a folder; name a file in it with --output"), done.output


def test_scored_samples_of_a_checkpoint(checkpoint, tmp_path):
    done = generate(checkpoint, "--samples", 2, "--score", "--temperature", 0.5, "--reward", "meteor")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "out.jsonl\n", "")
    train = load_examples(TASK, "train").examples
    found = read_scored(tmp_path / "out.jsonl", TASK, train)
    assert [group.example for group in found.groups] == list(train[:3])
    made = found.made
    assert (made.seed, made.system, made.samples, made.reward, made.split) == (3, "ppo", 2, "meteor", "train")
    assert made.generation == replace(TASK.rollout, temperature=0.5)
    again = generate(checkpoint, "--samples", 2, "--score", "--temperature", 0.5, "--reward", "meteor")
    assert again.exit_code == 0 and read_scored(tmp_path / "out.jsonl", TASK, train) == found
    other = generate(checkpoint, "--samples", 2, "--score", "--temperature", 0.5, "--reward", "meteor", "--seed", 4)
    assert other.exit_code == 2
    assert other.stderr == (
        "Error: out.jsonl: holds responses with seed = 3, not 4. Write elsewhere with --output, or remove it.\n"
    )


def rows_of(folder, *concepts):
    """A file of rows of that name, of CommonGen's columns."""
    folder.mkdir()
    rows = [
        {"concept_set_idx": place, "concepts": list(one), "target": "A target."} for place, one in enumerate(concepts)
    ]
    write(folder / "rows.jsonl", *rows)
    return folder / "rows.jsonl"


def test_files_of_one_name_with_other_rows_are_told_apart(checkpoint, tmp_path):
    one = rows_of(tmp_path / "one", ["dog", "zebra", "moon"])
    other = rows_of(tmp_path / "other", ["cat", "zebra", "moon"])
    samples = ("--samples", 1, "--score", "--reward", "meteor")
    assert generate(checkpoint, *samples, "--split", one).exit_code == 0
    before = (tmp_path / "out.jsonl").read_bytes()
    assert json.loads(before.splitlines()[0])["file"] == files.sha256_file(one)
    assert generate(checkpoint, *samples, "--split", one).exit_code == 0
    done = generate(checkpoint, *samples, "--split", other)
    assert done.exit_code == 2 and "out.jsonl: holds responses with file = '" in done.stderr
    assert (tmp_path / "out.jsonl").read_bytes() == before


def test_a_system_is_named_with_its_task(tmp_path):
    done = generate("zero-shot", "--task", "commongen", "--samples", 1, "--score", "--seed", 5, "--reward", "meteor")
    assert done.exit_code == 0, done.output
    made = read_scored(tmp_path / "out.jsonl", TASK, load_examples(TASK, "train").examples).made
    assert (made.system, made.seed, made.prompts) == ("zero-shot", 5, 3)
    none = generate("lead", "--task", "commongen", "--samples", 1, "--score")
    assert none.exit_code == 2 and "lead has no model; `grue evaluate --baseline lead`" in none.stderr


def test_what_does_not_go_together_says_what_to_do(checkpoint, tmp_path):
    for arguments, message in (
        (["--samples", 4], "Error: --samples draws responses to learn from, which need scores: add --score"),
        (["--score"], "Error: --score scores several samples to each prompt: say how many with --samples N."),
        (["--reward", "meteor"], "Error: --reward and --temperature are of samples: add --samples N --score."),
        (["--temperature", 2], "Error: --reward and --temperature are of samples: add --samples N --score."),
        (["--samples", 4, "--score", "--temperature", 0], "Error: temperature 0.0: choose a number above 0."),
        (["--samples", 4, "--score", "--reward", "meteo"], "Error: There is no metric 'meteo'. Did you mean 'meteor'?"),
        (["--samples", 4, "--score", "--seed", -1], "Error: seed -1: choose a whole number from 0"),
    ):
        done = generate(checkpoint, *arguments)
        assert (done.exit_code, done.stdout) == (2, "") and done.stderr.startswith(message), done.output
        assert not list(tmp_path.iterdir())
    for what in (tmp_path, "zero-shot"):
        for options in (["--samples", 2, "--score"], []):
            done = generate(what, *options)
            assert (done.exit_code, done.stdout) == (2, "")
            assert done.stderr == (
                f"Error: {what}: no checkpoint of grue is there (`grue train` writes one). If it is a model, or zero-shot, "
                'name the task that it answers, with --task NAME, or task="NAME" in Python.\n'
            )
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigError, match="say how many are drawn"):
        package.generate(checkpoint, tmp_path / "x", reward="meteor")


def test_responses_that_are_left_out_are_counted(checkpoint):
    done = generate(checkpoint, "--samples", 4, "--score", "--reward", "support.rewards:of_those_that_end")
    assert done.exit_code == 0, done.output
    assert done.stderr.endswith(" of 12 responses are left out: the reward does not apply.\n")


# --- grue data check -------------------------------------------------------------------------------------------------


def write(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def rewarded(example, *pairs):
    return {"id": example.id, "responses": [{"text": text, "reward": reward} for text, reward in pairs]}


def test_a_file_of_ones_own_is_looked_at(tmp_path):
    train = load_examples(TASK, "train").examples
    path = tmp_path / "own.jsonl"
    write(path, rewarded(train[0], ("a b c", 1), ("", 3)), rewarded(train[1], ("d", 2), ("d", 2)))
    done = grue("data", "check", path.name, "--task", "commongen")
    digest = read_scored(path, TASK, train).sha256
    assert (done.exit_code, done.stdout) == (
        0,
        "own.jsonl: fine, rewards for mini/commongen\n"
        "  holds     4 responses on 2 lines (2.0 a line) to 2 prompts\n"
        "  length    1.2 words (mean), at most 3; 1 empty, 1 repeat another of their line\n"
        "  rewards   2 (mean), spread 0.7071, within a line 0.5, from 1 to 3\n"
        "  flat      50.0% of the lines have equal rewards throughout, which show no order\n"
        "  made      not known: there is no header\n"
        "  took      2 prompts, 4 reward calls, unknown generated tokens, unknown seconds\n"
        f"  sha256    {digest}\n"
        "  prompts   0 of 2 prompts are cut to 24 tokens\n"
        "  targets   0 of 4 responses are cut to 24 tokens, and learnt without their end; 0 were cut when they were "
        "drawn\n"
        "  equal     0 lines have responses of unequal worth that are equal once they are cut\n"
        "  special   tokens that texts quote, and that are read as text: none\n",
    )
    write(path, *({"prompt": train[2].prompt, "chosen": "a", "rejected": bad} for bad in ("b", "c")))
    found = json.loads(grue("data", "check", path.name, "--task", "commongen", "--json").stdout)
    assert (found["form"], found["prompts"], found["groups"], found["rewards"]) == ("pairs", 1, 2, None)
    write(path, {"id": train[2].id, "ranking": ["a", "b", "c"]})
    assert grue("data", "check", path.name, "--task", "commongen").stdout.startswith("own.jsonl: fine, rankings for")


def test_what_training_cuts_and_what_it_reads_as_text_is_said(tmp_path):
    train, path, long = load_examples(TASK, "train").examples, tmp_path / "own.jsonl", "the dog " * 14
    pairs = [(long, f"{long}the dog"), ("a<eos>", "b <pad> c<eos>"), (long, "a")]
    ids = [one.id for one in train[:3]]
    write(path, *({"id": name, "chosen": a, "rejected": b} for name, (a, b) in zip(ids, pairs, strict=True)))
    shown = grue("data", "check", path.name, "--task", "commongen").stdout
    assert "  targets   3 of 6 responses are cut to 24 tokens, of up to 32, and learnt without their end; 0 " in shown
    assert (
        f"equal     1 lines have responses of unequal worth that are equal once they are cut (in {ids[0]!r})" in shown
    )
    assert f"read as text: <eos> in 2, <pad> in 1 (in {ids[1]!r})" in shown
    write(path, {"id": ids[0], "responses": [{"text": "a", "reward": 1, "truncated": True}]})
    found = json.loads(grue("data", "check", path.name, "--task", "commongen", "--json").stdout)["cuts"]
    assert (found["truncated"], found["responses"]["longest"], found["prompts"]["texts"]) == (1, 1, 1)
    shown = grue("data", "check", "--task", "commongen", "--split", "test").stdout
    assert " references are cut to 24 tokens" in shown and "equal" not in shown
    assert "with --task the task" in grue("data", "check").stderr


def test_a_header_names_the_task_and_what_was_made(checkpoint):
    assert generate(checkpoint, "--samples", 2, "--score", "--reward", "meteor").exit_code == 0
    done = grue("data", "check", "out.jsonl")
    assert done.exit_code == 0 and done.stdout.startswith("out.jsonl: fine, rewards for mini/commongen\n")
    assert "  made      2 samples a prompt of train from ppo (" in done.stdout
    assert ", seed 3, temperature 0.7, reward meteor\n  took      3 prompts, 6 reward calls, " in done.stdout
    wrong = grue("data", "check", "out.jsonl", "--task", "imdb")
    assert (wrong.exit_code, wrong.stdout) == (3, "")
    assert wrong.stderr.startswith("Error: out.jsonl, line 1: responses to mini/commongen, not to mini/imdb; choose")


def test_answers_to_the_test_split_are_no_training_data(checkpoint):
    assert generate(checkpoint, "--samples", 1, "--score", "--split", "test", "--reward", "meteor").exit_code == 0
    for split in ([], ["--split", "test"]):
        done = grue("data", "check", "out.jsonl", *split)
        assert (done.exit_code, done.stderr) == (0, "")
    assert grue("data", "check", "out.jsonl", "--split", "train").exit_code == 2
    done = grue("train", "--task", "commongen", "--algo", "rft", "--set", "updates=1", "--set", "data=out.jsonl")
    assert done.exit_code == 3
    assert "is of no training example of mini/commongen" in done.stderr
    assert "The header says that the split 'test' was answered." in done.stderr


def test_a_header_opens_no_file_of_its_own_choice(checkpoint, tmp_path):
    assert generate(checkpoint, "--samples", 1, "--score", "--reward", "meteor").exit_code == 0
    header, *rest = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    unknown = 'has no header that names a task of ours; name its task with --task NAME, or task="NAME" in Python.'
    own = 'is of own/x, which is known by its file: write --task FILE.toml, or task="FILE.toml" in Python.'
    for change, told in (
        ({"suite": "/etc"}, unknown),
        ({"task": "/etc/x.toml"}, unknown),
        ({"suite": "own", "task": "x"}, own),
    ):
        write(tmp_path / "bad.jsonl", {**json.loads(header), **change}, *map(json.loads, rest))
        done = grue("data", "check", "bad.jsonl")
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == f"Error: bad.jsonl: {told}\n"


def test_the_schema_is_printed():
    found = json.loads(grue("schema", "scored").stdout)
    assert [one["title"] for one in found["anyOf"]] == [
        *("ScoredHeader", "PairsHeader", "RewardedLine", "PairLine", "RankingLine")
    ]
