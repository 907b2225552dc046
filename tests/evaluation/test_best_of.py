"""Best of n: which samples are drawn, which one is kept, and what is called an oracle."""

import math
from dataclasses import replace
from functools import cache

import pytest
from support.commands import grue
from support.late import late
from support.own_task import OWN_TASK
from support.rewards import SEEN

from grue import files
from grue.lookups.consensus import most_central
from grue.records import CONSENSUS, LIKELIHOOD, Example
from grue.task_files import SUITES, load_task, task_names
from grue.tasks import Generation

torch, tiny, oracles = late("torch"), late("support.tiny"), late("support.oracles")
best_of, predict, systems = (late(f"grue.evaluation.{name}") for name in ("best_of", "predict", "systems"))
forward, sampling = late("grue.lm.forward"), late("grue.lm.sampling")
seeds, tokens = late("grue.lm.seeds"), late("grue.lm.tokens")
api = late("grue.api.evaluate")

FAMILIES = ["causal", "seq2seq"]
SETTINGS = {"top_k": 12, "temperature": 2.0}
COUNT, OF_THOSE_THAT_END = "support.rewards:count_the", "support.rewards:of_those_that_end"
SHORTEST, NOTHING = f"{__name__}:shortest_of_those_that_end", "support.rewards:nothing"
RULES = [COUNT, OF_THOSE_THAT_END, SHORTEST, NOTHING, LIKELIHOOD, CONSENSUS, "rouge1"]


def shortest_of_those_that_end(examples, texts, truncated):
    return [None if cut else -float(len(text.split())) for text, cut in zip(texts, truncated, strict=True)]


@cache
def examples():
    """All have one reference of three words, for which an oracle is easy to compute."""
    return [Example(e.id, e.prompt, ("the the the",), e.meta) for e in tiny.examples()]


def best(family, n, pick_by, asked, seed=3):
    task, model = tiny.task(family, **SETTINGS), tiny.model(family)
    judge = best_of.make_judge(best_of.choose_best_of(task, n, pick_by), task, model, asked)
    return best_of.predict_best_of((model, tiny.tokenizer(family)), task, asked, seed, n, judge)


@cache
def best_of_five(family, pick_by):
    return best(family, 5, pick_by, examples())


@cache
def drawn(family):
    """(response, likelihood) of each example's five samples, by ordinary decoding with each sample's seed."""
    task, model, words = tiny.task(family, **SETTINGS), tiny.model(family), tiny.tokenizer(family)
    prompts = tokens.encode_prompts(model, words, [example.prompt for example in examples()], task.prompt)
    columns = []
    for number in range(5):
        seed = seeds.sample_seed(3, number)
        rollout = sampling.sample_responses(
            model, prompts, task.rollout, seeds.example_uniforms(seed, examples(), 8), 1
        )
        values = best_of.likelihoods(model, rollout, 2.0)
        responses = predict.respond((model, words), task, examples(), task.rollout, seed)
        columns.append(zip(responses, values, strict=True))
    return list(zip(*columns, strict=True))


def worth(rule, response, likelihood):
    said = response.text.split()
    return {
        COUNT: said.count("the"),
        OF_THOSE_THAT_END: -math.inf if response.truncated else len(response.token_ids),
        SHORTEST: -math.inf if response.truncated else -len(said),
        NOTHING: 0.0,
        LIKELIHOOD: likelihood,
        "rouge1": 2 * min(3, said.count("the")) / (3 + len(said)),
    }[rule]


@pytest.mark.parametrize(
    ("rule", "family"),
    [*((rule, "causal") for rule in RULES), *((rule, "seq2seq") for rule in (COUNT, LIKELIHOOD, NOTHING))],
)
def test_the_best_of_the_samples_is_kept_of_equals_the_first_and_last_what_has_no_value(rule, family):
    rows = drawn(family)
    assert len({tuple(row[n][0].text for row in rows) for n in range(5)}) == 5
    assert any(row[0][0].truncated and not all(one.truncated for one, _ in row) for row in rows)
    for row, kept in zip(rows, best_of_five(family, rule), strict=True):
        if rule == CONSENSUS:
            wanted = most_central([one.text for one, _ in row])
        else:
            values = [worth(rule, *one) for one in row]
            wanted = values.index(max(values))
        assert (kept.text, kept.truncated) == (row[wanted][0].text, row[wanted][0].truncated)
    first = [row[0][0].text for row in rows]
    assert ([kept.text for kept in best_of_five(family, rule)] == first) == (rule == NOTHING)


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_depend_on_neither_batch_nor_number_and_sample_0_is_the_ordinary_one(family):
    for rule in (COUNT, LIKELIHOOD, CONSENSUS):
        assert best(family, 5, rule, examples()[7:5:-1]) == best_of_five(family, rule)[7:5:-1]
    pairs = [[one.text for one, _ in row[:2]] for row in drawn(family)]
    fewer = best(family, 2, COUNT, examples())
    assert [kept.text for kept in fewer] == [max(pair, key=lambda text: text.split().count("the")) for pair in pairs]
    assert best(family, 2, COUNT, examples(), seed=4) != fewer
    task = tiny.task(family, **SETTINGS)
    ordinary = predict.predict((tiny.model(family), tiny.tokenizer(family)), task, examples(), task.decoding, 3)
    assert best_of_five(family, NOTHING) == ordinary


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("settings", [SETTINGS, {"top_p": 0.8, "min_new_tokens": 3}])
def test_likelihood_is_the_mean_of_the_tokens_by_slow_loops(family, settings):
    model, task, asked = tiny.model(family), tiny.task(family, **settings), tiny.examples(5)
    prompts = tokens.encode_prompts(model, tiny.tokenizer(family), [example.prompt for example in asked], task.prompt)
    rollout = sampling.sample_responses(model, prompts, task.rollout, seeds.example_uniforms(1, asked, 8), 1)
    found = best_of.likelihoods(model, rollout, task.rollout.temperature)
    for row in range(5):
        alone = torch.tensor([row])
        responses = rollout.responses.rows(alone)
        with torch.no_grad():
            logits = forward.forward(model, prompts.rows(alone), responses)[0][0] / task.rollout.temperature
        total, ids = 0.0, responses.ids[0].tolist()
        for t, (scores, token) in enumerate(zip(logits.tolist(), ids, strict=True)):
            allowed = range(len(scores))
            if task.rollout.top_k:
                allowed = sorted(allowed, key=lambda v: -scores[v])[: task.rollout.top_k]
            if t < task.rollout.min_new_tokens:
                allowed = [v for v in allowed if v != 1]
            if task.rollout.top_p < 1:
                kept = oracles.nucleus([scores[v] for v in allowed], task.rollout.top_p)
                allowed = [allowed[i] for i in kept]
            total += oracles.token_log_prob(scores, token, list(allowed))
        assert found[row] == pytest.approx(total / len(ids), rel=1e-4)


def test_a_task_that_decodes_with_beams_is_sampled_as_in_rollouts():
    beams, rollout = Generation(8, num_beams=5), Generation(6, do_sample=True, top_k=50)
    task = tiny.task("causal")
    assert best_of.sampling(replace(task, decoding=beams, rollout=rollout)) == rollout
    assert best_of.sampling(replace(task, decoding=rollout, rollout=beams)) == rollout


# --- what is an oracle -----------------------------------------------------------------------------------------------

READ_NONE = [
    *(LIKELIHOOD, CONSENSUS, "sentiment", "summac", "perplexity", "coverage", "mean_length", "repeat_penalty"),
    *("sentiment - 0.1*perplexity", "tiny:share_of_the"),
]
READ_REFERENCES = [
    *("meteor", "bertscore", "spice", "parent", "evaluate:exact_match", "rouge_combined", "coverage + 0.1*meteor"),
    *("tiny:share_of_the + rouge1", "intent", "facts"),  # the reference's dialogue act, the facts that it states
]


def test_what_reads_references_is_an_oracle():
    assert [rule for rule in READ_NONE + READ_REFERENCES if best_of.is_oracle(rule)] == READ_REFERENCES


def test_a_function_sees_no_reference():
    secret = {"intent": 2, "emotion": 0, "label": 1, "facts": {"expected": [["dog"]]}}
    asked = [replace(e, meta={**e.meta, **secret}) for e in tiny.examples(3)]
    SEEN.clear()
    best("causal", 2, COUNT, asked)
    assert len(SEEN) == 6
    assert all(example.references == () and set(example.meta) == {"concepts"} for example in SEEN)
    assert {example.prompt for example in SEEN} == {example.prompt for example in asked}
    assert best_of.without_references(asked[0]).meta["concepts"] == asked[0].meta["concepts"]


@pytest.mark.parametrize("suite", SUITES)
def test_the_tasks_reward_picks_where_it_is_no_oracle(suite):
    usual = {name: best_of.choose_best_of(load_task(name, suite), 8).pick_by for name in task_names(suite)}
    sentiment = load_task("imdb", suite).reward
    assert usual == {name: sentiment if name == "imdb" else LIKELIHOOD for name in task_names(suite)}


@pytest.mark.parametrize(
    ("task", "pick_by", "name"),
    [
        ("imdb", None, "best-of-8"),
        ("imdb", "likelihood", "best-of-8-by-likelihood"),
        ("commongen", "likelihood", "best-of-8"),
        ("commongen", "meteor", "best-of-8-oracle"),
        ("commongen", "0.5*cider - 0.5*ter", "best-of-8-oracle-by-0.5-cider-0.5-ter"),
    ],
)
def test_the_name_tells_what_was_picked_by(task, pick_by, name):
    assert best_of.choose_best_of(load_task(task), 8, pick_by).name == name


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The command that evaluates mini's causal model on six prompts by the lengths of its answers."""
    folder = tmp_path_factory.mktemp("own")
    rows = [{"id": f"e{n}", "prompt": f"The dog saw {n} cats", "references": ["It ran."]} for n in range(6)]
    files.write_jsonl(folder / "rows.jsonl", rows)
    own = OWN_TASK.format(metric="mean_length").replace("max_new_tokens = 8", "max_new_tokens = 8\ndo_sample = true")
    files.write_text(folder / "own.toml", own)
    return ("evaluate", "--baseline", "zero-shot", "--task", folder / "own.toml", "--seed", 2)


LONGEST = ("--best-of", "4:mean_length")


@pytest.fixture(scope="module")
def evaluated(command, tmp_path_factory):
    """A plain evaluation and one of the longest of 4."""
    runs = tmp_path_factory.mktemp("runs")
    assert not any("oracle" in grue(*command, *options, "--runs", runs).output for options in ((), LONGEST))
    return [runs / "own/own" / name / "seed-2" for name in ("zero-shot", "zero-shot+best-of-4-by-mean_length")]


def test_the_best_of_four_is_another_system_with_a_record_of_how_and_no_text_is_worse(command, evaluated, refused):
    plain, result = (files.read_json(folder / "result.json") for folder in evaluated)
    assert result["system"]["name"] == "zero-shot+best-of-4-by-mean_length"
    assert result["system"]["algorithm"] == "zero-shot"
    assert result["generation"]["decoding"] == "best-of-4-by-mean_length"
    assert result["generation"]["best_of"] == {"n": 4, "pick_by": "mean_length", "oracle": False}
    assert "best_of" not in plain["generation"] and result["system"]["weights"] == plain["system"]["weights"]
    scores = ([line["mean_length"] for _, line in files.read_jsonl(one / "scores.jsonl")] for one in evaluated)
    before, picked = scores
    assert all(a <= b for a, b in zip(before, picked, strict=True)) and before != picked
    assert result["scores"][0]["value"] == pytest.approx(sum(picked) / 6)
    refused.command(*command, "--best-of", 4, "--output", evaluated[1], code=2)


@pytest.mark.parametrize(
    "options",
    [
        ("zero-shot", "--best-of", 1),
        ("zero-shot", "--best-of", "meteor"),
        ("copy", "--best-of", 4),
        ("zero-shot", "--best-of", "4:metoer"),
        ("zero-shot", "--best-of", "4:nowhere:f"),
        ("zero-shot", "--best-of", "4:distinct1"),
        ("zero-shot", "--best-of", "4:0.5*cider + -0.5*ter"),
        ("zero-shot", "--best-of", "4:support.rewards:by_step"),
    ],
)
def test_what_cannot_be_picked_is_refused_and_leaves_nothing(options, tmp_path, refused):
    refused.command("evaluate", "--task", "imdb", "--limit", 2, "--runs", tmp_path, "--baseline", *options, code=2)
    assert not list(tmp_path.rglob("*.json*"))


def test_a_run_is_evaluated_beside_its_own_folder(tmp_path):
    system = systems.System("ppo", {"name": "ppo"}, 7, "", model=tiny.model("causal"))
    run, runs = tmp_path / "out/mini/imdb/ppo/seed-7", tmp_path / "runs"
    for folder, wanted in (
        (run, tmp_path / "out/mini/imdb/ppo+best-of-4/seed-7"),
        (tmp_path / "kept", runs / "mini/imdb/ppo+best-of-4/seed-7"),
    ):
        picking = replace(system, name="ppo+best-of-4")
        assert api._beside(api.Subject(load_task("imdb"), system, folder), picking, runs).folder == wanted
