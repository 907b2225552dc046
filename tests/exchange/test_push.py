"""A checkpoint to the hub: what is sent, what is refused, and that it comes back as it was."""

import json
import shutil

import pytest
import yaml
from huggingface_hub import ModelCard, constants, parse_eval_result_entries
from support import commands, hub_server
from support.hub_server import Fault
from support.late import late
from support.own_task import OWN_TASK

import grue
from grue import files
from grue.errors import DataError

tiny, checkpoint = late("support.tiny"), late("grue.lm.checkpoint")
TOKEN = "hf_secretsecretsecret"
SECOND = '}, { name = "rouge2", axis = "naturalness", range = [0, 1] }]'
SCORES = ".eval_results/own_words.yaml"
BENCHMARK = ("--benchmark", "grue-bench/words@main")


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with a task and an evaluated run on it, made once."""
    home = tmp_path_factory.mktemp("pushed")
    for one in (tiny.model("causal"), tiny.tokenizer("causal")):
        one.save_pretrained(home / "model")
    rows = [{"prompt": f"the {word} sees", "references": [f"the {word} sees a ball"]} for word in tiny.WORDS[:8]]
    files.write_jsonl(home / "rows.jsonl", rows)
    task = OWN_TASK.format(metric="rouge1").replace("}]\n[data]", f"{SECOND}\n[data]")
    (home / "words.toml").write_text(task.replace('"mini:causal"', f'"{home / "model"}"'))
    settings = {"updates": 1, "rollouts": 4, "minibatch_size": 4, "epochs": 1}
    grue.evaluate(grue.train(home / "words.toml", "ppo", runs=home / "runs", **settings))
    return home


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the run's folder, to be damaged."""
    return shutil.copytree(trained / "runs/own/words/ppo/seed-1", tmp_path / "runs/own/words/ppo/seed-1")


@pytest.fixture
def written(hub, waited, monkeypatch):
    """The hub, which a token of the user `me` may write to; without Xet, which it does not speak."""
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nowhere/token")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.tokens[TOKEN] = {"me"}
    return hub


@pytest.fixture
def held(hub):
    """The files of a repository's newest commit."""
    return lambda name="me/words": hub.files["models", name, hub_server.commit_of(hub, "models", name, "main")]


@pytest.fixture
def push(run):
    """Push the run; return what is printed and told."""

    def call(*more, folder=run, to="me/words", code=0):
        done = commands.grue("tools", "push", folder, "--to", to, *more, code=code)
        assert TOKEN not in done.output, done.output
        return done

    return call


@pytest.fixture
def refuse(run, refused):
    """Expect that the run is not pushed."""
    return lambda code, *more, to="me/words": refused.command("tools", "push", run, "--to", to, *more, code=code)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_a_push_brings_the_checkpoint_its_card_and_its_scores_once(written, held, push, run):
    before, manifest = contents(run), checkpoint.read_manifest(run / "checkpoint")
    push(*BENCHMARK)
    found, commits = held(), len(written.files)
    assert set(found) == {*manifest.files, "grue.json", "README.md", ".gitattributes", SCORES}
    assert all(found[name] == (run / "checkpoint" / name).read_bytes() for name in (*manifest.files, "grue.json"))
    result = json.loads((run / "result.json").read_text())
    entries = parse_eval_result_entries(yaml.safe_load(found[SCORES]))
    assert [(one.dataset_id, one.task_id, one.dataset_revision) for one in entries] == [
        ("grue-bench/words", f"own_words_{axis}", "main") for axis in ("preference", "naturalness")
    ]
    assert [one.value for one in entries] == [round(result[axis], 4) for axis in ("preference", "naturalness")]
    assert {one.source_url for one in entries} == {f"{written.address}/me/words"}
    assert all("split test, seed 1" in one.notes and one.date.endswith("Z") for one in entries)

    card = ModelCard(found["README.md"].decode())
    told = {(one.dataset_split, one.metric_type): one.metric_value for one in card.data.eval_results}
    assert told["test", "preference"] == round(result["preference"], 4)
    assert told["validation", "preference"] == round(manifest.validation["preference"], 4)
    assert "| reward calls |" in card.text
    assert 0 < card.text.index("## Scores on the test split") < card.text.index("## Use")
    assert contents(run) == before, "nothing here changes"

    assert "has all of it already" in push(*BENCHMARK).stdout and len(written.files) == commits
    assert len([path for method, path, _ in written.requests if method == "PUT"]) == 1, "the weights are sent once"


def test_the_last_policy_of_a_run_brings_its_own_scores(written, held, push, run, trained):
    made = grue.evaluate(run / "final", trained / "words.toml")
    assert made.system["name"] == "ppo+last"
    push("--samples", folder=run / "final")
    sent = json.loads(held()["evaluation/result.json"])
    assert (sent["system"]["name"], sent["system"]["weights"]) == ("ppo+last", made.system["weights"])
    assert json.loads((run.parents[1] / "ppo+last/seed-1/result.json").read_text()) == sent


def test_samples_go_along_and_the_pushed_model_evaluates_alike(written, held, push, run, trained, tmp_path):
    push("--samples")
    found = held()
    for name in ("predictions.jsonl", "scores.jsonl", "result.json"):
        assert found[f"evaluation/{name}"] == (run / name).read_bytes()
    assert "evaluation/evaluation.json" not in found, "it names folders of this machine"
    assert {value for _, path, value in written.headers if path.startswith("/stored/")} == {None}
    assert f"Bearer {TOKEN}" in {value for _, _, value in written.headers}
    assert not any(TOKEN.encode() in content for content in found.values())

    result = json.loads((run / "result.json").read_text())
    again = grue.evaluate("me/words", trained / "words.toml", runs=tmp_path / "again")
    assert again.hashes["predictions"] == result["hashes"]["predictions"]
    copy = tmp_path / "copy"
    for name, content in {**found, ".cache/huggingface/CACHEDIR.TAG": b"of hf download --local-dir"}.items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(content)
    assert checkpoint.read_manifest(copy).weights == result["system"]["weights"], "what the hub adds does no harm"
    (copy / "evaluation/model.safetensors").write_bytes(b"weights")
    with pytest.raises(DataError, match="damaged: it holds evaluation/model.safetensors"):
        checkpoint.read_manifest(copy)


def test_a_dry_run_needs_no_token_and_sends_nothing(hub, waited, push, run, monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    *lines, last = push("--samples", "--dry-run", "--benchmark", "a/b").stdout.splitlines()
    assert last.startswith(f"{len(lines)} files, ") and last.endswith("to me/words; nothing was sent.")
    names = {line.split()[-1] for line in lines}
    assert names >= {"model.safetensors", "README.md", SCORES, "evaluation/predictions.jsonl"}
    monkeypatch.chdir(run / "checkpoint")  # from within its folder
    assert "evaluation/predictions.jsonl" in push("--samples", "--dry-run", folder=".").stdout
    assert hub.requests == []


def test_scores_without_a_data_set_or_an_evaluation_of_these_weights_do_not_go_along(written, held, push, run, refuse):
    assert "adds .eval_results" in push().stderr and not [path for path in held() if "eval_results" in path]
    assert "own/words" in held()["README.md"].decode()
    path, claim = run / "result.json", run / "evaluation.json"
    whole, claimed = (json.loads(one.read_text()) for one in (path, claim))
    for change, said in (
        ({"system": whole["system"] | {"weights": "0" * 64}}, "is of other weights"),
        ({"limited": True}, "is of a part of the split"),
    ):
        files.write_json(path, whole | change)
        files.write_json(claim, claimed | {"sha256": claimed["sha256"] | {"result.json": files.sha256_file(path)}})
        done = push("--dry-run")
        assert said in done.stderr and "eval_results" not in done.stdout
    for name in ("result.json", "evaluation.json", "predictions.jsonl", "scores.jsonl"):
        (run / name).unlink()
    refuse(2, "--samples")
    assert "no scores go along; `grue evaluate" in push().stderr
    assert held()["README.md"] == (run / "checkpoint/README.md").read_bytes()


def test_files_of_an_earlier_checkpoint_are_removed_and_others_are_kept(written, held, push, run):
    push("--samples", *BENCHMARK)
    scores = {SCORES, "evaluation/predictions.jsonl", "evaluation/result.json"}
    assert held().keys() >= scores
    old = json.loads(held()["grue.json"])
    old["files"]["model-00002-of-00002.safetensors"] = "0" * 64
    mine = {"notes.md": b"mine", "model-00002-of-00002.safetensors": b"old", "grue.json": json.dumps(old).encode()}
    held().update(mine)
    (run / "result.json").unlink()
    push()
    assert held()["notes.md"] == b"mine"
    assert not [name for name in held() if name.startswith((".eval_results/", "evaluation/", "model-00002"))]


def test_a_card_that_was_edited_keeps_its_edits(written, held, push, run):
    path = run / "checkpoint/README.md"
    mine = '---\ndate: 2026-11-23\ntitle: "Mine: \\u2028"\n"yes": 1\n'
    path.write_text(path.read_text().replace("---\n", mine, 1) + "\nMy note.\n")
    for _ in range(2):
        push()
        card = held()["README.md"].decode()
        read = yaml.safe_load(card.split("---\n")[1])
        assert (read["title"], read["date"], read["yes"]) == ("Mine: \u2028", "2026-11-23", 1)
        assert [one["dataset"]["split"] for one in read["model-index"][0]["results"]] == ["validation", "test"]
        assert card.endswith("\nMy note.\n") and card.count("## Scores on the test split") == 1
        path.write_text(card)  # what was pushed, fetched again and pushed again


def test_the_hub_s_address_is_taken_from_the_option(written, held, push, run, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    push("--endpoint-url", f"{written.address}/", "--benchmark", "a/b")
    assert {one["source"]["url"] for one in yaml.safe_load(held()[SCORES])} == {f"{written.address}/me/words"}
    assert "the upload was cut off: " in push(code=3).stderr


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_changed_evaluation_or_checkpoint_is_refused(written, run, refuse):
    with (run / "predictions.jsonl").open("a") as handle:
        handle.write("\n")
    refuse(3)
    (run / "checkpoint/config.json").write_text("{}")
    refuse(3)
    assert written.requests == []


def test_a_repository_that_holds_something_else_is_refused(written, held, push, refuse):
    written.add("models", "me/words", {"pytorch_model.bin": b"1", "README.md": b"theirs"})
    refuse(2)
    assert held()["README.md"] == b"theirs"
    push("--force")
    assert held()["pytorch_model.bin"] == b"1"


def test_private_means_private(written, held, push, refuse):
    for _ in range(2):
        push("--private")
        assert written.private == {"me/words"}
    written.add("models", "me/public", {"README.md": b""})
    refuse(2, "--private", to="me/public")
    assert list(held("me/public")) == ["README.md"]


def test_refusals_say_what_to_do(written, push, run, refuse):
    written.add("models", "you/theirs", {".gitattributes": b""})
    for name in ("you/words", "you/theirs"):
        refuse(3, to=name)
    for name in ("words", "me/words/more", "../words", "me/..", "me/wo rds", "me/words.git", "-/x"):
        refuse(2, to=name)
    for address in ("ftp://hub", "hub.example", f"https://me:{TOKEN}@hub.example", "https://"):
        refuse(2, "--endpoint-url", address)
    refuse(2, "--benchmark", "words")
    (run / "checkpoint/README.md").write_text("---\nlanguage: [\n---\n")
    assert "README.md: the hub cannot read its front matter" in push(code=3).stderr
    (run / "checkpoint/README.md").unlink()
    refuse(3)


def test_without_a_token_or_with_an_old_one(written, monkeypatch, refuse):
    written.tokens.clear()
    refuse(3)
    monkeypatch.delenv("HF_TOKEN")
    written.requests.clear()
    refuse(2)
    assert written.requests == []
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    refuse(2)


def test_an_interrupted_push_goes_on(written, held, push):
    written.ignored = r"tokenizer\.json$"
    assert "lacks tokenizer.json or has other content there: a .gitignore" in push(code=3).stderr
    written.ignored = ""
    for path, status in (("preupload", 400), ("/stored/", 403), ("commit/main", 500), ("commit/main", 412)):
        method = "PUT" if path == "/stored/" else "POST"
        written.stored.clear()
        written.faults.append(Fault(path, method, status=status, headers={"X-Error-Message": f"no, {TOKEN}"}))
        assert "Nothing was changed on this machine; rerun the command to continue." in push(code=3).stderr
    push()
    assert "model.safetensors" in held()
