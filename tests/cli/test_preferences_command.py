"""`grue tools pairs` and `grue tools reward`: the road from scored samples to a reward model, and what each command says."""

import pytest
from support.commands import grue, printed_json

from grue import files
from grue.api import preferences as api
from grue.api.examples import examples
from grue.api.score import score
from grue.cli.pairs import parse_shares
from grue.errors import ConfigError

QUICK = "--set epochs=1 --set max_tokens=24 --set validations=1".split()


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Scored responses to some prompts of mini's imdb that policies learn from."""
    path = tmp_path_factory.mktemp("preferences") / "samples.jsonl"
    lines = []
    for n, example in enumerate(examples("imdb", "rl")[:40]):
        worth = {"I loved all of it.": 1, f"It was bad, {n} times.": 0, "Nothing more.": 0.5}
        responses = [{"text": text, "reward": reward} for text, reward in worth.items()]
        lines.append({"id": example.id, "responses": responses})
    files.write_jsonl(path, lines)
    return path


def lines_of(path):
    return [line for _, line in files.read_jsonl(path) if "grue" not in line]


def test_from_samples_to_a_judged_reward_model(samples, tmp_path):
    pairs, folder = tmp_path / "pairs.jsonl", tmp_path / "rm"
    made = grue("tools", "pairs", "from-samples", samples, "--task", "imdb", "--pairs", 60, "-o", pairs)
    prompts = len({line["id"] for line in lines_of(pairs)})
    said = f"60 pairs of {prompts} prompts, 0 of them ties; 0 ties left out; 0 judged both ways.\n"
    assert (made.stdout, made.stderr) == (f"{pairs}\n", said)
    said = grue("data", "check", pairs).stdout
    for part in (
        "fine, pairs for mini/imdb",
        "0.0% of the pairs are ties; 0 pairs of texts were judged both",
        "of samples, prompts of rl, judged by an unknown reward, noise none, seed 1",
    ):
        assert part in said
    trained = grue("tools", "reward", "train", pairs, "-o", folder, *QUICK)
    assert trained.stdout == f"{folder}\n" and "validation: accuracy" in trained.stderr and "log-loss" in trained.stderr
    found = printed_json("tools", "reward", "evaluate", folder, pairs)
    assert (found["part"], found["seen"]) == ("test", 0)
    assert found["found"] == files.read_json(folder / "reward.json")["held_out"]
    whole = grue("tools", "reward", "evaluate", folder, pairs, "--part", "all")
    assert "of the prompts were learned from: this is not what it does on new ones." in whole.stderr
    few = examples("imdb")[:3]
    scored = score(["I loved all of it."] * 3, own_examples=few, metrics=[f"model:{folder}"])
    assert [one.metric for one in scored.scores] == [f"model:{folder}"] and len(scored.ids) == 3


def test_the_split_is_the_headers_and_no_other(samples, tmp_path, refused):
    answers, pairs, bare = (tmp_path / f"{name}.jsonl" for name in ("answers", "pairs", "bare"))
    said = {"annotator": "ann", "a": "Good.", "b": "Bad.", "systems": ["A", "B"], "choice": "a"}
    shown = examples("imdb")[:30]  # of the evaluation split
    files.write_jsonl(answers, [{"item": one.id, "prompt": one.prompt, "id": one.id, **said} for one in shown])
    grue("tools", "pairs", "from-study", answers, "--task", "imdb", "-o", pairs)
    assert "of study, prompts of test, judged by people, seed 1" in grue("data", "check", pairs).stdout
    for command in (["data", "check", pairs], ["tools", "reward", "train", pairs, "-o", tmp_path / "rm"]):
        refused.command(*command, "--split", "train", code=2)
    files.write_jsonl(bare, lines_of(pairs))
    train = ("tools", "reward", "train", bare, "--task", "imdb", "--split", "test", *QUICK, "-o")
    grue(*train, tmp_path / "rm")
    assert files.read_json(tmp_path / "rm/reward.json")["split"] == "test"
    files.write_jsonl(bare, [line for line in lines_of(bare) if line["part"] != "test"])
    said = grue(*train, tmp_path / "unknown").stderr
    assert "accuracy          unknown: the file has no pairs in the part test" in said
    assert "fine, rewards for mini/imdb" in grue("data", "check", samples, "--task", "imdb").stdout
    said = grue("data", "check", samples, "--task", "imdb", "--split", "test", code=3).stderr
    assert (
        "is of no example of the split 'test' of mini/imdb" in said
        and "--split test -o prompts.jsonl` writes them all" in said
    )


def test_pairs_of_predictions_are_of_the_prompts_that_policies_learn_from(tmp_path):
    a, b, pairs = (tmp_path / f"{name}.jsonl" for name in "abp")
    make = ("tools", "pairs", "from-predictions", a, b, "--task", "imdb", "--reward", "rouge1", "-o", pairs)
    for split, made in (("rl", 0), ("train", 1)):
        for path, text in ((a, "the film"), (b, "a movie")):
            files.write_jsonl(path, [{"id": one.id, "text": text} for one in examples("imdb", split)])
        grue(*make, code=made)
    (_, header), *_ = files.read_jsonl(pairs)
    assert header["split"] == "rl"


def test_choices_of_python_are_those_of_the_command(samples, tmp_path, refused):
    for make in (api.pairs_from_samples, lambda *given, **more: api.pairs_from_predictions("a", *given, **more)):
        with pytest.raises(TypeError, match="pears"):
            make(samples, tmp_path / "p", "imdb", pears=3)
    made = api.pairs_from_samples(samples, tmp_path / "p", "imdb", shares=(0.5, 0.5, 0))
    assert made.shares == {"train": 0.5, "validation": 0.5, "test": 0}
    for choice in ({"shares": (0.5, 0.5)}, {"shares": {"train": 1.0}}, {"ties": "foo"}, {"pairs": 0}):
        with refused(ConfigError):
            api.pairs_from_samples(samples, tmp_path / "q", "imdb", **choice)
    for shares in ("0.5", "a,b,c"):
        with refused(ConfigError):
            parse_shares(shares)


def test_a_file_without_a_task_and_a_wrong_setting_are_refused(samples, refused):
    refused.command("tools", "pairs", "from-samples", samples, "-o", "x", code=2)
    train = ("tools", "reward", "train", samples, "--task", "imdb", "-o", "x")
    refused.command(*train, "--set", "epoch=1", code=2)
    refused.command(*train, code=3)
