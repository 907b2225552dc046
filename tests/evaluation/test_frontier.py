"""`grue frontier` and what it is computed from: samples as training draws them, rewards with and without references."""

import json
import math
import re

import pytest
from click.testing import CliRunner
from support import tiny
from support.exactness import letters

from grue.cli.main import main
from grue.errors import ConfigError, DataError
from grue.evaluation.evaluate import System
from grue.evaluation.frontier import draw, measure

SETTINGS = {"samples": 16, "temperature": 1.0}


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
        reward="support.exactness:letters",
        progress=lambda done, total: seen.append((done, total)),
        **SETTINGS,
    )
    texts = [[one.text for one in some] for some in draw(task, system(), examples, 16, 1.0, silent)]
    values = [letters(examples, some) for some in texts]
    assert found.optimal[0].reward == pytest.approx(sum(map(sum, values)) / 96)
    assert found.best_of[16].reward == pytest.approx(sum(map(max, values)) / 6)
    assert (found.oracle, found.attainable, found.how) == (False, None, None)
    assert found.optimal[-1].kl <= math.log(16) - 1
    assert seen[-1] == (96, 96) and len(seen) == 16


def test_one_prompt_has_no_standard_error():
    found = measure(tiny.task("causal"), system(), tiny.examples(1), "train", reward="rouge1", **SETTINGS)
    assert found.error is None


def test_with_references_what_a_policy_could_know_stands_beside_the_oracle():
    """Each example has two references."""
    found = measure(tiny.task("causal"), system(), tiny.examples(12), "train", reward="rouge1", **SETTINGS)
    assert (found.oracle, found.how) == (True, "cross-fitted")
    assert found.attainable[-1].reward < found.optimal[-1].reward
    assert found.attainable[0].reward <= found.optimal[0].reward  # the better of two references is one of them


def test_with_one_reference_other_samples_stand_in_for_it():
    examples = [tiny.dataclasses.replace(example, references=example.references[:1]) for example in tiny.examples(12)]
    found = measure(tiny.task("causal"), system(), examples, "train", reward="rouge1", samples=24, temperature=1.0)
    assert found.how == "minimum Bayes risk"
    assert found.attainable[-1].kl <= math.log(16) - 1
    with pytest.raises(DataError, match="2 samples a prompt"):
        measure(tiny.task("causal"), system(), examples, "train", reward="rouge1", samples=10, temperature=1.0)


def lengths(examples, texts, token_ids, truncated, step):
    assert step == 0
    return [[0.5 if cut else 1.0] * len(ids) for ids, cut in zip(token_ids, truncated, strict=True)]


def words_alone(examples, texts):
    return [len(text.split()) if text else None for text in texts]


def test_a_reward_is_told_of_tokens_and_counts_as_a_whole():
    task, examples = tiny.task("causal"), tiny.examples(3)
    found = measure(task, system(), examples, "train", reward=f"{__name__}:lengths", **SETTINGS)
    drawn = [one for some in draw(task, system(), examples, 16, 1.0, silent) for one in some]
    wanted = [len(one.token_ids) * (0.5 if one.truncated else 1.0) for one in drawn]
    assert {one.truncated for one in drawn} == {True, False}
    assert all(one.truncated == (one.token_ids[-1] != 1) for one in drawn), "1 is the end"
    assert found.optimal[0].reward == pytest.approx(sum(wanted) / len(wanted))


def test_a_reward_that_does_not_apply_has_no_frontier():
    with pytest.raises(DataError, match=r"does not apply \(None\) to a response to the example 'e\d', and a frontier"):
        measure(tiny.task("causal"), system(), tiny.examples(12), "train", reward=f"{__name__}:words_alone", **SETTINGS)


def test_a_start_without_a_model_is_refused():
    null = System("null", {"name": "null"}, 1, "null")
    with pytest.raises(ConfigError, match="null has no model to draw samples from"):
        measure(tiny.task("causal"), null, tiny.examples(2), "train", reward="rouge1", **SETTINGS)
    with pytest.raises(DataError, match="no examples"):
        measure(tiny.task("causal"), system(), [], "train", reward="rouge1", **SETTINGS)


def test_the_command_prints_curves_and_what_runs_gained(tmp_path):
    lines = [
        {
            "update": n,
            "seconds": 1.0,
            "objective/reward": 0.7,
            "objective/kl_vocabulary": 0.05,
            "objective/length": 10.0,
        }
        for n in range(1, 7)
    ]
    for run in (tmp_path / "ppo", tmp_path / "supervised"):
        run.mkdir()
    (tmp_path / "ppo/train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "supervised/train.jsonl").write_text('{"update": 1, "seconds": 1.0, "loss/total": 1.0}\n')
    command = "frontier --checkpoint zero-shot --task imdb --limit 4 --samples 8 --run".split()
    done = CliRunner().invoke(main, [*command, str(tmp_path / "ppo")])
    assert done.exit_code == 0, done.output
    assert "mini/imdb  reward sentiment, 4 prompts of train, 8 samples each at temperature 1" in done.output
    said = re.search(r"ppo  ([+-]0\.\d{3}) ± 0\.\d{3} at 0\.50 nats: -?\d+% of what could be gained there", done.output)
    start = float(re.search(r"\n +0 +(0\.\d{3})\n", done.output)[1])
    assert float(said[1]) == pytest.approx(0.7 - start, abs=0.0011)
    data = json.loads(CliRunner().invoke(main, [*command, str(tmp_path / "ppo"), "--json"]).stdout)
    assert (data["task"], data["samples"], len(data["optimal"]) > 10) == ("imdb", 8, True)
    (run,) = data["runs"]
    assert (run["run"], run["kl"], run["reward"]) == (str(tmp_path / "ppo"), pytest.approx(0.5), pytest.approx(0.7))
    assert f"{run['share']:.0%} of what could be gained there" in done.output
    refused = CliRunner().invoke(main, [*command, str(tmp_path / "supervised")])
    assert "no update of reinforcement learning is logged there" in refused.output
