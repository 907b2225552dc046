"""What a submission states of its training, against what can be and what its configuration makes."""

from pathlib import Path
from typing import Any

import pytest
from support.good_submission import SEEDS, configure, edit, seal, told, use_few_examples, write_good

from grue.submissions.checks.budgets import other_calls
from grue.submissions.folder import read_result

REINFORCED = {"algorithm": "ppo", "config": {"updates": 16, "rollouts": 128}}
HONEST = {"tokens": 500.0, "seconds": 2.5, "reward_calls": 1024.0}


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_few_examples(monkeypatch)
    return write_good(tmp_path / "submissions/mini/ours")


def budget_problems(system: Path) -> list[str]:
    seal(system)
    return [message for check, _, message in told(system) if check == "GRUE-S080"]


@pytest.mark.parametrize("value", [-1, -0.5, 2.5, True, "many", None, [1], 10**400])
def test_what_no_training_can_have_taken_is_a_warning(ours: Path, value: Any) -> None:
    edit(ours, lambda data: data["system"].update(training={"reward_calls": value}))
    (said,) = budget_problems(ours)
    assert said.startswith("training: reward_calls: states ") and said.endswith(", which cannot be.")


def test_half_a_second_can_be_and_a_whole_run_takes_no_less_than_a_part_of_it(ours: Path) -> None:
    def state(data: dict[str, Any], whole: float) -> None:
        data["system"].update(training=HONEST, last={"update": 16, "training": {"reward_calls": whole}})

    edit(ours, lambda data: state(data, 2048))
    assert budget_problems(ours) == []
    edit(ours, lambda data: state(data, 12))
    assert budget_problems(ours) == ["reward_calls: states 1,024 until the kept update and 12 in the whole run."]


def test_reward_calls_are_those_of_the_configuration(ours: Path) -> None:
    """Each seed states the calls of its kept and its last update; one lies, each in its own way."""
    configure(ours, **REINFORCED)
    stated = {1: (8, 1024, 16, 2048), 2: (8, 64, 16, 2048), 3: (8, 1024, 16, 1536), 4: (0, 0, 8, 1024)}
    for seed, (update, calls, last, whole) in stated.items():
        kept, end = {"reward_calls": calls}, {"update": last, "training": {"reward_calls": whole}}
        edit(ours, lambda data, u=update, k=kept, e=end: data["system"].update(update=u, training=k, last=e), seed)  # type: ignore[misc]
    assert budget_problems(ours) == [
        "reward_calls: states 64 until the kept update; its configuration makes 1,024.",
        "reward_calls: states 1,536 until the last update; its configuration makes 2,048.",
        "last: update: states 8; its configuration makes 16.",
    ]


@pytest.mark.parametrize(
    ("system", "said"),
    [
        (
            {"training": {"reward_calls": 16}},
            "reward_calls: states 16 until the kept update, and not which update that is.",
        ),
        (
            {"update": 8, "training": {"episodes": 64}},
            "episodes: states 64 until the kept update; its configuration makes 1,024 at least.",
        ),
        ({"update": 8, "training": {"episodes": 17000}}, None),  # those of the start count, too
    ],
)
def test_what_the_board_would_count_is_held_against_the_configuration(ours: Path, system: Any, said: Any) -> None:
    configure(ours, **REINFORCED)
    edit(ours, lambda data: data["system"].update(system))
    assert budget_problems(ours) == ([said] if said else [])


def test_calls_that_chose_the_prompts_come_on_top(ours: Path) -> None:
    config = {**REINFORCED["config"], "select": "hard:100"}  # type: ignore[dict-item]
    for calls, lines in ((9024, 0), (1023, 1)):
        system = {"update": 8, "training": {"reward_calls": calls}}
        edit(ours, lambda data, s=system: data["system"].update(s))  # type: ignore[misc]
        assert len(list(other_calls(config, False, read_result(ours / "commongen/seed-1.result.json")))) == lines


def test_results_that_state_no_reward_calls_stay_as_they_were(ours: Path) -> None:
    configure(ours, **REINFORCED)
    for seed in SEEDS:
        older = {"tokens": 500.0, "episodes": 1024.0, "seconds": 2.5}
        edit(ours, lambda data, t=older: data["system"].update(update=8, training=t, last={"update": 16}), seed)  # type: ignore[misc]
    assert budget_problems(ours) == []


def test_calls_of_a_start_that_no_stage_made_come_on_top(ours: Path) -> None:
    for calls, lines in ((4000, 0), (1023, 1)):
        system = {"update": 8, "start": "0" * 64, "training": {"reward_calls": calls}}
        edit(ours, lambda data, s=system: data["system"].update(s))  # type: ignore[misc]
        result = read_result(ours / "commongen/seed-1.result.json")
        found = list(other_calls(REINFORCED["config"], True, result))  # type: ignore[arg-type]
        assert len(found) == lines
        assert len(list(other_calls(REINFORCED["config"], False, result))) == 1  # type: ignore[arg-type]


def test_what_asks_beside_its_rollouts_may_have_more_calls_and_never_fewer(ours: Path) -> None:
    for calls, problems in ((1500.0, 0), (1024.0, 0), (1000.0, 1)):
        edit(ours, lambda data, c=calls: data["system"].update(update=8, training={"reward_calls": c}))  # type: ignore[misc]
        result = read_result(ours / "commongen/seed-1.result.json")
        for asks in ({"redraws": 3}, {"calibration_samples": 8}, {"select": "hard:50"}):
            config = {"updates": 16, "rollouts": 128, **asks}
            assert len(list(other_calls(config, False, result))) == problems, (calls, asks)


def test_a_value_that_is_fitted_first_asks_about_its_prompts_and_no_more(ours: Path) -> None:
    """A-LoL asks about `value_prompts` answers in its first update; r_lol, which has the setting too, about none."""
    for variant, update, calls, problems in (
        ("alol", 8, 1024 + 256, 0),
        ("alol", 8, 1024, 1),
        ("alol", 8, 9000, 1),
        ("alol", 0, 0, 0),
        ("r_lol", 8, 1024, 0),
        ("r_lol", 8, 1024 + 256, 1),
    ):
        config = {"updates": 16, "rollouts": 128, "value_prompts": 256, "variant": variant}
        edit(ours, lambda data, u=update, c=calls: data["system"].update(update=u, training={"reward_calls": c}))  # type: ignore[misc]
        result = read_result(ours / "commongen/seed-1.result.json")
        assert len(list(other_calls(config, False, result))) == problems, (variant, update, calls)
