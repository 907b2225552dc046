"""Best of n: which samples are drawn, which one is kept, and what is called an oracle."""

import json

import pytest
import torch
from click.testing import CliRunner
from support import oracles, tiny
from support.rewards import SEEN

from grue.api.evaluate import Subject, _picking
from grue.cli.main import main
from grue.data.load import load_examples
from grue.errors import ConfigError, UnknownName
from grue.evaluation.best_of import (
    BestOf,
    choose_best_of,
    is_oracle,
    likelihoods,
    make_judge,
    predict_best_of,
    sample_seed,
    sampling,
    shown,
)
from grue.evaluation.predict import predict, respond
from grue.evaluation.systems import System, baseline_system, with_best_of
from grue.lm.forward import forward
from grue.lm.sampling import sample_responses
from grue.lm.seeds import example_uniforms
from grue.lm.tokens import encode_prompts
from grue.lookups.consensus import most_central
from grue.records import CONSENSUS, LIKELIHOOD, Example
from grue.task_files import SUITES, load_task, task_names
from grue.tasks import Generation

FAMILIES = ["causal", "seq2seq"]
SETTINGS = {"top_k": 12, "temperature": 2.0}
BY_LIKELIHOOD = BestOf(4, LIKELIHOOD, False, "best-of-4")


def best(family, n, pick_by, examples, seed=3, task=None):
    task = task or tiny.task(family, **SETTINGS)
    best_of = choose_best_of(task, n, pick_by)
    model = tiny.model(family)
    judge = make_judge(best_of, task, model, examples)
    return predict_best_of(model, tiny.tokenizer(family), task, examples, seed, n, judge)


def samples(family, number, examples, seed=3):
    """The texts of one sample of each example, by ordinary decoding with that sample's seed."""
    task = tiny.task(family, **SETTINGS)
    drawn = predict(tiny.model(family), tiny.tokenizer(family), task, examples, task.rollout, sample_seed(seed, number))
    return [prediction.text for prediction in drawn]


# --- what is drawn, and what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_the_best_of_all_samples_is_kept(family):
    examples = tiny.examples()
    drawn = [samples(family, number, examples) for number in range(5)]
    assert len({tuple(texts) for texts in drawn}) == 5
    kept = [prediction.text for prediction in best(family, 5, "support.rewards:count_the", examples)]
    for i, text in enumerate(kept):
        counts = [texts[i].split().count("the") for texts in drawn]
        assert text == drawn[counts.index(max(counts))][i]
    assert kept != drawn[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_sample_0_is_the_ordinary_one_and_the_first_of_equals_is_kept(family):
    examples = tiny.examples()
    task = tiny.task(family, **SETTINGS)
    ordinary = predict(tiny.model(family), tiny.tokenizer(family), task, examples, task.decoding, 3)
    assert best(family, 4, "support.rewards:nothing", examples) == ordinary


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sum_over_tokens_picks_and_what_does_not_apply_is_kept_last(family):
    examples = tiny.examples()
    task = tiny.task(family, **SETTINGS)
    model, words = tiny.model(family), tiny.tokenizer(family)
    drawn = [respond(model, words, task, examples, task.rollout, sample_seed(3, number)) for number in range(4)]
    kept = best(family, 4, "support.rewards:of_those_that_end", examples)
    rows = list(zip(*drawn, strict=True))
    assert any(row[0].truncated and not all(one.truncated for one in row) for row in rows)
    for row, found in zip(rows, kept, strict=True):
        wanted = max([one for one in row if not one.truncated] or row[:1], key=lambda one: len(one.token_ids))
        assert (found.text, found.truncated) == (wanted.text, wanted.truncated)


def test_a_step_is_not_known_when_the_best_is_picked():
    with pytest.raises(ConfigError, match="'support.rewards:by_step' asks for step, which is not known here"):
        best("causal", 2, "support.rewards:by_step", tiny.examples(2))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pick_by", ["support.rewards:count_the", LIKELIHOOD, CONSENSUS])
def test_answers_do_not_depend_on_the_batch(family, pick_by):
    examples = tiny.examples()
    together = {p.id: p for p in best(family, 4, pick_by, examples)}
    assert {p.id: p for example in examples for p in best(family, 4, pick_by, [example])} == together
    assert {p.id: p for p in best(family, 4, pick_by, examples[::-1])} == together
    assert {p.id: p for p in best(family, 4, pick_by, examples, seed=4)} != together


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("settings", [SETTINGS, {"temperature": 1.3}, {"top_p": 0.8, "min_new_tokens": 3}])
def test_likelihood_is_the_mean_of_the_tokens_by_slow_loops(family, settings):
    model, task = tiny.model(family), tiny.task(family, **settings)
    examples = tiny.examples(5)
    prompts = encode_prompts(model, tiny.tokenizer(family), [example.prompt for example in examples], task.prompt)
    rollout = sample_responses(model, prompts, task.rollout, example_uniforms(1, examples, 8), 1)
    found = likelihoods(model, rollout, task.rollout.temperature)
    for row in range(5):
        alone = torch.tensor([row])
        responses = rollout.responses.rows(alone)
        with torch.no_grad():
            logits = forward(model, prompts.rows(alone), responses)[0][0] / task.rollout.temperature
        total, tokens = 0.0, responses.ids[0].tolist()
        for t, (scores, token) in enumerate(zip(logits.tolist(), tokens, strict=True)):
            allowed = range(len(scores))
            if task.rollout.top_k:
                allowed = sorted(allowed, key=lambda v: -scores[v])[: task.rollout.top_k]
            if t < task.rollout.min_new_tokens:
                allowed = [v for v in allowed if v != 1]
            if task.rollout.top_p < 1:
                kept = oracles.nucleus([scores[v] for v in allowed], task.rollout.top_p)
                allowed = [allowed[i] for i in kept]
            total += oracles.token_log_prob(scores, token, list(allowed))
        assert found[row] == pytest.approx(total / len(tokens), rel=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_likeliest_sample_is_kept(family):
    examples, model, task = tiny.examples(), tiny.model(family), tiny.task(family, **SETTINGS)
    prompts = encode_prompts(model, tiny.tokenizer(family), [example.prompt for example in examples], task.prompt)
    values = []
    for number in range(4):
        uniforms = example_uniforms(sample_seed(3, number), examples, 8)
        rollout = sample_responses(model, prompts, task.rollout, uniforms, 1)
        values.append(likelihoods(model, rollout, 2.0))
    drawn = [samples(family, number, examples) for number in range(4)]
    for i, kept in enumerate(best(family, 4, LIKELIHOOD, examples)):
        column = [value[i] for value in values]
        assert kept.text == drawn[column.index(max(column))][i]


@pytest.mark.parametrize("family", FAMILIES)
def test_by_consensus_the_sample_that_the_others_agree_with_is_kept(family):
    examples = tiny.examples()
    drawn = [samples(family, number, examples) for number in range(5)]
    kept = [prediction.text for prediction in best(family, 5, CONSENSUS, examples)]
    assert kept == [texts[most_central(texts)] for texts in zip(*drawn, strict=True)]
    assert kept != drawn[0]


def test_more_samples_are_never_worse():
    examples = tiny.examples()
    counts = [
        [p.text.split().count("the") for p in best("causal", n, "support.rewards:count_the", examples)]
        for n in (2, 4, 8)
    ]
    for fewer, more in zip(counts, counts[1:], strict=False):
        assert all(a <= b for a, b in zip(fewer, more, strict=True))
    assert sum(counts[-1]) > sum(counts[0])


def test_a_task_that_decodes_with_beams_is_sampled_as_in_rollouts():
    beams, rollout = Generation(8, num_beams=5), Generation(6, do_sample=True, top_k=50)
    task = tiny.task("causal")
    assert sampling(tiny.changed(task, decoding=beams, rollout=rollout)) == rollout
    assert sampling(tiny.changed(task, decoding=rollout, rollout=beams)) == rollout


# --- what is an oracle -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pick_by", "oracle"),
    [
        (LIKELIHOOD, False),
        (CONSENSUS, False),
        ("sentiment", False),
        ("summac", False),
        ("perplexity", False),
        ("coverage", False),
        ("mean_length", False),
        ("repeat_penalty", False),
        ("sentiment - 0.1*perplexity", False),
        ("tiny:share_of_the", False),
        ("meteor", True),
        ("bertscore", True),
        ("spice", True),
        ("parent", True),
        ("intent", True),  # the dialogue act of the reference
        ("evaluate:exact_match", True),
        ("rouge_combined", True),
        ("coverage + 0.1*meteor", True),
        ("tiny:share_of_the + rouge1", True),
    ],
)
def test_what_reads_references_is_an_oracle(pick_by, oracle):
    assert is_oracle(pick_by) is oracle


@pytest.mark.parametrize("suite", SUITES)
def test_the_tasks_reward_picks_where_it_is_no_oracle(suite):
    usual = {name: choose_best_of(load_task(name, suite), 8).pick_by for name in task_names(suite)}
    assert usual == {name: "sentiment" if name == "imdb" else LIKELIHOOD for name in task_names(suite)}


@pytest.mark.parametrize(
    ("task", "pick_by", "name"),
    [
        ("imdb", None, "best-of-8"),
        ("imdb", "sentiment", "best-of-8"),
        ("imdb", "likelihood", "best-of-8-by-likelihood"),
        ("commongen", None, "best-of-8"),
        ("commongen", "likelihood", "best-of-8"),
        ("commongen", "coverage", "best-of-8-by-coverage"),
        ("commongen", "consensus", "best-of-8-by-consensus"),
        ("commongen", "meteor", "best-of-8-oracle"),
        ("commongen", "rouge1", "best-of-8-oracle-by-rouge1"),
        ("commongen", "0.5*cider + -0.5*ter", None),
        ("commongen", "0.5*cider - 0.5*ter", "best-of-8-oracle-by-0.5-cider-0.5-ter"),
    ],
)
def test_the_name_tells_what_was_picked_by(task, pick_by, name):
    if name is None:
        with pytest.raises(ConfigError, match="cannot be read at"):
            choose_best_of(load_task(task), 8, pick_by)
    else:
        assert choose_best_of(load_task(task), 8, pick_by).name == name


def test_a_reward_of_ones_own_sees_no_reference():
    secret = {"intent": 2, "emotion": 0, "label": 1}
    examples = [Example(e.id, e.prompt, e.references, {**e.meta, **secret}) for e in tiny.examples(3)]
    SEEN.clear()
    best("causal", 2, "support.rewards:count_the", examples)
    assert len(SEEN) == 6
    assert all(example.references == () and set(example.meta) == {"concepts"} for example in SEEN)
    assert {example.prompt for example in SEEN} == {example.prompt for example in examples}
    assert shown(examples[0]).meta["concepts"] == examples[0].meta["concepts"]


def test_an_oracle_reads_them():
    examples = [Example(e.id, e.prompt, ("the the the",)) for e in tiny.examples()]
    drawn = [samples("causal", number, examples) for number in range(6)]
    for i, kept in enumerate(best("causal", 6, "rouge1", examples)):
        words = [texts[i].split() for texts in drawn]
        f1 = [2 * min(3, said.count("the")) / (3 + len(said)) for said in words]
        assert kept.text == drawn[f1.index(max(f1))][i]


@pytest.mark.parametrize("n", [1, 0, -3])
def test_fewer_than_two_samples_are_refused(n):
    with pytest.raises(ConfigError, match=f"Best of {n}: there is nothing to pick from"):
        choose_best_of(tiny.task("causal"), n)


def test_a_metric_that_does_not_exist_is_refused_with_a_guess():
    with pytest.raises(UnknownName, match="There is no metric 'sentimnt'. Did you mean 'sentiment'?"):
        choose_best_of(tiny.task("causal"), 2, "sentimnt")


def test_a_baseline_without_a_model_cannot_sample():
    with pytest.raises(ConfigError, match="The baseline 'copy' has no model to draw samples from"):
        with_best_of(baseline_system(tiny.task("causal"), "copy", 1), BY_LIKELIHOOD, tiny.task("causal"))


# --- the command -----------------------------------------------------------------------------------------------------


def grue(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """A plain evaluation and one of the best of 4, of the same model on the same few prompts."""
    runs = tmp_path_factory.mktemp("runs")
    options = ("evaluate", "--baseline", "zero-shot", "--task", "imdb", "--limit", 6, "--runs", runs, "--seed", 2)
    outputs = [grue(*options), grue(*options, "--best-of", 4)]
    assert [result.exit_code for result in outputs] == [0, 0], outputs[1].output
    assert not any("oracle" in result.output for result in outputs)
    return runs / "mini" / "imdb"


def test_the_best_of_four_is_another_system_with_a_record_of_how(reviews):
    result = json.loads((reviews / "zero-shot+best-of-4/seed-2/result.json").read_text())
    assert result["system"]["name"] == "zero-shot+best-of-4"
    assert result["system"]["algorithm"] == "zero-shot"
    assert result["generation"]["decoding"] == "best-of-4"
    assert result["generation"]["best_of"] == {"n": 4, "pick_by": "sentiment", "oracle": False}
    assert result["generation"]["top_k"] == 50
    plain = json.loads((reviews / "zero-shot/seed-2/result.json").read_text())
    assert "best_of" not in plain["generation"]
    assert result["system"]["weights"] == plain["system"]["weights"]


def test_no_text_is_worse_than_the_plain_one_by_what_it_was_picked_by(reviews):
    plain, picked = (lines(reviews / name / "seed-2/scores.jsonl") for name in ("zero-shot", "zero-shot+best-of-4"))
    assert all(a["sentiment"] <= b["sentiment"] + 1e-6 for a, b in zip(plain, picked, strict=True))
    assert any(a["sentiment"] < b["sentiment"] - 0.01 for a, b in zip(plain, picked, strict=True))


def test_scores_follow_from_the_predictions(reviews, tmp_path):
    folder = reviews / "zero-shot+best-of-4/seed-2"
    result = json.loads((folder / "result.json").read_text())
    mean = sum(line["sentiment"] for line in lines(folder / "scores.jsonl")) / 6
    assert result["preference"] == pytest.approx(100 * mean)
    ids = {line["id"] for line in lines(folder / "predictions.jsonl")}
    examples = [e for e in load_examples(load_task("imdb"), "test").examples if e.id in ids]
    (tmp_path / "examples.jsonl").write_text(
        "".join(json.dumps({"id": e.id, "references": [], "prompt": e.prompt}) + "\n" for e in examples)
    )
    options = ("--set", "sentiment.model=mini:sentiment", "--set", "sentiment.label=1", "--json")
    again = grue(
        *("score", folder / "predictions.jsonl", "--examples", tmp_path / "examples.jsonl", "--metrics", "sentiment"),
        *options,
    )
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["scores"][0]["value"] == pytest.approx(mean)


@pytest.mark.parametrize("batch_size", [64, 2])
def test_an_interrupted_evaluation_goes_on_with_what_is_there(reviews, batch_size, tmp_path):
    whole = (reviews / "zero-shot+best-of-4/seed-2/predictions.jsonl").read_bytes()
    options = ("evaluate", "--baseline", "zero-shot", "--task", "imdb", "--limit", 6, "--seed", 2, "--best-of", 4)
    first = grue(*options, "--output", tmp_path, "--batch-size", batch_size)
    assert first.exit_code == 0, first.output
    assert (tmp_path / "predictions.jsonl").read_bytes() == whole
    (tmp_path / "result.json").unlink()
    claim = json.loads((tmp_path / "evaluation.json").read_text())
    claim.pop("sha256")  # which only a finished evaluation has
    (tmp_path / "evaluation.json").write_text(json.dumps(claim))
    (tmp_path / "predictions.jsonl").write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    assert grue(*options, "--output", tmp_path, "--batch-size", batch_size).exit_code == 0
    assert (tmp_path / "predictions.jsonl").read_bytes() == whole
    other = grue(*options, "--pick-by", "likelihood", "--output", tmp_path)
    assert other.exit_code == 2
    assert "holds an evaluation with best_of = {" in other.stderr


def test_an_oracle_says_so_everywhere(tmp_path):
    options = ("--baseline", "zero-shot", "--task", "commongen", "--limit", 2, "--runs", tmp_path)
    result = grue("evaluate", *options, "--best-of", 2, "--pick-by", "meteor")
    assert result.exit_code == 0, result.output
    assert "Warning: meteor reads the references, so picking by it is an oracle" in result.stderr
    assert "zero-shot+best-of-2-oracle on mini/commongen" in result.stdout
    record = json.loads((tmp_path / "mini/commongen/zero-shot+best-of-2-oracle/seed-1/result.json").read_text())
    assert record["system"]["name"] == "zero-shot+best-of-2-oracle"
    assert record["generation"]["decoding"] == "best-of-2-oracle"
    assert record["generation"]["best_of"] == {"n": 2, "pick_by": "meteor", "oracle": True}
    assert record["generation"]["num_beams"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--baseline", "zero-shot", "--best-of", 1), "1 is not in the range x>=2"),
        (("--baseline", "zero-shot", "--pick-by", "meteor"), "--pick-by says how the best of several samples is"),
        (("--baseline", "copy", "--best-of", 4), "The baseline 'copy' has no model to draw samples from"),
        (("--baseline", "zero-shot", "--best-of", 4, "--pick-by", "metoer"), "Did you mean 'meteor'?"),
        (("--baseline", "zero-shot", "--best-of", 4, "--pick-by", "nowhere:f"), "module 'nowhere' cannot be imported"),
        (("--baseline", "zero-shot", "--best-of", 4, "--pick-by", "distinct1"), "describes a whole set of texts"),
    ],
)
def test_what_cannot_be_picked_is_refused_and_leaves_nothing(options, message, tmp_path):
    result = grue("evaluate", "--task", "imdb", "--limit", 2, "--runs", tmp_path, *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not list(tmp_path.rglob("*.json*"))


def test_a_run_is_evaluated_beside_its_own_folder(tmp_path):
    task = load_task("imdb")
    system = System("ppo", {"name": "ppo"}, 7, "", model=tiny.model("causal"))
    run, runs = tmp_path / "out/mini/imdb/ppo/seed-7", tmp_path / "runs"
    beside = tmp_path / "out/mini/imdb/ppo+best-of-4/seed-7"
    assert _picking(Subject(task, system, run), 4, None, runs).folder == beside
    elsewhere = _picking(Subject(task, system, tmp_path / "kept"), 4, None, runs).folder
    assert elsewhere == runs / "mini/imdb/ppo+best-of-4/seed-7"
