"""Task files: the shipped ones load, mistakes are named, and the hash is a task's identity."""

import hashlib
import re
import tomllib

import pytest
from support.factories import a_task

from grue import files
from grue.errors import ConfigError, UnknownName
from grue.task_files import SUITES, load_task, suite_folder, task_folder, task_names
from grue.tasks import Chat, Generation, MetricSpec, Prompt, Shot, Source, Split, Task

SHIPPED = [(suite, path.stem) for suite in SUITES for path in sorted((task_folder() / suite).glob("*.toml"))]
GONE = "(gone)"


def merged(table, change):
    """Return a table, or a list by its places, with a change; what is GONE is removed, and None stands in no file."""
    for key, value in change.items():
        place = int(key) if isinstance(table, list) else key
        if value == GONE:
            del table[place]
        elif isinstance(value, dict) and not isinstance(table, list) and place not in table:
            table[place] = value
        else:
            table[place] = merged(table[place], value) if isinstance(value, dict) else value
    return table


@pytest.fixture
def changed(tmp_path):
    """Write mini/imdb.toml with a change, given as lines of TOML, in a suite of a temporary folder."""

    def call(change=""):
        table = tomllib.loads((task_folder() / "mini/imdb.toml").read_text(encoding="utf-8"))
        files.write_toml(tmp_path / "mini/imdb.toml", merged(table, tomllib.loads(change)))
        return tmp_path / "mini/imdb.toml"

    return call


def test_every_shipped_task_loads_and_survives_its_own_file(tmp_path):
    assert {"commongen", "imdb"} <= set(task_names("mini"))
    for suite, name in SHIPPED:
        task = load_task(name, suite)
        assert (task.name, task.suite) == (name, suite)
        assert {spec.axis for spec in task.metrics} & {"preference"}
        assert re.fullmatch(r"[0-9a-f]{64}", task.hash)
        files.write_toml(tmp_path / "task.toml", task)
        assert files.load_toml(tmp_path / "task.toml", Task) == task


def test_your_own_task_file_loads_by_path(changed):
    path = changed()
    assert load_task(str(path)) == load_task("imdb") == load_task("imdb", str(path.parent))


MISTAKES = """
tittle = "x"
data.licens = "x"
reward = "(gone)"
version = 0
data.splits."../x".source = "test"
data.splits.test = {begin = -0.5, end = 1.0}
data.splits.test = {begin = 90.0, end = 100.0}
data.splits.test = {begin = 0.5, end = 0.5}
data.splits.test.source = "train"
data.splits = {train = {end = 0.9}, rl = {source = "train", begin = 0.9}, test = {source = "train", begin = 0.95}}
prompt.truncation = "lft"
prompt.max_tokens = "8"
data.sources.0.kind = "hb"
metrics.0.range = [0.0, inf]
data.splits.train.without = ["train"]
data.splits = {train = {without = ["test"]}, test = {without = ["train"]}}
data.evaluation = "tset"
data.sources = []
metrics.1.name = "asked_sentiment"
metrics.0.range = "(gone)"
metrics.0.reference = 1.0
metrics.0.axis = "diversity"
metrics.0.range = [1.0, 1.0]
metrics.1.reference = 0.0
prompt.max_tokens = 0
rollout.max_new_tokens = -12
rollout.min_new_tokens = -1
rollout.temperature = -1.0
rollout.top_k = -1
rollout.top_p = 5.0
decoding.num_beams = 0
rollout.min_new_tokens = 60
rollout = {do_sample = false, num_beams = 4}
rollout.stop = [".", ""]
rollout.samples = 4
decoding.samples = 0
search = {max_new_tokens = 48, samples = 4}
search = {max_new_tokens = 48, do_sample = true}
search = {max_new_tokens = 0}
rollout.num_beams = 4
decoding = {do_sample = true, num_beams = 4}
prompt.chat.user = "Go on: {prompt} {title}"
prompt.chat.user = "{prompt.__class__}"
prompt.chat.user = "{prompt!r:>9}"
prompt.chat.user = " "
prompt.chat.user = "Go on."
prompt.chat.user = "{prompt"
prompt.chat.users = "{prompt}"
prompt.chat.version = 0
prompt.chat.lines = -1
prompt.chat.shots = 33
data.evaluation = "train"
prompt.chat.examples = [{prompt = "a", answer = " "}]
prompt.chat = {marker = "A:", pattern = "A"}
prompt.chat.pattern = "(a"
novelty = 1; schema = 2
name = "../imdb"
name = "imbd"
suite = "grue"
"""


@pytest.mark.parametrize("mistake", MISTAKES.strip().splitlines())
def test_a_mistake_in_a_task_file_is_named(changed, refused, mistake):
    path = changed(mistake.replace("; ", "\n"))
    with refused(ConfigError) as caught:
        load_task("imdb", str(path.parent))
    assert str(caught.value).startswith(f"{path}: ")


def test_unknown_names_are_named_with_the_nearest_and_lead_out_of_no_suite(tmp_path, refused):
    (tmp_path / "empty").mkdir()
    for call, *names in (
        (load_task, "imbd"),
        (suite_folder, "mni"),
        (load_task, "acne/words"),
        (load_task, "mini/imbd"),
        (load_task, "../mini/imdb", str(tmp_path / "empty")),
    ):
        with refused(UnknownName):
            call(*names)


HARMLESS = """
title = "x"; description = "y"; changelog = ["z"]
data.licence = "MIT"; data.citation = "Us, 2024"
recipes.ppo.learning_rate = 1.0
metrics.0.range = [0, 1]
decoding = {num_beams = 1, temperature = 1.0}
prompt.chat = "(gone)"
prompt.chat.system = "Be rude."
"""
OTHER = """
version = 99
data.evaluation = "validation"
data.sources.0.revision = "1"
data.splits.test.examples = 7
data.splits.test.ids_sha256 = "0"
prompt.max_tokens = 7
decoding.top_k = 7
rollout.top_k = 7
backbone.model = "mini:other"
reward = "other"
metrics.1 = "(gone)"
metrics.0.range = [0.0, 2.0]
metrics.0.options.label = 0
metrics.1.reference = 7.0
"""


def test_what_cannot_change_a_score_leaves_the_hash_and_all_else_changes_it(changed, tmp_path):
    usual = load_task("imdb")
    for lines, stays in ((HARMLESS, True), (OTHER, False)):
        for change in lines.strip().splitlines():
            assert (load_task(str(changed(change.replace("; ", "\n")))).hash == usual.hash) is stays, change
    table = tomllib.loads(changed().read_text(encoding="utf-8"))
    table["data"]["splits"] = dict(reversed(table["data"]["splits"].items()))
    files.write_toml(changed(), dict(sorted(table.items(), reverse=True)))
    assert load_task(str(tmp_path / "mini/imdb.toml")).hash == usual.hash
    files.write_toml(tmp_path / "mini/imdb.toml", table | {"metrics": table["metrics"][::-1]})
    assert load_task(str(tmp_path / "mini/imdb.toml")).hash != usual.hash


def test_a_new_key_or_another_default_would_be_seen():
    """A default that changes would give old results a new meaning under their old hash."""
    identity = (
        '{"backbone":{"family":"causal","model":"mini:causal"},'
        '"data":{"evaluation":"test","format":"imdb","language":"en",'
        '"sources":[{"kind":"mini","name":"imdb","revision":"2"}],'
        '"splits":{"test":{"source":"test"},"train":{"source":"train"}}},'
        '"decoding":{"max_new_tokens":8},'
        '"metrics":[{"axis":"preference","name":"liked","range":[0.0,1.0]},'
        '{"axis":"naturalness","name":"fluent","reference":20.0}],'
        '"name":"stories","prompt":{"max_tokens":8,"truncation":"left"},"reward":"liked",'
        '"rollout":{"max_new_tokens":8},"schema":1,"suite":"mini","version":1}'
    )
    task = a_task()
    assert task.hash == hashlib.sha256(identity.encode()).hexdigest()
    assert task.decoding == Generation(8, 0, False, 1.0, 0, 1.0, 1, 1.0)
    assert task.data.splits["test"] == Split("test", 0, 0, "", 0.0, 1.0)
    assert task.data.sources[0] == Source("mini", "imdb", "", "2", {}, ())
    assert task.metrics[0] == MetricSpec("liked", "preference", (0.0, 1.0), None, {})


def test_a_chat_prompt_has_a_hash_of_its_own(changed):
    identity = '{"examples":[{"answer":"b","prompt":"a"}],"user":"{prompt}","version":1}'
    chat = Chat(1, "{prompt}", examples=(Shot("a", "b"),))
    asked = a_task(prompt=Prompt(8, "left", chat))
    assert asked.chat_hash == hashlib.sha256(identity.encode()).hexdigest()
    assert (asked.hash, a_task().chat_hash) == (a_task().hash, "")
    assert chat == Chat(1, "{prompt}", "", chat.examples, 0, 0, "", "", 0)
    changes = ("version = 3", 'user = "{prompt}!"', 'system = ""', "shots = 1", "seed = 2", "lines = 1", 'marker = "x"')
    found = {load_task(str(changed(f"prompt.chat.{change}"))).chat_hash for change in changes}
    assert len(found) == len(changes) and not found & {"", load_task("imdb").chat_hash}


def test_a_raw_value_is_scaled_and_clipped_and_the_direction_follows_from_the_scale():
    for spec, direction, values in (
        (MetricSpec("cider", "preference", range=(0.0, 2.0)), "higher", {-1: 0, 0: 0, 0.5: 25, 2: 100, 10: 100}),
        (MetricSpec("ter", "preference", range=(1.0, 0.0)), "lower", {2: 0, 1: 0, 0.25: 75, 0: 100}),
        (MetricSpec("ppl", "naturalness", reference=20.0), "lower", {0: 100, 10: 100, 20: 100, 40: 50, 2000: 1}),
        (MetricSpec("words", "diversity"), "higher", {3.0: None}),
    ):
        assert {value: spec.scale(value) for value in values} == pytest.approx(values)
        assert spec.direction == direction


def test_decoding_is_said_in_words(refused):
    for generation in (
        Generation(24, 24, True, top_k=50),
        Generation(40, num_beams=4, length_penalty=0.6),
        Generation(9, 2),
        Generation(9, stop=("\n", "Q:"), samples=2),
    ):
        refused.message(generation.in_words())
