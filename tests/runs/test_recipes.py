"""Configurations: default < recipe < preset < override, and what is refused."""

import dataclasses
from dataclasses import replace

import pytest
from support import tiny

from grue import files
from grue.algorithms import BUILT_IN
from grue.algorithms.cards.ppo import PPOConfig
from grue.errors import ConfigError, UnknownName
from grue.rl.trainer import Algorithm
from grue.runs import plan
from grue.runs.algorithms import ALGORITHMS, find_algorithm, preset_of, split_algorithm
from grue.runs.folder import claim_folder, sole_owner
from grue.runs.plan import stages_of
from grue.runs.recipes import check_recipes, make_config
from grue.runs.request import RunRequest
from grue.task_files import load_task


@pytest.fixture(autouse=True)
def the_backbone_is_there(monkeypatch):
    """The tasks here name a model that nobody has; what refuses one is tested with the commands."""
    monkeypatch.setattr("grue.runs.plan.check_backbone", lambda plan: None)


def task(**recipes):
    return dataclasses.replace(tiny.task("causal"), recipes=recipes)


def test_later_layers_win():
    made = task(ppo={"clip": 0.3, "gamma": 0.9}, **{"supervised+ppo": {"gamma": 0.8}})
    assert make_config(task(), "ppo", {}).clip == 0.2
    assert make_config(made, "ppo", {}).gamma == 0.9
    warm = make_config(made, "supervised+ppo", {"updates": 3})
    assert (warm.clip, warm.gamma, warm.updates) == (0.3, 0.8, 3)


def test_presets_are_nlpos():
    made = task(nlpo={"mass_coefficient": 0.7})
    assert make_config(made, "nlpo", {}).mass_coefficient == 0.7
    assert make_config(made, "nlpo", {}, "rl4lms").mask_source == "frozen"
    assert make_config(made, "nlpo", {"mass_coefficient": 0.2}, "stable").mass_coefficient == 0.2
    with pytest.raises(UnknownName, match="There is no preset 'stabel'. Did you mean 'stable'"):
        make_config(made, "nlpo", {}, "stabel")
    with pytest.raises(ConfigError, match="'paper' is one of nlpo; 'ppo' does not have it"):
        make_config(made, "ppo", {}, "paper")


@pytest.mark.parametrize(
    ("algorithm", "preset"), [(name, preset) for name in BUILT_IN for preset in find_algorithm(name).presets]
)
def test_a_preset_is_known_by_the_settings_that_it_gives(algorithm, preset):
    config = files.plain(make_config(task(), algorithm, {}, preset))
    assert preset_of(algorithm, config) == preset_of(f"supervised+{algorithm}", config) == preset
    assert preset_of("ppo", config) == ""


@pytest.mark.parametrize(
    ("algorithm", "overrides", "preset"),
    [
        ("grpo", {}, ""),  # the paper's
        ("grpo", {"loss_over": "tokens"}, ""),
        ("nlpo", {}, "own settings"),
        ("nlpo", {"mass_coefficient": 0.1}, "stable"),
        ("nlpo", {"mass_coefficient": 0.05}, "own settings"),
        ("nlpo", {"kl_over": "vocabulary"}, "paper"),
    ],
)
def test_settings_by_hand_are_a_preset_if_they_are_its(algorithm, overrides, preset):
    assert preset_of(algorithm, files.plain(make_config(task(), algorithm, overrides))) == preset


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"learning_rat": 1e-4}, r"nlpo on tests/tiny: unknown key 'learning_rat'. Did you mean 'learning_rate'\?"),
        ({"updates": "ten"}, "updates: expected a whole number, found str 'ten'"),
        ({"updates": 0}, "updates must be above 0, found 0"),
        ({"gamma": 1.5}, "gamma must be at least 0 and at most 1, found 1.5"),
        ({"kl_target": 0.0}, "kl_target must be above 0, found 0.0; leave it out to turn it off"),
        ({"value_model": "shard"}, r"'shard' is not one of separate, shared. Did you mean 'shared'\?"),
        ({"minibatch_size": 128}, "minibatch_size 128 exceeds rollouts 64"),
        ({"clip": -1.0}, "clip must be above 0, found -1.0"),
        ({"overlong_penalty": 3.0}, "overlong_penalty does nothing where overlong_buffer is 0; set overlong_buffer"),
        ({"calibration_tilt": 3.0}, "calibration_tilt does nothing where calibration_samples is 0; "),
        ({"overlong_buffer": 10_000}, r"overlong_buffer 10000 exceeds the 8 tokens that a rollout may have"),
    ],
)
def test_values_that_cannot_be_are_refused(overrides, message):
    with pytest.raises(ConfigError, match=message):
        make_config(task(), "nlpo", overrides)


IDLE = [
    ("ppo", {"kl_target": 0.5, "kl_coefficient": 0.0}, "kl_target does nothing where kl_coefficient is 0"),
    ("grpo", {"kl_corrected": True, "kl_coefficient": 0.0}, "kl_corrected does nothing where kl_coefficient is 0"),
    ("ppo", {"kl_controller": "ziegler"}, "kl_controller does nothing without kl_target"),
    ("ppo", {"kl_gain": 0.2}, "kl_gain does nothing without kl_target"),
    ("ppo", {"kl_horizon": 10}, "kl_horizon does nothing without kl_target"),
    ("ppo", {"kl_horizon": 10, "kl_target": 0.5}, 'kl_horizon does nothing with kl_controller = "rl4lms"'),
    (
        "ppo",
        {"kl_gain": 0.2, "kl_target": 0.5, "kl_controller": "ziegler"},
        'kl_gain does nothing with kl_controller = "ziegler"',
    ),
    ("dpo", {"mask": "top_k", "top_p": 0.5}, 'top_p does nothing with mask = "top_k"; set another mask'),
    ("nlpo", {"mask": "top_k", "mask_updates": 2}, 'mask_updates does nothing with mask = "top_k"'),
    ("nlpo", {"mask": "top_k", "mask_source": "frozen"}, 'mask_source does nothing with mask = "top_k"'),
    ("nlpo", {"mask": "learned_top_k", "top_p": 0.5}, 'top_p does nothing with mask = "learned_top_k"'),
    ("nlpo", {"top_k": 5}, 'top_k does nothing with mask = "learned_top_p"'),
    ("nlpo", {"mask_source": "frozen", "mask_updates": 2}, 'mask_updates does nothing with mask_source = "frozen"'),
]


@pytest.mark.parametrize(("algorithm", "overrides", "message"), IDLE)
def test_what_does_nothing_is_refused_where_the_user_sets_it(algorithm, overrides, message):
    with pytest.raises(ConfigError, match=f"{algorithm} on tests/tiny: {message}"):
        make_config(task(), algorithm, overrides)
    made = make_config(task(**{algorithm: overrides}), algorithm, {})
    assert {key: getattr(made, key) for key in overrides} == overrides, "a recipe may"


def test_defaults_of_what_does_nothing_may_be_set_and_presets_are_no_wish_of_the_users():
    usual = {"kl_target": None, "kl_controller": "rl4lms", "kl_gain": 0.1, "kl_horizon": 10_000, "top_k": 50}
    assert make_config(task(), "nlpo", usual) == make_config(task(), "nlpo", {})
    assert make_config(task(nlpo={"mask_updates": 2}), "nlpo", {}, "rl4lms").mask_updates == 2
    with pytest.raises(ConfigError, match='mask_updates does nothing with mask_source = "frozen"'):
        make_config(task(), "nlpo", {"mask_updates": 2}, "rl4lms")
    with pytest.raises(ConfigError, match="kl_target does nothing where kl_coefficient is 0"):
        make_config(task(), "grpo", {"kl_target": 1.0}, "dapo")


def test_who_takes_the_mask_off_need_not_take_off_what_a_recipe_says_of_it():
    made = task(nlpo={"mass_coefficient": 0.1, "top_p": 0.5, "clip": 0.3})
    found = make_config(made, "nlpo", {"mask": None})
    assert (found.mask, found.mass_coefficient, found.top_p, found.clip) == (None, 0.0, 0.9, 0.3)
    with pytest.raises(ConfigError, match="mass_coefficient is about the mask, and there is none"):
        make_config(made, "nlpo", {"mask": None, "mass_coefficient": 0.1})


def test_an_overlong_buffer_is_one_of_the_rollouts():
    made = task()
    long = dataclasses.replace(made, rollout=dataclasses.replace(made.rollout, max_new_tokens=12))
    assert make_config(long, "grpo", {"overlong_buffer": 12}).overlong_buffer == 12
    short = dataclasses.replace(long, rollout=made.rollout, decoding=long.rollout)
    with pytest.raises(ConfigError, match="overlong_buffer 12 exceeds the 8 tokens that a rollout may have"):
        make_config(short, "grpo", {"overlong_buffer": 12})


def test_an_overlong_buffer_is_refused_where_all_rollouts_have_one_length():
    fixed = tiny.task("causal", min_new_tokens=8)
    assert make_config(fixed, "grpo", {}).overlong_buffer == 0
    with pytest.raises(
        ConfigError, match="overlong_buffer tells no rollouts apart, since all have 8 tokens .* leave it"
    ):
        make_config(fixed, "grpo", {"overlong_buffer": 4})


def test_algorithms_are_stages():
    assert split_algorithm("supervised+nlpo") == ("supervised", "nlpo")
    with pytest.raises(UnknownName, match=r"no algorithm 'npo'. Did you mean 'nlpo'\?"):
        split_algorithm("npo")
    for chain in ("ppo+nlpo", "supervised+supervised", "supervised+ppo+nlpo"):
        with pytest.raises(ConfigError, match="is no chain of stages"):
            split_algorithm(chain)


def test_a_warm_start_shares_its_first_stage(tmp_path):
    request = RunRequest(
        task=tiny.task("causal"), algorithm="supervised+ppo", seed=3, runs=tmp_path, settings={"updates": 7}
    )
    first, second = stages_of(request)
    assert first.folder == tmp_path / "tests" / "tiny" / "supervised" / "seed-3"
    assert second.folder == tmp_path / "tests" / "tiny" / "supervised+ppo" / "seed-3"
    assert second.init == first.checkpoint
    assert second.config.updates == 7
    assert [plan.algorithm for plan in stages_of(replace(request, algorithm="supervised", settings={}))] == [
        "supervised"
    ]
    with pytest.raises(ConfigError, match="--init starts from a checkpoint; with it, write --algo ppo"):
        stages_of(replace(request, init=tmp_path))


@pytest.mark.parametrize(
    ("algorithm", "backbone", "names"),
    [
        ("ppo", "mini:causal", ["ppo"]),  # the task's own
        ("ppo", "mini:causal-s", ["ppo-causal-s"]),
        ("supervised+ppo", "mini:causal-s", ["supervised-causal-s", "supervised+ppo-causal-s"]),
        ("supervised+ppo", "org/a model@v2", ["supervised-a-model-v2", "supervised+ppo-a-model-v2"]),
        ("supervised", ".", ["supervised-own"]),
        ("supervised", "models/own/", ["supervised-own"]),
        ("supervised", "org/" + "x" * 80, ["supervised-" + "x" * 49]),  # names have 60 characters at most
    ],
)
def test_another_backbone_is_in_the_name_that_nobody_gave(tmp_path, monkeypatch, algorithm, backbone, names):
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path / "own")
    request = RunRequest(task=load_task("imdb"), algorithm=algorithm, backbone=backbone)
    assert [plan.system for plan in stages_of(request)] == names
    assert stages_of(replace(request, system="mine"))[-1].system == "mine"


def test_a_folder_has_one_process_at_a_time(tmp_path):
    message = "another process is training here"
    with sole_owner(tmp_path / "run"), pytest.raises(ConfigError, match=message), sole_owner(tmp_path / "run"):
        pass
    with sole_owner(tmp_path / "run"):
        pass


def test_auto_becomes_what_the_machine_is_fast_in_and_stays_it(tmp_path, monkeypatch):
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
    with pytest.raises(ConfigError, match="precision"):
        claim_folder(slow)


def test_reinforcement_learners_share_a_recipe():
    made = task(
        rl={"learning_rate": 3e-4, "clip": 0.3, "value_model": "shared"},
        nlpo={"top_p": 0.5},
        **{"supervised+rl": {"learning_rate": 1e-4}, "supervised+ppo": {"clip": 0.1}},
    )
    assert (make_config(made, "nlpo", {}).clip, make_config(made, "nlpo", {}).top_p) == (0.3, 0.5)
    assert make_config(made, "grpo", {}).clip == 0.3
    assert not hasattr(make_config(made, "rloo", {}), "value_model")
    assert make_config(made, "a2c", {}).value_model == "shared"
    assert make_config(made, "supervised", {}).learning_rate == 1e-5
    warm = make_config(made, "supervised+ppo", {})
    assert (warm.learning_rate, warm.clip, warm.value_model) == (1e-4, 0.1, "shared")
    with pytest.raises(ConfigError, match=r"tests/tiny: recipes.rl: unknown key 'clpi'. Did you mean 'clip'\?"):
        make_config(task(rl={"clpi": 0.1}), "ppo", {})


@pytest.mark.parametrize(
    ("algorithm", "overrides", "message"),
    [
        ("rloo", {"samples_per_prompt": 1}, "samples_per_prompt must be at least 2, found 1"),
        ("grpo", {"rollouts": 30, "minibatch_size": 30}, "rollouts 30 is no multiple of samples_per_prompt 8"),
        ("ppo", {"freeze_encoder": True}, "freeze_encoder needs an encoder; the task's backbone is a causal model"),
        ("ppo", {"lora_rank": -1}, "lora_rank must be at least 0, found -1"),
        ("trpo", {"trust_region": 0.0}, "trust_region must be above 0, found 0.0"),
    ],
)
def test_sizes_and_models_that_do_not_fit_are_refused(algorithm, overrides, message):
    with pytest.raises(ConfigError, match=message):
        make_config(task(), algorithm, overrides)


def test_a_recipe_of_no_algorithm_is_refused():
    check_recipes(task(rl={"clip": 0.3}, **{"supervised+rl": {"clip": 0.2}}))
    with pytest.raises(ConfigError, match=r"recipes.nlop is of no algorithm. Did you mean 'nlpo'\?"):
        check_recipes(task(nlop={"clip": 0.3}))


def test_an_algorithm_of_another_package_is_used_by_its_name(monkeypatch):
    monkeypatch.setitem(ALGORITHMS._things, "lazy", Algorithm(settings=PPOConfig, update=lambda *given: {}))
    assert isinstance(make_config(task(), "lazy", {"clip": 0.4}), PPOConfig)
    assert split_algorithm("supervised+lazy") == ("supervised", "lazy")
    monkeypatch.setitem(ALGORITHMS._things, "vague", lambda run, config: None)
    with pytest.raises(
        ConfigError, match="The algorithm 'vague' must be a grue.rl.trainer.Algorithm .* found function"
    ):
        make_config(task(), "vague", {})


def test_an_algorithm_in_a_file_of_ones_own_is_named_by_module_and_object(tmp_path, monkeypatch):
    (tmp_path / "mine_alone.py").write_text(
        "from grue.algorithms.cards.ppo import PPOConfig\nfrom grue.rl.trainer import Algorithm\n"
        "MINE = Algorithm(settings=PPOConfig, update=lambda *given: {})\nOTHER = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    (plan,) = stages_of(RunRequest(task=task(), algorithm="mine_alone:MINE", runs=tmp_path, settings={"clip": 0.4}))
    assert (plan.system, plan.algorithm, plan.config) == ("mine_alone", "mine_alone:MINE", PPOConfig(clip=0.4))
    assert plan.folder.parent.name == "mine_alone"
    for name, message in {
        "mine_alone:OTHER": "must be a grue.rl.trainer.Algorithm .* found int",
        "mine_alone:NONE": "mine_alone has no 'NONE'",
        "nobody_wrote:MINE": "the module 'nobody_wrote' cannot be imported",
    }.items():
        with pytest.raises(ConfigError, match=message):
            stages_of(RunRequest(task=task(), algorithm=name))


def test_a_run_starts_from_a_runs_folder_or_its_checkpoint(tmp_path):
    run = tmp_path / "run"
    (run / "checkpoint").mkdir(parents=True)
    for init in (run, run / "checkpoint"):
        (plan,) = stages_of(RunRequest(task=task(), runs=tmp_path, init=init))
        assert plan.init == run / "checkpoint"


@pytest.mark.parametrize("setting", ["supervised_coefficient", "mass_coefficient"])
def test_what_trpo_inherits_and_does_not_read_cannot_be_set(setting):
    with pytest.raises(ConfigError, match=f"trpo on tests/tiny: {setting} has no effect on trpo; leave it out."):
        make_config(task(), "trpo", {setting: 0.1})
