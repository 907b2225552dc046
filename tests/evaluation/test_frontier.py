"""`grue tools frontier` and what it is computed from: samples as training draws them, rewards with and without references."""

import math
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from support.commands import grue, printed_json
from support.late import late

from grue import files
from grue.errors import ConfigError, DataError
from grue.stats.frontier import reward_at, tilted
from grue.task_files import load_task

tiny, exactness = late("support.tiny"), late("support.exactness")
frontier, systems = late("grue.evaluation.frontier"), late("grue.evaluation.systems")
best_of, rewards = late("grue.evaluation.best_of"), late("grue.evaluation.rewards")


def system():
    return systems.System("tiny", {"name": "tiny"}, 1, "sha", tiny.model("causal"), tiny.tokenizer("causal"))


def silent(done, total):
    pass


def measured(examples, reward="rouge1", samples=16, **asked):
    return frontier.measure(
        *(tiny.task("causal"), asked.pop("of", None) or system(), examples, "train"),
        train=asked.pop("train", None) or tiny.examples(12),
        reward=reward,
        samples=samples,
        temperature=1.0,
        **asked,
    )


@cache
def drawn(count):
    return frontier.draw(tiny.task("causal"), system(), tiny.examples(count), 16, 1.0, silent)


def test_samples_depend_on_nothing_but_their_prompt_and_number():
    task, examples = tiny.task("causal"), tiny.examples(5)
    many = frontier.draw(task, system(), examples, 8, 1.0, silent)
    few = frontier.draw(task, system(), examples[3:4], 5, 1.0, silent)
    assert few[0] == many[3][:5] and len(set(many[0])) > 3
    colder = frontier.draw(task, system(), examples, 4, 1e-4, silent)
    assert all(len(set(some)) == 1 for some in colder)


def test_a_reward_that_reads_no_reference_can_be_reached():
    examples, seen = tiny.examples(4), []
    found = measured(examples, "support.exactness:letters", progress=lambda *given: seen.append(given))
    values = [exactness.letters(examples, [one.text for one in some]) for some in drawn(4)]
    assert found.optimal[0].reward == pytest.approx(sum(map(sum, values)) / 64)
    assert found.best_of["16"].reward == pytest.approx(sum(map(max, values)) / 4)
    assert (found.oracle, found.attainable, found.how) == (False, None, None)
    assert found.optimal[-1].kl <= math.log(16) - 1
    assert seen == [(4 * n, 64) for n in range(1, 17)]


def lengths(examples, texts, token_ids, truncated, step):
    assert step == 0
    return [[0.5 if cut else 1.0] * len(ids) for ids, cut in zip(token_ids, truncated, strict=True)]


def words_alone(examples, texts):
    return [len(text.split()) if text else None for text in texts]


def test_a_reward_is_told_of_tokens_and_counts_as_a_whole_and_one_prompt_has_no_standard_error():
    found = measured(tiny.examples(1), f"{__name__}:lengths")
    (some,) = drawn(1)
    wanted = [len(one.token_ids) * (0.5 if one.truncated else 1.0) for one in some]
    assert {one.truncated for one in some} == {True, False}
    assert all(one.truncated == (one.token_ids[-1] != 1) for one in some), "1 is the end"
    assert found.optimal[0].reward == pytest.approx(sum(wanted) / len(wanted))
    assert found.error is None


def test_what_a_policy_could_know_of_references_stands_beside_the_oracle():
    two = tiny.examples(8)  # each has two references
    found = measured(two)
    assert (found.oracle, found.how) == (True, "cross-fitted")
    by_half = [[replace(one, references=one.references[side::2]) for one in two] for side in (0, 1)]
    function = rewards.make_reward("rouge1", tiny.task("causal"), tiny.examples(12))
    first, second = (frontier.rewards_of(function, half, drawn(8)) for half in by_half)
    ways = zip(tilted(first, second), tilted(second, first), strict=False)
    assert [point.reward for point in found.attainable] == pytest.approx([(a.reward + b.reward) / 2 for a, b in ways])
    assert found.attainable[-1].reward < found.optimal[-1].reward
    assert found.attainable[0].reward <= found.optimal[0].reward  # the better of two references is one of them
    one = [replace(example, references=example.references[:1]) for example in two]
    found = measured(one, samples=24)
    assert found.how == "minimum Bayes risk" and found.attainable[-1].kl <= math.log(16) - 1
    # Facts stand in the examples, so that weights from other samples would know them too, if the reward reads them.
    facts = {"expected": [["dog"], ["the house"]], "wrong": ["cat"]}
    told = [replace(example, meta={**example.meta, "facts": facts}) for example in two]
    found = measured(told, "facts", train=told)
    assert (found.oracle, found.attainable, found.how) == (True, None, None)
    assert found.curve == found.optimal
    assert measured(told) == measured(two)


def test_a_reward_may_read_what_examples_say_of_the_reference():
    plain = tiny.examples(2)
    acts, facts = (
        [replace(example, meta={**example.meta, key: 1}) for example in plain] for key in ("intent", "facts")
    )
    for reward, readable in {
        "0.25*meteor + 0.75*intent": (False, True, False),
        "facts": (False, False, True),
        "meteor": (False, False, False),
        "evaluate:exact_match": (False, True, True),  # has no card, so that it may read anything
        "tiny:share_of_the": (False, False, False),
    }.items():
        assert tuple(best_of.reads_descriptions(reward, some) for some in (plain, acts, facts)) == readable, reward


def test_what_has_no_frontier(refused):
    without = systems.System("null", {"name": "null"}, 1, "null")
    one = [replace(example, references=example.references[:1]) for example in tiny.examples(2)]
    with refused(DataError):
        measured(tiny.examples(12), f"{__name__}:words_alone")
    with refused(ConfigError):
        measured(tiny.examples(2), of=without)
    with refused(DataError):
        measured([], of=without)
    with refused(DataError):
        measured(one, samples=10, of=without)


# --- where runs stand ------------------------------------------------------------------------------------------------

COMMAND = "tools frontier --checkpoint zero-shot --task imdb --limit 4 --samples 8".split()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of PPO from that model, written by hand: it kept its second validation."""
    folder = tmp_path_factory.mktemp("run") / "ppo" / "seed-1"
    began = systems.baseline_system(load_task("imdb"), "zero-shot", 1).weights
    manifest = {"suite": "mini", "task": "imdb", "task_hash": "", "system": "ppo", "algorithm": "ppo", "backbone": "m"}
    manifest |= {"seed": 1, "update": 2, "config_sha256": "", "validation": {}, "training": {}}
    files.write_json(folder / "checkpoint/grue.json", manifest)
    files.write_json(folder / "final/grue.json", manifest | {"update": 4, "kept": "final"})
    files.write_toml(folder / "config.toml", {"reward": "asked_sentiment", "backbone_weights": began})
    lines = [
        {"update": n, "validation/kl": kl, "validation/sampled_reward": reward, "validation/reward": 0.1}
        for n, kl, reward in [(0, 0.0, 0.5), (2, 0.25, 0.52), (4, 90.0, 0.4)]
    ]
    files.write_jsonl(folder / "train.jsonl", [*lines, {"update": 1}])
    return folder


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "ppo/seed-1")


@pytest.fixture(scope="module")
def written(finished, tmp_path_factory):
    """What the command says of the run, and the file that it writes."""
    path = tmp_path_factory.mktemp("frontier") / "out/frontier.json"
    return grue(*COMMAND, "--run", finished, "-o", path).stdout, path


@pytest.fixture
def path(written):
    return written[1]


@pytest.fixture
def found(path):
    return files.load_json(path, frontier.Frontier)


def test_the_command_prints_curves_and_what_runs_gained(written, found, run):
    said, _ = written
    assert "mini/imdb  reward asked_sentiment, 4 prompts of validation, 8 samples each at temperature 1" in said
    assert re.search(r"the start has 0\.\d{3} ± 0\.\d{3} \(standard error over prompts\)", said)
    assert re.search(r"seed-1  \+0\.020 at 0\.25 nats after update 2: \d+% of what could be gained there", said)
    assert (found.task, found.samples, len(found.optimal) > 10) == ("imdb", 8, True)
    (placed,) = printed_json(*COMMAND, "--run", run)["runs"]
    assert (placed["run"], placed["update"], placed["kl"]) == (str(run), 2, 0.25)
    assert placed["gain"] == pytest.approx(0.02)
    best = reward_at(found.optimal, 0.25) - found.optimal[0].reward
    assert placed["share"] == pytest.approx(0.02 / best)
    path = [(0.0, 0.0), (0.25, pytest.approx(0.02)), (90.0, pytest.approx(-0.1))]
    assert [(at["kl"], at["reward"]) for at in placed["path"]] == path


def test_a_run_s_last_policy_is_placed_by_its_folder(found, run, monkeypatch):
    best, last = (frontier.place(found, run / name) for name in ("checkpoint", "final"))
    assert (best.update, best.kl, best.share) == (2, 0.25, frontier.place(found, run).share)
    assert (last.update, last.kl, last.share, last.path) == (4, 90.0, None, best.path)
    monkeypatch.chdir(run / "final")
    assert frontier.place(found, Path()) == replace(last, run=".")


def test_a_result_says_which_share_of_the_frontier_its_checkpoint_gained(path, found, run, refused):
    kept, last = (replace(system(), record={"name": "tiny", "update": n}) for n in (2, 4))
    of_kept, of_last = (frontier.with_frontier(one, path, run).record["frontier"] for one in (kept, last))
    share = frontier.place(found, run).share
    assert of_kept == {
        "kl": 0.25, "gain": pytest.approx(0.02), "share": share, "prompts": 4, "samples": 8, "how": "reachable",
    }  # fmt: skip
    assert (of_last["kl"], of_last["gain"], of_last["share"]) == (90.0, pytest.approx(-0.1), None)
    picking = replace(kept, best_of=best_of.BestOf(4, "likelihood", oracle=False, name="best-of-4"))
    for other in (system(), picking):
        with refused(ConfigError):
            frontier.with_frontier(other, path, run)


def test_runs_that_the_frontier_is_not_of_are_refused(tmp_path, found, run, refused, monkeypatch):
    monkeypatch.setattr(frontier, "draw", None)  # the command refuses before it samples
    for change in ({"start": "another"}, {"reward": "meteor"}, {"temperature": 0.3}, {"split": "train"}):
        with refused(DataError):
            frontier.place(replace(found, **change), run)
    with refused(DataError):
        frontier.place(found, run, 3)
    refused.command(*COMMAND, "--run", run, "--temperature", 0.3, code=3)
    files.write_jsonl(run / "train.jsonl", [{"update": 0, "validation/reward": 0.1}])
    for folder in (run, tmp_path):
        with refused(DataError):
            frontier.place(found, folder)


def test_the_frontier_is_drawn_with_runs_on_it(tmp_path, path, run):
    pytest.importorskip("matplotlib")
    grue("plot", "frontier", path, "--run", run, "-o", tmp_path / "frontier.svg")
    said = (tmp_path / "frontier.svg").read_text()
    assert all(text in said for text in ("KL from the start (nats a response)", "gain in asked_sentiment", ">ppo<"))
