"""Every algorithm on a real language model, in float32 and in bfloat16: what is sampled is what is learnt.

`pytest -n 0 -s -m slow tests/algorithms/test_gemma.py -k updates` prints a table of errors, memory and time.
"""

import time

import pytest
from support.late import late, lates

from grue.algorithms import BUILT_IN
from grue.rl.settings import RewardedConfig, RolloutConfig
from grue.runs.algorithms import find_card

torch, gemma, tiny = lates("torch support.gemma support.tiny")
optimize = late("grue.rl.optimize")

pytestmark = pytest.mark.slow

RATIO = [name for name in BUILT_IN if issubclass(find_card(name).settings, RolloutConfig)]
MORE = {
    **{name: {"samples_per_prompt": 2} for name in tiny.GROUPED},
    "alol": {"samples_per_prompt": 2, "value_prompts": 4, "rollouts": 8},  # of four, none may be above its value
    "dapo_advantage": {"samples_per_prompt": 2, "value_prompts": 4},
    "es": {"perturbations": 2, "noise": 0.01},
    "supervised": {"epochs": 1, "batch_size": 4},
    # In float32 its vectors of 268 million weights take 15 GB.
    "trpo": {"cg_steps": 2, "critic_epochs": 1, "line_search_steps": 3, "lora_rank": 4},
}
ONCE = {"rollouts": 4, "minibatch_size": 4, "epochs": 1, "learning_rate": 1e-5}


def masks(algorithm):
    card = find_card(algorithm)
    if not issubclass(card.settings, RewardedConfig) or "mask" in card.without_effect:
        return [None]
    others = ["learned_top_k", "top_k"] if algorithm in ("ppo", "grpo", "dpo") else []
    return ["learned_top_p", *others] if algorithm == "nlpo" else [None, "learned_top_p", *others]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("algorithm", "mask"), [(algorithm, mask) for algorithm in sorted(BUILT_IN) for mask in masks(algorithm)]
)
def test_updates_of_a_real_model(algorithm, mask, precision, tmp_path):
    gemma.forget_peak()
    settings = {**({} if algorithm == "supervised" else ONCE), **MORE.get(algorithm, {}), "precision": precision}
    settings |= {"value_model": "shared"} if hasattr(find_card(algorithm).settings, "value_model") else {}
    run = gemma.run(algorithm, tmp_path, **settings, **({} if mask is None else {"mask": mask, "mask_updates": 1}))
    policy, begin = run.trainer.policy, time.perf_counter()
    before = {
        name: value.detach().clone() for name, value in gemma.loaded()[0].named_parameters() if "layers.3." in name
    }
    lines = tiny.updated(run, 1 if algorithm == "supervised" else 2)
    seconds = (time.perf_counter() - begin) / len(lines)
    said = [max(line.get(f"policy/{name}", 0.0) for line in lines) for name in RATIO_FIGURES]
    row = " | ".join(f"{value:.1e}" for value in said)
    print(f"\n| {algorithm} | {mask or '–'} | {precision} | {row} | {gemma.peak():.1f} | {seconds:.0f} |")
    after = dict(policy.named_parameters())
    assert all(value.isfinite().all() and value.dtype == torch.float32 for value in after.values())
    assert any(
        "lora_B" in name and bool(value.any()) if "lora_rank" in settings else not torch.equal(value, before[name])
        for name, value in after.items()
        if name in before or "lora_B" in name
    )
    assert all(all(abs(value) < float("inf") for value in line.values()) for line in lines)
    first = lines[0]
    if algorithm in RATIO:
        assert first["objective/kl"] == 0 and first["policy/ratio_error"] < 1e-5
        ratio, _, gap, most = said
        if precision == "bfloat16":
            assert ratio < 1e-5 and 1e-3 < gap < 0.5 * optimize.NOISE
        else:
            assert ratio < 0.2 * optimize.EXACT and most < 0.2 * optimize.EXACT
    for name in ("policy/pair_gap", "policy/log_ratio"):  # π and π_0 are one
        assert abs(first.get(name, 0.0)) < (1e-3 if precision == "float32" else 1e-9)


RATIO_FIGURES = ("ratio_error", "ratio_error_mean", "mismatch", "mismatch_max")
