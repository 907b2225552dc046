"""What a cheat would try, and its neighbours: each attack with the check that stops it.

The board has two honest systems. `STOPPED` is the table of `docs/reference/checks.md`'s classes of attacks.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from support.factories import a_result, a_task
from support.good_submission import (
    EXAMPLES,
    OTHER_WAY,
    PEOPLE,
    SEEDS,
    configure,
    edit,
    hand_in,
    reproduced,
    say,
    seal,
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
from grue.submissions.checks.likeness import SketchedRun, check_copies, check_twins, elsewhere
from grue.submissions.checks.rescoring import TaskRuns, _gathered, _Texts
from grue.submissions.checks.reviewed import read_reviewed
from grue.submissions.checks.sketch import Shelf, alike, bare, equal, sketch
from grue.submissions.entries import results
from grue.submissions.reported import read_reported


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a suite with two honest systems."""
    suite = tmp_path_factory.mktemp("honest") / "submissions/mini"
    write_good(suite / "first", how="Soon a {0} runs right through the {1}.")
    write_good(suite / "second", how=OTHER_WAY)
    return suite


@pytest.fixture
def board(honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_few_examples(monkeypatch)
    monkeypatch.setattr(rescoring, "_preference_of_references", lambda *_: 100.0)
    return Path(shutil.copytree(honest, tmp_path / "submissions/mini"))


def found(board: Path, seeds: dict[int, dict[str, str]]) -> set[str]:
    """Hand texts in as "cheat"; return the numbers of what keeps it off the board."""
    cheat = board / "cheat"
    shutil.rmtree(cheat, ignore_errors=True)
    say(cheat)
    for seed, texts in seeds.items():
        hand_in(cheat, seed, texts)
    seal(cheat)
    return {p.id.removeprefix("GRUE-S0") for p in check(cheat) if p.severity != "warning"}


def references(which: int = 0) -> dict[str, str]:
    return {example.id: example.references[which] for example in EXAMPLES}


Change = Callable[[str], str]


def everywhere(change: Change, texts: dict[str, str]) -> dict[str, str]:
    return {key: change(text) for key, text in texts.items()}


# --- references ------------------------------------------------------------------------------------------------------

DISGUISES: dict[str, Change] = {
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
def test_references_in_disguise(board: Path, name: str) -> None:
    texts = everywhere(DISGUISES[name], references(1))
    assert "33" in found(board, {1: texts, **{seed: texts_of(seed) for seed in SEEDS[1:]}})


def test_some_references_among_honest_texts(board: Path) -> None:
    """Three texts of eight are enough to be asked about them, where honest systems have none."""
    few, ids = references(1), [example.id for example in EXAMPLES]
    mixed = texts_of(1) | {key: few[key] for key in ids[:3]}
    assert found(board, {1: mixed, **{seed: texts_of(seed) for seed in SEEDS[1:]}}) == {"33"}
    assert found(board, {seed: texts_of(seed) for seed in SEEDS}) == set()


def test_texts_of_the_training_split_with_a_word_added(board: Path) -> None:
    disguised = {example.id: f"A goat runs up the hill {who}." for example, who in zip(EXAMPLES, PEOPLE, strict=True)}
    assert "51" in found(board, {1: disguised, **{seed: texts_of(seed) for seed in SEEDS[1:]}})


def test_near_copies_of_many_texts_are_found() -> None:
    many = [f"{one} {other}" for one, other in zip(random_texts(1), random_texts(2), strict=True)]
    others = [text[::-1] for text in many]
    assert Shelf.of(many).near([f"{text} too" for text in many]).all()
    assert not Shelf.of(many).near([*others, ""]).any()
    assert not Shelf.of([]).near(others).any() and Shelf.of(many).near([]).shape == (0,)


# --- one run as five, and another's run ----------------------------------------------------------------------------------

ONE_AS_FIVE: dict[str, Callable[[str, int], str]] = {
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
def test_one_run_as_five(board: Path, name: str) -> None:
    disguise = ONE_AS_FIVE[name]
    seeds = {seed: everywhere(lambda text, seed=seed: disguise(text, seed), texts_of(1)) for seed in SEEDS}
    assert {"17", "38"} & found(board, seeds)


@pytest.mark.parametrize("name", [name for name in DISGUISES if name != "with dots between"])
def test_another_systems_texts(board: Path, name: str) -> None:
    stolen = {seed: everywhere(DISGUISES[name], texts_of(seed, OTHER_WAY)) for seed in SEEDS}
    assert {"18", "38"} & found(board, stolen)


def test_half_of_another_systems_texts(board: Path) -> None:
    ids = [example.id for example in EXAMPLES[::2]]
    seeds = {seed: texts_of(seed) | {key: texts_of(seed, OTHER_WAY)[key] for key in ids} for seed in SEEDS}
    assert found(board, seeds) == {"38"}


def test_another_seed_of_another_system(board: Path) -> None:
    """The seeds are shifted, so that none is like the one of its number."""
    assert "18" in found(board, {seed: texts_of(seed % 5 + 1, OTHER_WAY) for seed in SEEDS})


def test_two_systems_at_once_do_not_vouch_for_each_other(board: Path) -> None:
    """What is usual is measured on what stands: two copies in one pull request make nothing usual."""
    texts = {seed: everywhere(lambda text, seed=seed: f"{text} {seed}", references()) for seed in SEEDS}
    home = board.parent / "new/mini"
    home.parent.mkdir()
    shutil.copytree(board, home)
    for name in ("cheat", "friend"):
        say(home / name, name=name)
        for seed in SEEDS:
            hand_in(home / name, seed, everywhere(str.upper, texts[seed]) if name == "friend" else texts[seed])
        seal(home / name)
    asked = {Path(p.path).parts[-3] for p in check([home / "cheat", home / "friend"]) if p.id == "GRUE-S033"}
    assert asked == {"cheat", "friend"}


def test_lines_gathered_from_many_runs_are_seen() -> None:
    """Of each run a tenth, so that the cheat is like none of them: the best line of all that stand, say."""
    drawn = random.Random(1)
    words = [f"{one}{two}ing" for one in "bcdfghklmn" for two in ("as", "el", "il", "on", "ur")]
    texts = [[" ".join(drawn.sample(words, 6)) for _ in range(100)] for _ in range(11)]

    def run(name: str, said: list[str]) -> SketchedRun:
        return SketchedRun(Path(name), sketch([Prediction(f"{n:03}", text) for n, text in enumerate(said)]), None)

    standing = [run(f"row-{n}/imdb/seed-1", said) for n, said in enumerate(texts[:10])]
    cheat = run("cheat/imdb/seed-1", [drawn.choice(texts[:10])[n] for n in range(100)])
    honest = run("honest/imdb/seed-1", texts[10])
    (problem,) = check_copies(cheat, standing, level=0.0, gathered=0.1)
    assert (problem.id, problem.message) == (
        "GRUE-S038",
        "100% of its texts, but those of its start, stand word for word in runs of other systems; "
        "of other systems' texts 10% do at most.",
    )
    assert (elsewhere(cheat, standing), elsewhere(honest, standing)) == (1.0, 0.0)
    assert not list(check_copies(honest, standing, level=0.0, gathered=0.1))
    assert not list(
        check_copies(cheat, standing, level=0.0, gathered=1.0)
    )  # where all answers are alike, nothing shows


def random_texts(seed: int) -> list[str]:
    """Two hundred, of which no two are alike."""
    drawn = random.Random(seed)
    words = [f"{one}{two}ing" for one in "bcdfghklmn" for two in ("as", "el", "il", "on", "ur")]
    return [" ".join(drawn.sample(words, 6)) for _ in range(200)]


def run(name: str, said: list[str], **system: object) -> SketchedRun:
    result = replace(a_result(a_task(), name, 1, 50.0), system={"name": name, **system})
    return SketchedRun(Path(name), sketch([Prediction(f"{n:03}", text) for n, text in enumerate(said)]), result)


S_START = {"start": "s" * 64}
KINSHIPS: dict[str, dict[str, object]] = {
    "none": {},
    "their start": S_START,
    "one of them as its start": {"start": "p" * 64},
    "their start, which it kept": {**S_START, "weights": "s" * 64, "update": 0},
    "to be their start": {"algorithm": "supervised", "weights": "s" * 64},
    "a start that nobody knows": {"start": "x" * 64},
}


@pytest.mark.parametrize("name", KINSHIPS)
def test_a_claimed_kinship_hides_no_gathered_lines(name: str) -> None:
    said, first, second, mine = (random_texts(seed) for seed in range(4))
    standing = [
        run("base/imdb/seed-1", said, algorithm="supervised", weights="s" * 64),
        run("ppo/imdb/seed-1", first, **S_START, weights="p" * 64),
        run("nlpo/imdb/seed-1", second, **S_START, weights="n" * 64),
    ]
    gathered = [(said, first, second)[n % 3][n] for n in range(200)]
    cheat = run("cheat/imdb/seed-1", gathered, **{"weights": "c" * 64, **KINSHIPS[name]})
    assert "GRUE-S038" in {problem.id for problem in check_copies(cheat, standing, level=0.0, gathered=0.9)}
    hardly_moved = [*said[:150], *mine[150:]]
    honest = run("honest/imdb/seed-1", hardly_moved, **S_START, weights="h" * 64)
    assert not list(check_copies(honest, standing, level=0.0, gathered=0.0))


def test_a_start_is_asked_about_no_texts_of_those_that_began_there() -> None:
    """They have most of its texts, as it was their start; the other seeds of their rows have others of its system's."""
    said, first, second = random_texts(1), random_texts(2), random_texts(3)
    base = run("base/imdb/seed-1", said, algorithm="supervised", weights="s" * 64)
    heir = run("ppo/imdb/seed-1", [*said[:120], *first[120:]], **S_START, weights="p" * 64)
    other_seed = run("ppo/imdb/seed-2", [*second[:120], *said[120:]], start="b" * 64, weights="q" * 64)
    assert not list(check_copies(base, [heir, other_seed], level=0.9, gathered=0.0))


def test_texts_for_other_examples_are_copies(board: Path) -> None:
    """Where the prompt matters little, a run that is turned around among the examples scores as it does."""
    said, mine = random_texts(1), random_texts(2)
    row = run("row/imdb/seed-1", said, algorithm="supervised", weights="s" * 64)
    turned = run("turned/imdb/seed-1", [*said[70:], *said[:70]], **S_START, weights="t" * 64)
    (problem,) = check_copies(turned, [row], level=0.0, gathered=0.1)
    assert (problem.id, problem.message[:4]) == ("GRUE-S038", "100%")
    seeds = [run(f"own/imdb/seed-{k}", [*mine[30 * k :], *mine[: 30 * k]]) for k in range(3)]
    asked = list(check_twins(seeds, [row], level=0.0, moved=0.0, backbone="mini:causal"))
    assert [(problem.id, problem.path[-6:]) for problem in asked] == [("GRUE-S038", "seed-1"), ("GRUE-S038", "seed-2")]
    assert not list(check_twins(seeds, [row], level=0.0, moved=1.0, backbone="mini:causal"))
    ids = [example.id for example in EXAMPLES]
    around = {seed: dict(zip(ids, (texts_of(1)[ids[(n + seed) % 8]] for n in range(8)), strict=True)) for seed in SEEDS}
    assert "38" in found(board, around)


@pytest.mark.parametrize("checked", [("copy",), ("copy", "friend"), ("row", "other", "copy")])
def test_a_copy_does_not_make_itself_usual(checked: tuple[str, ...]) -> None:
    """All that the copied row says stands in the copy, which is no reason to expect that of honest rows."""
    said = {"row": random_texts(1), "other": random_texts(2), "copy": [*random_texts(1)[70:], *random_texts(1)[:70]]}
    said |= {"friend": said["copy"][::-1]} if "friend" in checked else {}
    systems = [TaskRuns(Path(name), is_reference=False, is_checked=name in checked, runs=()) for name in said]
    texts = {Path(name): _Texts({}, [run(f"{name}/imdb/seed-1", lines)], {}) for name, lines in said.items()}
    assert _gathered(systems[2], systems, texts) == pytest.approx(0.3)  # the limit of what the others have: nothing


def test_who_names_another_s_start_does_not_take_its_steps() -> None:
    """86 % of a row's texts, the others made better: as a relative it may be alike, but only as far as the start is."""
    said, theirs, mine = (random_texts(seed) for seed in (1, 2, 3))
    start = run("base/imdb/seed-1", said, algorithm="supervised", weights="s" * 64)
    row = run("row/imdb/seed-1", [*said[:40], *theirs[40:]], start="s" * 64, weights="r" * 64)
    thief = run("thief/imdb/seed-1", [*said[:40], *theirs[40:172], *mine[172:]], start="s" * 64, weights="t" * 64)
    near = run("near/imdb/seed-1", [*said[:160], *mine[160:]], start="s" * 64, weights="n" * 64)  # it hardly moved
    assert [p.message for p in check_copies(thief, [start, row], level=0.0, gathered=0.9)] == [
        "has 82% of the texts in which row, seed-1 left the start that both name."
    ]
    assert not list(check_copies(near, [start, row], level=0.0, gathered=0.9))
    assert not list(check_copies(row, [start, near], level=0.0, gathered=0.9))


def test_a_claimed_kinship_hides_no_copy(board: Path) -> None:
    """Copies say that they began where the copied row did, or that they are its start."""
    copied = {seed: texts_of(seed, OTHER_WAY) for seed in SEEDS}
    assert "18" in found(board, copied)
    cheat = board / "cheat"
    for claim in ({"update": 0}, {"update": 0, "start": "1" * 64}, {"weights": "1" * 64}):
        for seed in SEEDS:
            hand_in(cheat, seed, copied[seed])
            edit(cheat, lambda data, claim=claim: data["system"].update(claim), seed)
        seal(cheat)
        assert {p.id for p in check(cheat) if p.severity == "error"} == {"GRUE-S018"}, claim


def test_a_claimed_kinship_and_a_disguise_together_hide_no_copy(board: Path) -> None:
    """The hashes of starts are public: copies with a word added say that they began where the copied row did."""
    copied = {seed: everywhere(lambda text: f"{text} Too", texts_of(seed, OTHER_WAY)) for seed in SEEDS}
    assert "38" in found(board, copied)
    for folder in (board / "cheat", board / "second"):
        for seed in SEEDS:
            edit(folder, lambda data, seed=seed: data["system"].update(start=f"{seed}" * 64), seed)
        seal(folder)
    assert "GRUE-S038" in {p.id for p in check(board / "cheat") if p.severity == "review"}


def test_a_failed_run_changes_nothing_but_the_count_of_failures(board: Path) -> None:
    """It makes no reference of a system, leaves no message, and is no row of its own."""
    cheat = board / "cheat"
    copied = {seed: texts_of(seed, OTHER_WAY) for seed in SEEDS}
    assert "18" in found(board, copied)
    path = cheat / "commongen/seed-6.result.json"

    def with_a_failure(**changes: object) -> set[str]:
        data = json.loads((cheat / "commongen/seed-1.result.json").read_text())
        empty = {"scores": [], "preference": None, "naturalness": None, "hashes": {}, "counts": {}, "data": {}}
        data |= {"status": "failed", "seed": 6, "errors": [], **empty}
        system = data["system"] | changes.pop("system", {})  # type: ignore[operator]
        path.write_text(json.dumps(data | {"system": system} | changes))
        say(cheat, seeds=[*SEEDS, 6])
        seal(cheat)
        return {p.id for p in check(cheat) if p.severity != "warning"}

    plain = with_a_failure()
    assert "GRUE-S018" in plain
    other = with_a_failure(system={"algorithm": "zero-shot"})
    assert other == plain | {"GRUE-S085"}, "what failed is no backbone as it is, and submission.toml does not name it"
    assert with_a_failure(data={"ids_sha256": "0" * 64}) == plain | {"GRUE-S019"}, "the board would leave it out"
    assert with_a_failure(errors=["theirs is a fraud"]) == plain | {"GRUE-S021"}
    endpoint = {"endpoint": {"url": "http://127.0.0.1", "model": "m"}}
    assert with_a_failure(system=endpoint) == plain | {"GRUE-S091"}


def test_seeds_that_kept_the_backbone_may_be_alike(board: Path) -> None:
    """Decoded with beams, it says the same for every seed; the row of the backbone itself is the witness."""
    same = {seed: texts_of(1) for seed in SEEDS}
    untrained = {"update": 0, "weights": "1" * 64, "backbone": "mini:seq2seq"}
    cheat = board / "cheat"
    assert found(board, same) == {"17"}

    def after(claim: Callable[[int], dict[str, object]]) -> set[str]:
        for seed in SEEDS:
            hand_in(cheat, seed, same[seed])
            edit(cheat, lambda data, seed=seed: data["system"].update(claim(seed)), seed)
        seal(cheat)
        return {p.id for p in check(cheat)}

    assert "GRUE-S017" in after(lambda _: untrained), "nobody has handed in the backbone as it is"
    plain = shutil.copytree(cheat, board / "zero-shot")
    say(plain, name="zero-shot", algorithm="zero-shot")
    for seed in SEEDS:
        hand_in(plain, seed, same[seed])
        is_itself = {"name": "zero-shot", "algorithm": "zero-shot", "backbone": "mini:seq2seq", "weights": "2" * 64}
        edit(plain, lambda data, is_itself=is_itself: data["system"].update(is_itself), seed)
    seal(plain)
    assert after(lambda _: untrained) == {"GRUE-S045"}
    assert "GRUE-S017" in after(lambda _: untrained | {"update": 8}), "it has learned"
    assert "GRUE-S017" in after(lambda _: untrained | {"start": "3" * 64}), "it began elsewhere"
    assert "GRUE-S017" in after(lambda seed: untrained | {"weights": f"{seed}" * 64}), "these are five policies"
    assert "GRUE-S017" in after(lambda _: untrained | {"backbone": "mini:causal"}), "that is another backbone"
    after(lambda _: untrained)
    assert "GRUE-S017" in {p.id for p in check([cheat, plain])}, "who is handed in beside it is no witness"
    for seed in SEEDS:
        edit(plain, lambda data: data["system"].update({"backbone": "our/own"}), seed)
    seal(plain)
    assert after(lambda _: untrained | {"backbone": "our/own"}) == {"GRUE-S045", "GRUE-S052", "GRUE-S085"}, (
        "nobody knows that one"
    )


def test_a_task_of_the_backbone_as_it_is_excuses_no_other_task(board: Path) -> None:
    """Each task has a board of its own, on which the others' results do not count."""
    cheat = board / "cheat"
    assert "33" in found(board, {seed: references(1) for seed in SEEDS})
    shutil.copytree(cheat / "commongen", cheat / "wmt16")
    for path in (cheat / "wmt16").glob("*.result.json"):
        data = json.loads(path.read_text())
        path.write_text(json.dumps(data | {"task": "wmt16", "system": data["system"] | {"algorithm": "zero-shot"}}))
    seal(cheat)
    told = {(p.id, Path(p.path).relative_to(cheat).parts[0]) for p in check(cheat) if p.severity != "warning"}
    assert ("GRUE-S033", "commongen") in told and ("GRUE-S033", "wmt16") not in told


# --- texts that deceive, or cost time ------------------------------------------------------------------------------------


def test_characters_that_nobody_sees(board: Path) -> None:
    for sign in "\u200b\u200d\u2060\ufeff\u00ad\u202e\u2066\x00\x07\x1b\x7f\x85\u2028\ue000\U000e0041":
        texts = texts_of(1) | {"id-man": f"A man{sign} runs in the street past two parked cars."}
        assert found(board, {1: texts, **{seed: texts_of(seed) for seed in SEEDS[1:]}}) == {"46"}, ascii(sign)
    allowed = texts_of(1) | {"id-man": "A man\n\truns – “in” the street, past naïve cars\u00a0…"}
    assert found(board, {1: allowed, **{seed: texts_of(seed) for seed in SEEDS[1:]}}) == set()


def test_texts_far_beyond_the_limit(board: Path) -> None:
    for long in ("a" * 5_000, "run " * 1_000, "\n" * 2_000 + "x"):
        texts = texts_of(1) | {"id-man": long}
        assert found(board, {1: texts, **{seed: texts_of(seed) for seed in SEEDS[1:]}}) == {"47"}


# --- words ---------------------------------------------------------------------------------------------------------------


def test_names_and_links(board: Path) -> None:
    cheat = write_good(board / "cheat")
    for key, values, number in (
        ("authors", [["\u200b"], ["\u0301\u0301"], ["..."], ["\u3164"], ["A", " "]], {"25", "22"}),
        ("licence", ["-", "\u2800"], {"25"}),
        (
            "link",
            [
                "https://a:b@c.org",
                "https://c.org@d.org",
                "ftp://c.org",
                "https://127.0.0.1/x",
                "https://c.org:22/",
                "https://localhost",
            ],
            {"24"},
        ),
    ):
        for value in values:
            say(cheat, **{key: value})
            seal(cheat)
            told = {p.id.removeprefix("GRUE-S0") for p in check(cheat) if p.severity == "error"}
            assert told and told <= number, (key, value)
    say(cheat, link="https://c.org/a?b=c#d")
    seal(cheat)
    assert not [problem for problem in check(cheat) if problem.severity == "error"]


@pytest.mark.parametrize(
    "name", ["FIRST", "fir-st", "f.i.r.s.t", "first+", "second_", "Second.", "0racle", "zero_shot", "best-of-N"]
)
def test_names_of_others(board: Path, name: str) -> None:
    cheat = write_good(board / name)
    assert "GRUE-S023" in {problem.id for problem in check(cheat)}


# --- reviews -------------------------------------------------------------------------------------------------------------


def test_a_review_holds_for_the_files_that_were_reviewed(board: Path) -> None:
    seeds = {1: references(1), **{seed: texts_of(seed) for seed in SEEDS[1:]}}
    assert found(board, seeds) == {"33"}
    cheat = board / "cheat"
    manifest = hashlib.sha256((cheat / "MANIFEST.sha256").read_bytes()).hexdigest()
    table = f'["mini/cheat".GRUE-S033]\nmanifest = "{manifest}"\nby = "M"\ndate = "2026-01-31"\nwhy = "read"\n'
    (board.parent / "reviewed.toml").write_text(table)
    assert len(read_reviewed(board.parent)) == 1
    assert {problem.severity for problem in check(cheat)} == {"warning"}
    assert any("Accepted by M, 2026-01-31: read" in problem.message for problem in check(cheat))
    hand_in(cheat, 2, references(0))
    seal(cheat)
    assert "review" in {problem.severity for problem in check(cheat)}


# --- how texts are compared ----------------------------------------------------------------------------------------------


def test_what_a_reader_takes_in() -> None:
    for text, read in (
        ("A dog\u200b runs.", "a dog runs"),
        ("Ａ dog—runs!", "a dog runs"),
        ("Straße", "strasse"),
        ("naïve", "naive"),
        ("ﬁne", "fine"),
        ("\u3164\u200d", ""),
        ("x_y", "x y"),
    ):
        assert bare(text) == read
    for who in PEOPLE:
        assert bare(who) == who


def test_similarity_is_the_share_of_common_parts() -> None:
    """Against sets of 4-grams, counted one by one."""
    base = "the young man carries a red box to the old house in the evening"
    for other in (base, base + " now", base.replace("red", "green"), "something else entirely", base[:30]):
        grams = [{f" {text} "[i : i + 4] for i in range(len(text) - 1)} for text in (base, other)]
        jaccard = len(grams[0] & grams[1]) / len(grams[0] | grams[1])
        pairs = [sketch([Prediction(str(i), text) for i in range(3)]) for text in (base, other)]
        assert abs((pairs[0].rows == pairs[1].rows).mean() - jaccard) < 0.2
        assert alike(*pairs) == (1.0 if jaccard > 0.72 else 0.0)
        assert equal(*pairs) == (1.0 if base == other else 0.0)


def test_a_check_ends_in_time(board: Path) -> None:
    """Its processes load Python for longer than that."""
    problems = check(board / "first", seconds=0.01)
    assert [(problem.id, Path(problem.path).name) for problem in problems] == [("GRUE-S054", "commongen")]


def test_a_check_that_is_late_ends_no_process_of_its_caller(board: Path) -> None:
    bystander = get_context("spawn").Process(target=time.sleep, args=(60,))
    bystander.start()
    try:
        (problem,) = check(board / "first", seconds=0.01)
        bystander.join(0.5)
        assert (problem.id, bystander.exitcode) == ("GRUE-S054", None)
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
def test_a_check_that_is_killed_takes_its_processes_along(tmp_path: Path, number: int) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    process = subprocess.Popen(
        [sys.executable, "killed.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
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


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the pid of each process that a pool of spawned ones started, in a session of its own."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            stat, command = (entry / "stat").read_text().rpartition(")")[2].split(), (entry / "cmdline").read_bytes()
            if int(stat[3]) == process.pid and b"spawn_main" in command:
                found.append(int(entry.name))
    return found


# --- what was seen -------------------------------------------------------------------------------------------------------

AFTERWARDS: dict[str, Callable[[Path], object]] = {
    "another algorithm": lambda row: (
        say(row, algorithm="nlpo"),
        [edit(row, lambda data: data["system"].update(algorithm="nlpo"), seed) for seed in SEEDS],
    ),
    "another backbone": lambda row: (
        say(row, backbone="mini:causal"),
        [edit(row, lambda data: data["system"].update(backbone="mini:causal"), seed) for seed in SEEDS],
    ),
    "another name in the manifest alone": lambda row: say(row, algorithm="a method of our own"),
    "another configuration, with results that agree": lambda row: configure(row, config={"epochs": 9}),
    "other first stage": lambda row: configure(row, agreeing=False, backbone_weights="1" * 64),
}


@pytest.mark.parametrize("name", AFTERWARDS)
def test_a_row_is_rewritten_after_it_was_reproduced(board: Path, name: str) -> None:
    """Its texts are those that were seen, and the rung went to whatever the row now said that it is."""
    row = board / "first"
    say(row)
    configure(row)
    seal(row)
    reproduced(row)
    status = {entry.status for entry in results(board) if entry.path.parent.parent == row}
    assert status == {"reproduced"}
    AFTERWARDS[name](row)
    seal(row)
    assert {(entry.status, entry.about.log) for entry in results(board) if entry.path.parent.parent == row} == {
        ("rescored", "")
    }
    assert [problem.id for problem in check(row)].count("GRUE-S055") == len(SEEDS)


# --- boards --------------------------------------------------------------------------------------------------------------


def test_a_board_reads_no_more_than_the_check(board: Path) -> None:
    """A result that is /dev/zero was read until memory ended."""
    assert len(results(board)) == 2 * len(SEEDS)
    victim = board / "first/commongen/seed-1.result.json"
    kept = victim.read_bytes()

    def refused(said: str) -> None:
        with pytest.raises(DataError, match=said):
            results(board)

    for target in ("/dev/zero", "/etc/passwd", "seed-2.result.json"):
        victim.unlink()
        victim.symlink_to(target)
        refused("is a link")
    victim.unlink()
    os.mkfifo(victim)
    refused("neither a file nor a folder")
    victim.unlink()
    victim.write_bytes(b" " * 300_000)
    refused("more than 200,000")
    victim.write_bytes(kept)
    (board / "first/evil.py").write_text("x")
    refused("is not a file of a submission")
    (board / "first/evil.py").unlink()
    assert len(results(board)) == 2 * len(SEEDS)
    for name in ("first.trust.json", "paper.reported.json", "x.by-reference.toml"):
        (board / name).symlink_to("/dev/zero")
    refused("is a link or no file")
    for read in (lambda: read_reported(board.parent, "mini"), lambda: recomputed(board.parent, "mini")):
        with pytest.raises(DataError, match="is a link or no file"):
            read()
