"""Every check of submissions, with the ways to trip it."""

import gzip
import re
import shutil
from pathlib import Path

import pytest
from support.good_submission import (
    EXAMPLES,
    FAILED,
    OTHER_WAY,
    PREDICTIONS,
    RESULT,
    SEEDS,
    TASK,
    codes,
    configure,
    edit,
    hand_in,
    have_tasks,
    no_examples,
    packed,
    remove_seeds,
    result_says,
    say,
    seal,
    system_says,
    texts_of,
    write_good,
)

from grue.errors import ConfigError
from grue.submissions import problems as declared
from grue.submissions.checks import rescoring, structure
from grue.submissions.checks.check import check
from grue.submissions.folder import read_submission
from grue.submissions.problems import CHECKS
from grue.submissions.reading import without_path
from grue.submissions.trust.record import standing_of

OF_BRANCHES = (40, 42, 44)
"""Checks of what a branch changes, which test_changes.py trips."""
SEARCHED = {"generation": {"num_beams": 4}, "scores": {"meteor": 1.0}, "preference": 99.0, "naturalness": 98.0}
SEARCHED |= {"counts": {"expected": 8}, "predictions": "0" * 64}
CHAT = {"kind": "chat", "version": TASK.prompt.chat.version, "hash": TASK.chat_hash, "shots": []}


def put(name, content):
    return lambda ours, _: (ours / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def pack(content, more=b"", times=0):
    """Predictions whose lines are `content`, then many times `more`."""
    return lambda ours, _: (ours / PREDICTIONS).write_bytes(gzip.compress(content + more * times, 1))


def of_manifest(pattern, new):
    def change(ours, _):
        path = ours / "MANIFEST.sha256"
        path.write_text(re.sub(pattern, new, path.read_text()))

    return change


def gone(name):
    return lambda ours, _: (ours / name).unlink()


def copied(name, as_):
    return lambda ours, _: shutil.copy(ours / name, ours / as_)


def toml(**said):
    return lambda ours, _: say(ours, **said)


def result(*seeds, within=None, **changes):
    return lambda ours, _: result_says(ours, *(seeds or (1,)), within=within, **changes)


def system(*seeds, **changes):
    return result(*seeds, within="system", **changes)


def score(change):
    """A change of what the first result says of its first score, CIDEr."""
    return lambda ours, _: edit(ours, lambda data: change(data["scores"][0]))


def edited(change):
    return lambda ours, _: edit(ours, change)


def texts(seed, texts, **how):
    return lambda ours, _: hand_in(ours, seed, texts_of(seed) | texts, **how)


def config(agreeing=True, **changes):
    return lambda ours, _: configure(ours, agreeing, **changes)


def both(*changes):
    def change(ours, monkeypatch):
        for one in changes:
            one(ours, monkeypatch)

    return change


def another_row(how=OTHER_WAY, name="theirs"):
    return lambda ours, _: write_good(ours.with_name(name), how)


def unverified(ours, patch):
    patch.setattr(structure, "standing_of", standing_of)


def record(ours, content):
    (ours.parent / "ours.trust.json").write_text(content)


def fewer_calls(ours, _):
    """A run of 8 updates of 64 rollouts that states half of its reward calls."""
    configure(ours, algorithm="ppo", config={"updates": 8, "rollouts": 64})
    system_says(ours, 1, update=8, training={"reward_calls": 256})


def raise_meteor(data):
    (meteor,) = [score for score in data["scores"] if score["metric"] == "meteor"]
    meteor["value"] += 2e-6


def a_backbone_of_what_has_none(ours, _):
    remove_seeds(ours, *SEEDS[1:])
    system_says(ours, 1, algorithm="null")
    say(ours, algorithm="null", seeds=[1], deterministic=True)


def the_weights_of_another_seed(ours, _):
    for seed in (1, 2):
        system_says(ours, seed, weights="0" * 64, config_sha256=f"{seed}" * 64, update=seed)


def no_data_beside_an_error(ours, monkeypatch):
    monkeypatch.setattr(rescoring, "load_examples", no_examples)
    (ours / "notes.txt").write_text("x")


NEGATIVE_KL = {"update": 3, "validation": {"kl": -0.2}}
ABOVE_ONE = {"kl": 0.5, "gain": 0.3, "share": 1.5, "how": "reachable"}

VIOLATIONS = [
    (1, "a script", put("evil.py", "raise SystemExit")),
    (1, "a folder of no task", lambda ours, _: (ours / "cooking").mkdir()),
    (1, "predictions without a result", copied(PREDICTIONS, "commongen/seed-6.predictions.jsonl.gz")),
    (1, "a row of that name in capitals", lambda ours, _: (ours.parent / "OURS").mkdir()),
    (2, "no submission.toml", gone("submission.toml")),
    (2, "a key that is unknown", toml(check=False)),
    (2, "the name of another folder", toml(name="theirs")),
    (3, "a seed that is too large", result(seed=2**32)),
    (3, "a seed below 0", result(seed=-1)),
    (3, "another schema", put(RESULT, '{"schema": 99}')),
    (3, "no status", put(RESULT, '{"schema": 1}')),
    (4, "another suite", result(suite="grue")),
    (4, "another system", result(system={"name": "x"})),
    (4, "another task", result(task="imdb")),
    (4, "another seed", result(seed=7)),
    (6, "a limited result", result(limited=True)),
    (6, "another task", result(task_hash="0" * 64)),
    (6, "another version", result(task_version=TASK.version - 1)),
    (6, "another split", result(split="validation")),
    (7, "no predictions", gone(PREDICTIONS)),
    (7, "predictions that are not packed", put(PREDICTIONS, "plain")),
    (7, "predictions that are cut off", put(PREDICTIONS, packed(texts_of(1))[:-9])),
    (7, "a key that is unknown", pack(b'{"id": "a", "txt": "x"}\n')),
    (7, "no text", pack(b'{"id": "a"}\n')),
    (8, "an example that is missing", put(PREDICTIONS, packed({key: "" for key in texts_of(1) if key != "id-man"}))),
    (8, "an example that is unknown", put(PREDICTIONS, packed(texts_of(1) | {"id-elk": "x"}))),
    (9, "a slightly better score", edited(raise_meteor)),
    (9, "another value", score(lambda cider: cider.update(value=0.5))),
    (9, "another signature", score(lambda cider: cider.update(signature="other"))),
    (9, "another number of texts", score(lambda cider: cider.update(n=400))),
    (9, "another scaled value", score(lambda cider: cider.update(scaled=99.0))),
    (9, "no score", edited(lambda data: data["scores"].pop(0))),
    (9, "a metric of another task", edited(lambda data: data["scores"].append(data["scores"][0] | {"metric": "x"}))),
    (9, "two scores of a metric", edited(lambda data: data["scores"].append(data["scores"][0]))),
    (9, "another preference", result(preference=99.0)),
    (9, "no preference", result(preference=None)),
    (9, "another naturalness", result(naturalness=1.5)),
    (10, "a seed that is not handed in", toml(seeds=[*SEEDS, 6])),
    (12, "no manifest", gone("MANIFEST.sha256")),
    (12, "another format", put("MANIFEST.sha256", "submission.toml ok\n")),
    (12, "another hash", of_manifest(r"[0-9a-f]{64}(?=  submission)", "0" * 64)),
    (12, "what is not there", of_manifest(r"\Z", f"{'0' * 64}  commongen/seed-6.result.json\n")),
    (12, "a file that is not listed", of_manifest(r".*  submission\.toml\n", "")),
    (13, "a link", lambda ours, _: (ours / "notes").symlink_to(ours / "submission.toml")),
    (14, "too many bytes", pack(b"", b" ", 10_000_001)),
    (14, "too many lines", pack(b'{"id": "a", "text": ""}', b"\n", 200_001)),
    (14, "a long text", put(PREDICTIONS, packed(texts_of(1) | {"id-man": "a" * 100_000}))),
    (14, "a long line that is none", pack(b"\n" + b"a" * 100_001)),
    (17, "other spaces", texts(2, {key: text.replace(" ", "  ") for key, text in texts_of(1).items()})),
    (18, "another system's", both(another_row(), texts(1, texts_of(3, OTHER_WAY)))),
    (19, "other predictions", result(within="hashes", predictions="0" * 64)),
    (19, "other ids", result(within="data", ids_sha256="0" * 64)),
    (19, "more examples than the split has", result(within="data", examples=999)),
    (19, "more empty texts", result(within="counts", empty=1)),
    (21, "scores", both(result(status="failed"), gone(PREDICTIONS))),
    (21, "predictions", result(**FAILED)),
    (3, "an isolate", both(toml(algorithm="x"), system(*SEEDS, algorithm="x", note="a\u2066"))),
    (3, "a thousand words", result(1, within="determinism", note="word " * 1_000)),
    (30, "three seeds", both(toml(seeds=[1, 2, 3]), lambda ours, _: remove_seeds(ours, 4, 5))),
    (30, "one task of two", lambda _, patch: have_tasks(patch, "commongen", "imdb")),
    (33, "the second ones", texts(1, {e.id: f"{e.references[1].upper()}!" for e in EXAMPLES})),
    (36, "a dirty checkout", result(within="grue", dirty=True)),
    (37, "another revision", system(revision="of yesterday")),
    (39, "no data", no_data_beside_an_error),
    (46, "a zero-width space", texts(1, {"id-man": "The man \u200bruns in the street."})),
    (46, "ten thousand words", texts(1, {"id-man": "man " * 10_000})),
    (9, "a metric that runs here", result(errors=["meteor: best of all systems"])),
    (70, "a folder", config(False, data_dir="/home")),
    (70, "no run", put("commongen/config.json", '{"schema": 1, "stages": []}')),
    (70, "deep nesting", put("commongen/config.json", "[" * 10_000 + "]" * 10_000)),
    (71, "other runs", both(config(), config(False, config={"epochs": 2, "train_share": None}))),
    (71, "what was not trained", config(False)),
    (71, "a reward that no result names", both(config(algorithm="ppo"), system(reward=""))),
    (71, "another reward", both(config(algorithm="ppo"), system(reward="bleu4"))),
    (70, "their own algorithm", config(algorithm="theirs:ALGORITHM")),
    (70, "their own reward", config(reward="0.5*meteor + os:system")),
    (70, "a backbone on their disk", config(backbone="/home/me/model")),
    (93, "fewer reward calls than none", system(training={"tokens": 5.0, "reward_calls": -1})),
    (80, "other reward calls than the configuration's", fewer_calls),
    (2, "another algorithm", system(*SEEDS, algorithm="supervised")),
    (2, "a larger backbone", both(system(*SEEDS, algorithm="ppo", backbone="mini:causal"), toml(backbone="me/405B"))),
    (2, "a backbone of what has none", a_backbone_of_what_has_none),
    (6, "another hash", result(*SEEDS, within="generation", prompting=CHAT | {"hash": "0" * 64})),
    (6, "another version", result(*SEEDS, within="generation", prompting=CHAT | {"version": True})),
    (6, "their own", result(*SEEDS, within="generation", prompting="the best of prompts")),
    (91, "one seed by a chat prompt", result(2, within="generation", prompting=CHAT)),
    (96, "a row of mini", unverified),
    (96, "a record that is none", lambda ours, patch: (unverified(ours, patch), record(ours, "{}"))),
    (93, "a KL below 0", system(last=NEGATIVE_KL)),
    (93, "a share above 1", system(frontier=ABOVE_ONE)),
    (93, "a search that the task does not make", result(searched=SEARCHED)),
    (93, "a hash that is none", system(weights="A" * 64)),
    (93, "more than there are", both(result(**FAILED, counts={"expected": 8, "scored": 9}), gone(PREDICTIONS))),
    (94, "one run's weights", the_weights_of_another_seed),
    (97, "one model", both(toml(algorithm="TRL's GRPO"), system(*SEEDS, algorithm="external", weights="a" * 64))),
]


@pytest.mark.parametrize(
    ("number", "violation"), [pytest.param(number, how, id=f"{number:03}-{name}") for number, name, how in VIOLATIONS]
)
def test_a_violation_trips_its_check_and_no_other(ours, monkeypatch, refused, number, violation):
    violation(ours, monkeypatch)
    if number != 12:
        seal(ours)
    problems = check(ours)
    assert codes(problems) - ({1} if number == 39 else set()) == {number}
    for problem in problems:
        assert (problem.severity, problem.cure) == (CHECKS[problem.id].severity, CHECKS[problem.id].cure)
    said = "\n".join(f"{Path(problem.path).name}: {problem.message}" for problem in problems)
    said = re.sub(rf"{TASK.chat_hash[:12]}|{TASK.hash[:12]}|[0-9a-f]{{64}}", "<sha256>", said)
    said = re.sub(r"(\\n|Known|not valid JSON: ).*", r"\1…", said)  # of this path, this version of grue, or of Python
    refused.message(said)


def test_every_check_is_tripped_by_a_test():
    tripped = {number for number, _, _ in VIOLATIONS} | set(OF_BRANCHES)
    assert {f"GRUE-S{number:03}" for number in tripped} == set(CHECKS)
    text = Path(__file__).with_name("test_changes.py").read_text(encoding="utf-8")
    assert all(re.search(rf"\b{number}\b", text) for number in OF_BRANCHES)


def test_ids_say_their_severity():
    for name, known in CHECKS.items():
        warned = int(name[-3:]) in (30, 36, 37, 39, 44, 80, 96, 97)
        assert known.severity == ("warning" if warned else "error")
        assert known.id == name
        assert known.cure.endswith(".") and not known.title.endswith(".")
    with pytest.raises(KeyError):
        declared.problem(999, Path("x"), "")


NOT_SAID = (
    *({"seeds": seeds} for seeds in ([1, 2**32], [1, -1], [1, 2, 1])),
    *({"authors": authors} for authors in (["A. \u202erohtuA"], [], ["A. Author"] * 101, ["..."], ["A", " "])),
    *({"budget": "one\nhour"}, {"budget": "word " * 1_000}, {"contact": "a\u200bb"}, {"backbone": "gpt2\u2066"}),
    *({"licence": licence} for licence in (" ", "-", "\u2800")),
    *({"checkpoints": place} for place in ("/home/me/runs", "https://example.org/model")),
    {"deterministic": True},
    *({"link": link} for link in ("javascript:alert(1)", "data:text/html,x", "ftp://c.org", "http://[::1")),
    *({"link": f"https://{rest}"} for rest in ("/path", "a.org/<script>", "a:b@c.org", "c.org@d.org", "127.0.0.1/x")),
    *({"link": f"https://{rest}"} for rest in ("c.org:22/", "localhost", f"{'a.' * 130}org")),
)


def test_what_submission_toml_may_not_say(ours, refused):
    messages = []
    for said in NOT_SAID:
        say(ours, **said)
        with pytest.raises(ConfigError) as caught:
            read_submission(ours)
        messages.append(without_path(caught.value, ours / "submission.toml"))
    refused.message("\n".join(messages))
    for link in ("https://c.org/a?b=c#d", "http://C.org:80", "https://c.org/@d", "https://xn--4ca.org:443?q"):
        say(ours, link=link)
        assert read_submission(ours).link == link


def test_a_system_by_chat_prompts_passes(ours, monkeypatch):
    result(*SEEDS, within="generation", prompting=CHAT)(ours, monkeypatch)
    assert check(seal(ours)) == []


def test_what_results_do_not_know_is_for_its_authors_to_say(ours):
    """Of a model that was made elsewhere they know no algorithm; and several of a thing are named as pack names them."""
    for number, seed in enumerate(SEEDS):
        system_says(ours, seed, algorithm="external", backbone=("b/two", "a/one")[number % 2])
    say(ours, algorithm="DPO on pairs of our own", backbone="a/one, b/two")
    assert codes(check(seal(ours))) == {37}
    say(ours, algorithm="DPO on pairs of our own", backbone="b/two")
    (told,) = [problem.message for problem in check(seal(ours)) if problem.id == "GRUE-S002"]
    assert told == "backbone: states 'b/two'; the results 'a/one, b/two'."
