"""Task files: the shipped ones load, mistakes are named, and the hash is a task's identity."""

import hashlib
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.factories import a_task

from grue import files
from grue.errors import ConfigError, UnknownName
from grue.task_files import SUITES, load_task, suite_folder, task_folder, task_names
from grue.tasks import Chat, Generation, MetricSpec, Prompt, Shot, Source, Split, Task

SHIPPED = [(suite, path.stem) for suite in SUITES for path in sorted((task_folder() / suite).glob("*.toml"))]


def changed(tmp_path: Path, change: Callable[[dict[str, Any]], object], name: str = "imdb") -> Path:
    """Write a shipped task file with a change to a suite in a temporary folder."""
    table = tomllib.loads((task_folder() / f"mini/{name}.toml").read_text(encoding="utf-8"))
    change(table)
    files.write_toml(tmp_path / f"mini/{name}.toml", table)
    return tmp_path / f"mini/{name}.toml"


@pytest.mark.parametrize(("suite", "name"), SHIPPED)
def test_every_shipped_task_loads(suite: str, name: str) -> None:
    task = load_task(name, suite)
    assert (task.name, task.suite) == (name, suite)
    assert {spec.axis for spec in task.metrics} & {"preference"}
    assert re.fullmatch(r"[0-9a-f]{64}", task.hash)


def test_the_mini_suite_ships() -> None:
    assert {"commongen", "imdb"} <= set(task_names("mini"))


def test_your_own_task_file_loads_by_path(tmp_path: Path) -> None:
    path = changed(tmp_path, lambda table: None)
    assert load_task(str(path)) == load_task("imdb")
    assert load_task("imdb", str(tmp_path / "mini")) == load_task("imdb")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update(tittle="x"), "unknown key 'tittle'. Did you mean 'title'? Known: schema, name, "),
        (lambda t: t["data"].update(licens="x"), "data: unknown key 'licens'. Did you mean 'licence'? Known: format, "),
        (lambda t: t.pop("reward"), "the key 'reward' is missing."),
        (lambda t: t.update(version=0), "version: 0 is below 1, the first."),
        (
            lambda t: t["data"]["splits"].update({"../x": {"source": "test"}}),
            "data.splits: '../x' cannot name a split; use letters, digits, '_', '-' and '.'.",
        ),
        *(
            (
                lambda t, begin=begin, end=end: t["data"]["splits"]["test"].update(begin=begin, end=end),
                f"data.splits.test: a share from {begin:g} to {end:g}; begin and end are parts of one",
            )
            for begin, end in ((-0.5, 1.0), (0.8, 0.2), (90.0, 100.0), (0.5, 0.5))
        ),
        *(
            (
                lambda t, share=share: t["data"]["splits"]["test"].update(source="train", **share),
                "data.splits.test: overlaps train, a share of the same 'train', so that its answers are learned",
            )
            for share in ({}, {"begin": 0.9})
        ),
        (lambda t: t["prompt"].update(truncation="lft"), "prompt: truncation: str 'lft' is not one of left, right."),
        (lambda t: t["prompt"].update(max_tokens="8"), "prompt: max_tokens: expected a whole number, found str '8'."),
        (
            lambda t: t["data"]["sources"][0].update(kind="hb"),
            "data: sources[0]: kind: str 'hb' is not one of mini, hub, files, local. Did you mean 'hub'?",
        ),
        (
            lambda t: t["metrics"][0].update(range=[0.0, float("inf")]),
            "metrics[0]: range[1]: expected a finite number, found float inf.",
        ),
        (
            lambda t: t["data"]["splits"]["train"].update(without=["train"]),
            "data.splits.train.without: 'train' is not another split of this task.",
        ),
        (
            lambda t: [t["data"]["splits"][a].update(without=[b]) for a, b in (("train", "test"), ("test", "train"))],
            "data.splits: train is without test is without train, a circle; remove one `without`.",
        ),
        (
            lambda t: t["data"].update(evaluation="tset"),
            "data.evaluation: no split 'tset'. Did you mean 'test'? Known: train, validation, test.",
        ),
        (lambda t: t["data"].update(sources=[]), "data.sources: at least one source is needed."),
        (lambda t: t["metrics"].append(t["metrics"][0]), "metrics: 'sentiment' is listed twice; keep one."),
        (
            lambda t: t["metrics"][0].pop("range"),
            "metrics: 'sentiment' needs either a range or a reference to be scored.",
        ),
        (
            lambda t: t["metrics"][0].update(reference=1.0),
            "metrics: 'sentiment' needs either a range or a reference to be scored.",
        ),
        (
            lambda t: t["metrics"][0].update(axis="diversity"),
            "metrics: 'sentiment' is outside the score; remove its range and reference.",
        ),
        (
            lambda t: t["metrics"][0].update(range=[1.0, 1.0]),
            "metrics: 'sentiment': the ends of its range are equal.",
        ),
        (
            lambda t: t["metrics"][1].update(reference=0.0),
            "metrics: 'perplexity:bounded': its reference must be above 0.",
        ),
        *(
            (lambda t, part=part, key=key, value=value: t[part].update({key: value}), f"{part}: {key} must be {said}")
            for part, key, value, said in (
                ("prompt", "max_tokens", 0, "at least 1, found 0."),
                ("rollout", "max_new_tokens", -12, "at least 1, found -12."),
                ("rollout", "min_new_tokens", -1, "at least 0, found -1."),
                ("rollout", "temperature", -1.0, "above 0, found -1.0."),
                ("rollout", "top_k", -1, "at least 0, found -1."),
                ("rollout", "top_p", 5.0, "above 0 and at most 1, found 5.0."),
                ("decoding", "num_beams", 0, "at least 1, found 0."),
            )
        ),
        (
            lambda t: t["rollout"].update(min_new_tokens=60),
            "rollout: min_new_tokens = 60 is above max_new_tokens = ",
        ),
        (
            lambda t: t["rollout"].update(do_sample=False, num_beams=4),
            "rollout: do_sample = false, and rollouts are always samples; leave it out, and write how evaluation ",
        ),
        (
            lambda t: t["rollout"].update(num_beams=4),
            "rollout: num_beams = 4 says nothing of samples, which do_sample = true draws; leave it out.",
        ),
        (
            lambda t: t["decoding"].update(num_beams=4),
            "decoding: num_beams = 4 says nothing of samples, which do_sample = true draws; leave it out, or set ",
        ),
        (
            lambda t: t["prompt"]["chat"].update(user="Go on: {prompt} {title}"),
            "prompt.chat.user: unknown placeholder {title}; the only one is {prompt}, and {{ and }} are braces.",
        ),
        (lambda t: t["prompt"]["chat"].update(user="{}"), "prompt.chat.user: unknown placeholder {}; the only one is "),
        (
            lambda t: t["prompt"]["chat"].update(user="{prompt.__class__}"),
            "prompt.chat.user: unknown placeholder {prompt.__class__}; ",
        ),
        (
            lambda t: t["prompt"]["chat"].update(user="{prompt!r:>9}"),
            "prompt.chat.user: unknown placeholder {prompt with a format}; ",
        ),
        (lambda t: t["prompt"]["chat"].update(user=" "), "prompt.chat.user: is empty; write what is asked, with "),
        (lambda t: t["prompt"]["chat"].update(user="Go on."), "prompt.chat.user: has no {prompt}, so that every "),
        (lambda t: t["prompt"]["chat"].update(user="{prompt"), "prompt.chat.user: expected '}' before end of string; "),
        (lambda t: t["prompt"]["chat"].update(users="{prompt}"), "prompt: chat: unknown key 'users'. Did you mean "),
        (lambda t: t["prompt"]["chat"].update(version=0), "prompt.chat.version: must be 1 or more."),
        (lambda t: t["prompt"]["chat"].update(lines=-1), "prompt.chat.lines: must not be below 0."),
        (lambda t: t["prompt"]["chat"].update(shots=33), "prompt.chat.shots: at most 32 examples are shown, not 33."),
        (lambda t: t["data"].update(evaluation="train"), "prompt.chat.shots: are drawn from the split train, which "),
        (
            lambda t: t["prompt"]["chat"].update(examples=[{"prompt": "a", "answer": " "}]),
            "prompt.chat.examples[0]: an empty prompt or answer shows nothing; fill it in, or leave it out.",
        ),
        (
            lambda t: t["prompt"]["chat"].update(marker="A:", pattern="A"),
            "prompt.chat.marker: stands beside a pattern; one of them cuts the answer out.",
        ),
        (lambda t: t["prompt"]["chat"].update(pattern="(a"), "prompt.chat.pattern: no regular expression: missing ), "),
        (
            lambda t: t.update(schema=2, novelty=1),
            "schema: this version of grue reads 1, found 2; upgrade grue or correct the file.",
        ),
        (
            lambda t: t.update(name="../imdb"),
            "name: '../imdb' is used as a folder name; use lower-case letters, digits, '_', '-' and '.'.",
        ),
        (lambda t: t.update(name="imbd"), "name: 'imbd' differs from the file's path, which gives 'imdb'; rename one."),
        (
            lambda t: t.update(suite="grue"),
            "suite: 'grue' differs from the file's path, which gives 'mini'; rename one.",
        ),
    ],
)
def test_a_mistake_in_a_task_file_is_named(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = changed(tmp_path, change)
    with pytest.raises(ConfigError, match=f"^{re.escape(f'{path}: {message}')}"):
        load_task("imdb", str(path.parent))


def test_a_key_that_stands_twice_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "imdb.toml"
    path.write_text("schema = 1\nname = 'imdb'\nname = 'imdb'\n")
    with pytest.raises(
        ConfigError, match=r"imdb\.toml: not valid TOML: Cannot overwrite a value \(at line 3, column 14\)"
    ):
        load_task(str(path))


def test_unknown_names_are_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        load_task("imbd")
    known = ", ".join(task_names("mini"))
    assert str(caught.value) == f"The suite 'mini' has no task 'imbd'. Did you mean 'imdb'? Known: {known}."
    with pytest.raises(UnknownName) as caught:
        suite_folder("mni")
    assert str(caught.value) == (
        "There is no suite 'mni'. Did you mean 'mini'? Known: mini, grue, or the path of a folder of task files."
    )


def test_a_name_cannot_lead_out_of_the_suite(tmp_path: Path) -> None:
    changed(tmp_path, lambda table: None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnknownName, match=r"has no task '../mini/imdb'\. Known: none\.$"):
        load_task("../mini/imdb", str(tmp_path / "empty"))


# --- the hash --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.update(title="x", description="y", changelog=["z"]),
        lambda t: t["data"].update(licence="MIT", citation="Us, 2024"),
        lambda t: t["recipes"].setdefault("ppo", {}).update(learning_rate=1.0),
        lambda t: t.update({key: t.pop(key) for key in sorted(t, reverse=True)}),
        lambda t: t["data"].update(splits=dict(reversed(t["data"]["splits"].items()))),
        lambda t: t["metrics"][0].update(range=[0, 1]),
        lambda t: t["decoding"].update(num_beams=1, temperature=1.0),
        lambda t: t["prompt"].pop("chat"),
        lambda t: t["prompt"]["chat"].update(system="Be rude."),
    ],
    ids=[
        *["prose", "licence", "recipes", "key order", "split order", "whole numbers", "defaults spelt out"],
        *["no chat prompt", "another chat prompt"],
    ],
)
def test_what_cannot_change_a_score_leaves_the_hash(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    assert load_task(str(changed(tmp_path, change))).hash == load_task("imdb").hash


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.update(version=99),
        lambda t: t["data"].update(evaluation="validation"),
        lambda t: t["data"]["sources"][0].update(revision="1"),
        lambda t: t["data"]["splits"]["test"].update(examples=7),
        lambda t: t["data"]["splits"]["test"].update(ids_sha256="0"),
        lambda t: t["prompt"].update(max_tokens=7),
        lambda t: t["decoding"].update(top_k=7),
        lambda t: t["rollout"].update(top_k=7),
        lambda t: t["backbone"].update(model="mini:other"),
        lambda t: t.update(reward="other"),
        lambda t: t["metrics"].pop(),
        lambda t: t["metrics"].reverse(),
        lambda t: t["metrics"][0].update(range=[0.0, 2.0]),
        lambda t: t["metrics"][0]["options"].update(label=0),
        lambda t: t["metrics"][1].update(reference=7.0),
    ],
)
def test_everything_else_changes_the_hash(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    assert load_task(str(changed(tmp_path, change))).hash != load_task("imdb").hash


def test_a_new_key_or_another_default_would_be_seen() -> None:
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
    assert a_task().hash == hashlib.sha256(identity.encode()).hexdigest()
    assert a_task().decoding == Generation(8, 0, False, 1.0, 0, 1.0, 1, 1.0)
    assert a_task().data.splits["test"] == Split("test", 0, 0, "", 0.0, 1.0)
    assert a_task().data.sources[0] == Source("mini", "imdb", "", "2", {}, ())
    assert a_task().metrics[0] == MetricSpec("liked", "preference", (0.0, 1.0), None, {})


def test_a_chat_prompt_has_a_hash_of_its_own(tmp_path: Path) -> None:
    identity = '{"examples":[{"answer":"b","prompt":"a"}],"user":"{prompt}","version":1}'
    chat = Chat(1, "{prompt}", examples=(Shot("a", "b"),))
    assert a_task(prompt=Prompt(8, "left", chat)).chat_hash == hashlib.sha256(identity.encode()).hexdigest()
    assert a_task(prompt=Prompt(8, "left", chat)).hash == a_task().hash
    assert a_task().chat_hash == ""
    assert chat == Chat(1, "{prompt}", "", chat.examples, 0, 0, "", "", 0)
    usual = load_task("imdb").chat_hash
    for key, value in {
        "version": 2,
        "user": "{prompt}!",
        "system": "",
        "shots": 1,
        "seed": 2,
        "lines": 1,
        "marker": "x",
    }.items():
        path = changed(tmp_path, lambda t, key=key, value=value: t["prompt"]["chat"].update({key: value}))
        assert load_task(str(path)).chat_hash not in ("", usual)


# --- scales ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (MetricSpec("cider", "preference", range=(0.0, 2.0)), {-1: 0, 0: 0, 0.5: 25, 2: 100, 10: 100}),
        (MetricSpec("ter", "preference", range=(1.0, 0.0)), {2: 0, 1: 0, 0.25: 75, 0: 100}),
        (MetricSpec("perplexity", "naturalness", reference=20.0), {0: 100, 10: 100, 20: 100, 40: 50, 2000: 1}),
    ],
)
def test_a_raw_value_is_scaled_and_clipped(spec: MetricSpec, values: dict[float, float]) -> None:
    assert {value: spec.scale(value) for value in values} == pytest.approx(values)


def test_the_direction_follows_from_the_scale() -> None:
    assert MetricSpec("cider", "preference", range=(0.0, 2.0)).direction == "higher"
    assert MetricSpec("ter", "preference", range=(1.0, 0.0)).direction == "lower"
    assert MetricSpec("perplexity", "naturalness", reference=20.0).direction == "lower"
    assert MetricSpec("words", "diversity").direction == "higher"
    assert MetricSpec("words", "diversity").scale(3.0) is None


def test_a_task_survives_its_own_file(tmp_path: Path) -> None:
    for suite, name in SHIPPED:
        files.write_toml(tmp_path / "task.toml", load_task(name, suite))
        assert files.load_toml(tmp_path / "task.toml", Task) == load_task(name, suite)


def test_decoding_is_said_in_words() -> None:
    assert Generation(24, 24, True, top_k=50).in_words() == (
        "sampling at temperature 1, from the 50 likeliest tokens, exactly 24 tokens"
    )
    assert Generation(40, num_beams=4, length_penalty=0.6).in_words() == (
        "beam search with 4 beams and a length penalty of 0.6, up to 40 tokens"
    )
    assert Generation(9, 2).in_words() == "the likeliest token at each step, 2 to 9 tokens"
