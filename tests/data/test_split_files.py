"""Splits that are a file of rows, or shares of another: what is read, and what is refused."""

import gzip
import json
from dataclasses import replace
from hashlib import sha256

import pytest
from support.commands import grue

import grue as api
from grue.data import load
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError
from grue.lm.distributed import DistributedContext
from grue.mini import assets
from grue.runs.observers import Observers
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.runs.train import prepare
from grue.task_files import load_task

TASK = load_task("commongen")
NUMBERS = ("one", "two", "three")
ROWS = [{"concepts": ["zebra", "fry", number], "targets": [f"A zebra fries {number} eggs."]} for number in NUMBERS]


@pytest.fixture
def write(tmp_path):
    """Write rows, or raw lines, into a file of rows; return its path."""

    def call(*lines, name="held-back.jsonl"):
        content = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return tmp_path / name

    return call


def loaded(path, task=TASK):
    return load_examples(task, str(path))


def test_rows_become_examples_as_those_of_a_split_do(write):
    for name in ("held-back.jsonl", "held back.jsonl.gz", f"{'x' * 245}.jsonl"):
        found = loaded(write(*ROWS, name=name))
        prompts = [f"generate a sentence with: zebra fry {number}." for number in NUMBERS]
        assert [example.prompt for example in found.examples] == prompts
        assert (found.source, found.rows, found.checked, len(found.revision)) == (name, 3, False, 64)
    assert len(loaded(write(*ROWS[:2], name=name)).examples) == 2, "another content is another split"


def test_python_takes_the_path_of_a_file_of_rows(write, tmp_path, refused):
    rows = write(*ROWS)
    found = api.examples(TASK, rows)
    assert found[0].references == ("A zebra fries one eggs.",)
    evaluated = api.evaluate("oracle", TASK, split=rows, output=tmp_path / "oracle")
    assert (evaluated.split, evaluated.limited) == (rows.name, True)
    for wrong in ("tset", tmp_path / "none.jsonl"):
        with refused(DataError):  # and not because the folder has an evaluation
            api.evaluate("oracle", TASK, split=wrong, output=tmp_path / "oracle")
    answers = [example.references[0] for example in found]
    scored = api.score(answers, TASK, split=rows, metrics=["rouge1"])
    assert (scored.split, scored.scores[0].value) == (str(rows), 1.0)


def test_a_known_split_wins_over_a_file(write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(*ROWS, name="test.jsonl")
    splits = {**TASK.data.splits, "test.jsonl": TASK.data.splits["validation"]}
    found = loaded("test.jsonl", replace(TASK, data=replace(TASK.data, splits=splits)))
    assert (found.source, len(found.examples)) == ("mini", splits["validation"].examples)
    assert len(loaded("test.jsonl").examples) == 3


def test_what_is_no_split_says_what_one_can_be(write, refused):
    taught = {example.prompt for example in load_examples(TASK, "train").examples}
    rows = assets.read_rows("commongen", "train", TASK.data.sources[0].revision)
    known = [row for row in rows if f"generate a sentence with: {' '.join(row['concepts'])}." in taught][:2]
    contents = ((), ({"text": "x", "label": 1},), (*ROWS, "[1]\n"), (*known, *ROWS))
    for path in ("nowhere.jsonl", "rows.csv"):
        with refused(DataError):
            loaded(path)
    for lines in contents:
        with refused(DataError):
            loaded(write(*lines))
    path = write(*ROWS, '{"concepts": ["a"\n')
    with pytest.raises(DataError, match=f"^{path}, line 4: not valid JSON: "):
        loaded(path)
    path = write(*ROWS, name="held-back.jsonl.gz")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=f"^{path}: cannot be read after line 3: Compressed file ended"):
        loaded(path)


# --- shares ----------------------------------------------------------------------------------------------------------

VALIDATION = 'validation = { source = "everything", begin = 0.8, end = 0.9 }\n'
SHARES = f"""
reward = "rouge1"
[data]
sources = [{{ kind = "local", files = {{ everything = "all.jsonl" }} }}]
[data.splits]
train = {{ source = "everything", end = 0.8 }}
{VALIDATION}test = {{ source = "everything", begin = 0.9 }}
[backbone]
family = "seq2seq"
model = "mini:seq2seq"
"""


@pytest.fixture
def shares(tmp_path, write):
    """The file of a task whose splits are shares of rows with five prompts."""
    write(*({"id": f"e{n}", "prompt": f"p{n % 5}", "references": [f"r{n}"]} for n in range(100)), name="all.jsonl")
    (tmp_path / "shares.toml").write_text(SHARES)
    return tmp_path / "shares.toml"


def test_a_cap_keeps_the_first_of_a_share_by_the_hash_of_their_ids(shares, refused):
    def ids(split):
        return {example.id for example in load_examples(load_task(str(shares)), split).examples}

    whole = {split: ids(split) for split in ("train", "test")}
    every = whole["train"] | whole["test"] | ids("validation")
    ranked = sorted(every, key=lambda one: sha256(one.encode()).hexdigest())
    capped = SHARES.replace("end = 0.8", "end = 0.8, most = 7")
    shares.write_text(capped.replace("begin = 0.9", "begin = 0.9, most = 99"))
    assert ids("train") == set(ranked[:7]) and ids("test") == whole["test"] == set(ranked[90:])
    others = 'begin = 0.5, without = ["train"], most = 40'
    shares.write_text(SHARES.replace("begin = 0.9", others).replace("end = 0.8", "end = 0.6"))
    assert ids("test") == set(ranked[60:])
    shares.write_text(SHARES.replace("begin = 0.9", others.replace("40", "3")).replace("end = 0.8", "end = 0.6"))
    assert ids("test") == set(ranked[60:63])
    shares.write_text(SHARES.replace("end = 0.8", "end = 0.8, most = -1"))
    with refused(ConfigError):
        load_task(str(shares))


def test_answers_are_learned_from_train_and_rewards_earned_on_rl(shares, write, tmp_path, refused):
    shares.write_text(
        SHARES.replace("end = 0.8 }", 'end = 0.1 }\nrl = { source = "everything", begin = 0.1, end = 0.8 }')
    )
    task = load_task(str(shares))
    ids = {split: {example.id for example in load_examples(task, split).examples} for split in ("train", "rl")}
    assert {split: len(found) for split, found in ids.items()} == {"train": 10, "rl": 70}
    stages = stages_of(RunRequest(task=task, algorithm="supervised+reinforce", runs=tmp_path / "runs"))
    for plan, split in zip(stages, ("train", "rl"), strict=True):
        run = prepare(replace(plan, init=None), Observers([]), lambda: False, DistributedContext())
        assert {example.id for example in run.trainer.examples} == ids[split]
    with refused(DataError):  # its answers were seen by the reward
        load_examples(task, str(write({"prompt": "p1", "references": ["r"]}, name="held-back.jsonl")))
    shares.write_text(shares.read_text().replace("begin = 0.8", "begin = 0.7"))
    with refused(ConfigError):
        load_task(str(shares))


class Killed(BaseException):
    pass


def test_a_kill_while_a_share_is_built_again_puts_nothing_of_another_into_it(shares, monkeypatch):
    def kill(*arguments):
        raise Killed

    task = load_task(str(shares))
    first = load_examples(task, "train").examples
    ids = {example.id for example in first}
    first.path.unlink()  # as the error of a damaged file says
    with monkeypatch.context() as patch:
        patch.setattr(load, "_selection", kill)
        with pytest.raises(Killed):
            load_examples(task, "train")
    again = {example.id for example in load_examples(task, "train").examples}
    assert len(ids) == 80 and again == ids
    assert again.isdisjoint(example.id for example in load_examples(task, "test").examples)


def test_validate_reads_shares_and_says_which_prompts_training_has_seen(shares, refused):
    def lines(*command, code=0):
        return grue(*command, shares, code=code).stdout.splitlines()

    told = "  {}: 10 of its 10 prompts are in train, too: their answers can be looked up"
    seen = [told.format(split) for split in ("validation", "test")]
    first, *rest = lines("tasks", "validate")
    assert first.startswith(f"{shares}: fine (own/shares, version 1") and rest == seen
    assert lines("data", "verify", code=None)[3:5] == seen
    shares.write_text(SHARES.replace(VALIDATION, "").replace("begin = 0.9", "begin = 0.9, end = 0.99"))
    none = "  no split validation: `grue train` chooses its checkpoint by one"
    assert lines("tasks", "validate")[1:] == [none, told.format("test").replace("10", "9")]
    with (shares.parent / "all.jsonl").open("a") as handle:
        handle.write('{"prompt": 1}\n')
    refused.command("tasks", "validate", shares, code=2)


def test_validate_says_which_metrics_cannot_read_the_references(tmp_path):
    lines = "".join(json.dumps({"prompt": str(n), "references": [f"猫喜欢{n}本书。"]}) + "\n" for n in range(4))
    (tmp_path / "test.jsonl").write_text(lines)
    spec = '{{ name = "{}", axis = "preference", range = [0, 100] }}'.format
    (tmp_path / "books.toml").write_text(
        f'reward = "chrf"\nmetrics = [{spec("sacrebleu")}, {spec("chrf")}]\n[backbone]\nfamily = "causal"\nmodel = "mini:causal"\n'
        '[data]\nsources = [{ kind = "local", files = { test = "test.jsonl" } }]\n'
    )
    _, told = grue("tasks", "validate", tmp_path / "books.toml").stdout.splitlines()
    assert told.startswith("  sacrebleu sees nothing of the references of 4 of 4 examples")
