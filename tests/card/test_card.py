"""The card of a task: planted tasks with known answers, the rules of the verdict, and what is refused."""

import json
import math
import sys
from dataclasses import replace
from statistics import fmean

import pytest
from support import commands
from support.late import late

import grue
from grue import files
from grue.errors import ConfigError, DataError, TrainingError, UnknownName
from grue.stats.intervals import Interval
from grue.task_files import load_task

measuring, report = late("grue.card.measure"), late("grue.card.report")
frontier, evaluate = late("grue.evaluation.frontier"), late("grue.api.evaluate")

TASK = """
reward = "card_rewards:{reward}"
metrics = [{{ name = "card_rewards:{metric}", axis = "preference", range = [0, 1] }}]
[data]
sources = [{{ kind = "local", files = {{ {splits} }} }}]
[backbone]
family = "causal"
model = "mini:causal"
[rollout]
max_new_tokens = 6
[recipes.rl]
rollouts = 16
minibatch_size = 16
samples_per_prompt = 8
"""
FUNCTIONS = """
def words(examples, texts):
    return [float(len(text.split())) for text in texts]

def brevity(examples, texts):
    return [1 / (1 + len(text.split())) for text in texts]

def length(examples, texts):
    return [len(text.split()) / 20 for text in texts]

def right(examples, texts):
    return [float(text == example.references[0]) for example, text in zip(examples, texts)]

def ids(examples, texts, token_ids):
    return [[0.0] * (len(of) - 1) + [float(len(of))] for of in token_ids]

def no_number(examples, texts):
    return ["good"] * len(texts)

def sometimes(examples, texts):
    return [None if "a" in text else 1.0 for text in texts]
"""
ROWS = [(f"the {a} {b} .", f"{b} the {a} now .") for a in ("cat", "dog", "bird", "girl") for b in ("sees", "finds")]


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Yield a function that writes a task of a reward and a metric."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "card_rewards.py").write_text(FUNCTIONS)

    def write(reward="words", metric="brevity", splits=("train", "validation", "test"), references=True):
        for split, rows in {"train": ROWS[:2], "validation": ROWS[2:6], "test": ROWS[6:]}.items():
            lines = [{"id": p, "prompt": p, **({"references": [r]} if references else {})} for p, r in rows]
            files.write_jsonl(tmp_path / f"{split}.jsonl", lines)
        named = ", ".join(f'{name} = "{name}.jsonl"' for name in splits)
        evaluation = "" if "test" in splits else 'evaluation = "train"\n'
        text = TASK.format(reward=reward, metric=metric, splits=named).replace("[backbone]", f"{evaluation}[backbone]")
        (tmp_path / "planted.toml").write_text(text)
        return load_task(str(tmp_path / "planted.toml"))

    yield write
    sys.modules.pop("card_rewards", None)


def test_a_planted_hack_is_found_by_samples_and_by_what_needs_no_learning(planted):
    task = planted("words", "brevity")
    card = measuring.measure(task, samples=16, seed=3)
    answers = card.answers
    assert answers["empty"].scores == {"reward": 0, "preference": 100, "held_out": 100}
    assert answers["null"].scores["reward"] == len(ROWS[0][1].split()) == 5
    assert answers["copy"].scores == {"reward": 4, "preference": 20, "held_out": 20}
    assert answers["oracle"].scores["reward"] == 5 and "lead" not in answers, "the same as copy"

    # The same samples, picked here.
    system = replace(evaluate.subject("zero-shot", task).system, seed=3)
    drawn = frontier.draw(task, system, grue.examples(task, "validation"), 16, 1.0, lambda done, total: None)
    counts = [[len(response.text.split()) for response in responses] for responses in drawn]
    for n in (1, 2, 4, 8, 16):
        best = [max(row[i : i + n]) for row in counts for i in range(0, 16, n)]
        name = "sampled" if n == 1 else f"best of {n}"
        assert answers[name].scores["reward"] == pytest.approx(fmean(best))
        assert answers[name].scores["held_out"] == pytest.approx(100 * fmean(1 / (1 + count) for count in best))
    gains = [max(row) - fmean(row) for row in counts]
    half = 3.182446 * math.sqrt(sum((gain - fmean(gains)) ** 2 for gain in gains) / 3 / 4)  # Student's t, 3 degrees
    found = answers["best of 16"].gains["reward"]
    assert (found.low, found.high) == pytest.approx((fmean(gains) - half, fmean(gains) + half), rel=1e-5)
    assert card.frontier.optimal[0].reward == pytest.approx(fmean(fmean(row) for row in counts))
    assert (card.metrics["held_out"], card.lazy) == (("card_rewards:brevity",), ("empty", "null", "copy", "nearest"))
    assert card.lengths["prompt"][1] == task.prompt.max_tokens and card.lengths["reference"][2] in (0, 0.5, 1)
    assert any(said.startswith("It can be hacked: as the reward is pushed") for said in report.verdict(card))


def test_a_metric_that_moves_with_the_reward_follows(planted):
    said = " ".join(report.verdict(measuring.measure(planted("words", "length"), samples=16)))
    assert "held-out preference follows" in said and "hacked" not in said


def test_a_function_may_read_references(planted):
    card = measuring.measure(planted("right"), samples=16)
    assert card.frontier.oracle and card.answers["oracle"].scores["reward"] == 1
    assert card.answers["sampled"].scores["reward"] == 0 and card.signal.rewards.flat == 1
    said = report.verdict(card)
    assert any("gains no reward beyond chance" in one and "100% of the groups are flat" in one for one in said)


def test_a_function_may_read_token_ids_and_without_references_there_is_neither_constant_nor_oracle(planted):
    card = measuring.measure(planted("ids", references=False), samples=16)
    assert card.answers["empty"].scores["reward"] == 1, "the end token"
    assert card.lazy == ("empty", "copy") and "oracle" not in card.answers and [*card.lengths] == ["prompt"]


def scores(gains=None, **values):
    return measuring.AnswerScores(values, {name: Interval(*ends) for name, ends in (gains or {}).items()})


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A card whose figures are replaced by known ones."""
    folder = tmp_path_factory.mktemp("card")
    files.write_jsonl(folder / "rows.jsonl", [{"id": p, "prompt": p, "references": [r]} for p, r in ROWS])
    text = TASK.format(reward="x", metric="y", splits='rows = "rows.jsonl"').replace(
        "[backbone]",
        'evaluation = "validation"\n[data.splits]\ntrain = { source = "rows", end = 0.5 }\n'
        'validation = { source = "rows", begin = 0.5 }\n[backbone]',
    )
    metric = 'metrics = [{ name = "rougeL", axis = "preference", range = [0, 1] }]\n'
    text = 'reward = "rouge1"\n' + metric + text[text.index("[data]") :]
    (folder / "plain.toml").write_text(text)
    return measuring.measure(load_task(str(folder / "plain.toml")), samples=16, examples=2)


LAZY = scores({"reward": (-0.2, -0.1), "preference": (-9, -5)}, reward=0.1, preference=40.0)
ORACLE = scores(reward=1.0, preference=100.0)
GREEDY = scores(reward=0.3, preference=50.0)
PUSHED = {"reward": (0.2, 0.4), "held_out": (1.0, 3.0), "naturalness": (-1.0, 2.0)}


FIT = {"prompt": (9.0, 10, 0.04), "reference": (9.0, 10, 0.0)}


def sentences(plain, lazy=LAZY, pushed=PUSHED, late=(), lengths=FIT, flat=0.2, noise=99.0, way=0.6, **more):
    answers = {"copy": lazy, "greedy": GREEDY, "sampled": scores(reward=0.2), "oracle": ORACLE}
    answers |= {"best of 16": scores(pushed, reward=way)}
    gradient = replace(plain.signal.gradient, noise_scale=noise, batch=64)
    signal = replace(plain.signal, rewards=replace(plain.signal.rewards, flat=flat, samples=8), gradient=gradient)
    late = {name: Interval(*ends) for name, ends in dict(late).items()}
    metrics = {**plain.metrics, "held_out": more.pop("held_out", ("m",))}
    more = {"trained": True, "lazy": ("copy",), "answers": answers, "late": late, "signal": signal, **more}
    return report.verdict(replace(plain, metrics=metrics, lengths=lengths, **more))


RATHER = scores({"reward": (0.3, 0.5), "preference": (20, 40)}, reward=0.7, preference=80.0)
HACK = scores({"reward": (0.3, 0.5), "preference": (-30, -20)}, reward=0.7, preference=25.0)
LONG = {"prompt": (9.0, 10, 0.05), "reference": (9.0, 10, 0.5)}
CASES = {
    "as it is": {},
    "above a trained start": {"lazy": RATHER},
    "above an untrained start": {"lazy": RATHER, "trained": False},
    "hacked without learning": {"lazy": HACK},
    "falls": {"pushed": {**PUSHED, "held_out": (-3.0, -1.0)}},
    "turns late": {"late": {"held_out": (-3.0, -1.0)}},
    "beyond the oracle": {"way": 1.2},
    "nothing is held out": {"held_out": ()},
    "little to learn": {"pushed": {**PUSHED, "reward": (-0.1, 0.3)}, "flat": 0.5},
    "noise": {"noise": None},
    "long texts": {"lengths": LONG},
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_follows_its_rules(plain, case, refused):
    refused.message("\n".join(sentences(plain, **CASES[case])))


def test_long_references_matter_where_the_reward_reads_them(plain):
    unread = replace(plain, lengths=LONG, frontier=replace(plain.frontier, oracle=False))
    assert report.verdict(unread)[-1].startswith("5% of the prompts")


def test_the_command_writes_a_page_and_a_file_and_the_same_seed_gives_the_same_card(planted, tmp_path):
    task = planted()
    done = commands.grue("tools", "card", "planted.toml", "--out", "card", "--samples", 16, "--json")
    written = files.read_json(tmp_path / "card/card.json")
    assert json.loads(done.stdout) == written and written["answers"]["empty"]["scores"]["reward"] == 0
    page = (tmp_path / "card/card.html").read_text()
    for sentence in written["verdict"]:
        assert sentence.replace("'", "&#39;") in page
    assert "best of 16" in page and "The board" not in page and page.count("<svg") == 8
    again = files.plain(measuring.measure(task, samples=16, seed=1))
    for card in (written, again):
        card["seconds"] = card["signal"]["move"]["seconds"] = 0
    assert again.items() <= written.items()


@pytest.mark.parametrize(
    ("task", "options", "error", "said"),
    [
        ({}, {"samples": 8}, ConfigError, "8 samples to each of 100 examples: take 16 to each of 2 at least."),
        ({}, {"examples": 1}, ConfigError, "32 samples to each of 1 examples: take 16"),
        ({"splits": ("train",)}, {}, DataError, "has no split 'validation'"),
        ({"splits": ("validation", "test")}, {}, DataError, "has no split 'train'"),
        ({"reward": "no_number"}, {}, TrainingError, "gave 'good' for the example 'the dog sees .'; a reward must be"),
        ({"reward": "sometimes"}, {}, DataError, r"does not apply \(None\) to a response"),
        ({}, {"reward": "wrods"}, UnknownName, "no metric 'wrods'"),
    ],
)
def test_what_cannot_be_measured_is_refused(planted, task, options, error, said):
    of_task = planted(**task)
    with pytest.raises(error, match=said):
        measuring.measure(of_task, **options)
