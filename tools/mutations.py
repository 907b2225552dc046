"""Show that the tests notice faults: `python tools/mutations.py [NAME…] [--repo CHECKOUT]`.

Each mutation changes one line of what the product exists for, in a copy of a checkout, and runs the tests of its rooms
there. The command prints a table and exits with 1 if the tests stay green on any fault. `--tests` runs other tests in
the place of those, so that two suites can be compared on the same faults.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
COPIED = (
    "grue",
    "tasks",
    "tests",
    "tools",
    "docs",
    "submissions",
    "leaderboard",
    "experiments",
    "benchmarks",
    "miniworld",
)
FILES = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "constraints.txt", "LICENSE")


@dataclass(frozen=True, slots=True)
class Mutation:
    """A fault.

    Attributes:
        name: What is wrong then.
        file: Of the package.
        before: Text that the file has exactly once, within a line.
        after: What takes its place.
        tests: Folders and files of tests that may notice, the likeliest first.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


RL = ("tests/rl", "tests/algorithms", "tests/runs")
LM = ("tests/lm", "tests/algorithms", "tests/rl")
STATS = ("tests/stats", "tests/leaderboard")
BOARD = ("tests/leaderboard", "tests/stats")
FUNCTIONAL, PLACES = "grue/rl/functional.py", "grue/leaderboard/places.py"

MUTATIONS = (
    # --- the objective ---
    Mutation("sign of the KL estimate", FUNCTIONAL, "return log_p - log_q", "return log_q - log_p", RL),
    Mutation(
        "sign of the KL penalty",
        FUNCTIONAL,
        "rewards = -coefficient * kl * mask",
        "rewards = coefficient * kl * mask",
        RL,
    ),
    Mutation("direction of the KL controller", FUNCTIONAL, "(1.0 + gain * min", "(1.0 - gain * min", RL),
    Mutation("KL controller ignores its samples", FUNCTIONAL, "* samples / horizon", "/ horizon", RL),
    Mutation(
        "padding in a mean",
        FUNCTIONAL,
        "return (values * mask).sum() / mask.sum().clamp(min=1)",
        "return (values * mask).sum() / mask.numel()",
        RL,
    ),
    Mutation("score one token early", FUNCTIONAL, "last = (mask.sum(1) - 1)", "last = (mask.sum(1) - 2)", RL),
    Mutation("GAE without lambda", FUNCTIONAL, "gamma * lam * following", "gamma * following", RL),
    Mutation("GAE without discount", FUNCTIONAL, "+ gamma * next_value", "+ next_value", RL),
    Mutation("GAE looks one token back", FUNCTIONAL, "next_value = values[:, t]", "next_value = values[:, t - 1]", RL),
    Mutation(
        "clipping helps instead of bounding",
        FUNCTIONAL,
        "torch.maximum(-advantages * ratio, ",
        "torch.minimum(-advantages * ratio, ",
        RL,
    ),
    Mutation("clip_high ignored", FUNCTIONAL, "1.0 + high)", "1.0 + clip)", RL),
    Mutation("better of two value losses", FUNCTIONAL, "torch.maximum(error, ", "torch.minimum(error, ", RL),
    Mutation("leave-one-out counts itself", FUNCTIONAL, "/ (size - 1)", "/ size", RL),
    Mutation("population deviation in a group", FUNCTIONAL, "correction=1", "correction=0", RL),
    Mutation(
        "GRPO weighs responses by length", "grue/algorithms/grpo.py", "mask.sum(1, keepdim=True)", "mask.sum()", RL
    ),
    Mutation(
        "MDPO's step size upside down",
        "grue/algorithms/mdpo.py",
        "divergence / step_size",
        "divergence * step_size",
        RL,
    ),
    Mutation(
        "DPO prefers the worse",
        "grue/algorithms/dpo.py",
        "ratios.unsqueeze(2) - ratios.unsqueeze(1)",
        "ratios.unsqueeze(1) - ratios.unsqueeze(2)",
        RL,
    ),
    Mutation(
        "RFT learns groups without a best", "grue/algorithms/rft.py", "= ~groups.flat", "= ~groups.flat | True", RL
    ),
    # --- the experience and the gradient ---
    Mutation(
        "mask not replayed",
        "grue/rl/experience.py",
        "None if rollout.support is None else rollout.support[rows, :length],",
        "None,",
        RL,
    ),
    Mutation(
        "reference is the policy",
        "grue/rl/experience.py",
        "score_all(reference, None,",
        "score_all(state.policy, None,",
        RL,
    ),
    Mutation(
        "mask refreshed an update late",
        "grue/rl/responses.py",
        "state.mask_age >= config",
        "state.mask_age > config",
        RL,
    ),
    Mutation(
        "micro-batches weigh by their rows",
        "grue/rl/optimize.py",
        '(losses["loss"] * real / total)',
        '(losses["loss"] * real / len(part))',
        RL,
    ),
    Mutation(
        "every process learns all rows",
        "grue/rl/optimize.py",
        "mine = rows[trainer.distributed.rank :: trainer.distributed.size]",
        "mine = rows",
        RL,
    ),
    Mutation("the same minibatches at each update", "grue/rl/optimize.py", '"minibatches", n)', '"minibatches")', RL),
    Mutation("supervised loss on padding", "grue/rl/optimize.py", ".masked_fill(~targets.mask, 0.0)", "", RL),
    Mutation(
        "resuming forgets the best",
        "grue/runs/train.py",
        'self.best, self.training = saved["best"], saved["training"]',
        'self.training = saved["training"]',
        RL,
    ),
    Mutation("a later checkpoint wins a tie", "grue/runs/train.py", "value > self.best", "value >= self.best", RL),
    # --- the language model ---
    Mutation("one seed for all runs", "grue/lm/seeds.py", "repr((seed, *purpose))", "repr(purpose)", LM),
    Mutation(
        "one draw for all examples",
        "grue/lm/seeds.py",
        'generator(seed, "example", example.id)',
        'generator(seed, "example")',
        (*LM, "tests/evaluation"),
    ),
    Mutation(
        "nucleus without its last token",
        "grue/lm/distributions.py",
        "likeliest.cumsum(-1) - likeliest",
        "likeliest.cumsum(-1)",
        LM,
    ),
    Mutation(
        "end token closed a step too long",
        "grue/lm/constraints.py",
        "ends if t < min_new_tokens",
        "ends if t <= min_new_tokens",
        LM,
    ),
    Mutation("banned tokens drawn", "grue/lm/constraints.py", "closed = {*(never or ()), ", "closed = {", LM),
    Mutation("momentum without a gradient", "grue/rl/optimize.py", "if norm > 0:", "if norm >= 0:", RL),
    Mutation(
        "other data on one board",
        "grue/records.py",
        "if mine and theirs and mine != theirs:",
        "if mine and theirs and mine == theirs == key:",
        ("tests/leaderboard/test_same_data.py", "tests/leaderboard", "tests/evaluation"),
    ),
    Mutation(
        "temperature left out of log-probabilities",
        "grue/lm/log_probs.py",
        "logits = logits.float() / temperature",
        "logits = logits.float()",
        LM,
    ),
    Mutation(
        "prompts cut at the wrong end",
        "grue/lm/tokens.py",
        "tokenizer.truncation_side = prompt.truncation",
        'tokenizer.truncation_side = "right"',
        LM,
    ),
    # --- scores ---
    Mutation(
        "METEOR's synonyms by word",
        "grue/metrics/meteor.py",
        "_take_synonyms(candidate.stems",
        "_take_synonyms(candidate.words",
        ("tests/metrics",),
    ),
    Mutation("METEOR's chunks", "grue/metrics/meteor.py", "!= position - 1", "!= position", ("tests/metrics",)),
    Mutation(
        "CIDEr counts equal references once",
        "grue/metrics/cider.py",
        "math.log(len(examples)) if",
        "math.log(len({each.references for each in examples})) if",
        ("tests/metrics",),
    ),
    Mutation(
        "TER against the longest reference",
        "grue/metrics/ter.py",
        "nearest = min(edits",
        "nearest = max(edits",
        ("tests/metrics",),
    ),
    Mutation(
        "scores above 100",
        "grue/tasks.py",
        "min(1.0, max(0.0, (value - worst) / (best - worst)))",
        "max(0.0, (value - worst) / (best - worst))",
        ("tests/test_tasks.py", "tests/evaluation"),
    ),
    Mutation(
        "references left out of the hash",
        "grue/evaluation/scoring.py",
        '"examples": files.sha256_json(examples)',
        '"examples": files.sha256_json([example.id for example in examples])',
        ("tests/evaluation", "tests/leaderboard", "tests/submissions"),
    ),
    Mutation(
        "predictions by their order",
        "grue/evaluation/predictions.py",
        "return [by_id[name] for name in expected]",
        "return predictions",
        ("tests/evaluation", "tests/submissions"),
    ),
    # --- statistics and the board ---
    Mutation("Holm without its steps", "grue/stats/paired.py", "(len(p_values) - place) *", "len(p_values) *", STATS),
    Mutation("p can be 0", "grue/stats/paired.py", "p=(1 + reached) / (1 + len(null))", "p=reached / len(null)", STATS),
    Mutation(
        "spread of a population",
        "grue/stats/intervals.py",
        "/ (len(values) - 1)) * unit",
        "/ len(values)) * unit",
        STATS,
    ),
    Mutation("degrees of freedom by seeds", "grue/stats/intervals.py", "share**2 / (n - 1)", "share**2 / n", STATS),
    Mutation(
        "Holm's family grows smaller too fast",
        "grue/stats/paired.py",
        "(len(p_values) - place) * p_values",
        "(len(p_values) - 2 * place) * p_values",
        BOARD,
    ),
    Mutation(
        "ranks upside down",
        PLACES,
        'axis=0 if direction == "higher" else 1',
        'axis=1 if direction == "higher" else 0',
        BOARD,
    ),
    Mutation("noise leads past a higher mean", PLACES, "np.maximum(own, reached)", "own", BOARD),
    Mutation(
        "pairs tested as strangers",
        PLACES,
        "if paired and a.keys() == b.keys()",
        "if not paired and a.keys() == b.keys()",
        BOARD,
    ),
    Mutation(
        "a single seed decides",
        "grue/stats/paired.py",
        "len(of_task.scores_b)) < 2",
        "len(of_task.scores_b)) < 1",
        BOARD,
    ),
)


def main() -> None:
    """Run the tests on each fault, print the table, and exit with 1 if any fault went unnoticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="of mutations [default: all]")
    parser.add_argument(
        "--repo", type=Path, default=HERE, help="the checkout whose tests are tried [default: this one]"
    )
    parser.add_argument("--tests", nargs="+", help="tests that run in the place of those of a fault's rooms")
    parser.add_argument("--jobs", type=int, default=2, help="faults that are tried at once [default: 2]")
    parser.add_argument("--list", action="store_true", help="print the names, and try nothing")
    options = parser.parse_args()
    if unknown := sorted({*options.names} - {mutation.name for mutation in MUTATIONS}):
        parser.error(f"there is no mutation {unknown[0]!r}; --list prints them")
    chosen = [mutation for mutation in MUTATIONS if not options.names or mutation.name in options.names]
    if options.list:
        print(*(f"{mutation.name}  ({mutation.file})" for mutation in chosen), sep="\n")
        return
    print("| fault | noticed by | s |", "|---|---|---|", sep="\n", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = [pool.submit(tried, options.repo.resolve(), mutation, options.tests) for mutation in chosen]
        missed = 0
        for mutation, verdict in zip(chosen, verdicts, strict=True):
            test, seconds = verdict.result()
            missed += test is None
            print(f"| {mutation.name} | {'**nothing**' if test is None else f'`{test}`'} | {seconds:.0f} |", flush=True)
    print(f"\n{len(chosen) - missed} of {len(chosen)} faults are noticed.")
    sys.exit(1 if missed else 0)


def tried(repo: Path, mutation: Mutation, tests: Sequence[str] | None) -> tuple[str | None, float]:
    """Return the first test that fails on a fault, None if none does, and the seconds that it took.

    Raises:
        RuntimeError: The tests could not be run.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutation-") as temporary:
        copy = Path(temporary) / "checkout"
        copy.mkdir()
        for name in COPIED:
            shutil.copytree(repo / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
        for name in FILES:
            shutil.copy(repo / name, copy / name)
        source = copy / mutation.file
        source.write_text(mutated(source.read_text(encoding="utf-8"), mutation), encoding="utf-8")
        wanted = tests or [path for path in mutation.tests if (copy / path).exists()]
        flags = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-rfE"]
        environment = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", *flags, *wanted], cwd=copy, env=environment, capture_output=True, text=True
        )
    if ran.returncode not in (0, 1, 2):
        raise RuntimeError(f"{mutation.name}: pytest ended with {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr}")
    failed = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return (failed[0] if failed else None), time.monotonic() - began


def mutated(source: str, mutation: Mutation) -> str:
    """Return a file's text with the fault in it.

    Raises:
        ValueError: The file does not have the line exactly once: the mutation must follow the code.
    """
    if (count := source.count(mutation.before)) != 1:
        raise ValueError(f"{mutation.name}: {mutation.file} has {mutation.before!r} {count} times, not once")
    return source.replace(mutation.before, mutation.after)


if __name__ == "__main__":
    main()
