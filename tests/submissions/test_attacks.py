"""What a cheat would try, and its neighbours: each attack with the check that stops it. The board has two honest systems."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from support.factories import a_result, a_task
from support.good_submission import (
    EXAMPLES,
    FAILED,
    IDS,
    OTHER_WAY,
    PEOPLE,
    SEEDS,
    TASK,
    TRAINING,
    codes,
    hand_in,
    say,
    seal,
    system_says,
    texts_of,
    use_few_examples,
    write_good,
)
from support.paths import ROOT

from grue.errors import DataError
from grue.records import Prediction
from grue.submissions.by_reference.system import recomputed
from grue.submissions.checks import rescoring
from grue.submissions.checks.check import check
from grue.submissions.checks.likeness import SketchedRun, agreement, check_copies, check_twins, elsewhere
from grue.submissions.checks.rescoring import TaskRuns, _gathered, _Texts
from grue.submissions.checks.sketch import Shelf, alike, bare, equal, sketch
from grue.submissions.checks.texts import Known, Sources, check_characters, check_lengths, check_sources
from grue.submissions.checks.wording import check_name, check_wording
from grue.submissions.entries import results
from grue.submissions.folder import Submission
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
    monkeypatch.setattr(rescoring, "_preference_of_references", lambda *_: 100.0)
    return Path(shutil.copytree(honest, tmp_path / "submissions/mini"))


def asked(system):
    """Seal and check a system; return the numbers of what keeps it off the board."""
    return codes(check(seal(system)), "error", "review")


def found(board, seeds, **said):
    """Hand texts in as "cheat", the other seeds honest; return the numbers of what keeps it off the board."""
    cheat = board / "cheat"
    shutil.rmtree(cheat, ignore_errors=True)
    for seed in SEEDS:
        hand_in(cheat, seed, seeds.get(seed) or texts_of(seed))
    say(cheat, **said)
    return asked(cheat)


def everywhere(change, texts):
    return {key: change(text) for key, text in texts.items()}


def references(which=0):
    return {example.id: example.references[which] for example in EXAMPLES}


def predictions(texts):
    named = texts.items() if isinstance(texts, dict) else ((f"{n:03}", text) for n, text in enumerate(texts))
    return [Prediction(key, text) for key, text in named]


def run(name, said, **system):
    result = replace(a_result(a_task(), name, 1, 50.0), system={"name": name, **system})
    return SketchedRun(Path(name), sketch(predictions(said)), result)


def seeds_of(name, texts_of_seed):
    return [run(f"{name}/commongen/seed-{seed}", texts_of_seed(seed)) for seed in SEEDS]


def random_texts(seed):
    """Two hundred, of which no two are alike."""
    drawn = random.Random(seed)
    words = [f"{one}{two}ing" for one in "bcdfghklmn" for two in ("as", "el", "il", "on", "ur")]
    return [" ".join(drawn.sample(words, 6)) for _ in range(200)]


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
    "with a word behind": lambda text: f"{text} Ok",
    "with a dash for a space": lambda text: text.replace(" ", "-"),
}


@pytest.mark.parametrize("name", DISGUISES)
def test_references_and_another_systems_texts_in_disguise(name):
    disguise = DISGUISES[name]
    sources = Known(EXAMPLES, TRAINING).sources(predictions(everywhere(disguise, references(1))))
    assert codes(check_sources(Path("x"), sources, Sources())) == {33}
    standing = {name: seeds_of(name, lambda seed, how=how: texts_of(seed, how)) for name, how in HOW.items()}
    level = max(map(agreement, standing.values()))
    stolen = seeds_of("cheat", lambda seed: everywhere(disguise, texts_of(seed, OTHER_WAY)))
    for copy in stolen if name != "with dots between" else ():
        told = codes(check_copies(copy, [*standing["first"], *standing["second"]], level, gathered=0.0))
        assert told and told <= {18, 38}
    for one in seeds_of("honest", texts_of):
        assert not codes(check_copies(one, [*standing["first"], *standing["second"]], level, gathered=0.0))


ONE_AS_FIVE = {
    "spaces": lambda text, seed: text.replace(" ", " " * seed),
    "full stops": lambda text, seed: text + "." * seed,
    "capitals": lambda text, seed: text[:seed].upper() + text[seed:],
    "accents": lambda text, seed: text.replace("aeiou"[seed - 1], "aeiou"[seed - 1] + "\u0308"),
    "variation selectors": lambda text, seed: text + "\ufe0f" * seed,
    "Hangul fillers": lambda text, seed: text + "\u3164" * seed,
    "one letter": lambda text, seed: text + "abcde"[seed - 1],
    "one word": lambda text, seed: f"{text} {('so', 'yes', 'ha', 'oh', 'ah')[seed - 1]}",
    "look-alike letters": lambda text, seed: text.replace("e", "\u0435", seed - 1),
}


@pytest.mark.parametrize("name", ONE_AS_FIVE)
def test_one_run_as_five(name):
    seeds = seeds_of("cheat", lambda seed: everywhere(lambda text: ONE_AS_FIVE[name](text, seed), texts_of(1)))
    level = max(agreement(seeds_of("honest", lambda seed, how=how: texts_of(seed, how))) for how in HOW.values())
    told = codes(check_twins(seeds, [], level, moved=0.0, backbone="mini:causal"))
    assert told and told <= {17, 38}


def test_near_copies_of_many_texts_are_found():
    many = [f"{one} {other}" for one, other in zip(random_texts(1), random_texts(2), strict=True)]
    others = [text[::-1] for text in many]
    assert Shelf.of(many).near([f"{text} too" for text in many]).all()
    assert not Shelf.of(many).near([*others, ""]).any()
    assert not Shelf.of([]).near(others).any() and Shelf.of(many).near([]).shape == (0,)


def test_lines_gathered_from_many_runs_are_seen(refused):
    """Of each run a tenth, so that the cheat is like none of them: the best line of all that stand, say."""
    texts, drawn = [random_texts(seed)[:100] for seed in range(11)], random.Random(1)
    standing = [run(f"row-{n}/imdb/seed-1", said) for n, said in enumerate(texts[:10])]
    cheat = run("cheat/imdb/seed-1", [drawn.choice(texts[:10])[n] for n in range(100)])
    honest = run("honest/imdb/seed-1", texts[10])
    (problem,) = check_copies(cheat, standing, level=0.0, gathered=0.1)
    assert problem.id == "GRUE-S038"
    refused.message(problem.message)
    assert (elsewhere(cheat, standing), elsewhere(honest, standing)) == (1.0, 0.0)
    assert not list(check_copies(honest, standing, level=0.0, gathered=0.1))
    assert not list(check_copies(cheat, standing, level=0.0, gathered=1.0)), "where all answers are alike"


S_START = {"start": "s" * 64}
KINSHIPS = {
    "none": {},
    "their start": S_START,
    "one of them as its start": {"start": "p" * 64},
    "their start, which it kept": {**S_START, "weights": "s" * 64, "update": 0},
    "to be their start": {"algorithm": "supervised", "weights": "s" * 64},
    "a start that nobody knows": {"start": "x" * 64},
}


@pytest.mark.parametrize("name", KINSHIPS)
def test_a_claimed_kinship_hides_no_gathered_lines(name):
    said, first, second, mine = (random_texts(seed) for seed in range(4))
    standing = [
        run("base/imdb/seed-1", said, algorithm="supervised", weights="s" * 64),
        run("ppo/imdb/seed-1", first, **S_START, weights="p" * 64),
        run("nlpo/imdb/seed-1", second, **S_START, weights="n" * 64),
    ]
    gathered = [(said, first, second)[n % 3][n] for n in range(200)]
    cheat = run("cheat/imdb/seed-1", gathered, **{"weights": "c" * 64, **KINSHIPS[name]})
    assert 38 in codes(check_copies(cheat, standing, level=0.0, gathered=0.9))
    hardly_moved = run("honest/imdb/seed-1", [*said[:150], *mine[150:]], **S_START, weights="h" * 64)
    assert not list(check_copies(hardly_moved, standing, level=0.0, gathered=0.0))


def test_a_start_is_asked_about_no_texts_of_those_that_began_there():
    """They have most of its texts, as it was their start; the other seeds of their rows have others of its system's."""
    said, first, second = random_texts(1), random_texts(2), random_texts(3)
    base = run("base/imdb/seed-1", said, algorithm="supervised", weights="s" * 64)
    heir = run("ppo/imdb/seed-1", [*said[:120], *first[120:]], **S_START, weights="p" * 64)
    other_seed = run("ppo/imdb/seed-2", [*second[:120], *said[120:]], start="b" * 64, weights="q" * 64)
    assert not list(check_copies(base, [heir, other_seed], level=0.9, gathered=0.0))


def test_texts_for_other_examples_are_copies(board):
    """Where the prompt matters little, a run that is turned around among the examples scores as it does."""
    said, mine = random_texts(1), random_texts(2)
    row = run("row/imdb/seed-1", said, algorithm="supervised", weights="s" * 64)
    turned = run("turned/imdb/seed-1", [*said[70:], *said[:70]], **S_START, weights="t" * 64)
    (problem,) = check_copies(turned, [row], level=0.0, gathered=0.1)
    assert (problem.id, problem.message[:4]) == ("GRUE-S038", "100%")
    seeds = [run(f"own/imdb/seed-{k}", [*mine[30 * k :], *mine[: 30 * k]]) for k in range(3)]
    told = list(check_twins(seeds, [row], level=0.0, moved=0.0, backbone="mini:causal"))
    assert [(problem.id, problem.path[-6:]) for problem in told] == [("GRUE-S038", "seed-1"), ("GRUE-S038", "seed-2")]
    assert not list(check_twins(seeds, [row], level=0.0, moved=1.0, backbone="mini:causal"))
    around = {seed: dict(zip(IDS, (texts_of(1)[IDS[(n + seed) % 8]] for n in range(8)), strict=True)) for seed in SEEDS}
    assert 38 in found(board, around)


@pytest.mark.parametrize("checked", [("copy",), ("copy", "friend"), ("row", "other", "copy")])
def test_a_copy_does_not_make_itself_usual(checked):
    """All that the copied row says stands in the copy, which is no reason to expect that of honest rows."""
    said = {"row": random_texts(1), "other": random_texts(2), "copy": [*random_texts(1)[70:], *random_texts(1)[:70]]}
    said |= {"friend": said["copy"][::-1]} if "friend" in checked else {}
    systems = [TaskRuns(Path(name), is_reference=False, is_checked=name in checked, runs=()) for name in said]
    texts = {Path(name): _Texts({}, [run(f"{name}/imdb/seed-1", lines)], {}) for name, lines in said.items()}
    assert _gathered(systems[2], systems, texts) == pytest.approx(0.3)  # the limit of what the others have: nothing


def test_who_names_another_s_start_does_not_take_its_steps(refused):
    """86 % of a row's texts, the others made better: as a relative it may be alike, but only as far as the start is."""
    said, theirs, mine = (random_texts(seed) for seed in (1, 2, 3))
    start = run("base/imdb/seed-1", said, algorithm="supervised", weights="s" * 64)
    row = run("row/imdb/seed-1", [*said[:40], *theirs[40:]], start="s" * 64, weights="r" * 64)
    thief = run("thief/imdb/seed-1", [*said[:40], *theirs[40:172], *mine[172:]], start="s" * 64, weights="t" * 64)
    near = run("near/imdb/seed-1", [*said[:160], *mine[160:]], start="s" * 64, weights="n" * 64)  # it hardly moved
    (problem,) = check_copies(thief, [start, row], level=0.0, gathered=0.9)
    refused.message(f"{problem.id}: {problem.message}")
    assert not list(check_copies(near, [start, row], level=0.0, gathered=0.9))
    assert not list(check_copies(row, [start, near], level=0.0, gathered=0.9))


def test_what_a_reader_takes_in():
    read = {"A dog\u200b runs.": "a dog runs", "Ａ dog—runs!": "a dog runs", "Straße": "strasse", "naïve": "naive"}
    read |= {"ﬁne": "fine", "\u3164\u200d": "", "x_y": "x y"}
    assert list(map(bare, read)) == list(read.values())


def test_similarity_is_the_share_of_common_parts():
    """Against sets of 4-grams, counted one by one."""
    base = "the young man carries a red box to the old house in the evening"
    for other in (base, base + " now", base.replace("red", "green"), "something else entirely", base[:30]):
        grams = [{f" {text} "[i : i + 4] for i in range(len(text) - 1)} for text in (base, other)]
        jaccard = len(grams[0] & grams[1]) / len(grams[0] | grams[1])
        pairs = [sketch([Prediction(str(i), text) for i in range(3)]) for text in (base, other)]
        assert abs((pairs[0].rows == pairs[1].rows).mean() - jaccard) < 0.2
        assert alike(*pairs) == (1.0 if jaccard > 0.72 else 0.0)
        assert equal(*pairs) == (1.0 if base == other else 0.0)


def test_characters_that_nobody_sees_and_texts_far_beyond_the_limit():
    for sign in "\u200b\u200d\u2060\ufeff\u00ad\u202e\u2066\x00\x07\x1b\x7f\x85\u2028\ue000\U000e0041":
        assert codes(check_characters(Path("x"), predictions([f"A man{sign} runs."]))) == {46}, ascii(sign)
    assert not codes(check_characters(Path("x"), predictions(["A man\n\truns – “in” the street, naïve\u00a0…"])))
    for long in ("a" * 5_000, "run " * 1_000, "\n" * 2_000 + "x"):
        said = predictions(texts_of(1) | {"id-man": long})
        assert codes(check_lengths(Path("x"), EXAMPLES, said, TASK.decoding.max_new_tokens, is_reference=False)) == {47}


def test_names_and_links():
    ours = Submission("cheat", ("A. Author",), "CC0", "ppo", "mini:causal", (1,), "none", "1 hour")
    links = ("https://a:b@c.org", "https://c.org@d.org", "ftp://c.org", "https://127.0.0.1/x", "https://c.org:22/")
    for key, values, numbers in (
        ("authors", (("\u200b",), ("\u0301\u0301",), ("...",), ("\u3164",), ("A", " ")), {25, 22}),
        ("licence", ("-", "\u2800"), {25}),
        ("link", (*links, "https://localhost"), {24}),
    ):
        for value in values:
            told = codes(check_wording(replace(ours, **{key: value}), Path("x")))
            assert told and told <= numbers, (key, value)
    assert not codes(check_wording(replace(ours, link="https://c.org/a?b=c#d"), Path("x")))


def test_names_of_others():
    for name in ("FIRST", "fir-st", "f.i.r.s.t", "first+", "second_", "Second.", "0racle", "zero_shot", "best-of-N"):
        assert codes(check_name(Path(name), {one: Path(one) for one in HOW}, is_reference=False)) == {23}, name


def test_some_references_among_honest_texts(board):
    """Three texts of eight are enough to be asked about them, where honest systems have none."""
    assert found(board, {1: texts_of(1) | {key: references(1)[key] for key in IDS[:3]}}) == {33}
    assert found(board, {}) == set()


def test_texts_of_the_training_split_with_a_word_added(board):
    assert 51 in found(
        board, {1: {key: f"A goat runs up the hill {who}." for key, who in zip(IDS, PEOPLE, strict=True)}}
    )


def test_half_or_all_of_another_systems_texts(board):
    """Where they are all there, the seeds are shifted, so that none is like the one of its number."""
    half = {seed: texts_of(seed) | {key: texts_of(seed, OTHER_WAY)[key] for key in IDS[::2]} for seed in SEEDS}
    assert found(board, half) == {38}
    assert 18 in found(board, {seed: texts_of(seed % 5 + 1, OTHER_WAY) for seed in SEEDS})


def test_two_systems_at_once_do_not_vouch_for_each_other(board):
    """What is usual is measured on what stands: two copies in one pull request make nothing usual."""
    for name, change in (("cheat", str), ("friend", str.upper)):
        for seed in SEEDS:
            hand_in(board / name, seed, everywhere(lambda text, c=change, s=seed: c(f"{text} {s}"), references()))
        say(board / name)
        seal(board / name)
    problems = check([board / "cheat", board / "friend"])
    assert {Path(p.path).parts[-3] for p in problems if p.id == "GRUE-S033"} == {"cheat", "friend"}


def test_a_claimed_kinship_hides_no_copy(board):
    """Copies say that they began where the copied row did, or that they are its start."""
    copied = {seed: texts_of(seed, OTHER_WAY) for seed in SEEDS}
    assert 18 in found(board, copied)
    for claim in ({"update": 0}, {"update": 0, "start": "1" * 64}, {"weights": "1" * 64}):
        for seed in SEEDS:
            hand_in(board / "cheat", seed, copied[seed])
        system_says(board / "cheat", **claim)
        assert codes(check(seal(board / "cheat")), "error") == {18}, claim


def test_a_claimed_kinship_and_a_disguise_together_hide_no_copy(board):
    """The hashes of starts are public: copies with a word added say that they began where the copied row did."""
    copied = {seed: everywhere(lambda text: f"{text} Too", texts_of(seed, OTHER_WAY)) for seed in SEEDS}
    assert 38 in found(board, copied)
    for folder in (board / "cheat", board / "second"):
        for seed in SEEDS:
            system_says(folder, seed, start=f"{seed}" * 64)
        seal(folder)
    assert 38 in codes(check(board / "cheat"), "review")


def test_a_failed_run_changes_nothing_but_the_count_of_failures(board):
    """It makes no reference of a system, leaves no message, and is no row of its own."""
    cheat = board / "cheat"
    plain = found(board, {seed: texts_of(seed, OTHER_WAY) for seed in SEEDS})
    assert 18 in plain

    def with_a_failure(system=None, **changes):
        data = json.loads((cheat / "commongen/seed-1.result.json").read_text())
        data |= {"seed": 6, "errors": [], "hashes": {}, "counts": {}, "data": {}, **FAILED}
        data |= {"system": data["system"] | (system or {})} | changes
        (cheat / "commongen/seed-6.result.json").write_text(json.dumps(data))
        say(cheat, seeds=[*SEEDS, 6])
        return asked(cheat)

    assert with_a_failure() == plain
    assert with_a_failure({"algorithm": "zero-shot"}) == plain | {85}, "submission.toml does not name it"
    assert with_a_failure(data={"ids_sha256": "0" * 64}) == plain | {19}, "the board would leave it out"
    assert with_a_failure(errors=["theirs is a fraud"]) == plain | {21}
    assert with_a_failure({"endpoint": {"url": "http://127.0.0.1", "model": "m"}}) == plain | {91}


def test_seeds_that_kept_the_backbone_may_be_alike(board):
    """Decoded with beams, it says the same for every seed; the row of the backbone itself is the witness."""
    cheat, plain = board / "cheat", board / "zero-shot"
    assert found(board, dict.fromkeys(SEEDS, texts_of(1))) == {17}

    def after(**changes):
        system_says(cheat, **{"update": 0, "weights": "1" * 64, "backbone": "mini:seq2seq", "start": ""} | changes)
        return codes(check(seal(cheat)))

    assert 17 in after(), "nobody has handed in the backbone as it is"
    say(plain, algorithm="zero-shot")
    for seed in SEEDS:
        hand_in(plain, seed, texts_of(1))
    system_says(plain, algorithm="zero-shot", backbone="mini:seq2seq", weights="2" * 64)
    seal(plain)
    assert after() == {45}
    assert 17 in after(update=8), "it has learned"
    assert 17 in after(start="3" * 64), "it began elsewhere"
    assert 17 in after(backbone="mini:causal"), "that is another backbone"
    for seed in SEEDS:
        system_says(cheat, seed, weights=f"{seed}" * 64, update=0, backbone="mini:seq2seq", start="")
    assert 17 in codes(check(seal(cheat))), "these are five policies"
    after()
    assert 17 in codes(check([cheat, plain])), "who is handed in beside it is no witness"
    system_says(plain, backbone="our/own")
    seal(plain)
    assert after(backbone="our/own") == {45, 52, 85}, "nobody knows that one"


def test_a_task_of_the_backbone_as_it_is_excuses_no_other_task(board):
    """Each task has a board of its own, on which the others' results do not count."""
    cheat = board / "cheat"
    assert 33 in found(board, {seed: references(1) for seed in SEEDS})
    shutil.copytree(cheat / "commongen", cheat / "wmt16")
    for path in (cheat / "wmt16").glob("*.result.json"):
        data = json.loads(path.read_text())
        path.write_text(json.dumps(data | {"task": "wmt16", "system": data["system"] | {"algorithm": "zero-shot"}}))
    problems = check(seal(cheat))
    assert {Path(p.path).relative_to(cheat).parts[0] for p in problems if p.id == "GRUE-S033"} == {"commongen"}


def test_a_review_holds_for_the_files_that_were_reviewed(board):
    assert found(board, {1: references(1)}) == {33}
    cheat = board / "cheat"
    manifest = hashlib.sha256((cheat / "MANIFEST.sha256").read_bytes()).hexdigest()
    table = f'["mini/cheat".GRUE-S033]\nmanifest = "{manifest}"\nby = "M"\ndate = "2026-01-31"\nwhy = "read"\n'
    (board.parent / "reviewed.toml").write_text(table)
    problems = check(cheat)
    assert {problem.severity for problem in problems} == {"warning"}
    assert any("Accepted by M, 2026-01-31: read" in problem.message for problem in problems)
    hand_in(cheat, 2, references(0))
    assert 33 in asked(cheat)


def test_a_check_that_is_late_is_told_and_ends_no_process_of_its_caller(board):
    """Its processes load Python for longer than that."""
    bystander = get_context("spawn").Process(target=time.sleep, args=(60,))
    bystander.start()
    try:
        (problem,) = check(board / "first", seconds=0.01)
        assert (problem.id, Path(problem.path).name) == ("GRUE-S054", "commongen")
        bystander.join(0.5)
        assert bystander.exitcode is None
    finally:
        bystander.kill()
        bystander.join()


KILLED = """
import os
from grue.submissions.checks import check
if __name__ == "__main__":
    check.check_task = os.system
    check._in_processes([("touch one; sleep 600",), ("touch two; sleep 600",)], 2, None)
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
    for name in ("first.trust.json", "paper.reported.json", "x.by-reference.toml"):
        (board / name).symlink_to("/dev/zero")
    for read in (lambda: results(board), *(lambda r=r: r(board.parent, "mini") for r in (read_reported, recomputed))):
        with refused(DataError):
            read()


LAST_OF_A_RUN = {"weights": "p" * 64, "config_sha256": "c" * 64, "update": 12}


def test_a_run_s_best_policy_may_be_its_last_which_a_person_sees_and_a_claim_of_that_hides_no_copy():
    said = random_texts(1)
    best = run("ppo/imdb/seed-1", said, **S_START, **LAST_OF_A_RUN)
    last = run("ppo+last/imdb/seed-1", said, **S_START, **LAST_OF_A_RUN, kept="last")
    for one, other in ((last, best), (best, last)):
        assert codes(check_copies(one, [other], level=0.0, gathered=1.0)) == {52}
    for change in ({"weights": "q" * 64}, {"config_sha256": "d" * 64}, {"update": 11}, {"kept": "best"}):
        other = run("ppo+last/imdb/seed-1", said, **{**S_START, **LAST_OF_A_RUN, "kept": "last", **change})
        assert codes(check_copies(other, [best], level=0.0, gathered=1.0)) == {18}, change
    nowhere = run("cheat/imdb/seed-1", said, kept="last")
    assert codes(check_copies(nowhere, [run("row/imdb/seed-1", said)], level=0.0, gathered=1.0)) == {18}
