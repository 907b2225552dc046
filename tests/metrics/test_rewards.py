"""Rewards: expressions, options, direction, and the checks on their values."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from support.factories import a_task
from support.paths import ROOT

from grue.errors import ConfigError, DataError, TrainingError, UnknownName
from grue.evaluation.rewards import REWARDS, Reward, give_name, make_reward, mean, metric_reward, parse_reward
from grue.metrics import registry
from grue.metrics.metric import Average
from grue.metrics.registry import METRICS, make_metric
from grue.records import Example
from grue.tasks import MetricSpec

EXAMPLES = [
    Example("a", "", ("the dog runs .",), {"concepts": ["dog", "run"]}),
    Example("b", "", ("a cat sleeps .", "cats sleep"), {"concepts": ["cat", "sleep"]}),
]
TEXTS = ["the dog", "cats sleep"]


def task(*metrics):
    return a_task("tiny", metrics)


def values(name, **options):
    metric = make_metric(name, **options)
    metric.prepare(EXAMPLES)
    return metric.per_example(metric.statistics(EXAMPLES, TEXTS))


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """A module of the user's own, importable."""
    (tmp_path / "user_rewards.py").write_text(
        "import numpy\n"
        "def length(examples, texts): return [len(text) for text in texts]\n"
        "def array(examples, texts): return numpy.ones(len(texts))\n"
        "def short(examples, texts): return [1.0]\n"
        "def nothing(examples, texts): pass\n"
        "def infinite(examples, texts): return [0.0, float('inf')]\n"
        "def words(examples, texts): return ['high' for _ in texts]\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "user_rewards"
    sys.modules.pop("user_rewards", None)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("meteor", [(1.0, "meteor")]),
        (" 0.25*meteor+0.75*coverage ", [(0.25, "meteor"), (0.75, "coverage")]),
        ("meteor - 1e-2 * mean_length", [(1.0, "meteor"), (-0.01, "mean_length")]),
        ("-rougeL + .5*my.package:reward", [(-1.0, "rougeL"), (0.5, "my.package:reward")]),
        ("evaluate:/a/my-script.py", [(1.0, "evaluate:/a/my-script.py")]),
        ("2*evaluate:owner/some-metric - ter", [(2.0, "evaluate:owner/some-metric"), (-1.0, "ter")]),
        ("ter + evaluate:a+b", [(1.0, "ter"), (1.0, "evaluate:a+b")]),
    ],
)
def test_expressions(expression, expected):
    assert parse_reward(expression) == expected


@pytest.mark.parametrize(
    ("expression", "rest"),
    [
        ("", ""),
        ("meteor coverage", "coverage"),
        ("2*", "2*"),
        ("meteor +", "+"),
        ("a/b", "/b"),
        ("2*3*meteor", "2*3*meteor"),
    ],
)
def test_unreadable_expressions(expression, rest):
    with pytest.raises(ConfigError) as error:
        parse_reward(expression)
    assert str(error.value) == (
        f"The reward {expression!r} cannot be read at {rest!r}; "
        "write a metric, module:function, or a sum such as '0.25*meteor + 0.75*coverage'."
    )


def test_a_metric_is_a_reward():
    assert make_reward("meteor", task(), EXAMPLES)(EXAMPLES, TEXTS) == list(values("meteor"))


def test_a_weighted_sum():
    found = make_reward("0.25*meteor + 0.75*coverage - 0.1*mean_length", task(), EXAMPLES)(EXAMPLES, TEXTS)
    expected = 0.25 * values("meteor") + 0.75 * values("coverage") - 0.1 * values("mean_length")
    assert found == pytest.approx(list(expected), abs=1e-12)


def test_options_come_from_the_task():
    listed = task(MetricSpec("bleu1", "preference", (0.0, 1.0), options={"tokenizer": "words"}))
    texts = ["the dog.", "cats"]
    assert (
        make_reward("bleu1", listed, EXAMPLES)(EXAMPLES[:1], texts[:1])[0]
        > make_reward("bleu1", task(), EXAMPLES)(EXAMPLES[:1], texts[:1])[0]
    )


def test_metrics_are_prepared_on_the_training_examples():
    found = make_reward("cider", task(), EXAMPLES)(EXAMPLES[:1], TEXTS[:1])
    assert found == [values("cider")[0]]


def test_lower_is_better_is_turned_round(monkeypatch):
    mistakes = Average("mistakes", lambda examples, texts: [2.0, 3.0], direction="lower")
    monkeypatch.setitem(METRICS._things, "mistakes", lambda: mistakes)
    assert metric_reward("mistakes", {}, [])(EXAMPLES, TEXTS) == [-2.0, -3.0]


def test_a_function_of_the_users(user_module):
    reward = make_reward(f"2*{user_module}:length + {user_module}:array", task(), EXAMPLES)
    assert reward(EXAMPLES, TEXTS) == [15.0, 21.0]
    assert all(type(value) is float for value in reward(EXAMPLES, TEXTS))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("short", "The reward 'user_rewards:short' gave 1 values for 2 texts; return one number per text."),
        ("nothing", "The reward 'user_rewards:nothing' gave None for 2 texts; return one number per text."),
        (
            "infinite",
            "The reward 'user_rewards:infinite' gave inf for the example 'b'; a reward must be a finite number. "
            "The text was 'cats sleep'.",
        ),
        (
            "words",
            "The reward 'user_rewards:words' gave 'high' for the example 'a'; a reward must be a finite number. "
            "The text was 'the dog'.",
        ),
    ],
)
def test_values_that_cannot_be(user_module, function, message):
    reward = make_reward(f"{user_module}:{function}", task(), EXAMPLES)
    with pytest.raises(TrainingError) as error:
        reward(EXAMPLES, TEXTS)
    assert str(error.value) == message


# --- what a function may ask for, and what it may return -------------------------------------------------------------

IDS = [[5, 6, 1], [7, 1]]


def given(function):
    """A function as the only term of a reward."""
    return make_reward(give_name(function), task(), EXAMPLES)


def test_a_function_gets_what_its_parameters_name():
    seen = []

    def everything(examples, texts, step, *, token_ids, truncated=None):
        seen.append((list(texts), token_ids, truncated, step))
        return [0.0] * len(texts)

    def nothing(examples, texts, temperature=1.0):
        return [temperature] * len(texts)

    given(everything)(EXAMPLES, TEXTS, token_ids=IDS, truncated=[False, True], step=3)
    assert seen == [(TEXTS, IDS, [False, True], 3)]
    assert given(nothing)(EXAMPLES, TEXTS, token_ids=IDS, truncated=[False, True], step=3) == [1.0, 1.0]
    assert REWARDS["repeat_penalty"](EXAMPLES, TEXTS) == [0.0, 0.0]


def test_what_is_not_known_has_its_default_or_is_an_error():
    assert given(lambda examples, texts, step=7: [step] * len(texts))(EXAMPLES, TEXTS) == [7.0, 7.0]
    with pytest.raises(ConfigError, match=r"asks for step, which is not known here: step is known in training only"):
        given(lambda examples, texts, step: [step] * len(texts))(EXAMPLES, TEXTS, token_ids=IDS)
    with pytest.raises(
        ConfigError, match=r"must be a function of \(examples, texts\): missing a required argument: 'k'"
    ):
        given(lambda examples, texts, step, k: [0.0])


def test_the_first_two_parameters_may_have_any_name():
    assert given(lambda truncated, step: [len(text) for text in step])(EXAMPLES, TEXTS, step=1) == [7.0, 10.0]


def test_what_a_function_raises_of_its_tokens_names_the_example():
    def first_is_five(examples, texts, token_ids):
        return [1 / (ids[0] == 5) for ids in token_ids]

    with pytest.raises(TrainingError, match=r"raised ZeroDivisionError: .* for the example 'b'; the text was 'cats sl"):
        given(first_is_five)(EXAMPLES, TEXTS, token_ids=IDS)


def test_terms_that_do_not_apply_and_terms_of_tokens_by_hand(tmp_path, monkeypatch):
    (tmp_path / "part_rewards.py").write_text(
        "import numpy\n"
        "def first(examples, texts): return [2.0] + [None] * (len(texts) - 1)\n"
        "def never(examples, texts): return [None] * len(texts)\n"
        "def tokens(examples, texts, token_ids): return [numpy.arange(len(ids)) / 4 for ids in token_ids]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def parts(expression):
        reward = make_reward(expression, task(), EXAMPLES)
        return reward.parts(EXAMPLES, TEXTS, token_ids=IDS), reward(EXAMPLES, TEXTS, token_ids=IDS)

    # Tokens: 0 + 1/4 + 2/4 and 0 + 1/4.
    each, sums = parts("3*part_rewards:first - 2*part_rewards:tokens + part_rewards:never")
    assert each == [[2.0, None], [[0.0, 0.25, 0.5], [0.0, 0.25]], [None, None]]
    assert sums == [3 * 2.0 - 2 * 0.75, -2 * 0.25]
    assert parts("part_rewards:first - part_rewards:never")[1] == [2.0, None]
    assert mean([2.0, None, [0.5, 0.25]]) == 1.375
    assert mean([None]) is None
    sys.modules.pop("part_rewards")


@pytest.mark.parametrize(
    ("value", "ids", "told"),
    [
        ([0.5], IDS, "gave 1 values for the example 'b', whose response has 2 tokens; return one for each of its tok"),
        ([], IDS, "gave 0 values for the example 'b', whose response has 2 tokens"),
        ([0.5, 0.5], None, "gave 2 values for the example 'b', whose tokens are not known"),
        ([0.5, float("nan")], IDS, "gave nan for token 1 of the example 'b'; it must be a finite number"),
        ([0.5, None], IDS, "gave None for token 1 of the example 'b'"),
        ([[0.5], [0.5]], IDS, r"gave \[0.5\] for token 0 of the example 'b'"),
        ({0: 1.0, 1: 2.0}, IDS, r"gave \{0: 1.0, 1: 2.0\} for the example 'b'; a reward must be a finite number"),
        (b"ab", IDS, "gave b'ab' for the example 'b'; a reward must be a finite number"),
    ],
)
def test_values_of_tokens_that_cannot_be(value, ids, told):
    with pytest.raises(TrainingError, match=told) as error:
        given(lambda examples, texts: [0.0, value])(EXAMPLES, TEXTS, token_ids=ids)
    assert str(error.value).endswith("The text was 'cats sleep'.")


def test_functions_that_are_not_there(user_module):
    with pytest.raises(
        ConfigError,
        match=r"The reward 'no_module:f': the module 'no_module' cannot be imported: it is not installed, nor in ",
    ):
        make_reward("no_module:f", task(), EXAMPLES)
    with pytest.raises(
        ConfigError, match=r"The reward 'user_rewards:lenth': user_rewards has no function 'lenth'\. Did y"
    ):
        make_reward("user_rewards:lenth", task(), EXAMPLES)
    with pytest.raises(ConfigError, match="has no function 'number'"):
        make_reward("user_rewards:number", task(), EXAMPLES)


def test_metrics_that_cannot_be_rewards():
    with pytest.raises(UnknownName, match=r"There is no metric 'metoer'\. Did you mean 'meteor'\?"):
        make_reward("metoer", task(), EXAMPLES)
    with pytest.raises(ConfigError, match=r"distinct1 describes a whole set of texts"):
        make_reward("distinct1", task(), EXAMPLES)


def test_an_exact_value_stays_exact():
    reward = make_reward("meteor", task(), EXAMPLES)
    assert np.array_equal(reward(EXAMPLES, TEXTS), values("meteor"))
    assert reward([], []) == []


# --- names beside the metrics' ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("spider", [(0.5, "spice"), (0.5, "cider")]),
        ("spider_lite", [(0.5, "spice_lite"), (0.5, "cider")]),
        ("rouge_combined", [(1 / 3, "rouge1"), (1 / 3, "rouge2"), (1 / 3, "rougeL")]),
        ("2*meteor_parent - rouge1", [(1.0, "meteor"), (1.0, "parent"), (-1.0, "rouge1")]),
        ("meteor + repeat_penalty", [(1.0, "meteor"), (1.0, "repeat_penalty")]),
        (
            "0.5*evaluate:exact_match + 0.5*rouge_l_max:rl4lms",
            [(0.5, "evaluate:exact_match"), (0.5, "rouge_l_max:rl4lms")],
        ),
    ],
)
def test_combinations_are_their_terms(expression, expected):
    assert parse_reward(expression) == expected


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("spider_lite", {"spice_lite": 0.5, "cider": 0.5}),
        ("rouge_combined", {"rouge1": 1 / 3, "rouge2": 1 / 3, "rougeL": 1 / 3}),
    ],
)
def test_a_combination_is_the_mean_of_its_metrics(name, terms):
    found = make_reward(name, task(), EXAMPLES)(EXAMPLES, TEXTS)
    expected = sum(weight * values(term) for term, weight in terms.items())
    assert found == pytest.approx(list(expected), abs=1e-12)
    assert make_reward(f"-3*{name}", task(), EXAMPLES)(EXAMPLES, TEXTS) == pytest.approx(list(-3 * expected), abs=1e-12)


def test_rouge_combined_by_hand():
    """the dog, of "the dog runs .": words 2 of 2 and 2 of 3, pairs 1 of 1 and 1 of 2, in order 2 of 2 and 2 of 3."""
    found = make_reward("rouge_combined", task(), EXAMPLES)(EXAMPLES[:1], TEXTS[:1])
    assert found == [pytest.approx((4 / 5 + 2 / 3 + 4 / 5) / 3)]


def test_meteor_parent():
    tabled = [Example(e.id, "", e.references, {"table": ["the dog", "cat"], "highlighted": ["dog"]}) for e in EXAMPLES]
    parts = []
    for name in ("meteor", "parent"):
        metric = make_metric(name)
        parts.append(metric.per_example(metric.statistics(tabled, TEXTS)))
    found = make_reward("meteor_parent", task(), tabled)(tabled, TEXTS)
    assert found == pytest.approx(list((parts[0] + parts[1]) / 2), abs=1e-12)
    with pytest.raises(DataError, match="The example 'a' has no values under 'table' in its meta, which parent needs"):
        make_reward("meteor_parent", task(), EXAMPLES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dogs run.", 0.0),
        ("The dog runs.", -1.0),  # letters are compared, not words, as in RL4LMs
        ("", 0.0),
        ("A dog run is long.", -1.0),  # both concepts as the prompt lists them
        ("A DOG RUN.", -1.0),
        ("They run a dog.", 0.0),
        ("Generate it", -1.0),
        ("one more sentence", -1.0),
    ],
)
def test_repeat_penalty(text, expected):
    assert make_reward("repeat_penalty", task(), EXAMPLES)(EXAMPLES[:1], [text]) == [expected]
    bare = Example("c", "", ("x",))
    without = -1.0 if "entence" in text or "enerate" in text else 0.0
    assert make_reward("repeat_penalty", task(), [bare])([bare], [text]) == [without]


def test_repeat_penalty_in_a_sum():
    texts = ["the dog run", "cats sleep"]
    found = make_reward("meteor + 0.5*repeat_penalty", task(), EXAMPLES)(EXAMPLES, texts)
    metric = make_metric("meteor")
    meteor = metric.per_example(metric.statistics(EXAMPLES, texts))
    assert found == pytest.approx([meteor[0] - 0.5, meteor[1]], abs=1e-12)


def test_a_metric_that_counts_errors_is_negated():
    examples = [Example("a", "", ("a b c d",)), Example("b", "", ("a b",))]
    texts = ["a b x d", ""]
    assert make_reward("ter", task(), examples)(examples, texts) == [-25.0, -100.0]
    assert make_reward("-0.01*ter", task(), examples)(examples, texts) == [0.25, 1.0], "one minus too many"
    found = make_reward("rouge1 + 0.01*ter", task(), examples)(examples, texts)
    assert found == pytest.approx([3 / 4 - 0.25, -1.0])


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that offers two rewards and a metric by entry points."""
    (tmp_path / "offered.py").write_text(
        "def brevity(examples, texts): return [-len(text) for text in texts]\n"
        "def broken(examples, texts): return [float('nan')] * len(texts)\n"
    )
    info = tmp_path / "offered-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[grue.rewards]\nbrevity = offered:brevity\nbroken = offered:broken\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(REWARDS, "_things", dict(REWARDS._things))
    yield
    sys.modules.pop("offered", None)


@pytest.mark.usefixtures("installed")
def test_a_reward_of_another_package():
    assert make_reward("brevity", task(), EXAMPLES)(EXAMPLES, TEXTS) == [-7.0, -10.0]
    assert make_reward("2*brevity + repeat_penalty", task(), EXAMPLES)(EXAMPLES, TEXTS) == [-14.0, -20.0]
    with pytest.raises(TrainingError, match=r"The reward 'broken' gave nan for the example 'a'"):
        make_reward("broken", task(), EXAMPLES)(EXAMPLES, TEXTS)


def test_a_metric_of_the_library_evaluate(monkeypatch):
    """The name goes to the adapter, with the task's options, and is not taken for module:function."""
    asked = []

    def evaluate_metric(name):
        asked.append(name)
        return lambda key="": Average(f"{name}|{key}", lambda examples, texts: [float(len(key)) for _ in texts])

    monkeypatch.setattr(registry, "evaluate_metric", evaluate_metric)
    listed = task(MetricSpec("evaluate:exact_match", "preference", (0.0, 1.0), options={"key": "four"}))
    reward = make_reward("0.5*evaluate:exact_match + 0.0*meteor", listed, EXAMPLES)
    assert reward(EXAMPLES, TEXTS) == [2.0, 2.0]
    assert set(asked) == {"evaluate:exact_match"}


def test_a_name_of_the_library_evaluate_without_a_name():
    with pytest.raises(ConfigError) as error:
        make_reward("evaluate:", task(), EXAMPLES)
    assert str(error.value) == "'evaluate:' lacks the metric's name or path: write evaluate:exact_match, for example."


def test_lexical_rewards_need_no_torch():
    code = (
        "import sys, grue.evaluation.scoring, grue.evaluation.rewards\nfrom grue.metrics.registry import make_metric\n"
        "for name in ('rougeL', 'meteor', 'cider', 'coverage', 'bleu4', 'sacrebleu', 'msttr'): make_metric(name)\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_function_cannot_change_what_others_score():
    def rewrites(examples, texts, token_ids=None):
        texts[:] = [example.references[0] for example in examples]
        examples.clear()
        if token_ids is not None:
            token_ids[0].clear()
            token_ids.clear()
        return [0.0] * len(texts)

    texts, ids = [*TEXTS], [[*one] for one in IDS]
    plain = make_reward("rouge1", task(), EXAMPLES)(EXAMPLES, TEXTS)
    mixed = make_reward("rouge1", task(), EXAMPLES)
    rewriting = given(rewrites)
    both = Reward((*rewriting.terms, *mixed.terms))
    assert both(EXAMPLES, texts, token_ids=ids) == plain
    assert (texts, ids) == (TEXTS, IDS)


@pytest.mark.parametrize(("weight", "value"), [(1.0, 1e19), (1e10, -1e10), (1.0, [1e308, 1e308])])
def test_a_reward_that_cannot_be_standardised_names_its_example(weight, value):
    def large(examples, texts, token_ids=None):
        return [0.0, value]

    reward = Reward(tuple(replace(term, weight=weight) for term in given(large).terms))
    with pytest.raises(TrainingError, match=f"for the example '{EXAMPLES[1].id}' is larger than 1e\\+18: .*large"):
        reward(EXAMPLES, TEXTS, token_ids=IDS)


def test_terms_of_one_name_count_twice():
    half = given(lambda examples, texts: [6e17] * len(texts))
    assert half(EXAMPLES, TEXTS) == [6e17, 6e17]
    with pytest.raises(TrainingError, match="is larger than 1e\\+18"):
        Reward((*half.terms, *half.terms))(EXAMPLES, TEXTS)
