"""A checkpoint to the hub: what is sent, what is refused, and that it comes back as it was."""

import json
import shutil

import pytest
import yaml
from huggingface_hub import ModelCard, constants, parse_eval_result_entries
from support import hub_server, tiny
from support.commands import here
from support.hub_server import Fault

import grue
from grue import files
from grue.errors import ConfigError, DataError
from grue.lm.checkpoint import read_manifest

TOKEN = "hf_secretsecretsecret"
TASK = """
suite = "own"
reward = "rouge1"
metrics = [
    { name = "rouge1", axis = "preference", range = [0, 1] },
    { name = "rouge2", axis = "naturalness", range = [0, 1] },
]
[data]
sources = [{ kind = "local", files = { train = "rows.jsonl", validation = "rows.jsonl", test = "rows.jsonl" } }]
[prompt]
max_tokens = 10
[rollout]
max_new_tokens = 6
[backbone]
family = "causal"
model = "model"
"""


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with a task and an evaluated run on it, made once."""
    home = tmp_path_factory.mktemp("pushed")
    tiny.model("causal").save_pretrained(home / "model")
    tiny.tokenizer("causal").save_pretrained(home / "model")
    rows = [{"prompt": f"the {word} sees", "references": [f"the {word} sees a ball"]} for word in tiny.WORDS[:8]]
    (home / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (home / "words.toml").write_text(TASK.replace('"model"\n', f'"{home / "model"}"\n'))
    settings = {"updates": 1, "rollouts": 4, "minibatch_size": 4, "epochs": 1}
    run = grue.train(home / "words.toml", "ppo", runs=home / "runs", **settings)
    grue.evaluate(run)
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


def held(hub, name="me/words"):
    """The files of a repository's newest commit."""
    return hub.files["models", name, hub_server.commit_of(hub, "models", name, "main")]


def push(run, *more, to="me/words"):
    done = here("push", str(run), "--to", to, *more)
    assert TOKEN not in done.output
    return done


def test_a_push_brings_the_checkpoint_its_card_and_its_scores(written, run):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    done = push(run, "--benchmark", "grue-bench/words@main")
    assert done.exit_code == 0, done.output
    found = held(written)
    manifest = read_manifest(run / "checkpoint")
    for name in manifest.files:
        assert found[name] == (run / "checkpoint" / name).read_bytes()
    assert found["grue.json"] == (run / "checkpoint/grue.json").read_bytes()
    assert set(found) == {
        *manifest.files, "grue.json", "README.md", ".gitattributes", ".eval_results/own_words.yaml",
    }  # fmt: skip

    result = json.loads((run / "result.json").read_text())
    entries = parse_eval_result_entries(yaml.safe_load(found[".eval_results/own_words.yaml"]))
    assert [(one.dataset_id, one.task_id, one.dataset_revision) for one in entries] == [
        ("grue-bench/words", "own_words_preference", "main"),
        ("grue-bench/words", "own_words_naturalness", "main"),
    ]
    assert [one.value for one in entries] == [round(result["preference"], 4), round(result["naturalness"], 4)]
    assert {one.source_url for one in entries} == {f"{written.address}/me/words"}
    assert all("split test, seed 1" in one.notes and one.date.endswith("Z") for one in entries)

    card = ModelCard(found["README.md"].decode())
    told = {(one.dataset_split, one.metric_type): one.metric_value for one in card.data.eval_results}
    assert told["test", "preference"] == round(result["preference"], 4)
    assert told["validation", "preference"] == round(manifest.validation["preference"], 4)
    assert "## Scores on the test split" in card.text and "| reward calls |" in card.text
    assert card.text.index("## Scores on the test split") < card.text.index("## Use")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before, "nothing here changes"


def test_the_same_push_again_sends_nothing(written, run):
    assert push(run).exit_code == 0
    commits = len(written.files)
    again = push(run)
    assert (again.exit_code, len(written.files)) == (0, commits)
    assert "has all of it already" in again.stdout
    sent = [path for method, path, _ in written.requests if method == "PUT"]
    assert len(sent) == 1, "the weights are sent once"


def test_the_token_is_sent_to_the_hub_only_and_stands_nowhere(written, run):
    assert push(run, "--samples").exit_code == 0
    assert {value for _, path, value in written.headers if path.startswith("/stored/")} == {None}
    assert f"Bearer {TOKEN}" in {value for _, _, value in written.headers}
    for content in held(written).values():
        assert TOKEN.encode() not in content


def test_samples_go_along_and_the_pushed_model_evaluates_alike(written, run, trained, tmp_path):
    assert push(run, "--samples").exit_code == 0
    found = held(written)
    for name in ("predictions.jsonl", "scores.jsonl", "result.json"):
        assert found[f"evaluation/{name}"] == (run / name).read_bytes()
    assert "evaluation/evaluation.json" not in found, "it names folders of this machine"

    result = json.loads((run / "result.json").read_text())
    again = grue.evaluate("me/words", trained / "words.toml", runs=tmp_path / "again")
    assert again.hashes["predictions"] == result["hashes"]["predictions"]

    copy = tmp_path / "copy"
    for name, content in found.items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(content)
    (copy / ".cache/huggingface").mkdir(parents=True)
    (copy / ".cache/huggingface/CACHEDIR.TAG").write_text("of hf download --local-dir")
    assert read_manifest(copy).weights == result["system"]["weights"], "what the hub adds does no harm"
    (copy / "evaluation/model.safetensors").write_bytes(b"weights")
    with pytest.raises(DataError, match="damaged: it holds evaluation/model.safetensors"):
        read_manifest(copy)


def test_a_dry_run_needs_no_token_and_sends_nothing(hub, waited, run, monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    done = push(run, "--samples", "--dry-run", "--benchmark", "a/b")
    assert (done.exit_code, hub.requests) == (0, [])
    lines = done.stdout.splitlines()
    assert lines[-1].startswith(f"{len(lines) - 1} files, ") and lines[-1].endswith("to me/words; nothing was sent.")
    names = {line.split()[-1] for line in lines[:-1]}
    assert {"model.safetensors", "README.md", ".eval_results/own_words.yaml", "evaluation/predictions.jsonl"} <= names


def test_scores_without_a_data_set_on_the_hub_are_in_the_card_alone(written, run):
    done = push(run)
    assert "adds .eval_results" in done.stderr and not [path for path in held(written) if "eval_results" in path]
    assert "own/words" in held(written)["README.md"].decode()


def test_a_checkpoint_without_an_evaluation_goes_alone(written, run):
    for name in ("result.json", "evaluation.json", "predictions.jsonl", "scores.jsonl"):
        (run / name).unlink()
    refused = push(run, "--samples")
    assert refused.exit_code == ConfigError.exit_code and "--samples was asked for" in refused.stderr
    done = push(run)
    assert done.exit_code == 0 and "no scores go along; `grue evaluate" in done.stderr
    assert held(written)["README.md"] == (run / "checkpoint/README.md").read_bytes()


def test_scores_of_other_weights_or_of_a_part_do_not_go_along(written, run):
    path = run / "result.json"
    whole = path.read_text()
    for change, said in (
        (lambda result: result["system"].update(weights="0" * 64), "is of other weights"),
        (lambda result: result.update(limited=True), "is of a part of the split"),
    ):
        result = json.loads(whole)
        change(result)
        files.write_json(path, result)
        claim = json.loads((run / "evaluation.json").read_text())
        claim["sha256"]["result.json"] = files.sha256_file(path)
        files.write_json(run / "evaluation.json", claim)
        done = push(run, "--dry-run")
        assert done.exit_code == 0 and said in done.stderr and "eval_results" not in done.stdout


def test_a_changed_evaluation_or_checkpoint_is_refused(written, run):
    with (run / "predictions.jsonl").open("a") as handle:
        handle.write("\n")
    done = push(run)
    assert done.exit_code == DataError.exit_code
    assert "predictions.jsonl: was changed after the evaluation" in done.stderr
    (run / "checkpoint/config.json").write_text("{}")
    done = push(run)
    assert done.exit_code == DataError.exit_code and "damaged: config.json differs" in done.stderr
    assert written.requests == []


def test_files_of_an_earlier_checkpoint_are_removed_and_others_are_kept(written, run):
    assert push(run).exit_code == 0
    name, head = "me/words", hub_server.commit_of(written, "models", "me/words", "main")
    old = json.loads(held(written)["grue.json"])
    old["files"]["model-00002-of-00002.safetensors"] = "0" * 64
    mine = {"notes.md": b"mine", "model-00002-of-00002.safetensors": b"old", "grue.json": json.dumps(old).encode()}
    written.files["models", name, head].update(mine)
    assert push(run).exit_code == 0
    assert "model-00002-of-00002.safetensors" not in held(written)
    assert held(written)["notes.md"] == b"mine"


def test_scores_of_an_earlier_checkpoint_do_not_stay_beside_new_weights(written, run):
    assert push(run, "--samples", "--benchmark", "grue-bench/words@main").exit_code == 0
    scores = [".eval_results/own_words.yaml", *(f"evaluation/{part}" for part in ("predictions.jsonl", "result.json"))]
    assert held(written).keys() >= {*scores}
    (run / "result.json").unlink()
    assert push(run).exit_code == 0
    assert not [name for name in held(written) if name.startswith((".eval_results/", "evaluation/"))]


def test_a_repository_that_holds_something_else_is_refused(written, run):
    written.add("models", "me/words", {"pytorch_model.bin": b"1", "README.md": b"theirs"})
    done = push(run)
    assert done.exit_code == ConfigError.exit_code
    assert (
        "me/words holds something else (pytorch_model.bin), and no checkpoint of grue: nothing was sent" in done.stderr
    )
    assert held(written)["README.md"] == b"theirs"
    assert push(run, "--force").exit_code == 0
    assert held(written)["pytorch_model.bin"] == b"1"


def test_private_means_private(written, run):
    assert push(run, "--private").exit_code == 0
    assert written.private == {"me/words"}
    assert push(run, "--private").exit_code == 0
    written.add("models", "me/public", {"README.md": b""})
    done = push(run, "--private", to="me/public")
    assert done.exit_code == ConfigError.exit_code and "me/public is public, and --private was asked for" in done.stderr
    assert list(held(written, "me/public")) == ["README.md"]


def test_refusals_say_what_to_do(written, run, monkeypatch):
    def said(code, *more, to="me/words"):
        done = push(run, *more, to=to)
        assert done.exit_code == code.exit_code, done.output
        return done.stderr

    assert "this token may not write there: it needs write access, and you must be you" in said(
        DataError, to="you/words"
    )
    written.add("models", "you/theirs", {".gitattributes": b""})
    assert "this token may not write there" in said(DataError, to="you/theirs")
    for name in ("words", "me/words/more", "../words", "me/..", "me/wo rds", "me/words.git", "-/x"):
        assert "is no repository's name: write OWNER/NAME" in said(ConfigError, to=name)
    for address in ("ftp://hub", "hub.example", f"https://me:{TOKEN}@hub.example", "https://"):
        assert "The hub's address: write https://HOST" in said(ConfigError, "--endpoint-url", address)
    assert "--benchmark 'words': write OWNER/NAME" in said(ConfigError, "--benchmark", "words")
    (run / "checkpoint/README.md").write_text("---\nlanguage: [\n---\n")
    assert "README.md: its front matter is not what the hub reads" in said(DataError)
    (run / "checkpoint/README.md").unlink()
    assert "it has no README.md, which the hub shows" in said(DataError)


def test_without_a_token_or_with_an_old_one(written, run, monkeypatch):
    written.tokens.clear()
    done = push(run)
    assert done.exit_code == DataError.exit_code and "log in again with `hf auth login`" in done.stderr
    monkeypatch.delenv("HF_TOKEN")
    written.requests.clear()
    done = push(run)
    assert done.exit_code == ConfigError.exit_code and "No token for the hub" in done.stderr
    assert written.requests == []
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    done = push(run)
    assert done.exit_code == ConfigError.exit_code and "HF_HUB_OFFLINE is set" in done.stderr


def test_an_interrupted_push_goes_on(written, run):
    for path, status in (("preupload", 400), ("/stored/", 403), ("commit/main", 500), ("commit/main", 412)):
        method = "PUT" if path == "/stored/" else "POST"
        written.faults.append(Fault(path, method, status=status, headers={"X-Error-Message": f"no, {TOKEN}"}))
        done = push(run)
        assert done.exit_code == DataError.exit_code, (path, done.output)
        assert "Nothing here was changed, and the same command goes on where it stopped." in done.stderr
    assert push(run).exit_code == 0
    assert "model.safetensors" in held(written)


def test_a_file_that_the_repository_ignores_is_told(written, run):
    written.ignored = r"tokenizer\.json$"
    done = push(run)
    assert (
        done.exit_code == DataError.exit_code
        and "lacks tokenizer.json or has it otherwise: a .gitignore" in done.stderr
    )


def test_a_card_that_was_edited_keeps_its_edits(written, run):
    path = run / "checkpoint/README.md"
    mine = '---\ndate: 2026-11-23\ntitle: "Mine: \\u2028"\n"yes": 1\n'
    path.write_text(path.read_text().replace("---\n", mine, 1) + "\nMy note.\n")
    for _ in range(2):
        assert push(run).exit_code == 0
        card = held(written)["README.md"].decode()
        read = yaml.safe_load(card.split("---\n")[1])
        assert (read["title"], read["date"], read["yes"]) == ("Mine: \u2028", "2026-11-23", 1)
        assert [one["dataset"]["split"] for one in read["model-index"][0]["results"]] == ["validation", "test"]
        assert card.endswith("\nMy note.\n") and card.count("## Scores on the test split") == 1
        path.write_text(card)  # what was pushed, fetched again and pushed again


def test_the_hub_s_address_is_taken_from_the_option(written, run, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    done = push(run, "--endpoint-url", f"{written.address}/", "--benchmark", "a/b")
    assert done.exit_code == 0, done.output
    entries = yaml.safe_load(held(written)[".eval_results/own_words.yaml"])
    assert {one["source"]["url"] for one in entries} == {f"{written.address}/me/words"}
    done = push(run)
    assert done.exit_code == DataError.exit_code
    assert "the upload was cut off: " in done.stderr and "Nothing here was changed" in done.stderr


def test_a_checkpoint_is_found_from_within_its_folder(written, run, monkeypatch):
    monkeypatch.chdir(run / "checkpoint")
    done = push(".", "--samples", "--dry-run")
    assert done.exit_code == 0 and "evaluation/predictions.jsonl" in done.stdout
