"""Tiny runs for one process and for two, and what of them must not depend on the number."""

from support.late import lates

torch, tiny, scored = lates("torch support.tiny support.scored")
adapters, sharding, runs = lates("lm.adapters lm.sharding runs.train", "grue.")

# What is tried in both worlds. The odd numbers leave one process more rows than the other, in rollouts, minibatches and
# micro-batches alike, and one minibatch that it has no row of; a large epsilon keeps Adam from blowing rounding up.
EXACT = {"adam_epsilon": 1e-3, "micro_batch_size": 2, "save_every": 10}
ROLLOUTS = {**EXACT, "updates": 2, "rollouts": 7, "minibatch_size": 3, "epochs": 1}
SUPERVISED = {**EXACT, "epochs": 2, "batch_size": 23}
# Stopped after one update, the mask is not the policy; before the third it is refreshed.
MASKED = {"updates": 3, "mask_updates": 2}
SPLIT = {"sharded": True}
GROUPS = {**ROLLOUTS, "rollouts": 9, "minibatch_size": 6, "samples_per_prompt": 3}  # three prompts for two processes
PAIRS = {**ROLLOUTS, "rollouts": 6, "perturbations": 3}
NATURAL = {**ROLLOUTS, "critic_epochs": 2, "cg_steps": 5}  # later steps of the conjugate gradient blow rounding up
BESIDE = {"mask": "learned_top_p", "mass_coefficient": 0.1, "supervised_coefficient": 0.3, "calibration_samples": 3}
# Every algorithm.
FAST = {
    "a2c-causal": ("a2c", "causal", {}, ROLLOUTS),
    "alol-causal": ("alol", "causal", {}, {**GROUPS, "value_prompts": 11}),
    "copg-seq2seq-file": ("copg", "seq2seq", {}, GROUPS),
    "dapo_advantage-seq2seq": ("dapo_advantage", "seq2seq", {}, {**GROUPS, "value_prompts": 11}),
    "dpo-causal": ("dpo", "causal", {"top_k": 9}, {**GROUPS, "pairs": "all"}),
    "es-causal": ("es", "causal", {}, PAIRS),
    "grpo-causal": ("grpo", "causal", {}, {**GROUPS, "supervised_coefficient": 0.3}),
    "mdpo-causal": ("mdpo", "causal", {}, ROLLOUTS),
    "nlpo-causal-sharded": ("nlpo", "causal", {"min_new_tokens": 2}, {**ROLLOUTS, **SPLIT, **MASKED}),
    "ppo-causal-parts": ("ppo", "causal", {"top_k": 9}, ROLLOUTS),
    "pro-causal": ("pro", "causal", {}, GROUPS),
    "props-causal": ("props", "causal", {"top_k": 9}, {**ROLLOUTS, "rounds": 3}),
    "reinforce-causal": ("reinforce", "causal", {}, ROLLOUTS),
    "reinforce_plus_plus-causal": ("reinforce_plus_plus", "causal", {}, ROLLOUTS),
    "rft-causal": ("rft", "causal", {}, {**GROUPS, "train_from": "start"}),
    "rloo-causal": ("rloo", "causal", {}, GROUPS),
    "supervised-causal": ("supervised", "causal", {}, SUPERVISED),
    "tpo-causal": ("tpo", "causal", {}, GROUPS),
    "trpo-causal": ("trpo", "causal", {}, NATURAL),
}
SLOW = {
    "nlpo-seq2seq": ("nlpo", "seq2seq", {}, {**ROLLOUTS, **MASKED, "mass_coefficient": 0.1}),
    "ppo-seq2seq-sharded": (
        "ppo", "seq2seq", {}, {**ROLLOUTS, **SPLIT, "epochs": 2, "value_model": "shared", "stop_kl": 0.02}
    ),
    "ppo-causal-sharded": ("ppo", "causal", {"top_k": 9}, {**ROLLOUTS, **SPLIT, "gradient_checkpointing": True}),
    "nlpo-seq2seq-sharded": ("nlpo", "seq2seq", {}, {**ROLLOUTS, **SPLIT, "freeze_encoder": True, **MASKED}),
    "grpo-causal-sharded": ("grpo", "causal", {}, {**GROUPS, **SPLIT, "log_prob_chunk": 5}),
    "grpo-causal-redraws": ("grpo", "causal", {}, {**GROUPS, "redraws": 3}),
    "grpo-seq2seq-masked": ("grpo", "seq2seq", {}, {**GROUPS, **MASKED, **BESIDE}),
    "es-seq2seq": ("es", "seq2seq", {}, {**PAIRS, "freeze_encoder": True}),
    "tpo-causal-sharded": ("tpo", "causal", {}, {**GROUPS, **SPLIT}),
    "trpo-seq2seq": ("trpo", "seq2seq", {}, NATURAL),
    "supervised-seq2seq-sharded": ("supervised", "seq2seq", {}, {**SUPERVISED, **SPLIT}),
}  # fmt: skip
CASES = FAST | SLOW
# Validations, logs and checkpoints are the runs' and not the algorithms': of most cases the updates are enough.
UPDATES_ALONE = {*FAST} - {"alol-causal", "nlpo-causal-sharded", "supervised-causal"}
RESUMED = ("nlpo-causal-sharded", "alol-causal", "es-seq2seq", "nlpo-seq2seq", "supervised-seq2seq-sharded")


def trained(name, folder, world, stop_after=None):
    """Train one case in this process's part of a world; return all that must not depend on the world."""
    algorithm, family, generation, settings = CASES[name]
    asked = []

    def reward(examples, texts, token_ids):
        if examples != list(run.validation):
            asked.append([example.id for example in examples])
        shares = tiny.share_of_the(examples, texts)
        return [in_parts(*one) for one in zip(shares, token_ids, strict=True)] if "parts" in name else shares

    if "file" in name:  # each process writes and reads one of its own
        settings = {**settings, "data": scored.write_file(folder.with_name(f"data-{world.rank}.jsonl"))}
    run = tiny.run(family, algorithm, folder, reward=reward, task_=tiny.task(family, **generation), **settings)
    run.trainer.distributed, stopped = world, False
    if name in UPDATES_ALONE and stop_after is None:
        run.observer.started(run.plan, 0, 2)
        run.observer.lines = tiny.updated(run, 2)
    else:
        adapters.adapt(run.trainer.policy, run.plan.config)
        run.stop = lambda: stop_after is not None and len(run.observer.lines) >= stop_after
        try:
            tiny.train(run)
        except runs.Interrupted:
            stopped = True
    if "redraws" in name:  # one process may need more of them than the other
        rounds = sorted(world.gather([example for one in asked for example in one]))
    else:
        rounds = [world.gather(one) for one in asked]  # every process is asked equally often
    weights = sharding.whole([p.detach() for p in run.trainer.policy.parameters()])
    return {
        "prompts": rounds,
        "lines": [{k: v for k, v in line.items() if k != "seconds"} for line in run.observer.lines],
        "validations": run.observer.validations,
        "weights": torch.cat([weight.flatten() for weight in weights]),
        "share": 1.0 if run.trainer.sharded is None else share_of(run.trainer.sharded),
        "stopped": stopped,
        "begin": run.observer.begin,
    }


def in_parts(share, ids):
    """A reward of single tokens, which does not apply to a part of the responses."""
    return None if ids[0] % 3 == 0 else [share * (token % 5) for token in ids]


def share_of(split):
    """Return which share of the weights lies in this process."""
    return sum(p.to_local().numel() for p in split.parameters()) / sum(p.numel() for p in split.parameters())
