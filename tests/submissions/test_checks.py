"""Every check of submissions, with the ways to trip it."""

import gzip
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.factories import a_result
from support.good_submission import (
    EXAMPLES,
    OTHER_WAY,
    PREDICTIONS,
    RESULT,
    SEEDS,
    TASK,
    configure,
    edit,
    hand_in,
    no_examples,
    packed,
    reproduced,
    say,
    seal,
    texts_of,
    use_few_examples,
    write_good,
)

from grue.submissions.checks import check as checks
from grue.submissions.checks import rescoring, structure
from grue.submissions.checks.check import check
from grue.submissions.checks.decoding import of_another_decoding
from grue.submissions.problems import CHECKS, error, warning
from grue.task_files import load_task

ELSEWHERE = {
    f"GRUE-S{number:03}" for number in (40, 41, 42, 43, 44, 53, 54, 56, *range(75, 80), 83, 84)
}  # of a whole pull request: test_against.py; of a system by reference: test_by_reference.py; of time: test_attacks.py

Violation = Callable[[Path, pytest.MonkeyPatch], object]
VIOLATIONS: list[tuple[int, Violation]] = []


def violates(number: int) -> Callable[[Violation], Violation]:
    """Name the check that a way to spoil a submission violates."""

    def register(violation: Violation) -> Violation:
        VIOLATIONS.append((number, violation))
        return violation

    return register


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A submission of five seeds without fault."""
    use_few_examples(monkeypatch)
    return write_good(tmp_path / "submissions/mini/ours")


@violates(1)
def a_script(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / "evil.py").write_text("raise SystemExit")


@violates(1)
def a_folder_of_no_task(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / "cooking").mkdir()


@violates(1)
def predictions_without_a_result(ours: Path, _: pytest.MonkeyPatch) -> None:
    shutil.copy(ours / PREDICTIONS, ours / "commongen/seed-6.predictions.jsonl.gz")


@violates(1)
def a_seed_that_is_too_large(ours: Path, _: pytest.MonkeyPatch) -> None:
    shutil.copy(ours / RESULT, ours / "commongen/seed-4294967296.result.json")


@violates(2)
def a_declared_seed_that_is_too_large(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, seeds=[*SEEDS, 2**32])


@violates(3)
def a_stated_seed_that_is_too_large(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data.update(seed=2**32))


@violates(2)
def no_submission_toml(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / "submission.toml").unlink()


@violates(2)
def an_unknown_key(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, check=False)


@violates(2)
def the_name_of_another_folder(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, name="theirs")


@violates(3)
def weights_that_are_a_list(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["system"].update(weights=[1]))


@violates(3)
def fewer_parameters_than_none(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["system"].update(parameters=-5))


@violates(3)
def a_result_that_is_no_json(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / RESULT).write_text("{")


@violates(4)
def a_result_that_says_another_seed(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data.update(seed=7))


@violates(5)
def a_limited_result(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data.update(limited=True))


@violates(6)
def another_hash_of_the_task(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data.update(task_hash="0" * 64))


@violates(6)
def another_version_of_the_task(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data.update(task_version=TASK.version - 1))


@violates(6)
def another_split(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data.update(split="validation"))


@violates(7)
def no_predictions(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / PREDICTIONS).unlink()


@violates(7)
def predictions_that_are_cut_off(ours: Path, _: pytest.MonkeyPatch) -> None:
    path = ours / PREDICTIONS
    path.write_bytes(path.read_bytes()[:-9])


@violates(8)
def a_missing_example(ours: Path, _: pytest.MonkeyPatch) -> None:
    texts = texts_of(1)
    del texts["id-man"]
    (ours / PREDICTIONS).write_bytes(packed(texts))


@violates(9)
def a_better_score(ours: Path, _: pytest.MonkeyPatch) -> None:
    def raise_meteor(data: dict[str, Any]) -> None:
        (meteor,) = [score for score in data["scores"] if score["metric"] == "meteor"]
        meteor["value"] += 2e-6

    edit(ours, raise_meteor)


@violates(9)
def another_signature(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["scores"][0].update(signature="other"))


@violates(10)
def a_seed_that_is_not_handed_in(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, seeds=[*SEEDS, 6])


@violates(10)
def a_seed_that_is_declared_twice(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, seeds=[*SEEDS, 5])


@violates(11)
def no_manifest(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / "MANIFEST.sha256").unlink()


@violates(11)
def a_manifest_of_another_format(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / "MANIFEST.sha256").write_text("submission.toml ok\n")


@violates(12)
def a_manifest_with_another_hash(ours: Path, _: pytest.MonkeyPatch) -> None:
    path = ours / "MANIFEST.sha256"
    path.write_text(re.sub(r"[0-9a-f]{64}(?=  submission)", "0" * 64, path.read_text()))


@violates(12)
def a_manifest_that_names_what_is_not_there(ours: Path, _: pytest.MonkeyPatch) -> None:
    path = ours / "MANIFEST.sha256"
    path.write_text(path.read_text() + f"{'0' * 64}  commongen/seed-6.result.json\n")


@violates(12)
def a_manifest_that_lacks_a_file(ours: Path, _: pytest.MonkeyPatch) -> None:
    path = ours / "MANIFEST.sha256"
    path.write_text("".join(line for line in path.open() if not line.endswith("submission.toml\n")))


@violates(13)
def a_link(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / "notes").symlink_to(ours / "submission.toml")


@violates(14)
def predictions_that_unpack_to_too_much(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / PREDICTIONS).write_bytes(gzip.compress(b"\n" * 10_000_001))


@violates(15)
def a_text_of_a_hundred_thousand_characters(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / PREDICTIONS).write_bytes(packed(texts_of(1) | {"id-man": "a" * 100_000}))


@violates(16)
def an_empty_result(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / RESULT).write_bytes(b"")


@violates(16)
def predictions_that_unpack_to_nothing(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / PREDICTIONS).write_bytes(gzip.compress(b""))


@violates(17)
def the_same_texts_with_other_spaces_in_two_seeds(ours: Path, _: pytest.MonkeyPatch) -> None:
    hand_in(ours, 2, {key: text.replace(" ", "  ") for key, text in texts_of(1).items()})


@violates(18)
def the_texts_of_another_system(ours: Path, _: pytest.MonkeyPatch) -> None:
    theirs = write_good(ours.with_name("theirs"), how=OTHER_WAY)
    hand_in(ours, 1, texts_of(3, how=OTHER_WAY))
    assert theirs.is_dir()


@violates(45)
def the_texts_of_what_it_started_from(ours: Path, _: pytest.MonkeyPatch) -> None:
    write_good(ours.with_name("theirs"), how=OTHER_WAY)
    hand_in(ours, 1, texts_of(3, how=OTHER_WAY))
    edit(ours, lambda data: data["system"].update(update=0, start="0" * 64))
    said = {"weights": "0" * 64, "algorithm": "supervised"}
    edit(ours.with_name("theirs"), lambda data: data["system"].update(said), seed=3)
    seal(ours.with_name("theirs"))


@violates(19)
def the_hash_of_other_predictions(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["hashes"].update(predictions="0" * 64))


@violates(19)
def the_hash_of_other_ids(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["data"].update(ids_sha256="0" * 64))


@violates(93)
def a_kl_below_zero(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["system"].update(last={"update": 3, "validation": {"kl": -0.2}}))


@violates(93)
def a_share_above_one(ours: Path, _: pytest.MonkeyPatch) -> None:
    gained = {"kl": 0.5, "gain": 0.3, "share": 1.5, "how": "reachable"}
    edit(ours, lambda data: data["system"].update(frontier=gained))


@violates(93)
def a_hash_of_weights_that_is_none(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["system"].update(weights="A" * 64))


@violates(93)
def a_count_of_more_texts_than_there_are(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data.update(status="failed", scores=[], preference=None, naturalness=None))
    edit(ours, lambda data: data["counts"].update(truncated=10_000))
    (ours / PREDICTIONS).unlink()


@violates(94)
def the_weights_of_another_seed(ours: Path, _: pytest.MonkeyPatch) -> None:
    for seed in SEEDS[:2]:
        said = {"weights": "0" * 64, "config_sha256": f"{seed}" * 64, "update": seed}
        edit(ours, lambda data, said=said: data["system"].update(said), seed)


@violates(20)
def another_number_of_examples_than_the_split_has(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["data"].update(examples=999))


@violates(20)
def another_count_of_empty_texts(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["counts"].update(empty=1))


@violates(21)
def a_failed_run_with_scores(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data.update(status="failed"))
    (ours / PREDICTIONS).unlink()


@violates(21)
def a_failed_run_with_predictions(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data.update(status="failed", scores=[], preference=None, naturalness=None))


@violates(22)
def a_direction_override(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, authors=["A. \u202erohtuA"])


@violates(22)
def a_cyrillic_letter_in_a_latin_word(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, algorithm="suреrvised")
    for seed in SEEDS:
        edit(ours, lambda data: data["system"].update(algorithm="suреrvised"), seed)


@violates(23)
def a_name_like_anothers(ours: Path, _: pytest.MonkeyPatch) -> None:
    write_good(ours.with_name("0urs"), how=OTHER_WAY)


@violates(24)
def a_link_that_runs_a_script(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, link="javascript:alert(1)")


@violates(25)
def no_licence(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, licence=" ")


@violates(25)
def no_authors(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, authors=[])


@violates(26)
def a_budget_of_a_thousand_words(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, budget="word " * 1_000)


@violates(26)
def a_thousand_authors(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, authors=["A. Author"] * 1_000)


@violates(27)
def deterministic_with_five_seeds(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, deterministic=True)


@violates(30)
def three_seeds(ours: Path, _: pytest.MonkeyPatch) -> None:
    say(ours, seeds=[1, 2, 3])
    for path in ours.glob("commongen/seed-[45].*"):
        path.unlink()


@violates(31)
def one_task_of_two(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (checks, structure):
        monkeypatch.setattr(module, "task_names", lambda suite: ["commongen", "imdb"])


@violates(32)
def a_constant(ours: Path, _: pytest.MonkeyPatch) -> None:
    hand_in(ours, 1, dict.fromkeys(texts_of(1), "A man runs in the street."))


@violates(33)
def the_second_references(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescoring, "_preference_of_references", lambda *_: 100.0)
    hand_in(ours, 1, {example.id: example.references[1] for example in EXAMPLES})


@violates(34)
def better_than_the_references(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescoring, "_preference_of_references", lambda *_: 10.0)


@violates(35)
def one_empty_text_of_eight(ours: Path, _: pytest.MonkeyPatch) -> None:
    hand_in(ours, 1, texts_of(1) | {"id-man": ""})


@violates(35)
def every_text_cut_off(ours: Path, _: pytest.MonkeyPatch) -> None:
    hand_in(ours, 1, texts_of(1), truncated=True)


@violates(36)
def a_dirty_checkout(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["grue"].update(dirty=True))


@violates(37)
def another_temperature_for_one_seed(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["system"].update(revision="of yesterday"))


@violates(38)
def all_texts_but_one_of_another_seed(ours: Path, _: pytest.MonkeyPatch) -> None:
    hand_in(ours, 2, texts_of(1) | {"id-man": "The man walks."})


@violates(46)
def a_zero_width_space(ours: Path, _: pytest.MonkeyPatch) -> None:
    hand_in(ours, 1, texts_of(1) | {"id-man": "The man \u200bruns in the street."})


@violates(47)
def a_text_of_ten_thousand_words(ours: Path, _: pytest.MonkeyPatch) -> None:
    hand_in(ours, 1, texts_of(1) | {"id-man": "man " * 10_000})


@violates(48)
def an_error_of_a_metric_that_runs_here(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data.update(errors=["meteor: best of all systems"]))


@violates(49)
def seeds_with_equal_scores(ours: Path, _: pytest.MonkeyPatch) -> None:
    """Words that no metric of the task rewards."""
    for seed, filler in zip(SEEDS, ("wexrt", "zzukk", "plojh", "mnvbg", "tfrdq"), strict=True):
        hand_in(ours, seed, {example.id: f"{filler}{i} {filler}{i}" for i, example in enumerate(EXAMPLES)})


@violates(50)
def a_leap(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescoring, "_preference_of_references", lambda *_: 45.0)
    theirs = write_good(
        ours.with_name("theirs"), how="Whatever one may say of it in the {1}: {0}, {0}, {0}, and so on."
    )
    assert theirs.is_dir()


@violates(51)
def the_training_split(ours: Path, _: pytest.MonkeyPatch) -> None:
    hand_in(ours, 1, {e.id: "A goat runs up the hill." if i % 2 else f"The {i} of us." for i, e in enumerate(EXAMPLES)})


@violates(52)
def a_start_that_nobody_handed_in(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other row kept its start, and ours says that it is that start; it stands already, as in a pull request."""
    theirs = write_good(ours.with_name("theirs"), how=OTHER_WAY)
    hand_in(ours, 1, texts_of(3, how=OTHER_WAY))
    edit(ours, lambda data: data["system"].update(weights="0" * 64))
    edit(theirs, lambda data: data["system"].update(update=0, start="0" * 64), seed=3)
    seal(theirs)


@violates(39)
def a_scorer_that_is_not_here(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another error stands beside it: without one, nothing is returned."""
    monkeypatch.setattr(rescoring, "load_examples", no_examples)
    (ours / "notes.txt").write_text("x")


@violates(70)
def a_configuration_that_names_a_folder(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours, agreeing=False, data_dir="/home")


@violates(70)
def a_configuration_without_a_run(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / "commongen/config.json").write_text('{"schema": 1, "stages": []}')


@violates(70)
def a_configuration_that_nests_deeply(ours: Path, _: pytest.MonkeyPatch) -> None:
    (ours / "commongen/config.json").write_text("[" * 1000 + "]" * 1000)


@violates(71)
def a_configuration_of_other_runs(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours)
    configure(ours, agreeing=False, config={"epochs": 2, "train_share": None})


@violates(71)
def a_configuration_of_what_was_not_trained(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours, agreeing=False)


@violates(71)
def a_reward_that_only_the_configuration_names(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours, algorithm="ppo")
    edit(ours, lambda data: data["system"].update(reward=""))


@violates(71)
def a_reward_that_counts_as_the_tasks_and_was_another(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours, algorithm="ppo", reward="bleu4")  # results without a reward, as older ones are


@violates(72)
def an_algorithm_of_their_own(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours, algorithm="theirs:ALGORITHM")


@violates(72)
def a_reward_of_their_own(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours, reward="0.5*meteor + os:system")


@violates(72)
def a_backbone_on_their_disk(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours, backbone="/home/me/model")


@violates(72)
def prompts_chosen_by_a_run_on_their_disk(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours, config={"epochs": 1, "select": "limr:0.5:/home/me/run"})


@violates(72)
def a_soup_of_checkpoints_on_their_disk(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours, config={"epochs": 1, "reference": "soup:/home/me/a,/home/me/b"})


@violates(72)
def a_file_of_data_on_their_disk(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours, config={"epochs": 1, "data": "../scored.jsonl"})


@violates(73)
def a_setting_of_another_version(ours: Path, _: pytest.MonkeyPatch) -> None:
    configure(ours, config={"epochs": 1, "momentum": 0.9})


@violates(85)
def another_algorithm_than_the_results(ours: Path, _: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        edit(ours, lambda data: data["system"].update(algorithm="supervised"), seed)


@violates(85)
def a_larger_backbone_than_the_results(ours: Path, _: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        edit(ours, lambda data: data["system"].update(algorithm="ppo", backbone="mini:causal"), seed)
    say(ours, backbone="meta-llama/Llama-3.1-405B")


@violates(85)
def a_backbone_of_what_has_none(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["system"].update(algorithm="null"))
    for seed in SEEDS[1:]:
        (ours / f"commongen/seed-{seed}.result.json").unlink()
        (ours / f"commongen/seed-{seed}.predictions.jsonl.gz").unlink()
    say(ours, algorithm="null", seeds=[1], deterministic=True)


@violates(86)
def beams_that_the_task_does_not_have(ours: Path, _: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        edit(ours, lambda data: data["generation"].update(num_beams=64), seed)


@violates(86)
def a_setting_that_no_task_has(ours: Path, _: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        edit(ours, lambda data: data["generation"].update(repetition_penalty=1.2), seed)


@violates(81)
def a_reward_model_without_its_hash(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["system"].update(reward="0.5*meteor + 0.5*model:rm"))


@violates(82)
def a_reward_model_that_has_seen_the_evaluation_split(ours: Path, _: pytest.MonkeyPatch) -> None:
    known = {"name": "model:rm", "sha256": "a" * 64, "judge": "meteor", "split": "test"}
    edit(ours, lambda data: data["system"].update(reward="model:rm", reward_models=[known]))


@violates(80)
def fewer_reward_calls_than_none(ours: Path, _: pytest.MonkeyPatch) -> None:
    edit(ours, lambda data: data["system"].update(training={"tokens": 5.0, "reward_calls": -1}))


def ask_by_chat(ours: Path, seeds: Sequence[int] = SEEDS, **changes: object) -> None:
    """Say that some seeds were asked by the task's chat prompt."""
    said = {"kind": "chat", "version": TASK.prompt.chat.version, "hash": TASK.chat_hash, "shots": []} | changes
    for seed in seeds:
        edit(ours, lambda data: data["generation"].update(prompting=said), seed)


@violates(90)
def another_hash_of_the_chat_prompt(ours: Path, _: pytest.MonkeyPatch) -> None:
    ask_by_chat(ours, hash="0" * 64)


@violates(90)
def another_version_of_the_chat_prompt(ours: Path, _: pytest.MonkeyPatch) -> None:
    ask_by_chat(ours, version=True)


@violates(90)
def a_prompting_of_their_own(ours: Path, _: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        edit(ours, lambda data: data["generation"].update(prompting="the best of prompts"), seed)


@violates(91)
def a_seed_that_was_asked_by_a_chat_prompt(ours: Path, _: pytest.MonkeyPatch) -> None:
    ask_by_chat(ours, [2])


ANSWERED = {"url": "https://api.example.org/v1", "model": "m-1", "requests": 9, "tokens": {}}


def answer_by_an_endpoint(ours: Path, **changes: object) -> None:
    for seed in SEEDS:
        said = {"algorithm": "endpoint", "weights": "", "endpoint": ANSWERED} | changes
        edit(ours, lambda data, said=said: data["system"].update(said), seed)


@violates(92)
def an_endpoint_that_nobody_names(ours: Path, _: pytest.MonkeyPatch) -> None:
    answer_by_an_endpoint(ours, endpoint=None)


@violates(92)
def a_key_in_the_address(ours: Path, _: pytest.MonkeyPatch) -> None:
    answer_by_an_endpoint(ours, endpoint=ANSWERED | {"url": "https://api.example.org/v1?key=sk-1"})


@violates(92)
def a_password_in_the_address(ours: Path, _: pytest.MonkeyPatch) -> None:
    answer_by_an_endpoint(ours, endpoint=ANSWERED | {"url": "https://me:sk-1@api.example.org/v1"})


@violates(92)
def more_answers_than_requests(ours: Path, _: pytest.MonkeyPatch) -> None:
    answer_by_an_endpoint(ours, endpoint=ANSWERED | {"requests": 3})


@violates(92)
def weights_that_nobody_has_seen(ours: Path, _: pytest.MonkeyPatch) -> None:
    answer_by_an_endpoint(ours, weights="ab" * 32)


@violates(55)
def a_row_that_said_something_else_when_it_was_reproduced(ours: Path, _: pytest.MonkeyPatch) -> None:
    reproduced(ours, statement="0" * 64)


@violates(92)
def an_endpoint_that_trains(ours: Path, _: pytest.MonkeyPatch) -> None:
    answer_by_an_endpoint(ours, algorithm="ppo")


def test_a_system_by_chat_and_one_by_an_endpoint_pass(ours: Path) -> None:
    ask_by_chat(ours)
    answer_by_an_endpoint(ours)
    seal(ours)
    assert check(ours) == []


def test_what_results_do_not_know_is_for_its_authors_to_say(ours: Path) -> None:
    """Of a model that was made elsewhere they know no algorithm; and several of a thing are named as pack names them."""
    for number, seed in enumerate(SEEDS):
        said = {"algorithm": "external", "backbone": ("b/two", "a/one")[number % 2]}
        edit(ours, lambda data, said=said: data["system"].update(said), seed)
    say(ours, algorithm="DPO on pairs of our own", backbone="a/one, b/two")
    seal(ours)
    assert [(problem.id, Path(problem.path).name) for problem in check(ours)] == [("GRUE-S037", "commongen")]
    say(ours, algorithm="DPO on pairs of our own", backbone="b/two")
    seal(ours)
    (told,) = [problem for problem in check(ours) if problem.id == "GRUE-S085"]
    assert told.message == "backbone: states 'b/two'; the results 'a/one, b/two'."


BEAMS = {"num_beams": 4, "do_sample": False, "max_new_tokens": 24, "min_new_tokens": 0, "length_penalty": 1.0}
DRAWN = {"num_beams": 1, "do_sample": True, "max_new_tokens": 24, "min_new_tokens": 0, "length_penalty": 1.0}
CUTS = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
OF_EIGHT = {"decoding": "best-of-8", "best_of": {"n": 8, "pick_by": "meteor", "oracle": True}}
BY_CHAT = {"prompting": {"kind": "chat"}}


@pytest.mark.parametrize(
    ("task", "system", "generation", "others"),
    [
        ("commongen", {}, {}, None),
        ("commongen", {}, BEAMS | CUTS, None),
        ("commongen", {}, BEAMS | CUTS | BY_CHAT, None),
        ("commongen", {}, DRAWN | CUTS | {"temperature": 0.7} | OF_EIGHT, None),
        ("commongen", {}, DRAWN, "num_beams 1 (the task's: 4), do_sample True (the task's: False)"),
        ("commongen", {"algorithm": "endpoint"}, {"max_tokens": 24, "temperature": 0, "decoding": "sampled"}, None),
        ("commongen", {"algorithm": "endpoint"}, {"max_tokens": 24, "temperature": 1}, "temperature 1 (the task's: 0)"),
        ("imdb", {}, {"min_new_tokens": 24}, None),
        ("imdb", {}, {"min_new_tokens": 0}, "min_new_tokens 0 (the task's: 24)"),
        ("imdb", {}, {"min_new_tokens": 0} | BY_CHAT, None),
    ],
)  # fmt: skip
def test_what_grue_evaluate_says_of_its_decoding_is_the_task_s(
    task: str, system: dict[str, Any], generation: dict[str, Any], others: str | None
) -> None:
    of = load_task(task)
    result = replace(a_result(of, "ours", 1, 50.0), system={"name": "ours"} | system, generation=generation)
    found = of_another_decoding(result, of)
    assert found == (None if others is None else f"generation: states {others}.")


@pytest.mark.parametrize(
    ("number", "violation"), [pytest.param(*pair, id=f"{pair[0]:03}-{pair[1].__name__}") for pair in VIOLATIONS]
)
def test_a_violation_trips_its_check_and_no_other(
    ours: Path, monkeypatch: pytest.MonkeyPatch, number: int, violation: Violation
) -> None:
    violation(ours, monkeypatch)
    if number not in (11, 12):
        seal(ours)
    problems = check(ours)
    found = {problem.id for problem in problems} - ({"GRUE-S001"} if number == 39 else set())
    assert found == {f"GRUE-S{number:03}"}
    for problem in problems:
        assert (problem.severity, problem.cure) == (CHECKS[problem.id].severity, CHECKS[problem.id].cure)
    from_above = [problem for problem in check(ours.parent.parent) if Path(problem.path).is_relative_to(ours)]
    assert from_above == [p for p in problems if p.id not in ("GRUE-S039", "GRUE-S052")]  # are told of what is checked


def test_a_trained_run_s_texts_are_no_start_that_was_kept(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are public: whoever names them as the start, and update 0 as the one kept, shares its place."""
    the_texts_of_what_it_started_from(ours, monkeypatch)
    edit(ours.with_name("theirs"), lambda data: data["system"].update(algorithm="ppo"), seed=3)
    for system in (ours, ours.with_name("theirs")):
        seal(system)
    assert [(problem.id, problem.severity) for problem in check(ours)] == [("GRUE-S052", "review")]


def test_every_check_is_tripped_by_a_test() -> None:
    assert {f"GRUE-S{number:03}" for number, _ in VIOLATIONS} | ELSEWHERE == set(CHECKS)


def test_ids_say_their_severity() -> None:
    for number, check_of in ((int(name[-3:]), check_of) for name, check_of in CHECKS.items()):
        warned, reviewed = (
            (30, 31, 32, 35, 36, 37, 39, 45, 55, 73, 79, 80, 86),
            (33, 34, 38, 44, 49, 50, 51, 52, 56, 82, 83, 84, 85),
        )
        assert check_of.severity == ("warning" if number in warned else "review" if number in reviewed else "error")
        assert check_of.id == f"GRUE-S{number:03}"
        assert check_of.cure.endswith(".")
        assert not check_of.title.endswith(".")
    with pytest.raises(ValueError, match=r"^The check GRUE-S030 is of severity 'warning', not 'error'\.$"):
        error(30, Path("x"), "")
    with pytest.raises(KeyError):
        warning(999, Path("x"), "")
