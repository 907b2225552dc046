"""Rewards: expressions, options, direction, and the checks on their values."""

import sys
from dataclasses import replace

import pytest
from support.factories import a_task
from support.metric_texts import scored

from grue.errors import ConfigError, TrainingError, UnknownName
from grue.evaluation.rewards import REWARDS, Reward, give_name, make_reward, mean, parse_reward
from grue.metrics.metric import OfCorpusOnly
from grue.records import Example
from grue.tasks import MetricSpec

EXAMPLES = [
    Example("a", "", ("the dog runs .",), {"concepts": ["dog", "run"]}),
    Example("b", "", ("a cat sleeps .", "cats sleep"), {"concepts": ["cat", "sleep"]}),
]
TEXTS = ["the dog", "cats sleep"]


def reward_of(expression, *metrics, examples=EXAMPLES):
    return make_reward(expression, a_task("tiny", metrics), examples)


def values(name, examples=EXAMPLES, texts=TEXTS):
    return scored(name, examples, texts)[0]


def near(*columns):
    """The sums of (weight, values)."""
    weighed = ([weight * value for value in column] for weight, column in columns)
    return pytest.approx([sum(row) for row in zip(*weighed, strict=True)], abs=1e-12)


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """A module of the user's own, in a package that offers two of its rewards by entry points."""
    (tmp_path / "user_rewards.py").write_text(
        "import numpy\n"
        "def length(examples, texts): return [len(text) for text in texts]\n"
        "def brevity(examples, texts): return [-len(text) for text in texts]\n"
        "def array(examples, texts): return numpy.ones(len(texts))\n"
        "def short(examples, texts): return [1.0]\n"
        "def nothing(examples, texts): pass\n"
        "def infinite(examples, texts): return [0.0, float('inf')]\n"
        "def words(examples, texts): return ['high' for _ in texts]\n"
        "def first(examples, texts): return [2.0] + [None] * (len(texts) - 1)\n"
        "def never(examples, texts): return [None] * len(texts)\n"
        "def tokens(examples, texts, token_ids): return [numpy.arange(len(ids)) / 4 for ids in token_ids]\n"
        "number = 3\n"
    )
    info = tmp_path / "offered-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1\n")
    entries = "[grue.rewards]\nbrevity = user_rewards:brevity\nbroken = user_rewards:infinite\n"
    (info / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(REWARDS, "_things", dict(REWARDS._things))
    yield "user_rewards"
    sys.modules.pop("user_rewards", None)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("meteor", [(1.0, "meteor")]),
        (" 0.25*meteor+0.75*coverage ", [(0.25, "meteor"), (0.75, "coverage")]),
        ("meteor - 1e-2 * mean_length", [(1.0, "meteor"), (-0.01, "mean_length")]),
        ("-rougeL + .5*my.package:reward", [(-1.0, "rougeL"), (0.5, "my.package:reward")]),
        ("2*evaluate:owner/some-metric - ter", [(2.0, "evaluate:owner/some-metric"), (-1.0, "ter")]),
        ("ter + evaluate:a+b", [(1.0, "ter"), (1.0, "evaluate:a+b")]),
        ("spider", [(0.5, "spice"), (0.5, "cider")]),
        ("rouge_combined", [(1 / 3, "rouge1"), (1 / 3, "rouge2"), (1 / 3, "rougeL")]),
        ("2*meteor_parent - rouge1", [(1.0, "meteor"), (1.0, "parent"), (-1.0, "rouge1")]),
    ],
)
def test_expressions(expression, expected):
    assert parse_reward(expression) == expected


@pytest.mark.parametrize("expression", ["", "meteor coverage", "2*", "meteor +", "a/b", "2*3*meteor"])
def test_unreadable_expressions(expression, refused):
    with refused(ConfigError):
        parse_reward(expression)


def test_a_reward_is_the_weighted_sum_of_its_metrics_prepared_on_the_training_examples():
    assert reward_of("meteor")(EXAMPLES, TEXTS) == values("meteor"), "exactly"
    assert reward_of("meteor")([], []) == []
    parts = {name: values(name) for name in ("meteor", "coverage", "mean_length", "spice_lite", "cider", "rouge1")}
    found = reward_of("0.25*meteor + 0.75*coverage - 0.1*mean_length")(EXAMPLES, TEXTS)
    assert found == near((0.25, parts["meteor"]), (0.75, parts["coverage"]), (-0.1, parts["mean_length"]))
    assert reward_of("-3*spider_lite")(EXAMPLES, TEXTS) == near((-1.5, parts["spice_lite"]), (-1.5, parts["cider"]))
    assert reward_of("cider")(EXAMPLES[:1], TEXTS[:1]) == parts["cider"][:1]
    # the dog, of "the dog runs .": words 2 of 2 and 2 of 3, pairs 1 of 1 and 1 of 2, in order 2 of 2 and 2 of 3.
    assert reward_of("rouge_combined")(EXAMPLES[:1], TEXTS[:1]) == [pytest.approx((4 / 5 + 2 / 3 + 4 / 5) / 3)]


def test_options_come_from_the_task_and_lower_is_better_is_turned_round():
    listed = MetricSpec("bleu1", "preference", (0.0, 1.0), options={"tokenizer": "words"})
    one, other = (reward_of("bleu1", *each)(EXAMPLES[:1], ["the dog."])[0] for each in ([listed], []))
    assert one > other
    examples, texts = [Example("a", "", ("a b c d",)), Example("b", "", ("a b",))], ["a b x d", ""]
    assert reward_of("ter", examples=examples)(examples, texts) == [-25.0, -100.0]
    assert reward_of("-0.01*ter", examples=examples)(examples, texts) == [0.25, 1.0], "one minus too many"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dogs run.", 0.0),
        ("The dog runs.", -1.0),  # letters are compared, not words, as in RL4LMs
        ("", 0.0),
        ("A dog run is long.", -1.0),  # both concepts as the prompt lists them
        ("They run a dog.", 0.0),
        ("Generate it", -1.0),
        ("one more sentence", -1.0),
    ],
)
def test_repeat_penalty(text, expected):
    assert reward_of("repeat_penalty")(EXAMPLES[:1], [text]) == [expected]
    bare = Example("c", "", ("x",))  # without concepts
    without = -1.0 if "entence" in text or "enerate" in text else 0.0
    assert reward_of("repeat_penalty", examples=[bare])([bare], [text]) == [without]


# --- functions of one's own: what they may ask for, and what they may return -----------------------------------------

IDS = [[5, 6, 1], [7, 1]]


def given(function):
    """A function as the only term of a reward."""
    return reward_of(give_name(function))


def test_a_function_of_the_users_and_one_of_another_package(user_module):
    found = reward_of(f"2*{user_module}:length + {user_module}:array")(EXAMPLES, TEXTS)
    assert found == [15.0, 21.0]
    assert all(type(value) is float for value in found)
    assert reward_of("brevity")(EXAMPLES, TEXTS) == [-7.0, -10.0]
    assert reward_of("2*brevity + repeat_penalty")(EXAMPLES, TEXTS) == [-14.0, -20.0]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("user_rewards:lenth", ConfigError),
        ("user_rewards:number", ConfigError),
        ("metoer", UnknownName),
        ("distinct1", OfCorpusOnly),
        ("broken", TrainingError),
        *((f"user_rewards:{function}", TrainingError) for function in ("short", "nothing", "infinite", "words")),
    ],
)
def test_what_is_not_there_or_gives_values_that_cannot_be(user_module, name, error, refused):
    with refused(error):
        reward_of(name)(EXAMPLES, TEXTS)


def test_a_module_that_is_not_there():
    with pytest.raises(ConfigError, match="'no_module' cannot be imported: it is not installed, nor in "):
        reward_of("no_module:f")


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
    # The first two parameters may have any name, and what is not known has its default.
    assert given(lambda truncated, step: [len(text) for text in step])(EXAMPLES, TEXTS, step=1) == [7.0, 10.0]
    assert given(lambda examples, texts, step=7: [step] * len(texts))(EXAMPLES, TEXTS) == [7.0, 7.0]


def test_what_is_not_known_is_an_error_and_what_a_function_raises_names_the_example():
    with pytest.raises(ConfigError, match=r"asks for step, which is not known here: step is known in training only"):
        given(lambda examples, texts, step: [step] * len(texts))(EXAMPLES, TEXTS, token_ids=IDS)
    with pytest.raises(
        ConfigError, match=r"must be a function of \(examples, texts\): missing a required argument: 'k'"
    ):
        given(lambda examples, texts, step, k: [0.0])
    with pytest.raises(TrainingError, match=r"raised ZeroDivisionError: .* for the example 'b'; the text was 'cats sl"):
        given(lambda examples, texts, token_ids: [1 / (ids[0] == 5) for ids in token_ids])(
            EXAMPLES, TEXTS, token_ids=IDS
        )


def test_terms_that_do_not_apply_and_terms_of_tokens_by_hand(user_module):
    def parts(expression):
        reward = reward_of(expression.replace(":", f"{user_module}:"))
        return reward.parts(EXAMPLES, TEXTS, token_ids=IDS), reward(EXAMPLES, TEXTS, token_ids=IDS)

    # Tokens: 0 + 1/4 + 2/4 and 0 + 1/4.
    each, sums = parts("3*:first - 2*:tokens + :never")
    assert each == [[2.0, None], [[0.0, 0.25, 0.5], [0.0, 0.25]], [None, None]]
    assert sums == [3 * 2.0 - 2 * 0.75, -2 * 0.25]
    assert parts(":first - :never")[1] == [2.0, None]
    assert mean([2.0, None, [0.5, 0.25]]) == 1.375
    assert mean([None]) is None


@pytest.mark.parametrize(
    ("value", "ids", "told"),
    [
        ([0.5], IDS, "gave 1 values for the example 'b', whose response has 2 tokens; return one for each of its tok"),
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


def test_a_function_cannot_change_what_others_score():
    def rewrites(examples, texts, token_ids=None):
        texts[:] = [example.references[0] for example in examples]
        examples.clear()
        if token_ids is not None:
            token_ids[0].clear()
            token_ids.clear()
        return [0.0] * len(texts)

    texts, ids = [*TEXTS], [[*one] for one in IDS]
    both = Reward((*given(rewrites).terms, *reward_of("rouge1").terms))
    assert both(EXAMPLES, texts, token_ids=ids) == reward_of("rouge1")(EXAMPLES, TEXTS)
    assert (texts, ids) == (TEXTS, IDS)


@pytest.mark.parametrize(("weight", "value"), [(1.0, 1e19), (1e10, -1e10), (1.0, [1e308, 1e308])])
def test_a_reward_that_cannot_be_standardised_names_its_example(weight, value):
    def large(examples, texts, token_ids=None):
        return [0.0, value]

    reward = Reward(tuple(replace(term, weight=weight) for term in given(large).terms))
    with pytest.raises(TrainingError, match=f"for the example '{EXAMPLES[1].id}' is larger than 1e\\+18: .*large"):
        reward(EXAMPLES, TEXTS, token_ids=IDS)
    half = given(lambda examples, texts: [6e17] * len(texts))
    assert half(EXAMPLES, TEXTS) == [6e17, 6e17]
    with pytest.raises(TrainingError, match="is larger than 1e\\+18"):
        Reward((*half.terms, *half.terms))(EXAMPLES, TEXTS)  # terms of one name count twice
