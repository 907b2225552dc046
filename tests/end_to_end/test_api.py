"""The Python API, and what data, rewards and models of one's own are told when something is wrong with them."""

import functools
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import tiny
from support.paths import ROOT

import grue
from grue import files
from grue.cli.main import main
from grue.data.load import local_data_id
from grue.errors import ConfigError, DataError, SubmissionError, TrainingError, UnknownName
from grue.evaluation import rewards
from grue.records import Prediction
from grue.runs.request import RunRequest
from grue.runs.train import Interrupted
from grue.task_files import filled, load_task, task_schema

SMALL = {"updates": 1, "rollouts": 4, "minibatch_size": 4, "epochs": 1, "validation_examples": 4}
TASK = """
reward = "rouge1"
metrics = [{ name = "rouge1", axis = "preference", range = [0, 1] }]
[data]
sources = [{ kind = "local", files = { train = "train.jsonl", validation = "more/dev.csv", test = "test.parquet" } }]
[prompt]
max_tokens = 10
[rollout]
max_new_tokens = 6
[backbone]
family = "causal"
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a task, its data in three kinds of files, and a tiny model; the working directory is elsewhere."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    home = tmp_path / "home"
    (home / "more").mkdir(parents=True)
    rows = [
        {"prompt": f"the {word} sees", "references": [f"the {word} sees a ball", "a ball"]} for word in tiny.WORDS[:8]
    ]
    (home / "train.jsonl").write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    (home / "more" / "dev.csv").write_text('prompt,reference,id\nthe cat,"runs, and runs",\nthe dog,the dog runs,d1\n')
    kept = [{**row, "meta": json.dumps({"n": n}), "id": f"t{n}"} for n, row in enumerate(rows[:3])]
    pq.write_table(pa.Table.from_pylist(kept), home / "test.parquet")
    tiny.model("causal").save_pretrained(home / "model")
    tiny.tokenizer("causal").save_pretrained(home / "model")
    (home / "words.toml").write_text(f'{TASK}model = "{home / "model"}"\n')
    monkeypatch.chdir(tmp_path)
    return home


def share_of_the(examples, texts):
    return [text.split().count("the") / max(1, len(text.split())) for text in texts]


# --- a task of one's own ---------------------------------------------------------------------------------------------


def test_three_kinds_of_files_become_examples(own):
    train, dev, test = (grue.examples(own / "words.toml", split) for split in ("train", "validation", "test"))
    assert [len(split) for split in (train, dev, test)] == [8, 2, 3]
    assert (train[0].prompt, train[0].references) == ("the the sees", ("the the sees a ball", "a ball"))
    assert [example.references for example in dev] == [("runs, and runs",), ("the dog runs",)]
    assert dev[1].id == "d1" and dev[0].id.startswith("example-")
    assert [(example.id, dict(example.meta)) for example in test] == [
        ("t0", {"n": 0}),
        ("t1", {"n": 1}),
        ("t2", {"n": 2}),
    ]


def test_the_same_content_has_the_same_ids_and_another_file_is_read_anew(own):
    before = [example.id for example in grue.examples(own / "words.toml", "train")]
    first = json.loads((own / "train.jsonl").read_text().split("\n")[0])
    assert len(set(before)) == 8
    (own / "train.jsonl").write_text(json.dumps(first) + "\n" + json.dumps({"prompt": "new"}) + "\n")
    after = [example.id for example in grue.examples(own / "words.toml", "train")]
    assert len(after) == 2 and after[0] == before[0] and after[1] not in before


def test_equal_lines_are_two_examples(own):
    (own / "train.jsonl").write_text('{"prompt": "a"}\n{"prompt": "a"}\n')
    first, second = grue.examples(own / "words.toml", "train")
    assert first.references == ()
    assert second.id == f"{first.id}-2"


def test_what_a_task_file_may_leave_out(own):
    task = load_task(str(own / "words.toml"))
    assert (task.schema, task.name, task.suite, task.version, task.title) == (1, "words", "own", 1, "words")
    assert (task.data.format, task.data.evaluation, list(task.data.splits)) == (
        "examples",
        "test",
        ["train", "validation", "test"],
    )
    assert (task.prompt.max_tokens, task.decoding.max_new_tokens, task.decoding.do_sample) == (10, 6, True)
    assert task.decoding == task.rollout and task.folder == str(own.resolve())


def test_the_hash_is_of_what_is_said_not_of_where_it_lies(own, tmp_path):
    here = load_task(str(own / "words.toml"))
    (tmp_path / "words.toml").write_text((own / "words.toml").read_text())
    assert load_task(str(tmp_path / "words.toml")).hash == here.hash
    written = 'suite = "own"\nversion = 1\nname = "words"\n' + (own / "words.toml").read_text()
    (own / "written.toml").write_text(written)
    assert load_task(str(own / "written.toml")).hash == here.hash
    (own / "words.toml").write_text((own / "words.toml").read_text().replace("= 6", "= 7"))
    assert load_task(str(own / "words.toml")).hash != here.hash


def test_a_shipped_task_is_filled_with_nothing():
    for path in sorted((ROOT / "tasks").glob("*/*.toml")):
        table = files.read_toml(path)
        assert filled(table, path) == table


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"prompt": 3}', "row 2: prompt should be a string, found 3."),
        ('{"prompts": "a"}', "row 2: unknown column 'prompts'. Did you mean 'prompt'? Known: prompt, references, reference, id, meta; put what else an example has into meta."),
        ('{"references": []}', "row 2: the column 'prompt' is missing; found references."),
        ('{"prompt": "a", "references": "b"}', "row 2: references should be a list of strings, found 'b'."),
        ('{"prompt": "a", "reference": "b", "references": ["b"]}', "row 2: has both a reference and references; keep one."),
        ('{"prompt": "a", "id": 0}', "row 2: id should be a string, found 0. Write the id as a string, such as \"0\"."),
        ('{"prompt": "a", "id": 100.0}', "row 2: id should be a string, found 100.0. Write the id as a string, such as \"100\"."),
        ('{"prompt": "a", "reference": 0}', "row 2: reference should be a string, found 0."),
        ('{"prompt": "a", "references": 0}', "row 2: references should be a list of strings, found 0."),
        ('{"prompt": "a", "meta": [1]}', "row 2: meta should be an object, found [1]."),
        ('{"prompt": "a", "id": "e"}', "row 2: the id 'e' is repeated; give every example its own id."),
        ('{"prompt": "a"', "not valid JSON"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(own, line, told):
    (own / "train.jsonl").write_text('{"prompt": "a", "id": "e"}\n' + line + "\n")
    with pytest.raises(DataError) as caught:
        grue.examples(own / "words.toml", "train")
    assert str(caught.value).startswith(str(own / "train.jsonl")) and told in str(caught.value)
    assert str(caught.value).count("train.jsonl") == 1


def test_missing_files_and_splits_are_named(own):
    (own / "train.jsonl").unlink()
    with pytest.raises(DataError) as caught:
        grue.examples(own / "words.toml", "train")
    assert str(caught.value) == (
        "own/words, split 'train': no source could be read:\n"
        f"  local words: {own / 'train.jsonl'}: no such file.\nPaths in a task file are relative to it."
    )
    with pytest.raises(
        DataError,
        match=r"own/words has no split 'valid'\. Did you mean 'validation'\? It has train, validation, test\. Name",
    ):
        grue.examples(own / "words.toml", "valid")
    (own / "words.toml").write_text((own / "words.toml").read_text().replace("test.parquet", "test.txt"))
    (own / "test.txt").write_text("a\n")
    with pytest.raises(DataError, match=r"test\.txt: unknown file type; use a name that ends in \.jsonl, "):
        grue.examples(own / "words.toml", "test")


def test_without_validation_data_training_says_so(own):
    (own / "words.toml").write_text((own / "words.toml").read_text().replace('validation = "more/dev.csv", ', ""))
    with pytest.raises(
        DataError, match=r"own/words has no split 'validation'\. It has train, test\. Name a file for it"
    ):
        grue.train(own / "words.toml", **SMALL)


def test_the_schema_asks_for_no_more_than_the_reader():
    schema = task_schema()
    parts = schema["properties"]
    assert schema["required"] == ["data", "backbone", "reward"]
    assert parts["data"]["required"] == ["sources"] and parts["data"]["properties"]["sources"]["items"]["required"] == [
        "kind"
    ]
    assert parts["prompt"]["required"] == [] and parts["rollout"]["required"] == []
    assert parts["backbone"]["required"] == ["family", "model"]


def test_what_tells_local_data_from_any_other(own):
    task = load_task(str(own / "words.toml"))
    before = local_data_id(task)
    assert local_data_id(task) == before and local_data_id(load_task("commongen")) == ""
    (own / "more" / "dev.csv").write_text("prompt\nanother\n")
    assert local_data_id(task) != before


def test_a_task_without_data_is_told_what_is_missing(own):
    (own / "bare.toml").write_text('reward = "rouge1"\n[backbone]\nfamily = "causal"\nmodel = "x"\n')
    with pytest.raises(ConfigError, match=r"bare\.toml: data: the key 'sources' is missing"):
        load_task(str(own / "bare.toml"))


# --- the API ---------------------------------------------------------------------------------------------------------


def test_train_evaluate_score(own):
    calls = []

    class Watcher(tiny.Watcher):
        def started(self, plan, done, total):
            calls.append((plan.seed, done, total))

    run = grue.train(own / "words.toml", "reinforce", reward=share_of_the, seed=3, observer=Watcher(), **SMALL)
    assert calls == [(3, 0, 1)]
    assert run.folder == Path("runs/own/words/reinforce/seed-3") and run.checkpoint == run.folder / "checkpoint"
    result = grue.evaluate(run)
    assert (result.suite, result.task, result.seed, result.counts["scored"]) == ("own", "words", 3, 3)
    assert result.data["source"] == "test.parquet" and len(result.data["revision"]) == 64
    assert repr(run) == f"Trained(folder={run.folder!r}, checkpoint={run.checkpoint!r})"
    assert f"preference={result.preference!r}" in repr(result) and len(repr(result)) < 400
    predictions = run.folder / "predictions.jsonl"
    scored = grue.score(predictions, own / "words.toml")
    assert scored.preference == result.preference
    lines = [json.loads(line) for line in predictions.read_text().splitlines()]
    texts = {line["id"]: line["text"] for line in lines}
    assert grue.score(texts, own / "words.toml", metrics=["rouge1"]).preference == result.preference
    assert grue.score([line["text"] for line in lines], own / "words.toml").preference == result.preference
    with pytest.raises(SubmissionError, match="1 predictions for 3 examples"):
        grue.score([Prediction("t0", "a")], own / "words.toml")
    by_path = grue.evaluate(run.checkpoint, own / "words.toml")
    assert by_path == result, "a finished evaluation is read"
    with pytest.raises(UnknownName) as caught:
        grue.evaluate(run.checkpoint)
    assert str(caught.value) == (
        "A task of the suite 'own' is known by its file: write --task FILE.toml, or task=\"FILE.toml\" in Python."
    )


def test_a_finished_run_is_left_alone_and_another_reward_is_refused(own):
    run = grue.train(own / "words.toml", "reinforce", reward=share_of_the, **SMALL)
    before = (run.folder / "train.jsonl").read_bytes()
    assert grue.train(own / "words.toml", "reinforce", reward=share_of_the, **SMALL) == run
    assert (run.folder / "train.jsonl").read_bytes() == before
    module = re.escape(__name__)
    with pytest.raises(
        ConfigError, match=rf"holds a run with reward = '{module}:share_of_the \(sha256 \w{{16}}\)', not '{module}:"
    ):
        grue.train(own / "words.toml", "reinforce", reward=lambda examples, texts: [0.0] * len(texts), **SMALL)


def test_an_empty_reward_is_no_reward(own):
    with pytest.raises(ConfigError, match="--reward: is empty; name a reward, or leave it out for the task's"):
        grue.train(own / "words.toml", "reinforce", reward="", **SMALL)


def test_a_stop_between_two_stages_holds(own):
    """The last update of a stage ends it, whatever was asked for; the next does not begin."""
    done = []

    class Watcher(tiny.Watcher):
        def finished(self, plan):
            done.append(plan.system)

    def stop():
        return bool(done)

    with pytest.raises(Interrupted, match=r"supervised\+reinforce/seed-1: stopped before it began; the same command"):
        grue.train(own / "words.toml", "supervised+reinforce", observer=Watcher(), stop=stop, **SMALL)
    assert done == ["supervised"]
    assert not Path("runs/own/words/supervised+reinforce").exists()


def test_a_model_by_its_folder_and_a_baseline(own):
    model = grue.evaluate(own / "model", own / "words.toml", output="model-result", limit=2)
    assert model.system["algorithm"] == "external" and model.limited
    oracle = grue.evaluate("oracle", own / "words.toml")
    assert oracle.preference == pytest.approx(100.0)
    assert Path("runs/own/words/oracle/seed-1/result.json").is_file()
    with pytest.raises(ConfigError, match=r'oracle is no checkpoint of grue: name the task.* or task="NAME" in Python'):
        grue.evaluate("oracle")


def test_settings_are_checked(own):
    with pytest.raises(ConfigError, match=r"unknown key 'update'\. Did you mean 'updates'\?"):
        grue.train(own / "words.toml", "ppo", update=3)
    with pytest.raises(UnknownName, match=r"There is no algorithm 'nlop'\. Did you mean 'nlpo'\?"):
        grue.train(own / "words.toml", "nlop")


@pytest.mark.parametrize("beside", [{"seed": 2}, {"algorithm": "nlpo"}, {"updates": 3}, {"suite": "grue"}])
def test_nothing_of_a_request_is_said_beside_it(beside, tmp_path):
    request = RunRequest(task=load_task("imdb"), runs=tmp_path)
    with pytest.raises(ConfigError, match="put the other arguments into it"):
        grue.train(request, **beside)
    assert not [*tmp_path.iterdir()]


def test_names_of_the_package():
    measuring = {"Trained", "compare", "diagnose", "evaluate", "examples", "generate", "score", "train"}
    classes = {"Endpoint", "Example", "Prediction"}
    assert set(grue.__all__) == measuring | classes | {"errors", "export", "import_predictions", "push", "rewards"}
    assert set(dir(grue)) == {*grue.__all__, "__version__"}
    assert (grue.Prediction, grue.errors.ConfigError) == (Prediction, ConfigError)
    assert all(getattr(grue, name).__name__.rpartition(".")[2] == name for name in grue.__all__)
    with pytest.raises(AttributeError, match="module 'grue' has no attribute 'trian'"):
        grue.trian  # noqa: B018


def test_importing_grue_and_scoring_load_no_torch(own):
    code = (
        "import sys, grue; assert 'numpy' not in sys.modules\n"
        f"scored = grue.score(['a', 'b', 'c'], {str(own / 'words.toml')!r}, metrics=['rouge1'])\n"
        "print(scored.preference, {'torch', 'transformers'} & set(sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.endswith(" set()\n"), done.stdout + done.stderr


# --- the commands ----------------------------------------------------------------------------------------------------


def test_the_commands_take_the_file(own):
    from click.testing import CliRunner

    def says(*arguments):
        done = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="grue")
        return done.exit_code, done.output

    task = own / "words.toml"
    code, where = says("data", "where", task)
    assert (
        code == 0
        and f"own/words validation\n  → local  {own.resolve() / 'more/dev.csv'}  {(own / 'more/dev.csv').stat().st_size} bytes\n"
        in where
    )
    code, verified = says("data", "verify", task)
    assert code == 0 and "own/words train: fine, 8 rows, 8 examples from train.jsonl@" in verified
    code, exported = says("data", "export", task, "--output", "out.jsonl")
    assert code == 0 and exported == "own/words test: 3 examples → out.jsonl\n"
    Path("answers.jsonl").write_text("".join(json.dumps({"id": f"t{n}", "text": "a ball"}) + "\n" for n in range(3)))
    code, scores = says("score", "answers.jsonl", "--task", task, "--metrics", "rouge1")
    assert code == 0 and "100.0  preference" in scores, scores
    code, error = says("train", "--task", task, "--algo", "ppo", "--reward", "nowhere:f", "--set", "updates=1")
    assert code == 2 and error.splitlines()[-1] == (
        f"Error: The reward 'nowhere:f': the module 'nowhere' cannot be imported: it is not installed, nor in {Path.cwd()}"
        f" nor in {own.resolve()}."
    )


def refused(*arguments):
    from click.testing import CliRunner

    done = CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="grue")
    assert done.exit_code in (2, 3) and isinstance(done.exception, SystemExit), done.output
    return done.output


def test_a_mistake_in_a_task_file_claims_no_folder(own):
    task = own / "words.toml"
    train = ["train", "--task", task, "--algo", "ppo", *(f"--set={key}={value}" for key, value in SMALL.items())]
    text = task.read_text()
    (own / "polite.py").write_text("def politeness(examples, texts):\n    return [0.5] * len(texts)\n")
    metric = '{ name = "polite:%s", axis = "naturalness", range = [0, 1] }]'
    task.write_text(text.replace("[0, 1] }]", "[0, 1] }, " + metric % "politness"))
    assert "polite has no function 'politness'" in refused(*train)
    assert not Path("runs").exists()
    task.write_text(text.replace("[0, 1] }]", "[0, 1] }, " + metric % "politeness"))
    grue.train(str(task), "ppo", **SMALL)
    without = own / "without.toml"
    without.write_text(text.replace('validation = "more/dev.csv", ', ""))
    train[2] = without
    assert "own/without has no split 'validation'. It has train, test." in refused(*train)


def test_validate_opens_the_data_and_looks_for_the_model(own):
    task = own / "words.toml"
    text = task.read_text()
    task.write_text(f'{TASK}model = "mini:casual"\n')
    assert "There is no small model 'casual'. Did you mean 'causal'?" in refused("tasks", "validate", task)
    task.write_text(f'{TASK}model = "./nowhere"\n')
    assert "There is no folder './nowhere'" in refused("tasks", "validate", task)
    task.write_text(text)
    with (own / "train.jsonl").open("a") as rows:
        rows.write('{"prompt": "the c')
    said = refused("tasks", "validate", task)
    assert "train.jsonl, line 17: not valid JSON: Unterminated string starting at column 12." in said


def test_results_of_ones_own_task_are_found_by_its_file(own):
    task = own / "words.toml"
    for system in ("copy", "lead"):
        grue.evaluate(system, str(task))
    said = refused("compare", "runs/own/words/copy", "runs/own/words/lead")
    assert "holds results of the suite own, not mini; add --task FILE.toml, the file of the task." in said
    task.write_text(task.read_text().replace("max_new_tokens = 6", "max_new_tokens = 7"))
    said = refused("evaluate", "--baseline", "copy", "--task", task)
    assert re.search(r"holds an evaluation for another version of the task \([0-9a-f]{12}, now [0-9a-f]{12}\)", said)
    assert "evaluate it again with `grue evaluate --force`" in refused("compare", "copy", "lead", "--task", task)


def test_an_evaluation_that_cannot_begin_leaves_no_folder(own):
    (own / "small").mkdir()
    refused("evaluate", "--model", own / "small", "--task", own / "words.toml")
    assert not Path("runs/own/words").exists() or not list(Path("runs/own/words").iterdir())


def test_the_object_of_an_algorithm_that_is_not_there_is_told(own, monkeypatch):
    (own / "plain_of_mine.py").write_text("PLAIN = 3\n")
    monkeypatch.syspath_prepend(own)
    said = refused("train", "--task", own / "words.toml", "--algo", "plain_of_mine:PLAN")
    assert "The algorithm 'plain_of_mine:PLAN': plain_of_mine has no 'PLAN'. Did you mean 'PLAIN'?" in said


# --- rewards ---------------------------------------------------------------------------------------------------------

EXAMPLES = tiny.examples(3)
TEXTS = ["a", "b", "c"]


def failing(examples, texts):
    return [1.0 / (text != "b") for text in texts]


def only_together(examples, texts):
    if len(texts) > 1:
        raise RuntimeError("too many")
    return [0.0]


def test_what_a_reward_raises_names_the_example():
    reward = rewards.function_reward("mine:failing", failing)
    with pytest.raises(TrainingError) as caught:
        reward(EXAMPLES, TEXTS)
    assert str(caught.value) == (
        "The reward 'mine:failing' raised ZeroDivisionError: float division by zero "
        f"(test_api.py, line {failing.__code__.co_firstlineno + 1}) for the example 'e1'; the text was 'b'."
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_what_a_reward_raises_for_a_batch_alone():
    reward = rewards.function_reward("mine:only_together", only_together)
    with pytest.raises(
        TrainingError, match=r"RuntimeError: too many .* for a batch of 3 texts, but for none of them alone\."
    ):
        reward(EXAMPLES, TEXTS)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([], "gave 0 values for 3 texts; return one number per text."),
        (None, "gave None for 3 texts; return one number per text."),
        (1.0, "gave 1.0 for 3 texts; return one number per text."),
        ([0.0, math.nan, 0.0], "gave nan for the example 'e1'; a reward must be a finite number. The text was 'b'."),
        ([0.0, 0.0, math.inf], "gave inf for the example 'e2'; a reward must be a finite number. The text was 'c'."),
        ("abc", "gave 'a' for the example 'e0'; a reward must be a finite number. The text was 'a'."),
        ([[1.0], [1.0], [1.0]], "gave 1 values for the example 'e0', whose tokens are not known. The text was 'a'."),
    ],
)
def test_values_that_are_no_rewards(values, told):
    reward = rewards.function_reward("mine", lambda examples, texts: values)
    with pytest.raises(TrainingError) as caught:
        reward(EXAMPLES, TEXTS)
    assert str(caught.value) == f"The reward 'mine' {told}"


def test_a_function_of_something_else_is_refused_at_once():
    with pytest.raises(
        ConfigError, match=r"The reward 'mine' must be a function of \(examples, texts\): too many positional"
    ):
        rewards.function_reward("mine", lambda texts: [0.0])


def test_a_module_that_fails_is_told_apart_from_one_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part])
    (tmp_path / "needy_rewards.py").write_text("import no_such_package\n")
    (tmp_path / "broken_rewards.py").write_text("x = 1\nvalue = {}['none']\n")
    with pytest.raises(
        ConfigError, match=r"'needy_rewards:f': needy_rewards needs the module 'no_such_package'; install it\."
    ):
        rewards.imported_reward("needy_rewards:f")
    with pytest.raises(
        ConfigError, match=r"importing broken_rewards fails: KeyError: 'none' \(broken_rewards\.py, line 2\)\."
    ):
        rewards.imported_reward("broken_rewards:f")
    (tmp_path / "good_rewards.py").write_text("def f(examples, texts):\n    return [2] * len(texts)\n")
    assert rewards.imported_reward("good_rewards:f")(EXAMPLES, TEXTS) == [2.0, 2.0, 2.0]


def test_a_name_follows_the_source_and_what_was_captured():
    def made(weight):
        return lambda examples, texts: [weight for _ in texts]

    assert rewards.give_name(made(1.0)) == rewards.give_name(made(1.0))
    assert rewards.give_name(made(1.0)) != rewards.give_name(made(2.0))
    assert rewards.give_name(failing).startswith(f"{__name__}:failing (sha256 ")
    assert rewards.give_name(failing) != rewards.give_name(only_together)


def test_what_cannot_be_read_has_a_name_of_its_own():
    class Judge:
        def __call__(self, examples, texts):
            return [0.5] * len(texts)

    one, other, model = Judge(), Judge(), object()
    assert rewards.give_name(one) == rewards.give_name(one)
    assert rewards.give_name(one) != rewards.give_name(other)
    assert "(unknown " in rewards.give_name(functools.partial(failing))
    assert "(unknown " in rewards.give_name(lambda examples, texts: [float(model is None)] * len(texts))
    named = rewards.make_reward(rewards.give_name(one), tiny.task("causal"), EXAMPLES)
    assert named(EXAMPLES, TEXTS) == [0.5, 0.5, 0.5]


SCALE = 1.0


def test_a_name_follows_the_place_in_a_line_and_the_global_numbers_that_are_read(monkeypatch):
    one, other = (lambda examples, texts: [1.0 for _ in texts]), (lambda examples, texts: [2.0 for _ in texts])
    assert rewards.give_name(one) != rewards.give_name(other)

    def scaled(examples, texts):
        return [SCALE * len(text) for text in texts]

    before = rewards.give_name(scaled)
    assert rewards.give_name(scaled) == before
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert rewards.give_name(scaled) != before


def test_methods_of_objects_have_names_of_their_own():
    class Judge:
        def __init__(self, weight):
            self.weight = weight

        def judge(self, examples, texts):
            return [self.weight] * len(texts)

    assert rewards.give_name(Judge(1.0).judge) != rewards.give_name(Judge(-5.0).judge)
    assert "(unknown " in rewards.give_name(Judge(1.0).judge)
