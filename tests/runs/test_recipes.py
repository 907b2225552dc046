"""Configurations: default < recipe < preset < override, and what is refused."""

import dataclasses
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.late import late, lates

from grue import files
from grue.algorithms import BUILT_IN
from grue.algorithms.cards.ppo import PPOConfig
from grue.errors import ConfigError, UnknownName
from grue.runs import plan
from grue.runs.algorithms import ALGORITHMS, find_card, preset_of, split_algorithm
from grue.runs.folder import claim_folder
from grue.runs.plan import stages_of
from grue.runs.recipes import check_recipes, make_config
from grue.runs.request import RunRequest
from grue.task_files import load_task

tiny, rl, training, distributed = lates("support.tiny grue.rl.trainer grue.runs.train grue.lm.distributed")
formulas = late("grue.rl.functional")


@pytest.fixture(autouse=True)
def the_backbone_is_there(monkeypatch):
    """The tests here name a model that nobody has; what refuses one is tested with the commands."""
    monkeypatch.setattr("grue.runs.plan.check_backbone", lambda plan: None)


def task(**recipes):
    return dataclasses.replace(tiny.task("causal"), recipes=recipes)


def test_later_layers_win_and_reinforcement_learners_share_a_recipe(refused):
    made = task(
        rl={"learning_rate": 3e-4, "clip": 0.3, "value_model": "shared"},
        nlpo={"top_p": 0.5, "mass_coefficient": 0.7},
        ppo={"gamma": 0.9},
        **{"supervised+rl": {"learning_rate": 1e-4}, "supervised+ppo": {"clip": 0.1, "gamma": 0.8}},
    )
    assert make_config(task(), "ppo", {}).clip == 0.2
    assert make_config(made, "ppo", {}).gamma == 0.9
    assert (make_config(made, "nlpo", {}).clip, make_config(made, "nlpo", {}).top_p) == (0.3, 0.5)
    assert make_config(made, "grpo", {}).clip == 0.3
    assert not hasattr(make_config(made, "rloo", {}), "value_model")
    assert make_config(made, "a2c", {}).value_model == "shared"
    assert make_config(made, "supervised", {}).learning_rate == 1e-5
    warm = make_config(made, "supervised+ppo", {"updates": 3})
    assert (warm.learning_rate, warm.clip, warm.gamma, warm.value_model) == (1e-4, 0.1, 0.8, "shared")
    assert warm.updates == 3
    assert make_config(made, "nlpo", {}).mass_coefficient == 0.7
    assert make_config(made, "nlpo", {}, "rl4lms").mask_source == "frozen"
    assert make_config(made, "nlpo", {"mass_coefficient": 0.2}, "stable").mass_coefficient == 0.2
    assert check_recipes(made) == []
    for wrong in ({"rl": {"clpi": 0.1}}, {"nlop": {"clip": 0.3}}, {"rl": {"clip": -1.0}}, {"rl": {"rollouts": 24}}):
        with refused(ConfigError):
            check_recipes(task(**wrong))


def test_a_shared_recipe_need_not_suit_every_algorithm(refused):
    for_most = {"rollouts": 24, "minibatch_size": 24}
    for table, name in (("rl", "es"), ("supervised+rl", "supervised+es")):
        (note,) = check_recipes(task(**{table: for_most}))
        assert note.startswith(f"the shared recipe is not for {name} on ") and "rollouts 24 is not a multiple" in note
        with refused(ConfigError):
            make_config(task(**{table: for_most}), name, {})
    for own in ({"rl": {**for_most, "noise": 0.1}}, {"rl": for_most, "es": {"noise": 0.1}}):
        with refused(ConfigError):
            check_recipes(task(**own))


def test_settings_are_known_as_the_preset_that_gives_them():
    for algorithm in BUILT_IN:
        for preset in find_card(algorithm).presets:
            config = files.plain(make_config(task(), algorithm, {}, preset))
            assert preset_of(algorithm, config) == preset_of(f"supervised+{algorithm}", config) == preset
            assert preset_of("ppo", config) == ""
    for algorithm, overrides, preset in (
        ("grpo", {}, ""),  # the paper's
        ("grpo", {"loss_over": "tokens"}, ""),
        ("nlpo", {}, "own settings"),
        ("nlpo", {"mass_coefficient": 0.1}, "stable"),
        ("nlpo", {"mass_coefficient": 0.05}, "own settings"),
        ("nlpo", {"kl_over": "vocabulary"}, "paper"),
    ):
        assert preset_of(algorithm, files.plain(make_config(task(), algorithm, overrides))) == preset


def test_values_that_cannot_be_are_refused(refused):
    for algorithm, *wrong in (
        ("nlpo", {"learning_rat": 1e-4}, {"updates": "ten"}, {"updates": 0}, {"gamma": 1.5}, {"kl_target": 0.0}),
        ("nlpo", {"value_model": "shard"}, {"minibatch_size": 128}, {"clip": -1.0}, {"overlong_penalty": 3.0}),
        ("nlpo", {"calibration_tilt": 3.0}, {"overlong_buffer": 10_000}),
        ("rloo", {"samples_per_prompt": 1}),
        ("grpo", {"rollouts": 30, "minibatch_size": 30}),
        ("ppo", {"freeze_encoder": True}, {"lora_rank": -1}),
        ("trpo", {"trust_region": 0.0}, {"supervised_coefficient": 0.1}, {"mass_coefficient": 0.1}),
        ("ppo", {"kl_target": 0.5, "kl_gain": 5.0}, {"kl_target": 0.5, "kl_gain": -0.1}),
        ("ppo", {"kl_target": 0.5, "kl_controller": "ziegler", "kl_horizon": 12}),
        ("nlpo", {"value_coefficient": -0.5}, {"min_tokens_to_keep": 0}),
    ):
        for overrides in wrong:
            with refused(ConfigError):
                make_config(task(), algorithm, overrides)


def test_no_controller_that_is_accepted_can_make_the_penalty_a_reward():
    longest = {"kl_target": 0.5, "kl_controller": "ziegler", "kl_horizon": 13}
    rollouts = make_config(task(), "ppo", longest).rollouts
    assert (
        formulas.ziegler_kl_step(0.1, 0.0, 0.5, rollouts, 12)
        <= 0.0
        < formulas.ziegler_kl_step(0.1, 0.0, 0.5, rollouts, 13)
    )
    assert formulas.rl4lms_kl_step(0.1, 0.0, 0.5, 5.0) == 0.0


def test_what_does_nothing_is_refused_where_the_user_sets_it(refused):
    ziegler = {"kl_target": 0.5, "kl_controller": "ziegler"}
    for algorithm, *idle in (
        ("ppo", {"kl_target": 0.5, "kl_coefficient": 0.0}, {"kl_controller": "ziegler"}, {"kl_gain": 0.2}),
        ("ppo", {"kl_horizon": 10}, {"kl_horizon": 10, "kl_target": 0.5}, {"kl_gain": 0.2, **ziegler}),
        ("grpo", {"kl_corrected": True, "kl_coefficient": 0.0}),
        ("dpo", {"mask": "top_k", "top_p": 0.5}),
        ("nlpo", {"mask": "top_k", "mask_updates": 2}, {"mask": "top_k", "mask_source": "frozen"}, {"top_k": 5}),
        ("nlpo", {"mask": "learned_top_k", "top_p": 0.5}, {"mask_source": "frozen", "mask_updates": 2}),
        ("supervised", {"lora_alpha": 32.0}),
    ):
        for overrides in idle:
            with refused(ConfigError):
                make_config(task(), algorithm, overrides)
            made = make_config(task(**{algorithm: overrides}), algorithm, {})
            assert {key: getattr(made, key) for key in overrides} == overrides, "a recipe may"


def test_defaults_of_what_does_nothing_may_be_set_and_presets_are_no_wish_of_the_users(refused):
    usual = {"kl_target": None, "kl_controller": "rl4lms", "kl_gain": 0.1, "kl_horizon": 10_000, "top_k": 50}
    assert make_config(task(), "nlpo", usual) == make_config(task(), "nlpo", {})
    assert make_config(task(nlpo={"mask_updates": 2}), "nlpo", {}, "rl4lms").mask_updates == 2
    for algorithm, overrides, preset, error in (
        ("nlpo", {"mask_updates": 2}, "rl4lms", ConfigError),
        ("grpo", {"kl_target": 1.0}, "dapo", ConfigError),
        ("nlpo", {}, "stabel", UnknownName),
        ("ppo", {}, "paper", ConfigError),
    ):
        with refused(error):
            make_config(task(), algorithm, overrides, preset)


def test_who_takes_the_mask_off_need_not_take_off_what_a_recipe_says_of_it(refused):
    made = task(nlpo={"mass_coefficient": 0.1, "top_p": 0.5, "clip": 0.3})
    found = make_config(made, "nlpo", {"mask": None})
    assert (found.mask, found.mass_coefficient, found.top_p, found.clip) == (None, 0.0, 0.9, 0.3)
    with refused(ConfigError):
        make_config(made, "nlpo", {"mask": None, "mass_coefficient": 0.1})


def test_an_overlong_buffer_is_one_of_the_rollouts_if_these_differ_in_length(refused):
    made, fixed = task(), tiny.task("causal", min_new_tokens=8)
    long = dataclasses.replace(made, rollout=dataclasses.replace(made.rollout, max_new_tokens=12))
    assert make_config(long, "grpo", {"overlong_buffer": 12}).overlong_buffer == 12
    assert make_config(fixed, "grpo", {}).overlong_buffer == 0
    short = dataclasses.replace(long, rollout=made.rollout, decoding=long.rollout)
    for one, buffer in ((short, 12), (fixed, 4)):
        with refused(ConfigError):
            make_config(one, "grpo", {"overlong_buffer": buffer})


@pytest.mark.parametrize(("given", "most"), [({}, 64), ({"redraws": 3}, 4)])
def test_every_process_has_something_to_sample(given, most, refused):
    """Where groups may be drawn again they stay together, so that there are only as many shares as prompts."""
    config = make_config(load_task("imdb"), "grpo", {"rollouts": 64, "samples_per_prompt": 16, **given})
    training.check_processes(config, distributed.DistributedContext(rank=0, size=most))
    with refused(ConfigError):
        training.check_processes(config, distributed.DistributedContext(rank=0, size=most + 1))


def test_algorithms_are_stages(refused):
    assert split_algorithm("supervised+nlpo") == ("supervised", "nlpo")
    with refused(UnknownName):
        split_algorithm("npo")
    for chain in ("ppo+nlpo", "supervised+supervised", "supervised+ppo+nlpo"):
        with refused(ConfigError):
            split_algorithm(chain)


def test_a_warm_start_shares_its_first_stage(tmp_path, refused):
    settings = {"updates": 7}
    request = RunRequest(task=task(), algorithm="supervised+ppo", seed=3, runs=tmp_path, settings=settings)
    first, second = stages_of(request)
    assert first.folder == tmp_path / "tests" / "tiny" / "supervised" / "seed-3"
    assert second.folder == tmp_path / "tests" / "tiny" / "supervised+ppo" / "seed-3"
    assert second.init == first.checkpoint and second.config.updates == 7
    alone = stages_of(replace(request, algorithm="supervised", settings={}))
    assert [plan.algorithm for plan in alone] == ["supervised"]
    with refused(ConfigError):
        stages_of(replace(request, init=tmp_path))
    (first.folder / "checkpoint").mkdir(parents=True)
    for init in (first.folder, first.folder / "checkpoint"):
        (started,) = stages_of(RunRequest(task=task(), runs=tmp_path, init=init))
        assert started.init == first.folder / "checkpoint"


def test_another_backbone_is_in_the_name_that_nobody_gave(tmp_path, monkeypatch):
    for folder in ("a model@v2", "models/own", "x" * 80):
        (tmp_path / "own" / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "own")
    for algorithm, backbone, names in (
        ("ppo", "mini:causal", ["ppo"]),  # the task's own
        ("supervised+ppo", "mini:causal-s", ["supervised-causal-s", "supervised+ppo-causal-s"]),
        ("supervised+ppo", "./a model@v2", ["supervised-a-model-v2", "supervised+ppo-a-model-v2"]),
        ("supervised", ".", ["supervised-own"]),
        ("supervised", "models/own/", ["supervised-own"]),
        ("supervised", "x" * 80, ["supervised-" + "x" * 49]),  # names have 60 characters at most
    ):
        request = RunRequest(task=load_task("imdb"), algorithm=algorithm, backbone=backbone)
        assert [plan.system for plan in stages_of(request)] == names
        assert stages_of(replace(request, system="mine"))[-1].system == "mine"


def test_auto_becomes_what_the_machine_is_fast_in_and_stays_it(tmp_path, monkeypatch, refused):
    def planned(able, **settings):
        monkeypatch.setattr(plan, "multiplies_bfloat16", lambda device: able)
        (made,) = stages_of(RunRequest(task=load_task("imdb"), runs=tmp_path, settings=settings))
        return made

    assert planned(True).config.precision == "float32", "nobody asked for it"
    fast, slow = planned(True, precision="auto"), planned(False, precision="auto")
    assert (fast.config.precision, slow.config.precision) == ("bfloat16", "float32")
    assert fast.record()["config"]["precision"] == "bfloat16"
    assert slow.record() == planned(True, precision="float32").record()
    claim_folder(fast)
    claim_folder(planned(True, precision="auto"))
    claim_folder(planned(False, precision="bfloat16"))
    with refused(ConfigError):
        claim_folder(slow)


@pytest.mark.parametrize(
    ("suite", "name", "width", "settings", "expected"),
    [
        ("grue", "imdb", 768, {}, "bfloat16"),  # 64 + 48 tokens, GPT-2
        ("grue", "imdb", 768, {"micro_batch_size": 8}, "float32"),
        ("grue", "commongen", 768, {}, "float32"),  # 20 and 20 tokens, T5-base
        ("grue", "cnn_dailymail", 768, {}, "bfloat16"),
        ("mini", "imdb", 128, {}, "float32"),
    ],
)
def test_auto_is_float32_on_a_gpu_whose_kernels_would_be_short(suite, name, width, settings, expected, monkeypatch):
    monkeypatch.setattr(plan, "scoring_device", lambda: SimpleNamespace(type="cuda"))
    monkeypatch.setattr(plan, "multiplies_bfloat16", lambda device: True)
    sizes = SimpleNamespace(get_text_config=lambda: SimpleNamespace(hidden_size=width))
    asked = []
    monkeypatch.setattr("grue.lm.load.check_language_model", lambda *given: asked.append(given) or sizes)
    task, settings = load_task(name, suite), {"micro_batch_size": 64, "precision": "auto", **settings}
    task = replace(task, backbone=replace(task.backbone, revision="pinned"))
    assert stages_of(RunRequest(task=task, algorithm="ppo", settings=settings))[-1].config.precision == expected
    assert asked == [(task.backbone.family, task.backbone.model, "pinned")]


def test_an_algorithm_of_another_package_is_used_by_its_name(monkeypatch):
    monkeypatch.setitem(ALGORITHMS._things, "lazy", rl.Algorithm(settings=PPOConfig, update=lambda *given: {}))
    assert isinstance(make_config(task(), "lazy", {"clip": 0.4}), PPOConfig)
    assert split_algorithm("supervised+lazy") == ("supervised", "lazy")
    monkeypatch.setitem(ALGORITHMS._things, "vague", lambda run, config: None)
    with pytest.raises(ConfigError, match="algorithm 'vague' must be a grue.rl.trainer.Algorithm .* found function"):
        make_config(task(), "vague", {})
