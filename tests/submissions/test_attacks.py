"""What a cheat would try with files alone: each attack with the check that stops it, and those that only a draw stops.

What a fresh draw stops is in test_draw.py and test_trust.py.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from support.factories import a_result, a_task
from support.good_submission import (
    EXAMPLES,
    IDS,
    OTHER_WAY,
    SEEDS,
    TASK,
    codes,
    hand_in,
    say,
    seal,
    texts_of,
    use_few_examples,
    write_good,
)
from support.paths import ROOT

from grue.errors import DataError
from grue.records import Prediction
from grue.submissions.checks.check import check
from grue.submissions.checks.copies import COPIED, RunTexts, are_copies, bare, check_copies, check_references
from grue.submissions.checks.rescoring import check_legible
from grue.submissions.entries import recomputed, results
from grue.submissions.reported import read_reported

HOW = {"first": "Soon a {0} runs right through the {1}.", "second": OTHER_WAY}


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    suite = tmp_path_factory.mktemp("honest") / "submissions/mini"
    for name, how in HOW.items():
        write_good(suite / name, how)
    return suite


@pytest.fixture
def board(honest, tmp_path, monkeypatch):
    use_few_examples(monkeypatch)
    return Path(shutil.copytree(honest, tmp_path / "submissions/mini"))


def found(board, seeds, **said):
    """Hand texts in as "cheat", the other seeds honest; return the numbers of what keeps it off the board."""
    cheat = board / "cheat"
    shutil.rmtree(cheat, ignore_errors=True)
    for seed in SEEDS:
        hand_in(cheat, seed, seeds.get(seed) or texts_of(seed))
    say(cheat, **said)
    return codes(check(seal(cheat)), "error")


def references(which=0):
    return {example.id: example.references[which] for example in EXAMPLES}


def predictions(texts):
    named = texts.items() if isinstance(texts, dict) else ((f"{n:03}", text) for n, text in enumerate(texts))
    return [Prediction(key, text) for key, text in named]


def run(name, said, **system):
    result = replace(a_result(a_task(), name, 1, 50.0), system={"name": name, **system})
    return RunTexts.of(Path(name), result, predictions(said))


def random_texts(seed, count=200):
    """Of which no two are alike."""
    drawn = random.Random(seed)
    words = [f"{one}{two}ing" for one in "bcdfghklmn" for two in ("as", "el", "il", "on", "ur")]
    return [" ".join(drawn.sample(words, 6)) for _ in range(count)]


# --- copies ----------------------------------------------------------------------------------------------------------


DISGUISES = {
    "as they are": lambda text: text,
    "without the full stop": lambda text: text.rstrip("."),
    "with two full stops": lambda text: f"{text}.",
    "in capitals": str.upper,
    "in quotation marks": lambda text: f"« {text} »",
    "with an accent": lambda text: text.replace("a", "a\u0301"),
    "in full-width letters": lambda text: "".join(chr(ord(s) + 0xFEE0) if "!" <= s <= "~" else s for s in text),
    "in bold letters": lambda text: "".join(chr(0x1D41A + ord(s) - 97) if "a" <= s <= "z" else s for s in text),
    "with dots between": lambda text: text.replace(" ", " . "),
    "with a letter behind": lambda text: f"{text} k",
    "with a dash for a space": lambda text: text.replace(" ", "-"),
}


@pytest.mark.parametrize("name", DISGUISES)
def test_references_another_seed_and_another_system_in_disguise(name):
    disguise, texts = DISGUISES[name], random_texts(1)
    copy = run("cheat/imdb/seed-2", list(map(disguise, texts)))
    original = run("row/imdb/seed-1", texts)
    assert codes(check_copies(copy, [original], [])) == {17}
    assert codes(check_copies(copy, [], [original])) == {18}
    examples = [replace(EXAMPLES[0], id=f"{n:03}", references=("Another.", text)) for n, text in enumerate(texts)]
    assert codes(check_references(copy, examples)) == {33}


def test_how_many_copies_are_too_many():
    """Honest runs share up to .95 of their texts, which is no copy; the bound is met from either side."""
    texts, other = random_texts(1), random_texts(2)
    for kept, expected in ((200, True), (197, True), (196, True), (195, False), (190, False)):
        assert are_copies(texts, [[text] for text in texts[:kept] + other[kept:]]) == expected == (kept >= COPIED * 200)
    assert not are_copies(texts, [[] for _ in texts])
    assert not are_copies([], [])


def test_an_honest_row_passes_and_copies_of_whole_runs_do_not(board):
    assert found(board, {}) == set()
    assert found(board, {1: references(1)}) == {33}
    assert found(board, {1: texts_of(3, HOW["first"])}) == {18}
    assert found(board, {2: texts_of(1)}) == {17}


def test_what_these_checks_do_not_see(board):
    """Other references in each seed among honest texts, as in 28 % of the texts: that is for the fresh draw to find."""
    some = {seed: texts_of(seed) | {key: references(seed % 2)[key] for key in IDS[seed : seed + 3]} for seed in SEEDS}
    assert found(board, some) == set()
    assert (
        found(board, {1: {key: f"{text} Or so they say, in any case." for key, text in references().items()}}) == set()
    )


START = {"weights": "s" * 64, "algorithm": "supervised"}
KEPT = {"weights": "s" * 64, "algorithm": "ppo", "update": 0}


@pytest.mark.parametrize(
    ("ours", "theirs", "excused"),
    [
        (KEPT, START, True),
        (START, KEPT, True),
        (KEPT, KEPT | {"algorithm": "nlpo"}, True),
        (KEPT, {"weights": "z" * 64, "algorithm": "zero-shot"}, True),
        (KEPT, START | {"weights": "t" * 64}, False),
        (KEPT, {"weights": "s" * 64, "algorithm": "ppo", "update": 16}, False),
        (KEPT | {"update": 1}, START, False),
        (KEPT | {"weights": ""}, START | {"weights": ""}, False),
        ({}, {}, False),
    ],
)
def test_who_kept_its_start_has_its_texts_and_a_claim_of_that_hides_no_copy_of_what_was_trained(ours, theirs, excused):
    texts = random_texts(1)
    one, other = run("ours/imdb/seed-1", texts, **ours), run("theirs/imdb/seed-1", texts, **theirs)
    assert codes(check_copies(one, [], [other])) == (set() if excused else {18})
    assert codes(check_copies(one, [other], [])) == (set() if excused else {17})


def test_what_a_reader_takes_in():
    read = {"A dog\u200b runs.": "a dog runs", "Ａ dog—runs!": "a dog runs", "Straße": "strasse", "naïve": "naive"}
    read |= {"ﬁne": "fine", "x_y": "x y", " – ": ""}
    assert list(map(bare, read)) == list(read.values())


# --- characters and lengths ------------------------------------------------------------------------------------------


def test_characters_that_nobody_sees_and_texts_far_beyond_the_limit():
    def told(said):
        return codes(check_legible(Path("x"), EXAMPLES[: len(said)], said, TASK.decoding.max_new_tokens, False))

    for sign in "\u200b\u200d\u2060\ufeff\u00ad\u202e\u2066\x00\x07\x1b\x7f\x85\u2028\ue000\U000e0041":
        assert told(predictions([f"A man{sign} runs."])) == {46}, ascii(sign)
    assert not told(predictions(["A man\n\truns – “in” the street, naïve\u00a0…"]))
    for long in ("a" * 5_000, "run " * 1_000, "\n" * 2_000 + "x"):
        assert told(predictions(texts_of(1) | {"id-man": long})) == {46}


# --- processes, and what a board reads -------------------------------------------------------------------------------


KILLED = """
import os
from grue.submissions.checks import check
if __name__ == "__main__":
    check.check_task = os.system
    check._in_processes([("touch one; sleep 600",), ("touch two; sleep 600",)], 2)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_check_that_is_killed_takes_its_processes_along(tmp_path, number):
    (tmp_path / "killed.py").write_text(KILLED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "killed.py"], cwd=tmp_path, env=environment, start_new_session=True)
    try:
        while not all((tmp_path / name).exists() for name in ("one", "two")):  # both are at work
            assert process.poll() is None
            time.sleep(0.1)
        assert len(workers_of(process)) == 2
        process.send_signal(number)
        process.wait()
        until = time.monotonic() + 60
        while workers_of(process) and time.monotonic() < until:
            time.sleep(0.1)
        assert workers_of(process) == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def workers_of(process):
    """Return the pid of each process that a pool of spawned ones started, in a session of its own."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            stat, command = (entry / "stat").read_text().rpartition(")")[2].split(), (entry / "cmdline").read_bytes()
            if int(stat[3]) == process.pid and b"spawn_main" in command:
                found.append(int(entry.name))
    return found


def test_a_board_reads_no_more_than_the_check(board, refused):
    """A result that is /dev/zero was read until memory ended."""
    assert len(results(board)) == 2 * len(SEEDS)
    victim = board / "first/commongen/seed-1.result.json"
    kept = victim.read_bytes()
    for spoil in (
        *(lambda to=to: victim.symlink_to(to) for to in ("/dev/zero", "/etc/passwd", "seed-2.result.json")),
        *(lambda: os.mkfifo(victim), lambda: victim.write_bytes(b" " * 300_000)),
        lambda: (victim.write_bytes(kept), (board / "first/evil.py").write_text("x")),
    ):
        victim.unlink()
        spoil()
        with refused(DataError):
            results(board)
    (board / "first/evil.py").unlink()
    assert len(results(board)) == 2 * len(SEEDS)
    for name in ("first.trust.json", "paper.reported.json", "x.recomputed.json"):
        (board / name).symlink_to("/dev/zero")
    for read in (lambda: results(board), *(lambda r=r: r(board.parent, "mini") for r in (read_reported, recomputed))):
        with refused(DataError):
            read()
