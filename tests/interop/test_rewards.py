"""Rewards for TRL, verl, OpenRLHF and verifiers: called as their code calls them, with the signatures read there."""

import asyncio
import json
import math
import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import pytest
from support.tiny import tokenizer

import grue
from grue.errors import ConfigError, DataError, TrainingError, Unavailable, UnknownName
from grue.interop.queries import response_of
from grue.rewards import for_openrlhf, for_trl, for_verifiers, for_verl

TASK = """
reward = "rouge1"
metrics = [{ name = "rouge1", axis = "preference", range = [0, 1] }]
[data]
sources = [{ kind = "local", files = { train = "train.jsonl", validation = "validation.jsonl", test = "test.jsonl" } }]
[backbone]
family = "causal"
model = "mini:causal"
"""
ROWS = {
    "train": [("a1", "the dog", "the dog runs"), ("a2", "the cat", "the cat sees"), ("a7", "the bird", "a bird")],
    "validation": [("a3", "the house", "the house")],
    "test": [("a4", "the tree", "the tree"), ("a5", "the ball", "x"), ("a6", "the ball", "y")],
}


@pytest.fixture
def animals(tmp_path):
    """The path of a task's file."""
    for split, rows in ROWS.items():
        lines = [json.dumps({"id": i, "prompt": p, "references": [r]}) for i, p, r in rows]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "animals.toml").write_text(TASK)
    return tmp_path / "animals.toml"


def number(examples, texts):
    """The number in the example's id, so that a test sees which example was found."""
    return [float(example.id[1:]) for example in examples]


def words(examples, texts):
    return [float(len(text)) for text in texts]


def none_for_cats(examples, texts):
    return [None if "cat" in example.prompt else 1.0 for example in examples]


def per_token(examples, texts, token_ids):
    return [[1.0] * len(ids) for ids in token_ids]


def by_user(text, **more):
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text, **more}]


def by_model(text):
    return [{"role": "assistant", "content": text}]


def test_trl_finds_examples_by_ids_else_by_prompts(animals):
    reward = for_trl(number, task=animals)
    prompts, texts = ["the cat", "the dog", "the bird"], ["x", "y", "z"]
    assert reward(prompts=prompts, completions=texts) == [2, 1, 7]
    assert reward(prompts=["anything"] * 3, completions=texts, id=["a7", "a1", "a2"]) == [7, 1, 2]
    assert reward(prompts=prompts, completions=texts, id=["a1", None, None]) == [1, 1, 7]
    parts = [{"type": "text", "text": "the "}, {"type": "text", "text": "bird"}]
    talks = [by_user("the cat"), by_user("the dog"), [{"role": "user", "content": parts}]]
    assert reward(prompts=talks, completions=[by_model(text) for text in texts]) == [2, 1, 7]
    assert for_trl(number, task=animals, split=("validation", "test"))(prompts=["the tree"], completions=["x"]) == [4]


def test_trl_is_told_of_each_term_and_of_the_step(animals):
    def stepped(examples, texts, step, token_ids):
        return [10.0 * step + len(ids) for ids in token_ids]

    (animals.parent / "more.py").write_text("def seven(examples, texts): return [7.0 for _ in texts]\n")
    reward, logged = for_trl("rouge1 - 0.5 * more:seven", task=animals), {}
    given = reward(
        prompts=["the dog", "the cat"],
        completions=["the dog runs", "zzz"],
        completion_ids=[[1, 2], [3]],
        trainer_state=SimpleNamespace(global_step=3),
        log_extra=None,
        log_metric=logged.__setitem__,
        references=[["r"], ["s"]],
    )
    assert given == pytest.approx([1 - 3.5, -3.5])
    assert logged == pytest.approx({"reward/rouge1": 0.5, "reward/more:seven": 7.0})
    assert reward.__name__ == "rouge1-0.5*more:seven"
    told = for_trl(stepped, task=animals)
    state = SimpleNamespace(global_step=3)
    assert told(prompts=["the dog"], completions=["x"], completion_ids=[[4, 5]], trainer_state=state) == [32]
    assert told.__name__ == "stepped"


def test_trl_gets_none_where_the_reward_does_not_apply(animals):
    logged = {}
    reward = for_trl(none_for_cats, task=animals)
    prompts, texts = ["the dog", "the cat"], ["x", "y"]
    assert reward(prompts=prompts, completions=texts, log_metric=logged.__setitem__) == [1.0, None]
    assert logged == {"reward/none_for_cats": 1.0}
    sources = ["mini/imdb", "own/animals"]
    assert for_trl(number, task=animals)(prompts=prompts, completions=texts, data_source=sources) == [None, 2.0]
    logged.clear()
    alone = for_trl("rouge1", task=animals)
    assert alone(prompts=["?"], completions=["x"], data_source=["mini/imdb"], log_metric=logged.__setitem__) == [None]
    assert logged == {}


def test_texts_are_scored_as_grue_scores_them(animals):
    """A text gains nothing by characters that nobody sees, nor by white space, which evaluation takes away."""
    for text in ("dog", "  dog\n", "\u200bd\u202eog\u200b"):
        assert for_trl(words, task=animals)(prompts=["the dog"], completions=[text]) == [3]
    assert for_trl(words, task=animals)(prompts=["the dog"], completions=["a\u2028dog\x0bran\x85off"]) == [13]
    reward = for_trl("rouge1", task=animals)
    assert reward(prompts=["the dog"], completions=[[{"role": "assistant", "content": None}]]) == [0]


def test_metrics_are_prepared_on_the_training_split_whatever_is_scored(animals):
    """CIDEr weighs n-grams by how many examples have them; prepared on one example, each would weigh nothing."""
    ours = for_trl("cider", task=animals, split="validation")
    again = for_trl("cider", task=animals, split=("validation", "train"))
    columns = {"prompts": ["the house"], "completions": ["the house"]}
    assert ours(**columns) == again(**columns) and ours(**columns)[0] > 0


def test_a_file_of_rows_is_a_split(animals):
    path = animals.parent / "held-back.jsonl"
    path.write_text(json.dumps({"id": "8", "prompt": "the sea", "references": ["the sea"]}) + "\n")
    reward = for_trl("rouge1", task=animals, split=str(path))
    assert reward(prompts=["", ""], completions=["the sea", "x"], id=[8, "8"]) == [
        1,
        0,
    ]  # some readers make ids numbers


def test_what_is_refused_at_once(animals):
    with pytest.raises(UnknownName, match=r"rouge11.*Did you mean 'rouge1'"):
        for_trl("rouge11", task=animals)
    with pytest.raises(ConfigError, match="cannot be read at"):
        for_trl("rouge1 +* 3", task=animals)
    with pytest.raises(DataError, match=r"has no split 'tran'\. Did you mean 'train'"):
        for_verl(task=animals, split="tran")
    with pytest.raises(ConfigError, match="split is empty"):
        for_trl(task=animals, split=())
    with pytest.raises(UnknownName, match="commongn"):
        for_trl(task="commongn")


def test_what_trl_cannot_mean_is_one_clear_error(animals):
    reward, one = for_trl(number, task=animals, split=("train", "test")), ["x"]
    for columns, said in (
        (
            {"prompts": ["the house"]},
            "The prompt 'the house' is no example of own/animals train and test; name the split",
        ),
        ({"prompts": ["the dog"], "id": ["a3\x1b"]}, r"The id 'a3\\x1b' is no example of own/animals train and test"),
        ({"prompts": ["the ball"]}, "2 examples of own/animals train and test have the prompt 'the ball'"),
        ({"prompts": ["the dog", "the cat"]}, "1 completions for 2 prompts"),
        ({"prompts": ["the dog"], "id": ["a1", "a2"]}, "2 id for 1 prompts"),
        ({"prompts": ["the dog"], "completion_ids": []}, "0 completion_ids for 1 prompts"),
        ({"prompts": [by_model("the dog")]}, "neither a text nor a conversation with a message of the user"),
        ({"prompts": [None]}, "'None' is neither a text nor"),
    ):
        with pytest.raises(TrainingError, match=said):
            reward(completions=one, **columns)
    with pytest.raises(TrainingError, match="conversation with a message of the assistant"):
        reward(prompts=["the dog"], completions=[by_user("x")])
    assert reward(prompts=["the ball"], completions=one, id=["a6"]) == [6]  # an id tells which one
    with pytest.raises(
        TrainingError, match="The reward 'per_token' gave a number for each token .* 'a1'.*return their sum"
    ):
        for_trl(per_token, task=animals)(prompts=["the dog"], completions=one, completion_ids=[[1, 2]])

    def unless_cut(examples, texts, truncated):
        return [0.0 for _ in texts]

    with pytest.raises(ConfigError, match="asks for truncated, which is not known here"):
        for_trl(unless_cut, task=animals)(prompts=["the dog"], completions=one, completion_ids=[[1]])


@pytest.fixture
def counted(tmp_path):
    """A task of one's own with the ids 1 and 2 in every split; the example 2 is the same in train and validation."""
    for split in ("train", "validation", "test"):
        rows = [("1", "say", f"the {split}"), ("2", "say", "the cat" if split != "test" else "a dog")]
        lines = [json.dumps({"id": i, "prompt": p, "references": [r]}) for i, p, r in rows]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "counted.toml").write_text(TASK)
    return tmp_path / "counted.toml"


def test_verl_tells_ids_of_two_splits_apart_by_the_split_of_the_row(counted):
    score = for_verl("rouge1", task=counted)
    for split, text, worth in (
        ("train", "the train", 1.0),
        ("train", "the validation", 0.5),
        ("validation", "the validation", 1.0),
        ("validation", "the train", 0.5),
    ):
        assert score("own/counted", text, [], {"id": "1", "split": split})["score"] == worth
    assert score("own/counted", "the cat", [], {"id": "2"})["score"] == 1  # the same in both
    with pytest.raises(DataError, match=r"own/counted: the id '1' is in the splits train and validation .*extra_info"):
        score("own/counted", "the train", [], {"id": "1"})
    with pytest.raises(TrainingError, match=r"'1' is of the split 'test', but .* train and validation; name the split"):
        score("own/counted", "the test", [], {"id": "1", "split": "test"})


def test_ids_of_two_splits_are_refused_at_once_where_rows_do_not_say_their_split(counted, tmp_path):
    tokenizer("causal").save_pretrained(tmp_path / "tokenizer")
    said = "the id '1' is in the splits train and validation with different content.*Give every row an id"
    with pytest.raises(DataError, match=said):
        for_openrlhf("rouge1", task=counted, tokenizer=tmp_path / "tokenizer")
    with pytest.raises(DataError, match=said):
        for_trl("rouge1", task=counted, split=("train", "validation"))
    reward = for_openrlhf("rouge1", task=counted, tokenizer=tmp_path / "tokenizer", split="train")
    assert reward(["say the<eos>"], ["say"], ["2"])["rewards"].tolist() == [pytest.approx(2 / 3)]


def test_verl_scores_one_response(animals):
    score = for_verl("rouge1", task=animals)
    for identity, text, worth in (("a1", "the dog runs", 1.0), ("a3", "nothing", 0.0)):
        found = score("own/animals", text, ["unused"], {"id": identity, "index": 0, "num_turns": None})
        assert found == {"score": worth, "reward/rouge1": worth}
    assert (
        score(data_source="own/animals", solution_str="x", ground_truth=[], extra_info={"id": "a1"}, more=1)["score"]
        == 0
    )
    for source, extra, said in (
        ("mini/imdb", {"id": "a1"}, "data_source is 'mini/imdb', but this reward is of own/animals"),
        ("own/animals", None, "extra_info has no id .* --format verl"),
        ("own/animals", {"id": "b1"}, "The id 'b1' is no example of own/animals train and validation"),
    ):
        with pytest.raises(TrainingError, match=said):
            score(source, "x", [], extra)
    with pytest.raises(ConfigError, match="asks for token_ids, which is not known here"):
        for_verl(per_token, task=animals)("own/animals", "x", [], {"id": "a1"})
    with pytest.raises(TrainingError, match="gave 1 values for the example 'a1', whose tokens are not known"):
        for_verl(lambda examples, texts: [[1.0]], task=animals)("own/animals", "x", [], {"id": "a1"})
    with pytest.raises(TrainingError, match="does not apply to the example 'a2', but verl wants a number"):
        for_verl(none_for_cats, task=animals)("own/animals", "x", [], {"id": "a2"})


def test_a_term_that_does_not_apply_is_nan_where_a_number_is_wanted(animals):
    (animals.parent / "cats.py").write_text(
        "def dogs(examples, texts): return [1.0 if 'dog' in example.prompt else None for example in examples]\n"
    )
    found = for_verl("rouge1 + cats:dogs", task=animals)("own/animals", "the cat sees", [], {"id": "a2"})
    assert found["score"] == found["reward/rouge1"] == 1 and math.isnan(found["reward/cats:dogs"])


def test_threads_score_one_after_the_other(animals):
    """verl and OpenRLHF call from pools of threads; metrics are written for one."""
    inside, most, found = [], [], {}

    def slow(examples, texts):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()
        return number(examples, texts)

    score = for_verl(slow, task=animals)

    def ask(identity):
        found[identity] = score("own/animals", "x", [], {"id": identity})["score"]

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("a1", "a2", "a3", "a7")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a1": 1, "a2": 2, "a3": 3, "a7": 7} and max(most) == 1


def test_openrlhf_reads_the_response_out_of_the_query(animals, tmp_path):
    tokenizer("causal").save_pretrained(tmp_path / "tokenizer")
    reward = for_openrlhf("rouge1", task=animals, tokenizer=tmp_path / "tokenizer")
    queries = ["the dog the dog runs<eos>", "the house near<eos><pad><pad>"]
    given = reward(queries, ["the dog", "the house"], ["a1", "a3"])
    assert (
        given["rewards"].tolist() == given["scores"].tolist() == given["extra_logs"]["reward/rouge1"].tolist() == [1, 0]
    )
    assert reward(queries[:1], ["the dog"], [""])["rewards"].tolist() == [1]  # without labels, by prompts
    assert reward([], [], [])["rewards"].tolist() == []
    with pytest.raises(TrainingError, match="2 queries, 1 prompts and 1 labels"):
        reward(queries, ["the dog"], ["a1"])
    with pytest.raises(
        TrainingError, match="'dog the dog runs' does not begin with its prompt 'the dog': .*--data.max_len"
    ):
        reward(["dog the dog runs"], ["the dog"], ["a1"])
    with pytest.raises(TrainingError, match="The id 'dog' is no example"):
        reward(queries[:1], ["the dog"], ["dog"])
    with pytest.raises(TrainingError, match="does not apply to the example 'a2', but OpenRLHF"):
        for_openrlhf(none_for_cats, task=animals, tokenizer=tmp_path / "tokenizer")(["the cat x"], ["the cat"], ["a2"])


def test_openrlhf_asks_the_reward_about_a_batch_at_once(animals, tmp_path):
    """A reward of a model scores a batch in one pass; a term that does not apply to one text is NaN for it."""
    asked = []

    def counted(examples, texts):
        asked.append(len(texts))
        return number(examples, texts)

    tokenizer("causal").save_pretrained(tmp_path / "tokenizer")
    queries = ["the dog x<eos>", "the cat y<eos>", "the bird z<eos>"]
    prompts, labels = ["the dog", "the cat", "the bird"], ["a1", "a2", "a7"]
    given = for_openrlhf(counted, task=animals, tokenizer=tmp_path / "tokenizer")(queries, prompts, labels)
    assert given["rewards"].tolist() == given["extra_logs"]["reward/counted"].tolist() == [1, 2, 7] and asked == [3]
    (animals.parent / "felines.py").write_text(
        "def cats(examples, texts): return [2.0 if 'cat' in example.prompt else None for example in examples]\n"
    )
    summed = for_openrlhf("rouge1 + felines:cats", task=animals, tokenizer=tmp_path / "tokenizer")
    logs = summed(queries, prompts, labels)["extra_logs"]["reward/felines:cats"].tolist()
    assert logs[1] == 2 and math.isnan(logs[0]) and math.isnan(logs[2])


def test_a_query_begins_with_its_prompt_as_decoding_spells_it():
    words_alone = tokenizer("causal")  # decodes two blanks as one
    assert response_of("the dog runs<eos>", "the   dog", words_alone) == "runs"
    assert response_of("the   dog runs<eos>", "the   dog", words_alone) == "runs"
    assert response_of("the dog<eos>", "the dog", words_alone) == ""


def test_a_taskset_of_verifiers(animals, monkeypatch):
    """Against a double with what is used of verifiers 0.4.0; tests/docs/test_other_trainers.py uses the real one."""

    class Base:
        def __class_getitem__(cls, of):
            return cls

    class TaskBase(Base):
        def __init__(self, data, config):
            self.data, self.config = data, config

    class TasksetBase(Base):
        def __init__(self, config):
            self.config = config

    double = ModuleType("verifiers.v1")
    double.Task, double.Taskset, double.TaskData, double.TasksetConfig = TaskBase, TasksetBase, SimpleNamespace, Base
    double.reward = lambda function: function
    monkeypatch.setitem(sys.modules, "verifiers", ModuleType("verifiers"))
    monkeypatch.setitem(sys.modules, "verifiers.v1", double)
    taskset = for_verifiers("rouge1", task=animals)(SimpleNamespace(task="settings"))
    tasks = [*taskset.load()]
    assert [(one.data.id, one.data.prompt, one.config) for one in tasks] == [
        (identity, prompt, "settings") for identity, prompt, _ in ROWS["train"]
    ]
    metrics = {}
    trace = SimpleNamespace(last_reply="the cat sees", record_metrics=metrics.update)
    assert asyncio.run(tasks[1].reward(trace)) == 1 and metrics == {"reward/rouge1": 1}
    assert asyncio.run(tasks[0].reward(SimpleNamespace(last_reply="x", record_metrics=metrics.update))) == 0


def test_a_taskset_needs_verifiers(animals, monkeypatch):
    monkeypatch.setitem(sys.modules, "verifiers", None)
    with pytest.raises(Unavailable, match="pip install verifiers"):
        for_verifiers(task=animals)


def test_the_package_hands_the_module_out():
    assert grue.rewards.for_trl is for_trl
