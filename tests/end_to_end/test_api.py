"""The Python API, and what data, rewards and models of one's own are told when something is wrong with them."""

import functools
import json
import re
from pathlib import Path

import pytest
from support.commands import edit
from support.commands import grue as run
from support.late import late
from support.paths import ROOT

import grue
from grue import files
from grue.errors import ConfigError, DataError, SubmissionError, UnknownName
from grue.records import Example, Prediction
from grue.runs.request import RunRequest
from grue.task_files import filled, load_task, task_schema

pa, pq = late("pyarrow"), late("pyarrow.parquet")
tiny, rewards, training = late("support.tiny"), late("grue.evaluation.rewards"), late("grue.runs.train")
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


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "model"
    tiny.model("causal").save_pretrained(folder)
    tiny.tokenizer("causal").save_pretrained(folder)
    return folder


@pytest.fixture
def own(tmp_path, monkeypatch, model):
    """A folder with a task and its data in three kinds of files; the working directory is elsewhere."""
    home = tmp_path / "home"
    (home / "more").mkdir(parents=True)
    words = "the a dog cat man bird sees finds".split()
    rows = [{"prompt": f"the {word} sees", "references": [f"the {word} sees a ball", "a ball"]} for word in words]
    (home / "train.jsonl").write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    (home / "more" / "dev.csv").write_text('prompt,reference,id\nthe cat,"runs, and runs",\nthe dog,the dog runs,d1\n')
    kept = [{**row, "meta": json.dumps({"n": n}), "id": f"t{n}"} for n, row in enumerate(rows[:3])]
    pq.write_table(pa.Table.from_pylist(kept), home / "test.parquet")
    (home / "words.toml").write_text(f'{TASK}model = "{model}"\n')
    monkeypatch.chdir(tmp_path)
    return home


@pytest.fixture
def task(own):
    return own / "words.toml"


def share_of_the(examples, texts):
    return [text.split().count("the") / max(1, len(text.split())) for text in texts]


# --- a task of one's own ---------------------------------------------------------------------------------------------


def test_three_kinds_of_files_become_examples(own, task):
    train, dev, test = (grue.examples(task, split) for split in ("train", "validation", "test"))
    assert [len(split) for split in (train, dev, test)] == [8, 2, 3]
    assert (train[0].prompt, train[0].references) == ("the the sees", ("the the sees a ball", "a ball"))
    assert [example.references for example in dev] == [("runs, and runs",), ("the dog runs",)]
    assert dev[1].id == "d1" and dev[0].id.startswith("example-")
    assert [(one.id, dict(one.meta)) for one in test] == [(f"t{n}", {"n": n}) for n in range(3)]
    # The same content has the same ids, another file is read anew, and equal lines are two examples.
    before = [example.id for example in train]
    assert len(set(before)) == 8
    first = (own / "train.jsonl").read_text().split("\n")[0]
    (own / "train.jsonl").write_text(f'{first}\n{{"prompt": "a"}}\n{{"prompt": "a"}}\n')
    after = grue.examples(task, "train")
    assert after[0].id == before[0] and after[1].id not in before
    assert (len(after), after[1].references, after[2].id) == (3, (), f"{after[1].id}-2")


def test_what_a_task_file_may_leave_out(own, task):
    found = load_task(str(task))
    assert (found.schema, found.name, found.suite, found.version, found.title) == (1, "words", "own", 1, "words")
    assert (found.data.format, found.data.evaluation) == ("examples", "test")
    assert list(found.data.splits) == ["train", "validation", "test"]
    assert (found.prompt.max_tokens, found.decoding.max_new_tokens, found.decoding.do_sample) == (10, 6, True)
    assert found.decoding == found.rollout and found.folder == str(own.resolve())
    schema = task_schema()
    assert schema["required"] == ["data", "backbone", "reward"]
    required = {"data": ["sources"], "prompt": [], "rollout": [], "backbone": ["family", "model"]}
    assert {name: schema["properties"][name]["required"] for name in required} == required
    for path in sorted((ROOT / "tasks").glob("*/*.toml")):  # a shipped task is filled with nothing
        table = files.read_toml(path)
        assert filled(table, path) == table


def test_a_bad_line_is_named(own, task, refused):
    for line in (
        '{"prompt": 3}',
        '{"prompts": "a"}',
        '{"prompt": "a", "references": "b"}',
        '{"prompt": "a", "id": "e"}',  # a second time
        '{"prompt": "a"',
    ):
        (own / "train.jsonl").write_text('{"prompt": "a", "id": "e"}\n' + line + "\n")
        with refused(DataError):
            grue.examples(task, "train")


def test_missing_files_and_splits_are_named(own, task, refused):
    (own / "train.jsonl").unlink()
    for split in ("train", "valid"):
        with refused(DataError):
            grue.examples(task, split)
    edit(task, ("test.parquet", "test.txt"))
    (own / "test.txt").write_text("a\n")
    with refused(DataError):
        grue.examples(task, "test")
    edit(task, ('validation = "more/dev.csv", ', ""))
    with refused(DataError):
        grue.train(task, **SMALL)
    (own / "bare.toml").write_text('reward = "rouge1"\n[backbone]\nfamily = "causal"\nmodel = "x"\n')
    with refused(ConfigError):
        load_task(str(own / "bare.toml"))


# --- the API ---------------------------------------------------------------------------------------------------------


def test_train_evaluate_score(task, refused):
    calls = []

    class Watcher(tiny.Watcher):
        def started(self, plan, done, total):
            calls.append((plan.seed, done, total))

    made = grue.train(task, "reinforce", reward=share_of_the, seed=3, observer=Watcher(), **SMALL)
    assert calls == [(3, 0, 1)]
    assert made.folder == Path("runs/own/words/reinforce/seed-3") and made.checkpoint == made.folder / "checkpoint"
    result = grue.evaluate(made)
    assert (result.suite, result.task, result.seed, result.counts["scored"]) == ("own", "words", 3, 3)
    assert result.data["source"] == "test.parquet" and len(result.data["revision"]) == 64
    assert repr(made) == f"Trained(folder={made.folder!r}, checkpoint={made.checkpoint!r})"
    assert f"preference={result.preference!r}" in repr(result) and len(repr(result)) < 400
    predictions = made.folder / "predictions.jsonl"
    texts = {line["id"]: line["text"] for _, line in files.read_jsonl(predictions)}
    for given in (predictions, texts, list(texts.values())):
        assert grue.score(given, task).preference == result.preference
    with refused(SubmissionError):
        grue.score([Prediction("t0", "a")], task)
    assert grue.evaluate(made.checkpoint, task) == result, "a finished evaluation is read"
    with refused(UnknownName):
        grue.evaluate(made.checkpoint)

    before = (made.folder / "train.jsonl").read_bytes()  # a finished run is left alone
    assert grue.train(task, "reinforce", reward=share_of_the, seed=3, **SMALL) == made
    assert (made.folder / "train.jsonl").read_bytes() == before
    other = rf"holds a run with reward = '{re.escape(__name__)}:share_of_the \(sha256 \w{{16}}\)', not '{__name__}:"
    with pytest.raises(ConfigError, match=other):
        grue.train(task, "reinforce", reward=lambda examples, texts: [0.0] * len(texts), seed=3, **SMALL)


def test_several_seeds_are_runs_one_after_the_other(task):
    """Each as if asked for alone, and what is wrong is said before any starts."""
    alone = grue.train(task, "reinforce", reward=share_of_the, seed=2, **SMALL)
    written = (alone.folder / "train.jsonl").read_bytes()
    made = grue.train(task, "reinforce", reward=share_of_the, seeds="1-2", **SMALL)
    assert [run.folder.name for run in made] == ["seed-1", "seed-2"] and made[1] == alone
    assert (alone.folder / "train.jsonl").read_bytes() == written
    results = grue.evaluate(made)
    assert [result.seed for result in results] == [1, 2] and results[1] == grue.evaluate(alone)
    other = grue.train(task, "reinforce", reward=share_of_the, seeds=[2, 1, 2], system="other", **SMALL)
    assert [run.folder.name for run in other] == ["seed-2", "seed-1"]
    grue.evaluate(other)
    (compared,) = grue.compare(made, other, suite="own", tasks=[task]).tasks
    assert compared == grue.compare("reinforce", "other", suite="own", tasks=[task]).tasks[0]
    assert compared == grue.compare(made, other).tasks[0], "runs know their task"
    assert compared == grue.compare(made, "other", tasks=[made[0].task, task]).tasks[0]
    drawn = grue.evaluate("zero-shot", task, seeds=(1, 3))
    assert [result.seed for result in drawn] == [1, 3] and drawn[0] == grue.evaluate("zero-shot", task)
    assert drawn[0].hashes["predictions"] != drawn[1].hashes["predictions"]
    for begin in (
        lambda: grue.train(task, "reinforce", system="new", seeds="1-2", seed=3),
        lambda: grue.train(task, "reinforce", system="new", seeds=5),
        lambda: grue.train(task, "reinforce", system="new", seeds=[]),
        lambda: grue.train(task, "reinforce", system="new", seeds=[1, -1]),
        lambda: grue.evaluate(made[0], seeds="1-2"),
        lambda: grue.evaluate(made[0].folder, seeds="1-2"),
        lambda: grue.evaluate(made, output="one"),
        lambda: grue.compare(["reinforce"], "other", suite="own", tasks=[task]),
    ):
        with pytest.raises(ConfigError, match="seed|takes one evaluation"):
            begin()
    assert not Path("runs/own/words/new").exists() and not Path("one").exists()


def test_the_best_and_the_last_of_a_run_are_two_systems_that_are_compared(task):
    """One update at so high a rate makes nonsense, so that the start is kept."""
    made = grue.train(task, "reinforce", reward=share_of_the, **SMALL, learning_rate=0.5)
    best, last = (grue.evaluate(made.folder / name, task) for name in ("checkpoint", "final"))
    assert [best.system.get(key) for key in ("name", "update", "kept")] == ["reinforce", 0, None]
    assert [last.system.get(key) for key in ("name", "update", "kept")] == ["reinforce+last", 1, "last"]
    assert grue.evaluate(made.folder / "final", task) == last, "a finished evaluation is read"
    kept = grue.train(task, "reinforce", reward=share_of_the, system="mine", keep="last", **SMALL)
    (found,) = json.loads(run("evaluate", kept.folder, "--task", task, "--json").stdout)
    assert (found["system"]["name"], found["system"]["kept"]) == ("mine", "last")
    picked = grue.evaluate(made.folder / "final", task, best_of=2)
    assert picked.system["name"] == "reinforce+last+best-of-2"
    said = run("compare", "reinforce", "reinforce+last", "--task", task).stdout
    assert "reinforce" in said and "reinforce+last" in said


def test_a_stop_between_two_stages_holds(task, refused):
    """The last update of a stage ends it, whatever was asked for; the next does not begin."""
    done = []

    class Watcher(tiny.Watcher):
        def finished(self, plan):
            done.append(plan.system)

    with refused(training.Interrupted):
        grue.train(task, "supervised+reinforce", observer=Watcher(), stop=lambda: bool(done), **SMALL)
    assert done == ["supervised"]
    assert not Path("runs/own/words/supervised+reinforce").exists()


def test_a_model_by_its_folder_and_a_baseline(task, model, refused):
    found = grue.evaluate(model, task, output="model-result", limit=2)
    assert found.system["algorithm"] == "external" and found.limited
    assert grue.evaluate("oracle", task).preference == pytest.approx(100.0)
    assert Path("runs/own/words/oracle/seed-1/result.json").is_file()
    with refused(ConfigError):
        grue.evaluate("oracle")


CANNOT = [
    (ConfigError, lambda out: grue.train(RunRequest(task=load_task("imdb"), runs=out), seed=2)),
    (ConfigError, lambda out: grue.train(RunRequest(task=load_task("imdb"), runs=out), updates=3)),
    (ConfigError, lambda out: grue.train("imdb", update=3, runs=out)),
    (UnknownName, lambda out: grue.train("imdb", "nlop", runs=out)),
    (ConfigError, lambda out: grue.train("imdb", reward="", runs=out)),
    (ConfigError, lambda out: grue.train("imdb", reward=5, runs=out)),
    (ConfigError, lambda out: grue.train("imdb", trackers="wandb", runs=out)),
    (UnknownName, lambda out: grue.train("imdb", trackers=["tb"], runs=out)),
    (ConfigError, lambda out: grue.evaluate("null", "commongen", limit=-3, runs=out)),
    (ConfigError, lambda out: grue.evaluate("null", "commongen", batch_size=0, runs=out)),
    (ConfigError, lambda out: grue.evaluate("zero-shot", "commongen", best_of=2.5, runs=out)),
    (ConfigError, lambda out: grue.generate("zero-shot", out / "x.jsonl", "commongen", limit=0)),
    (ConfigError, lambda out: grue.generate("zero-shot", out / "x.jsonl", "commongen", samples=2.0)),
    (ConfigError, lambda out: grue.export([], "model-index", out / "x.json")),
    (ConfigError, lambda out: grue.compare("a", "b", draws=0)),
    (ConfigError, lambda out: grue.compare("a", "b", tasks="imdb")),
    (ConfigError, lambda out: grue.score(["a"], references=out / "references.txt", metrics=["chrf"])),
]


@pytest.mark.parametrize(("error", "call"), CANNOT)
def test_arguments_that_cannot_be_are_refused_before_anything_is_written(tmp_path, error, call, refused):
    with refused(error):
        call(tmp_path)
    assert not list(tmp_path.iterdir())


def test_names_of_the_package():
    functions = "bench board compare diagnose evaluate examples export generate import_predictions push score train"
    rest = "Endpoint Example Prediction Trained callbacks errors rewards"
    assert set(grue.__all__) == {*functions.split(), *rest.split()}
    assert set(dir(grue)) == {*grue.__all__, "__version__"}
    assert all(getattr(grue, name).__name__.rpartition(".")[2] == name for name in grue.__all__)
    with pytest.raises(AttributeError, match="module 'grue' has no attribute 'trian'"):
        grue.trian  # noqa: B018


# --- the commands ----------------------------------------------------------------------------------------------------


def test_the_commands_take_the_file(own, task):
    dev = own.resolve() / "more/dev.csv"
    where = f"own/words validation\n  → local  {dev}  {dev.stat().st_size} bytes\n"
    assert where in run("data", "where", task).stdout
    said = run("data", "verify", task).stdout
    assert "own/words train: fine, 8 rows, 8 examples from train.jsonl@" in said
    said = run("data", "export", task, "--output", "out.jsonl").stdout
    assert said == "own/words test: 3 examples → out.jsonl\n"
    files.write_jsonl(Path("answers.jsonl"), [{"id": f"t{n}", "text": "a ball"} for n in range(3)])
    assert "100.0  preference" in run("score", "answers.jsonl", "--task", task, "--metrics", "rouge1").stdout


def test_a_mistake_in_a_task_file_or_beside_it_claims_no_folder(own, task, monkeypatch, refused):
    train = ["train", "--task", task, "--algo", "ppo", *(f"--set={key}={value}" for key, value in SMALL.items())]
    text = task.read_text()
    metric = '[0, 1] }, { name = "polite:politness", axis = "naturalness", range = [0, 1] }]'
    (own / "polite.py").write_text("def politeness(examples, texts):\n    return [0.5] * len(texts)\n")
    task.write_text(text.replace("[0, 1] }]", metric))
    refused.command(*train, code=2)
    task.write_text(text)
    refused.command(*train, "--reward", "nowhere:f", code=2)
    (own / "plain_of_mine.py").write_text("PLAIN = 3\n")
    monkeypatch.syspath_prepend(own)
    refused.command("train", "--task", task, "--algo", "plain_of_mine:PLAN", code=2)
    assert not [*Path("runs").rglob("*.*")]
    task.write_text(text.replace("[0, 1] }]", metric.replace("politness", "politeness")))
    grue.train(str(task), "ppo", **SMALL)


def test_results_of_ones_own_task_are_found_by_its_file(task, refused):
    for system in ("copy", "lead"):
        grue.evaluate(system, str(task))
    refused.command("compare", "runs/own/words/copy", "runs/own/words/lead", code=2)
    edit(task, ("max_new_tokens = 6", "max_new_tokens = 7"))
    said = run("evaluate", "--baseline", "copy", "--task", task, code=2).stderr
    assert re.search(r"holds an evaluation for another version of the task \([0-9a-f]{12}, now [0-9a-f]{12}\)", said)
    refused.command("compare", "copy", "lead", "--task", task, code=3)


# --- rewards ---------------------------------------------------------------------------------------------------------

EXAMPLES = [Example(f"e{n}", "", ()) for n in range(3)]
TEXTS = ["a", "b", "c"]


def failing(examples, texts):
    return [1.0 / (text != "b") for text in texts]


SCALE = 1.0


def test_a_name_follows_the_source_its_place_and_what_was_captured_or_is_read(monkeypatch):
    def made(weight):
        return lambda examples, texts: [weight for _ in texts]

    def scaled(examples, texts):
        return [SCALE * len(text) for text in texts]

    name = rewards.give_name
    one, other = (lambda examples, texts: [1.0 for _ in texts]), (lambda examples, texts: [2.0 for _ in texts])
    assert name(made(1.0)) == name(made(1.0)) != name(made(2.0))
    assert name(one) != name(other) and name(failing) != name(share_of_the)
    assert name(failing).startswith(f"{__name__}:failing (sha256 ")
    before = name(scaled)
    assert name(scaled) == before
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert name(scaled) != before


class Judge:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, examples, texts):
        return [self.weight] * len(texts)

    def judge(self, examples, texts):
        return [self.weight] * len(texts)


def test_what_cannot_be_read_has_a_name_of_its_own():
    name, one, other, model = rewards.give_name, Judge(0.5), Judge(0.5), object()
    assert name(one) == name(one) != name(other)
    assert name(Judge(1.0).judge) != name(Judge(-5.0).judge)
    unknown = (
        functools.partial(failing),
        lambda examples, texts: [float(model is None)] * len(texts),
        Judge(1.0).judge,
    )
    assert all("(unknown " in name(function) for function in unknown)
    named = rewards.make_reward(name(one), load_task("imdb"), EXAMPLES)
    assert named(EXAMPLES, TEXTS) == [0.5, 0.5, 0.5]


def test_the_board_is_a_frame_with_local_rows(tmp_path):
    made = files.read_json(ROOT / "submissions/mini/supervised/imdb/seed-1.result.json")
    files.write_json(tmp_path / "mini/imdb/supervised/seed-1/result.json", made)
    table = grue.board(task="imdb", runs=tmp_path, submissions=ROOT / "submissions")
    own = table[(table.system == "supervised") & (table.status == "local") & (table.metric == "preference")]
    assert (own.seed.tolist(), own.value.tolist()) == ([1], [pytest.approx(made["preference"])])
    assert "local" not in set(grue.board(task="imdb", runs=None, submissions=ROOT / "submissions").status)


def test_a_board_says_what_it_leaves_out_and_refuses_folders_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = files.read_json(ROOT / "submissions/mini/supervised/imdb/seed-1.result.json")
    for name, content in (("old", {**made, "task_hash": "0"}), ("damaged", {})):
        files.write_json(tmp_path / f"runs/mini/imdb/{name}/seed-1/result.json", content)
    said = []
    assert "local" not in set(grue.board(task=Path("imdb"), warn=said.append).status)
    old, damaged = said
    assert old.startswith("imdb: supervised (seed 1) left out, made for another version")
    assert damaged.startswith("Left out: ") and "damaged" in damaged
    told = run("leaderboard", "--task", "imdb", "--format", "csv")
    assert told.stderr.splitlines() == said and "local" not in told.stdout
    for wrong in ({"runs": "nowhere"}, {"submissions": "nowhere"}):
        with pytest.raises((ConfigError, DataError), match="nowhere: there is no such folder"):
            grue.board(task="imdb", **wrong)
    (tmp_path / "mine/mini").mkdir(parents=True)
    assert grue.board(task="imdb", runs=None, submissions="mine").empty, "as with --submissions"
