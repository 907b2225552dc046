"""Rewards for TRL, verl, OpenRLHF and verifiers: called as their code calls them, with the signatures read there."""

import asyncio
import json
import math
import os
import pickle
import signal
import sys
import threading
from functools import partial
from types import ModuleType, SimpleNamespace

import pytest
from support.late import late

from grue.errors import ConfigError, DataError, TrainingError, Unavailable, UnknownName

tiny, rewards, queries = late("support.tiny"), late("grue.rewards"), late("grue.interop.queries")
scorer = late("grue.interop.scorer")
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
"""Split → id, prompt and reference."""
COUNTED = {
    split: [("1", "say", f"the {split}"), ("2", "say", "the cat" if split != "test" else "a dog")]
    for split in ("train", "validation", "test")
}
"""The ids 1 and 2 in every split; the example 2 is the same in train and validation."""


def task(folder, name, rows):
    """Write a task of one's own; return the path of its file."""
    for split, examples in rows.items():
        lines = [json.dumps({"id": i, "prompt": p, "references": [r]}) for i, p, r in examples]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / f"{name}.toml").write_text(TASK)
    return folder / f"{name}.toml"


@pytest.fixture
def animals(tmp_path):
    return task(tmp_path, "animals", ROWS)


@pytest.fixture
def counted(tmp_path):
    return task(tmp_path, "counted", COUNTED)


@pytest.fixture
def tokenizer(tmp_path):
    """The folder of a tokenizer."""
    tiny.tokenizer("causal").save_pretrained(tmp_path / "tokenizer")
    return tmp_path / "tokenizer"


def number(examples, texts):
    """The number in the example's id, so that a test sees which example was found."""
    return [float(example.id[1:]) for example in examples]


def words(examples, texts):
    return [float(len(text)) for text in texts]


def none_for_cats(examples, texts):
    return [None if "cat" in example.prompt else 1.0 for example in examples]


def per_token(examples, texts, token_ids):
    return [[1.0] * len(ids) for ids in token_ids]


def by_user(text):
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]


def by_model(text):
    return [{"role": "assistant", "content": text}]


# --- TRL -------------------------------------------------------------------------------------------------------------


def test_trl_finds_examples_by_ids_else_by_prompts(animals):
    reward, texts = rewards.for_trl(number, task=animals), ["x", "y", "z"]
    prompts = ["the cat", "the dog", "the bird"]
    assert reward(prompts=prompts, completions=texts) == [2, 1, 7]
    assert reward(prompts=["anything"] * 3, completions=texts, id=["a7", "a1", "a2"]) == [7, 1, 2]
    assert reward(prompts=prompts, completions=texts, id=["a1", None, None]) == [1, 1, 7]
    parts = [{"type": "text", "text": "the "}, {"type": "text", "text": "bird"}]
    talks = [by_user("the cat"), by_user("the dog"), [{"role": "user", "content": parts}]]
    assert reward(prompts=talks, completions=[by_model(text) for text in texts]) == [2, 1, 7]
    of_two = rewards.for_trl(number, task=animals, split=("validation", "test"))
    assert of_two(prompts=["the tree"], completions=["x"]) == [4]
    path = animals.parent / "held-back.jsonl"
    path.write_text(json.dumps({"id": "8", "prompt": "the sea", "references": ["the sea"]}) + "\n")
    of_a_file = rewards.for_trl("rouge1", task=animals, split=str(path))
    assert of_a_file(prompts=["", ""], completions=["the sea", "x"], id=[8, "8"]) == [1, 0]  # some make ids numbers


def test_prompts_are_those_that_policies_learn_from(tmp_path, tokenizer):
    path = task(tmp_path, "earned", {**ROWS, "rl": [("a8", "the sea", "the sea")]})
    path.write_text(path.read_text().replace("files = {", 'files = { rl = "rl.jsonl",'))
    assert rewards.for_trl(number, task=path)(prompts=["the sea"], completions=["x"]) == [8]
    verl = rewards.for_verl(number, task=path)
    assert [verl("own/earned", "x", [], {"id": name})["score"] for name in ("a8", "a3")] == [8, 3]
    openrlhf = rewards.for_openrlhf(number, task=path, tokenizer=tokenizer)
    prompts = ["the sea", "the house"]
    assert openrlhf([f"{prompt} x<eos>" for prompt in prompts], prompts, ["a8", ""])["rewards"].tolist() == [8, 3]
    with pytest.raises(TrainingError, match="no example of own/earned rl and validation"):
        verl("own/earned", "x", [], {"id": "a1"})


def test_trl_is_told_of_each_term_and_of_the_step(animals):
    def stepped(examples, texts, step, token_ids):
        return [10.0 * step + len(ids) for ids in token_ids]

    (animals.parent / "more.py").write_text("def seven(examples, texts): return [7.0 for _ in texts]\n")
    reward, logged = rewards.for_trl("rouge1 - 0.5 * more:seven", task=animals), {}
    state = SimpleNamespace(global_step=3)
    given = {"prompts": ["the dog", "the cat"], "completions": ["the dog runs", "zzz"], "completion_ids": [[1, 2], [3]]}
    more = {"log_extra": None, "log_metric": logged.__setitem__, "references": [["r"], ["s"]]}
    assert reward(**given, trainer_state=state, **more) == pytest.approx([1 - 3.5, -3.5])
    assert logged == pytest.approx({"reward/rouge1": 0.5, "reward/more:seven": 7.0})
    told = rewards.for_trl(stepped, task=animals)
    assert told(**given, trainer_state=state) == [32, 31]
    assert (reward.__name__, told.__name__) == ("rouge1-0.5*more:seven", "stepped")
    assert not isinstance(reward, partial), "TRL would log the name of the function in it"


def test_trl_gets_none_where_the_reward_does_not_apply(animals):
    logged = {}
    given = {"prompts": ["the dog", "the cat"], "completions": ["x", "y"]}
    reward = rewards.for_trl(none_for_cats, task=animals)
    assert reward(**given, log_metric=logged.__setitem__) == [1.0, None]
    assert logged == {"reward/none_for_cats": 1.0}
    sources = ["mini/imdb", "own/animals"]
    assert rewards.for_trl(number, task=animals)(**given, data_source=sources) == [None, 2.0]
    logged.clear()
    alone = rewards.for_trl("rouge1", task=animals)
    assert alone(prompts=["?"], completions=["x"], data_source=sources[:1], log_metric=logged.__setitem__) == [None]
    assert logged == {}


def test_texts_are_scored_as_grue_scores_them(animals):
    """A text gains nothing by characters that nobody sees, nor by white space, which evaluation takes away."""
    lengths = {"dog": 3, "  dog\n": 3, "\u200bd\u202eog\u200b": 3, "a\u2028dog\x0bran\x85off": 13}
    reward = rewards.for_trl(words, task=animals)
    assert reward(prompts=["the dog"] * 4, completions=[*lengths]) == [*lengths.values()]
    empty = [{"role": "assistant", "content": None}]
    assert rewards.for_trl("rouge1", task=animals)(prompts=["the dog"], completions=[empty]) == [0]


def test_metrics_are_prepared_on_the_training_split_whatever_is_scored(animals):
    """CIDEr weighs n-grams by how many examples have them; prepared on one example, each would weigh nothing."""
    given = {"prompts": ["the house"], "completions": ["the house"]}
    ours, again = (
        rewards.for_trl("cider", task=animals, split=s)(**given) for s in ("validation", ("validation", "train"))
    )
    assert ours == again and ours[0] > 0


def test_what_is_refused_at_once(animals, refused):
    with pytest.raises(UnknownName, match=r"rouge11.*Did you mean 'rouge1'"):
        rewards.for_trl("rouge11", task=animals)
    for error, make in (
        (ConfigError, lambda: rewards.for_trl("rouge1 +* 3", task=animals)),
        (DataError, lambda: rewards.for_verl(task=animals, split="tran")),
        (ConfigError, lambda: rewards.for_trl(task=animals, split=())),
        (UnknownName, lambda: rewards.for_trl(task="commongn")),
    ):
        with refused(error):
            make()


def test_what_trl_cannot_mean_is_one_clear_error(animals, refused):
    def unless_cut(examples, texts, truncated):
        return [0.0 for _ in texts]

    reward, one = rewards.for_trl(number, task=animals, split=("train", "test")), ["x"]
    for given in (
        *({"prompts": [prompt]} for prompt in ("the house", "the ball", by_model("the dog"), None)),
        *({"prompts": ["the dog"], "id": ids} for ids in (["a3\x1b"], ["a1", "a2"])),
        {"prompts": ["the dog", "the cat"]},
        {"prompts": ["the dog"], "completion_ids": []},
        {"prompts": ["the dog"], "completions": [by_user("x")]},
    ):
        with refused(TrainingError):
            reward(**{"completions": one, **given})
    assert reward(prompts=["the ball"], completions=one, id=["a6"]) == [6]  # an id tells which one
    for error, function, told in (
        (TrainingError, per_token, "return their sum"),
        (ConfigError, unless_cut, "truncated"),
    ):
        with pytest.raises(error, match=told):
            rewards.for_trl(function, task=animals)(prompts=["the dog"], completions=one, completion_ids=[[1, 2]])


def test_trl_scores_against_the_references_of_the_rows_without_a_task(refused):
    reward, logged = rewards.for_trl("rouge1 - 0.5*meteor"), {}
    given = {"prompts": ["say", by_user("say"), "say"], "completions": ["a cat", by_model("a cat"), "\u200ba cat "]}
    rows = ["a cat", ["a dog", "a cat"], ("x",)]
    values = reward(**given, references=rows, data_source=["theirs"] * 3, log_metric=logged.__setitem__)
    copy = values[0]
    assert values == [copy, copy, 0] and 0.5 < copy < 0.6
    assert logged["reward/rouge1"] == pytest.approx(2 / 3) and reward.__name__ == "rouge1-0.5*meteor"
    for references in (None, ["a"], ["a", [], "b"], ["a", [1], "b"], ["a", None, "b"]):
        with refused(TrainingError):
            reward(**given, **({} if references is None else {"references": references}))


def test_no_value_of_a_metric_without_a_task_depends_on_other_examples(animals):
    """As it does with a task, whose references count whatever the data set's column says."""
    given = {"prompts": ["the dog", "the cat"], "completions": ["the dog", "the cat sat down"]}
    known = [row[2] for row in ROWS["train"]][:2]
    assert {"meteor", "rougeL", "chrf", "spice_lite"} < {*scorer.OF_REFERENCES}
    for name in scorer.OF_REFERENCES:
        of_task = rewards.for_trl(name, task=animals)
        assert rewards.for_trl(name)(**given, references=known) == of_task(**given, references=["x", "y"])


def test_what_needs_a_task_is_refused_without_one(refused):
    others = ("cider", "facts", "bertscore", "sentiment", "os:getcwd", "rougeL1")
    for reward in (None, words, *(f"meteor + {name}" for name in others)):
        with refused(ConfigError):
            rewards.for_trl(reward)
    with refused(ConfigError):
        rewards.for_trl("meteor", split="test")


def test_functions_are_pickled_by_what_made_them(animals, tokenizer, tmp_path, monkeypatch):
    """What multiprocessing, Ray and accelerate's launchers do with them."""
    monkeypatch.chdir(animals.parent)
    rows = {"prompts": ["the dog", "the cat"], "completions": ["the dog", "x"], "references": ["the dog", "a cat"]}
    with_task = {**rows, "id": ["a1", "a2"]}
    queries_ = (["the dog the dog runs<eos>"], ["the dog"], ["a1"])
    for made, call in (
        (rewards.for_trl("2*rouge1 + rougeL", task="animals.toml"), lambda each: (each(**with_task), each.__name__)),
        (rewards.for_trl(number, task="animals.toml"), lambda each: (each(**with_task), each.__name__)),
        (rewards.for_trl("rougeL"), lambda each: (each(**rows), each.__name__)),
        (rewards.for_verl(task="animals.toml"), lambda each: each("own/animals", "the dog", [], {"id": "a1"})),
        (
            rewards.for_openrlhf(task="animals.toml", tokenizer=tokenizer),
            lambda each: each(*queries_)["rewards"].tolist(),
        ),
    ):
        pickled = pickle.dumps(made)
        monkeypatch.chdir(tmp_path.parent)
        assert call(pickle.loads(pickled)) == call(made)
        monkeypatch.chdir(animals.parent)


# --- verl ------------------------------------------------------------------------------------------------------------


def test_verl_scores_one_response(animals, refused):
    score = rewards.for_verl("rouge1", task=animals)
    for identity, text, worth in (("a1", "the dog runs", 1.0), ("a3", "nothing", 0.0)):
        found = score("own/animals", text, ["unused"], {"id": identity, "index": 0, "num_turns": None})
        assert found == {"score": worth, "reward/rouge1": worth}
    named = {"data_source": "own/animals", "solution_str": "x", "ground_truth": [], "extra_info": {"id": "a1"}}
    assert score(**named, more=1)["score"] == 0
    for source, extra in (("mini/imdb", {"id": "a1"}), ("own/animals", None), ("own/animals", {"id": "b1"})):
        with refused(TrainingError):
            score(source, "x", [], extra)

    def one_value(examples, texts):
        return [[1.0]]

    for error, function, identity in (
        (ConfigError, per_token, "a1"),
        (TrainingError, one_value, "a1"),
        (TrainingError, none_for_cats, "a2"),
    ):
        told = {per_token: "asks for token_ids", one_value: "whose tokens are not known", none_for_cats: "verl wants"}
        with pytest.raises(error, match=told[function]):
            rewards.for_verl(function, task=animals)("own/animals", "x", [], {"id": identity})
    cats = "def dogs(examples, texts): return [1.0 if 'dog' in example.prompt else None for example in examples]\n"
    (animals.parent / "cats.py").write_text(cats)
    found = rewards.for_verl("rouge1 + cats:dogs", task=animals)("own/animals", "the cat sees", [], {"id": "a2"})
    assert found["score"] == found["reward/rouge1"] == 1 and math.isnan(found["reward/cats:dogs"])


def test_verl_tells_ids_of_two_splits_apart_by_the_split_of_the_row(counted, refused):
    score = rewards.for_verl("rouge1", task=counted)
    for split, other in (("train", "validation"), ("validation", "train")):
        for text, worth in ((f"the {split}", 1.0), (f"the {other}", 0.5)):
            assert score("own/counted", text, [], {"id": "1", "split": split})["score"] == worth
    assert score("own/counted", "the cat", [], {"id": "2"})["score"] == 1  # the same in both
    for error, extra in ((DataError, {"id": "1"}), (TrainingError, {"id": "1", "split": "test"})):
        with refused(error):
            score("own/counted", "the train", [], extra)


def test_threads_score_one_after_the_other(animals):
    """verl and OpenRLHF call from pools of threads; metrics are written for one."""
    inside, most, found, pause = [], [], {}, threading.Event()

    def slow(examples, texts):
        inside.append(1)
        most.append(len(inside))
        pause.wait(0.01)
        inside.pop()
        return number(examples, texts)

    def ask(identity):
        found[identity] = score("own/animals", "x", [], {"id": identity})["score"]

    score = rewards.for_verl(slow, task=animals)
    threads = [threading.Thread(target=ask, args=(name,)) for name in ("a1", "a2", "a3", "a7")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a1": 1, "a2": 2, "a3": 3, "a7": 7} and max(most) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_is_forked_while_a_thread_scores_scores_too(animals):
    parent, began, end = os.getpid(), threading.Event(), threading.Event()

    def slow(examples, texts):
        if os.getpid() == parent:
            began.set()
            end.wait(60)
        return number(examples, texts)

    ask = partial(rewards.for_verl(slow, task=animals), "own/animals", "x", [], {"id": "a1"})
    thread = threading.Thread(target=ask)
    thread.start()
    began.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(10)
        os._exit(0 if ask()["score"] == 1 else 1)
    code = os.waitpid(child, 0)[1]
    end.set()
    thread.join()
    assert code == 0


# --- OpenRLHF --------------------------------------------------------------------------------------------------------


def test_openrlhf_reads_the_response_out_of_the_query(animals, tokenizer, refused):
    reward = rewards.for_openrlhf("rouge1", task=animals, tokenizer=tokenizer)
    query = "the dog the dog runs<eos>"
    given = reward([query, "the house near<eos><pad><pad>"], ["the dog", "the house"], ["a1", "a3"])
    for found in (given["rewards"], given["scores"], given["extra_logs"]["reward/rouge1"]):
        assert found.tolist() == [1, 0]
    assert reward([query], ["the dog"], [""])["rewards"].tolist() == [1]  # without labels, by prompts
    assert reward([], [], [])["rewards"].tolist() == []
    for queries_, labels in (([query, query], ["a1"]), (["dog the dog runs"], ["a1"]), ([query], ["dog"])):
        with refused(TrainingError):
            reward(queries_, ["the dog"], labels)
    with refused(TrainingError):
        rewards.for_openrlhf(none_for_cats, task=animals, tokenizer=tokenizer)(["the cat x"], ["the cat"], ["a2"])


def test_ids_of_two_splits_are_refused_at_once_where_rows_do_not_say_their_split(counted, tokenizer, refused):
    with refused(DataError):
        rewards.for_openrlhf("rouge1", task=counted, tokenizer=tokenizer)
    with refused(DataError):
        rewards.for_trl("rouge1", task=counted, split=("train", "validation"))
    reward = rewards.for_openrlhf("rouge1", task=counted, tokenizer=tokenizer, split="train")
    assert reward(["say the<eos>"], ["say"], ["2"])["rewards"].tolist() == [pytest.approx(2 / 3)]


def test_openrlhf_asks_the_reward_about_a_batch_at_once(animals, tokenizer):
    """A reward of a model scores a batch in one pass; a term that does not apply to one text is NaN for it."""
    sizes = []

    def sized(examples, texts):
        sizes.append(len(texts))
        return number(examples, texts)

    prompts = ["the dog", "the cat", "the bird"]
    batch = [f"{prompt} x<eos>" for prompt in prompts], prompts, ["a1", "a2", "a7"]
    given = rewards.for_openrlhf(sized, task=animals, tokenizer=tokenizer)(*batch)
    assert given["rewards"].tolist() == given["extra_logs"]["reward/sized"].tolist() == [1, 2, 7] and sizes == [3]
    cats = "def cats(examples, texts): return [2.0 if 'cat' in example.prompt else None for example in examples]\n"
    (animals.parent / "felines.py").write_text(cats)
    summed = rewards.for_openrlhf("rouge1 + felines:cats", task=animals, tokenizer=tokenizer)
    logs = summed(*batch)["extra_logs"]["reward/felines:cats"].tolist()
    assert logs[1] == 2 and math.isnan(logs[0]) and math.isnan(logs[2])


def test_a_query_begins_with_its_prompt_as_decoding_spells_it():
    words_alone = tiny.tokenizer("causal")  # decodes two blanks as one
    for query, prompt, said in (
        ("the dog runs<eos>", "the   dog", "runs"),
        ("the   dog runs<eos>", "the   dog", "runs"),
        ("the dog<eos>", "the dog", ""),
    ):
        assert queries.response_of(query, prompt, words_alone) == said


# --- verifiers -------------------------------------------------------------------------------------------------------


def test_a_taskset_of_verifiers(animals, monkeypatch):
    """Against a double with what is used of verifiers 0.4.0; tests/walkthroughs uses the real one."""

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
    made = rewards.for_verifiers("rouge1", task=animals)
    held = [*made(SimpleNamespace(task="settings", split="validation")).load()]
    tasks = [*made(SimpleNamespace(task="settings", split=None)).load()]
    for split, loaded in (("train", tasks), ("validation", held)):
        assert [(one.data.id, one.data.prompt, one.data.split, one.config) for one in loaded] == [
            (identity, prompt, split, "settings") for identity, prompt, _ in ROWS[split]
        ]
    with pytest.raises(ConfigError, match="The split 'dev' is not one of train and validation"):
        next(made(SimpleNamespace(task="settings", split="dev")).load())
    metrics = {}
    for one, reply, worth in ((tasks[1], "the cat sees", 1), (tasks[0], "x", 0)):
        trace = SimpleNamespace(last_reply=reply, record_metrics=metrics.update)
        assert asyncio.run(one.reward(trace)) == worth and metrics == {"reward/rouge1": worth}


@pytest.mark.parametrize("package", ["verifiers", "openenv"])
def test_a_package_that_is_not_installed_is_named(animals, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.v1", None)
    with pytest.raises(Unavailable, match=f"pip install {package}"):
        getattr(rewards, f"for_{package}")(task=animals)


def test_an_environment_of_openenv(animals, monkeypatch):
    """Against a double with what is used of openenv 0.10; environments/ has the real one."""

    class Record(SimpleNamespace):
        step_count = 0

    double = ModuleType("openenv.core.env_server")
    double.Action = double.Observation = double.State = Record
    double.Environment = type("Environment", (), {})
    double.create_app = lambda environment, action, observation, **more: (environment, action, more["env_name"])
    for name in ("openenv", "openenv.core"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "openenv.core.env_server", double)
    make, action, name = rewards.for_openenv("rouge1", task=animals)
    assert name.endswith("animals")
    environment = make()
    assert environment.list_splits() == ["train", "validation"]
    assert environment.num_tasks("validation") == len(ROWS["validation"])
    identity, prompt, reference = ROWS["validation"][0]
    assert environment.get_task("validation", 0) == {"id": identity, "index": 0, "prompt": prompt}
    for reply, worth in ((reference, 1), ("x", 0)):
        with pytest.raises(TrainingError, match=r"call reset\(\)"):
            environment.step(action(text=reply))
        asked = environment.reset(split="validation", index=0)
        assert (asked.id, asked.split, asked.prompt) == (identity, "validation", prompt)
        done = environment.step(action(text=reply))
        assert (done.done, done.reward, done.terms) == (True, worth, {"reward/rouge1": worth})
    drawn = [environment.reset(seed=seed).id for seed in (1, 1)]
    assert drawn[0] == drawn[1] in {row[0] for row in ROWS["train"]}
    for split, index, refused in (("dev", 0, "not one of train and validation"), ("train", 99, "has the prompts 0 to")):
        with pytest.raises(ConfigError, match=refused):
            environment.reset(split=split, index=index)
