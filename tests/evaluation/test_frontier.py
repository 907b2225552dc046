"""`grue frontier` and what it is computed from: samples as training draws them, rewards with and without references."""

import json
import math
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner
from support import tiny
from support.exactness import letters

from grue import files
from grue.cli.main import main
from grue.errors import ConfigError, DataError
from grue.evaluation.best_of import BestOf
from grue.evaluation.frontier import Frontier, draw, measure, place, with_frontier
from grue.evaluation.systems import System, baseline_system
from grue.stats.frontier import reward_at
from grue.task_files import load_task

SETTINGS = {"samples": 16, "temperature": 1.0}
TRAIN = tiny.examples(12)


def system(family="causal"):
    return System("tiny", {"name": "tiny"}, 1, "sha", tiny.model(family), tiny.tokenizer(family))


def silent(done, total):
    pass


@pytest.mark.parametrize("family", ["causal", "seq2seq"])
def test_samples_depend_on_nothing_but_their_prompt_and_number(family):
    task, examples = tiny.task(family), tiny.examples(5)
    many = draw(task, system(family), examples, 12, 1.0, silent)
    few = draw(task, system(family), examples[3:4], 5, 1.0, silent)
    assert few[0] == many[3][:5]
    assert len(set(many[0])) > 3
    colder = draw(task, system(family), examples, 12, 1e-4, silent)
    assert all(len(set(some)) == 1 for some in colder)


def test_a_reward_that_reads_no_reference_can_be_reached():
    task, examples = tiny.task("causal"), tiny.examples(6)
    seen = []
    found = measure(
        task,
        system(),
        examples,
        "train",
        train=examples,
        reward="support.exactness:letters",
        progress=lambda done, total: seen.append((done, total)),
        **SETTINGS,
    )
    texts = [[one.text for one in some] for some in draw(task, system(), examples, 16, 1.0, silent)]
    values = [letters(examples, some) for some in texts]
    assert found.optimal[0].reward == pytest.approx(sum(map(sum, values)) / 96)
    assert found.best_of["16"].reward == pytest.approx(sum(map(max, values)) / 6)
    assert (found.oracle, found.attainable, found.how) == (False, None, None)
    assert found.optimal[-1].kl <= math.log(16) - 1
    assert seen[-1] == (96, 96) and len(seen) == 16


def test_one_prompt_has_no_standard_error():
    found = measure(tiny.task("causal"), system(), tiny.examples(1), "train", train=TRAIN, reward="rouge1", **SETTINGS)
    assert found.error is None


def test_with_references_what_a_policy_could_know_stands_beside_the_oracle():
    """Each example has two references."""
    found = measure(tiny.task("causal"), system(), tiny.examples(12), "train", train=TRAIN, reward="rouge1", **SETTINGS)
    assert (found.oracle, found.how) == (True, "cross-fitted")
    assert found.attainable[-1].reward < found.optimal[-1].reward
    assert found.attainable[0].reward <= found.optimal[0].reward  # the better of two references is one of them


def test_with_one_reference_other_samples_stand_in_for_it():
    examples = [replace(example, references=example.references[:1]) for example in tiny.examples(12)]
    found = measure(
        tiny.task("causal"), system(), examples, "train", train=TRAIN, reward="rouge1", samples=24, temperature=1.0
    )
    assert found.how == "minimum Bayes risk"
    assert found.attainable[-1].kl <= math.log(16) - 1
    with pytest.raises(DataError, match="10 samples a prompt are too few for a curve; draw 16 at least, of which 8"):
        measure(
            tiny.task("causal"), System("n", {}, 1, "n"), examples, "train", train=TRAIN, reward="rouge1", samples=10,
            temperature=1.0,
        )  # fmt: skip


def lengths(examples, texts, token_ids, truncated, step):
    assert step == 0
    return [[0.5 if cut else 1.0] * len(ids) for ids, cut in zip(token_ids, truncated, strict=True)]


def words_alone(examples, texts):
    return [len(text.split()) if text else None for text in texts]


def test_a_reward_is_told_of_tokens_and_counts_as_a_whole():
    task, examples = tiny.task("causal"), tiny.examples(3)
    found = measure(task, system(), examples, "train", train=TRAIN, reward=f"{__name__}:lengths", **SETTINGS)
    drawn = [one for some in draw(task, system(), examples, 16, 1.0, silent) for one in some]
    wanted = [len(one.token_ids) * (0.5 if one.truncated else 1.0) for one in drawn]
    assert {one.truncated for one in drawn} == {True, False}
    assert all(one.truncated == (one.token_ids[-1] != 1) for one in drawn), "1 is the end"
    assert found.optimal[0].reward == pytest.approx(sum(wanted) / len(wanted))


def test_a_reward_that_does_not_apply_has_no_frontier():
    with pytest.raises(DataError, match=r"does not apply \(None\) to a response to the example 'e\d', and a frontier"):
        measure(
            tiny.task("causal"),
            system(),
            tiny.examples(12),
            "train",
            train=TRAIN,
            reward=f"{__name__}:words_alone",
            **SETTINGS,
        )


def test_what_is_known_of_the_reference_leaves_the_oracle_alone():
    """DailyDialog's act stands in the examples, so that weights from other samples would know it too."""
    examples = [replace(example, meta={**example.meta, "intent": 1}) for example in tiny.examples(12)]
    found = measure(tiny.task("causal"), system(), examples, "train", train=TRAIN, reward="rouge1", **SETTINGS)
    assert (found.oracle, found.attainable, found.how) == (True, None, None)
    assert found.curve == found.optimal


def test_a_start_without_a_model_is_refused():
    null = System("null", {"name": "null"}, 1, "null")
    with pytest.raises(ConfigError, match="null has no model to draw samples from"):
        measure(tiny.task("causal"), null, tiny.examples(2), "train", train=TRAIN, reward="rouge1", **SETTINGS)
    with pytest.raises(DataError, match="no examples"):
        measure(tiny.task("causal"), system(), [], "train", train=TRAIN, reward="rouge1", **SETTINGS)


@pytest.fixture
def run(tmp_path):
    """A finished run of PPO from the zero-shot model of mini IMDB, written by hand: it kept its second validation."""
    folder = tmp_path / "ppo" / "seed-1"
    (folder / "checkpoint").mkdir(parents=True)
    began = baseline_system(load_task("imdb"), "zero-shot", 1).weights
    manifest = {"suite": "mini", "task": "imdb", "task_hash": "", "system": "ppo", "algorithm": "ppo", "backbone": "m"}
    manifest |= {"seed": 1, "update": 2, "config_sha256": "", "validation": {}, "training": {}}
    (folder / "checkpoint/grue.json").write_text(json.dumps(manifest))
    (folder / "config.toml").write_text(f'reward = "sentiment"\nbackbone_weights = "{began}"\n')
    validations = [(0, 0.0, 0.5), (2, 0.25, 0.52), (4, 90.0, 0.4)]
    lines = [
        {"update": n, "validation/kl": kl, "validation/sampled_reward": reward, "validation/reward": 0.1}
        for n, kl, reward in validations
    ]
    (folder / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"update": 1}]))
    return folder


COMMAND = "frontier --checkpoint zero-shot --task imdb --limit 4 --samples 8".split()


def frontier(*arguments):
    return CliRunner().invoke(main, [*COMMAND, *map(str, arguments)])


def test_the_command_prints_curves_and_what_runs_gained(tmp_path, run):
    done = frontier("--run", run, "-o", tmp_path / "out/frontier.json")
    assert done.exit_code == 0, done.output
    assert "mini/imdb  reward sentiment, 4 prompts of validation, 8 samples each at temperature 1" in done.output
    assert re.search(r"the start has 0\.\d{3} ± 0\.\d{3} \(standard error over prompts\)", done.output)
    assert re.search(r"seed-1  \+0\.020 at 0\.25 nats after update 2: \d+% of what could be gained there", done.output)
    found = files.load_json(tmp_path / "out/frontier.json", Frontier)
    assert (found.task, found.samples, len(found.optimal) > 10) == ("imdb", 8, True)
    data = json.loads(frontier("--run", run, "--json").stdout)
    (placed,) = data["runs"]
    assert (placed["run"], placed["update"], placed["kl"]) == (str(run), 2, 0.25)
    assert placed["gain"] == pytest.approx(0.02)
    best = reward_at(found.optimal, 0.25) - found.optimal[0].reward
    assert placed["share"] == pytest.approx(0.02 / best)
    assert [at["kl"] for at in placed["path"]] == [0.0, 0.25, 90.0]
    assert place(found, run).path[2].reward == pytest.approx(-0.1)


def test_runs_that_the_frontier_is_not_of_are_refused(tmp_path, run):
    frontier("-o", tmp_path / "frontier.json")
    found = files.load_json(tmp_path / "frontier.json", Frontier)
    with pytest.raises(DataError, match="not trained on mini/imdb from the start of the frontier"):
        place(replace(found, start="another"), run)
    with pytest.raises(DataError, match="trained with the reward sentiment; the frontier is of meteor"):
        place(replace(found, reward="meteor"), run)
    for other in (replace(found, temperature=0.3), replace(found, split="train")):
        with pytest.raises(DataError, match="places no run: runs log their KL and reward on validation prompts at"):
            place(other, run)
    refused = frontier("--run", run, "--temperature", 0.3)
    assert refused.exit_code == 3 and "Sampling" not in refused.output
    assert "A frontier of the split validation at temperature 0.3 places no run" in refused.output
    (run / "train.jsonl").write_text('{"update": 0, "validation/reward": 0.1}\n')
    with pytest.raises(DataError, match="its validations have no KL"):
        place(found, run)
    with pytest.raises(DataError, match="not a checkpoint"):
        place(found, tmp_path)


def test_a_result_says_which_share_of_the_frontier_its_run_gained(tmp_path, run):
    frontier("-o", tmp_path / "frontier.json")
    found = files.load_json(tmp_path / "frontier.json", Frontier)
    kept = replace(system(), record={**system().record, "update": 2})
    record = with_frontier(kept, tmp_path / "frontier.json", run).record["frontier"]
    share = place(found, run).share
    assert record == {
        "kl": 0.25,
        "gain": pytest.approx(0.02),
        "share": share,
        "prompts": 4,
        "samples": 8,
        "how": "reachable",
    }


def test_the_last_checkpoint_of_a_run_stands_elsewhere_than_the_one_it_kept(tmp_path, run):
    frontier("-o", tmp_path / "frontier.json")
    last = replace(system(), record={**system().record, "update": 4})
    record = with_frontier(last, tmp_path / "frontier.json", run).record["frontier"]
    assert (record["kl"], record["gain"], record["share"]) == (90.0, pytest.approx(-0.1), None)
    found = files.load_json(tmp_path / "frontier.json", Frontier)
    with pytest.raises(DataError, match="there was no validation after update 3"):
        place(found, run, 3)


def test_what_is_no_checkpoint_of_a_run_has_no_place_on_a_frontier(tmp_path, run):
    kept = replace(system(), record={**system().record, "update": 2})
    for other in (system(), replace(kept, best_of=BestOf(4, "likelihood", oracle=False, name="best-of-4"))):
        with pytest.raises(ConfigError, match="a frontier places checkpoints of runs as they are"):
            with_frontier(other, tmp_path / "frontier.json", run)


@pytest.mark.parametrize("form", ["png", "svg"])
def test_the_frontier_is_drawn_with_runs_on_it(tmp_path, run, form):
    pytest.importorskip("matplotlib")
    frontier("-o", tmp_path / "frontier.json")
    path = tmp_path / f"frontier.{form}"
    command = ["plot", "frontier", str(tmp_path / "frontier.json"), "--run", str(run), "-o", str(path)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    if form == "svg":
        said = path.read_text()
        assert all(text in said for text in ("KL from the start (nats a response)", "gain in sentiment", ">ppo<"))
    else:
        assert path.read_bytes().startswith(b"\x89PNG")
