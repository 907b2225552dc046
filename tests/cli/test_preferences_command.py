"""`grue pairs` and `grue reward`: the road from scored samples to a reward model, and what each command says."""

import json

import pytest
from click.testing import CliRunner

from grue import files
from grue.api import preferences as api
from grue.api.examples import examples
from grue.api.score import score
from grue.cli.main import main
from grue.cli.pairs import parse_shares
from grue.errors import ConfigError


def run(*arguments, code=0):
    found = CliRunner().invoke(main, [str(one) for one in arguments])
    assert found.exit_code == code, found.output
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with scored responses to some training prompts of mini's imdb."""
    folder = tmp_path_factory.mktemp("preferences")
    lines = []
    for n, example in enumerate(examples("imdb", "train")[:40]):
        texts = ["I loved all of it.", f"It was bad, {n} times.", "Nothing more."]
        lines.append(
            {"id": example.id, "responses": [{"text": t, "reward": r} for t, r in zip(texts, (1, 0, 0.5), strict=True)]}
        )
    files.write_jsonl(folder / "samples.jsonl", lines)
    return folder


def test_from_samples_to_a_judged_reward_model(place):
    pairs, folder = place / "pairs.jsonl", place / "rm"
    made = run("pairs", "from-samples", place / "samples.jsonl", "--task", "imdb", "--pairs", 60, "-o", pairs)
    assert made.stdout == f"{pairs}\n"
    prompts = len({line["id"] for _, line in files.read_jsonl(pairs) if "id" in line})
    assert made.stderr == f"60 pairs of {prompts} prompts, 0 of them ties; 0 ties left out; 0 judged both ways.\n"
    said = run("data", "check", pairs).stdout
    assert (
        "fine, pairs for mini/imdb" in said and "0.0% of the pairs are ties; 0 pairs of texts were judged both" in said
    )
    assert "of samples, prompts of train, judged by an unknown reward, noise none, seed 1" in said
    settings = [part for one in ("epochs=1", "max_tokens=24", "validations=1") for part in ("--set", one)]
    trained = run("reward", "train", pairs, "-o", folder, *settings)
    assert trained.stdout == f"{folder}\n" and "validation: accuracy" in trained.stderr and "log-loss" in trained.stderr
    found = json.loads(run("reward", "evaluate", folder, pairs, "--json").stdout)
    assert found["part"] == "test" and found["seen"] == 0
    assert found["found"] == files.read_json(folder / "reward.json")["held_out"]
    whole = run("reward", "evaluate", folder, pairs, "--part", "all")
    assert "of the prompts were learned from: this is not what it does on new ones." in whole.stderr
    scored = score(
        {one.id: "I loved all of it." for one in examples("imdb")[:1000]}, "imdb", metrics=[f"model:{folder}"]
    )
    assert [one.metric for one in scored.scores] == [f"model:{folder}"] and len(scored.ids) == 1000


def test_the_split_is_the_headers_and_no_other(place, tmp_path):
    shown = examples("imdb")[:30]  # of the evaluation split
    answers = [
        {"item": one.id, "annotator": "ann", "prompt": one.prompt, "id": one.id, "a": "Good.", "b": "Bad.",
         "systems": ["A", "B"], "choice": "a"}
        for one in shown
    ]  # fmt: skip
    files.write_jsonl(tmp_path / "answers.jsonl", answers)
    pairs = tmp_path / "pairs.jsonl"
    run("pairs", "from-study", tmp_path / "answers.jsonl", "--task", "imdb", "-o", pairs)
    assert "of study, prompts of test, judged by people, seed 1" in run("data", "check", pairs).stdout
    for command in (["data", "check", pairs], ["reward", "train", pairs, "-o", tmp_path / "rm"]):
        said = run(*command, "--split", "train", code=2).stderr
        assert "its header says that it answers prompts of the split 'test', not of 'train'" in said
    bare = tmp_path / "bare.jsonl"
    files.write_jsonl(bare, [line for _, line in files.read_jsonl(pairs) if "grue" not in line])
    settings = [part for one in ("epochs=1", "max_tokens=24", "validations=1") for part in ("--set", one)]
    run("reward", "train", bare, "--task", "imdb", "--split", "test", "-o", tmp_path / "rm", *settings)
    assert files.read_json(tmp_path / "rm/reward.json")["split"] == "test"
    files.write_jsonl(bare, [line for _, line in files.read_jsonl(bare) if line["part"] != "test"])
    made = run("reward", "train", bare, "--task", "imdb", "--split", "test", "-o", tmp_path / "unknown", *settings)
    assert "accuracy          unknown: the file has no pairs in the part test" in made.stderr
    said = run("data", "check", place / "samples.jsonl", "--task", "imdb", "--split", "test", code=3).stderr
    assert "is of no example of the split 'test' of mini/imdb" in said and "--split test` shows them all" in said


def test_in_python_what_cannot_be_chosen_is_refused(place, tmp_path):
    source, output = place / "samples.jsonl", tmp_path / "p"
    for choice, message in (
        ({"shares": (0.5, 0.5)}, "give three numbers, of train, validation, test"),
        ({"shares": (0.5, 0.5, 0.5)}, "with the sum 1"),
        ({"shares": {"train": 1.0}}, "give three of train, validation and test"),
        ({"ties": "foo"}, "ties 'foo': write one of drop, keep"),
        ({"pairs": 0}, "pairs 0: give a whole number, 1 at least"),
        ({"noise": "foo"}, "write none, flip:P"),
    ):
        with pytest.raises(ConfigError, match=message):
            api.pairs_from_samples(source, output, "imdb", **choice)
    with pytest.raises(TypeError, match="pears"):
        api.pairs_from_samples(source, output, "imdb", pears=3)
    made = api.pairs_from_samples(source, output, "imdb", shares=(0.5, 0.5, 0))
    assert made.shares == {"train": 0.5, "validation": 0.5, "test": 0}


def test_a_file_without_a_task_and_a_wrong_setting_are_refused(place):
    said = run("pairs", "from-samples", place / "samples.jsonl", "-o", place / "x", code=2).stderr
    assert said.startswith("Error: ") and "name its task with --task" in said
    said = run(
        "reward", "train", place / "samples.jsonl", "--task", "imdb", "-o", place / "x", "--set", "epoch=1", code=2
    )
    assert "unknown key 'epoch'. Did you mean 'epochs'?" in said.stderr
    said = run("reward", "train", place / "samples.jsonl", "--task", "imdb", "-o", place / "x", code=3).stderr
    assert "holds no pairs; `grue pairs from-samples samples.jsonl --output PAIRS` makes some of it" in said
    for shares in ("0.5", "a,b,c", "1,2"):
        with pytest.raises(ConfigError, match="give three numbers"):
            parse_shares(shares)
