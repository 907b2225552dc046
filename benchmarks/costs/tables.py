"""The tables of docs/how-to/gpu-cost.md, from what was counted, assumed and measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from costs.counted import comparison
from costs.flops import GPT2, T5_BASE, generation_bytes, iteration_flops
from costs.lengths import drawn, longest, mean, read_lengths
from costs.plan import (
    BOARD,
    CUTS,
    OTHERS,
    Suite,
    cards_and_assumptions,
    chain,
    everything,
    in_float32,
    saved_by_pairs,
    timed_jobs,
)
from costs.rates import Rates, bound_by, by_phase, longest_first, makespan, measured, total_seconds
from costs.work import Pass, Run, learning_bytes, memory_of, training_pairs

from grue.rl.settings import RolloutConfig, SupervisedConfig
from grue.task_files import load_task, task_names

MANY = 8  # GPUs

# Tokens that the paper's Tables 4, 11, 16, 22, 27, 29 and 32 give PPO and NLPO, in thousands: cold and warm starts.
PAPER_TOKENS = {
    "imdb": (64, 64),
    "commongen": (256, 128),
    "cnn_dailymail": (512, 256),
    "totto": (256, 256),
    "narrativeqa": (512, 512),
    "wmt16": (256, 256),
    "dailydialog": (128, 64),
}


def page(here: Mapping[str, Any], measured_rates: Mapping[str, Any] | None, price: float | None) -> str:
    """Return all tables.

    Args:
        here: Results of a CPU: the host's seconds, and the texts.
        measured_rates: Results of a GPU, in place of the cards and the assumptions.
        price: Of an hour of one GPU.
    """
    texts = {name: read_lengths(each) for name, each in here["texts"].items()}
    suite = Suite(texts, [load_task(name, "grue") for name in task_names("grue")])
    plans = cards_and_assumptions(here) if measured_rates is None else {"as measured": [measured(measured_rates)]}
    first = [rates[0] for rates in plans.values()]
    parts = [
        ("In short", short(suite, plans)),
        ("The count against torch's", count_table()),
        ("Texts", text_table(here["texts"], suite)),
        ("What was measured", measured_table(here if measured_rates is None else measured_rates)),
        ("Work of a run", work_table(suite)),
        (f"Hours of one run on one {first[0].card.name}", hours_table(suite, BOARD, first)),
        ("The other algorithms", hours_table(suite, OTHERS, first)),
        ("The suite", suite_table(suite, plans, price)),
        (f"Where the hours go on one {first[0].card.name}", where_table(suite, first[-1])),
        ("What to cut first", cuts_table(suite, first)),
        ("Memory", memory_table(suite)),
    ]
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in parts)


def short(suite: Suite, plans: Mapping[str, Sequence[Rates]]) -> str:
    """Return what a reader in a hurry wants to know."""
    lines = []
    for cards in zip(*plans.values(), strict=True):
        jobs = [timed_jobs(suite, rates) for rates in cards]
        alone = spread([sum(job.seconds for job in each) / 3600 for each in jobs], "{:,.0f}")
        many = spread([makespan(each, MANY) / 3600 for each in jobs], "{:,.0f}")
        lines.append(f"- {cards[0].card.name}: {alone} hours on one GPU, {many} on eight.")
    rates = [cards[0] for cards in plans.values()]
    passes = everything(suite)
    whole = [one for each in passes.values() for one in each]
    totals = [total_seconds(whole, each) for each in rates]

    def share(part: Sequence[float]) -> str:
        return spread([100 * one / total for one, total in zip(part, totals, strict=True)], "{:.0f}") + " %"

    name = rates[0].card.name
    last = [cards[-1] for cards in plans.values()]
    if last != rates:
        ratio = spread([total_seconds(whole, each) / total for each, total in zip(last, totals, strict=True)])
        lines.append(f"- {last[0].card.name} takes {ratio} times the hours of {name}; compare the prices of an hour.")
    slow = [one for each in everything(replace(suite, change=in_float32)).values() for one in each]
    ratio = spread([total_seconds(slow, each) / total for each, total in zip(rates, totals, strict=True)])
    lines.append(f"- Training in float32, as the recipes have it, takes {ratio} times as long on one {name}.")
    host = share([bound_by(whole, each)["host"] for each in rates])
    tasks = {task: [total_seconds(each, one) for one in rates] for task, each in passes.items()}
    dear = sorted(tasks, key=lambda task: -sum(tasks[task]))[:3]
    listed = ", ".join(f"{task} {share(tasks[task])}" for task in dear)
    lines.append(f"- On one {name}, {host} of the time is the host launching passes that the GPU finishes sooner.")
    lines.append(f"- The dearest tasks there: {listed}.")
    return "\n".join(lines)


# --- what is counted -------------------------------------------------------------------------------------------------


def count_table() -> str:
    """Return our FLOPs beside torch's."""
    lines = [
        (
            f"{shape.name}, {prompt} + {response} tokens",
            f"{parameters / 1e6:.1f} M",
            f"{shape.parameters / parameters:.3f}",
            f"{flops / 1e9:.1f}",
            f"{forward:.3f}",
            f"{both:.3f}",
        )
        for shape, prompt, response, parameters, flops, forward, both in comparison()
    ]
    return markdown(("", "parameters", "ours", "GFLOP forward", "ours", "ours, with the backward pass"), lines)


def text_table(measured_texts: Mapping[str, Any], suite: Suite) -> str:
    """Return how long texts are."""
    lines = []
    for task in suite.tasks:
        about, lengths = measured_texts[task.name], suite.texts[task.name]
        lines.append(
            (
                task.name,
                f"{about['examples']:,} of {about['split']}",
                f"{mean(lengths.prompt):.0f}",
                str(task.prompt.max_tokens),
                f"{mean(lengths.response):.0f}",
                str(task.rollout.max_new_tokens),
                f"{longest(lengths.response, 64):.0f}",
                f"{1e3 * lengths.words:.2f}",
                f"{1e3 * lengths.reward:.2f}",
            )
        )
    head = ("task", "examples", "prompt", "limit", "reference", "limit", "longest of 64", "metrics, ms", "reward, ms")
    return markdown(head, lines)


def measured_table(results: Mapping[str, Any]) -> str:
    """Return the trainer's rates on the machine that was measured."""
    peak, lines = results["peak"], []
    for row in results["rows"]:
        if row["row"].startswith(("no width", "NLPO")):  # the count of an iteration is PPO's
            continue
        flops, half = iteration_flops(row["setting"]), row["setting"]["precision"]
        shares = [flops[phase] / row[phase] / peak[half] for phase in ("generation", "scoring", "update")]
        memory = generation_bytes(row["setting"]) / row["generation"] / peak["bandwidth"]
        lines.append(
            (
                f"{row['row']}, {row['setting']['rollouts']} at a time",
                *(f"{row[phase]:.2f} s, {share:.0%}" for phase, share in zip(flops, shares, strict=True)),
                f"{memory:.0%}",
                f"{row['peak_mib'] * 2**20 / 1e9:.1f}",
                f"{counted_memory(row['setting']) / 1e9:.1f}",
            )
        )
    host = results["host"]
    kinds = markdown(
        ("of the host for", "decode a token", "beam step", "forward", "forward, backward, optimiser"),
        [
            (
                name,
                *(f"{1e3 * host[f'{kind} {one}']:.1f} ms" if f"{kind} {one}" in host else "–" for one in KINDS),
            )
            for name, kind in (("GPT-2's 12 layers", "causal"), ("T5-base's 12 + 12", "seq2seq"))
        ],
    )
    bfloat16 = f"({peak['bfloat16'] / 1e9:,.0f} in bfloat16) " if results["device"] != "cpu" else ""
    top = (
        f"{results['machine']['device']}, {results['machine']['date']}, one iteration: {peak['float32'] / 1e9:,.0f} "
        f"GFLOP/s in float32 {bfloat16}and {peak['bandwidth'] / 1e9:,.1f} GB/s in a copy. Shares are of these."
    )
    table = markdown(("", "generation", "scoring", "update", "generation's share of GB/s", "GB", "counted"), lines)
    return f"{top}\n\n{table}\n\n{kinds}"


def counted_memory(setting: Mapping[str, Any]) -> float:
    """Return the bytes that we count for a measured row."""
    model = GPT2 if setting["family"] == "causal" else T5_BASE
    return learning_bytes(model, setting["prompt"], setting["response"], setting["micro_batch"])


KINDS = ("decode", "beam", "forward", "train")


def work_table(suite: Suite) -> str:
    """Return tokens, steps and arithmetic of runs, beside the paper's budgets."""
    lines = []
    for task in suite.tasks:
        for place, algorithm in enumerate(("supervised", "ppo", "supervised+ppo")):
            run = Run(task, algorithm, suite.texts[task.name])
            config = run.config
            passes = suite.work(task, algorithm)
            if isinstance(config, RolloutConfig):
                tokens = config.updates * config.rollouts * mean(drawn(task, run.lengths)) / 1e3
                steps = config.updates * config.epochs * -(-config.rollouts // config.minibatch_size)
                budget = f"{PAPER_TOKENS[task.name][place - 1]:,}"
                size = f"{config.updates} x {config.rollouts}, {config.minibatch_size} a step"
            else:
                assert isinstance(config, SupervisedConfig)
                pairs = training_pairs(task)
                tokens = config.epochs * pairs * mean(run.lengths.response) / 1e3
                steps, budget = config.epochs * -(-pairs // config.batch_size), ""
                size = f"{config.epochs} x {pairs:,}, {config.batch_size} a step"
            training = sum(one.count * one.flops for one in passes if one.phase in TRAINING) / 1e15
            rest = sum(one.count * one.flops for one in passes if one.phase not in TRAINING) / 1e15
            lines.append(
                (task.name, algorithm, size, f"{tokens:,.0f}", budget, f"{steps:,}", f"{training:.1f}", f"{rest:.1f}")
            )
    head = ("task", "run", "size", "1,000 tokens", "paper's", "steps", "PFLOP of training", "of answers and metrics")
    return markdown(head, lines)


TRAINING = ("generation", "scoring", "update", "reward")


# --- hours -----------------------------------------------------------------------------------------------------------


def hours_table(suite: Suite, algorithms: Sequence[str], plans: Sequence[Rates]) -> str:
    """Return the hours of one run of every task and algorithm, evaluation included, under every assumption."""
    lines = []
    for task in suite.tasks:
        cells = []
        for algorithm in algorithms:
            passes = suite.work(task, algorithm)
            cells.append(spread([total_seconds(passes, rates) / 3600 for rates in plans], "{:.2f}"))
        lines.append((task.name, *cells))
    return markdown(("task", *algorithms), lines)


def suite_table(suite: Suite, plans: Mapping[str, Sequence[Rates]], price: float | None) -> str:
    """Return what the suite takes on one GPU and on eight."""
    limits = suite.at_limits()
    lines = []
    for name, cards in plans.items():
        for rates in cards:
            jobs = timed_jobs(suite, rates)
            hours = sum(job.seconds for job in jobs) / 3600
            upper = sum(job.seconds for job in timed_jobs(limits, rates)) / 3600
            line = [
                rates.card.name,
                name,
                f"{hours:,.0f} h",
                f"{upper:,.0f} h",
                f"{hours / 24:,.1f} days",
                f"{makespan(jobs, MANY) / 3600:,.1f} h",
                f"{makespan(longest_first(jobs), MANY) / 3600:,.1f} h",
                f"{chain(jobs) / 3600:,.1f} h",
            ]
            lines.append((*line, *([f"{price * hours:,.0f}"] if price is not None else [])))
    head = ["GPU", "assumption", "GPU hours", "texts at limits", "one GPU", "eight", "eight, longest first", "longest"]
    return markdown([*head, *(["price"] if price is not None else [])], lines)


def where_table(suite: Suite, rates: Rates) -> str:
    """Return each task's hours, what for, and what limits them."""
    passes = everything(suite)
    lines = [where_line(name, each, rates) for name, each in passes.items()]
    lines.append(where_line("all", [one for each in passes.values() for one in each], rates))
    return markdown(("task", "hours", *PHASES, *(f"by {limit}" for limit in LIMITS)), lines)


PHASES = {
    "generation": ("generation",),
    "scoring": ("scoring",),
    "update": ("update",),
    "reward": ("reward",),
    "validation": ("validation", "validation metrics"),
    "evaluation": ("evaluation",),
    "its metrics": ("metrics",),
}
LIMITS = ("arithmetic", "memory", "host", "words")


def where_line(name: str, passes: Sequence[Pass], rates: Rates) -> tuple[str, ...]:
    """Return one line: hours, shares of phases, shares of limits."""
    phases, limits, total = by_phase(passes, rates), bound_by(passes, rates), total_seconds(passes, rates)
    shares = [sum(phases.get(one, 0.0) for one in names) / total for names in PHASES.values()]
    shares += [limits[limit] / sum(limits.values()) for limit in LIMITS]
    return (name, f"{total / 3600:,.0f}", *(f"{share:.0%}" for share in shares))


# --- what to leave out -----------------------------------------------------------------------------------------------


def cuts_table(suite: Suite, plans: Sequence[Rates]) -> str:
    """Return what is saved by leaving something out, one at a time."""
    whole = [sum(job.seconds for job in timed_jobs(suite, rates)) for rates in plans]
    lines = []
    for name, change in CUTS.items():
        cut = replace(suite, change=change)
        left = [sum(job.seconds for job in timed_jobs(cut, rates)) for rates in plans]
        saved = [(before - after) / before for before, after in zip(whole, left, strict=True)]
        lines.append((name, spread([100 * each for each in saved], "{:.0f}") + " %"))
    lines.append(("three seeds instead of five", "40 %"))
    pairs = [100 * saved_by_pairs(suite, rates) for rates in plans]
    lines.append(("two runs on a GPU at a time, at best", spread(pairs, "{:.0f}") + " %"))
    return markdown(("change", "saves"), lines)


# --- memory ----------------------------------------------------------------------------------------------------------


def memory_table(suite: Suite) -> str:
    """Return the GB of NLPO, which holds most models, and the batches of `grue evaluate` that fit."""
    lines = []
    for task in suite.tasks:
        run = Run(task, "supervised", suite.texts[task.name])
        cold, warm = (memory_of(replace(run, algorithm=name)) for name in ("nlpo", "supervised+nlpo"))
        few = memory_of(run, evaluation_batch=16).evaluation
        cells = (
            memory_of(run).training,
            max(cold.training, warm.training),
            cold.sampling,
            warm.sampling,
            memory_of(run).evaluation,
            few,
        )
        needed = ROOM * max(*cells[:4], few)
        fits = next((f"{size} GB" for size in (16, 24, 40, 80) if needed < size * 1e9), "none")
        lines.append((task.name, *(f"{cell / 1e9:.1f}" for cell in cells), fits))
    head = (
        *("task", "supervised", "NLPO, learning", "NLPO, sampling", "supervised+nlpo, sampling"),
        *("evaluation, batches of 64", "of 16", "fits"),
    )
    return markdown(head, lines)


ROOM = 1.2  # on top of what is counted


# --- text ------------------------------------------------------------------------------------------------------------


def spread(values: Sequence[float], form: str = "{:.1f}") -> str:
    """Return the least and the most that the assumptions give; once if they print alike."""
    texts = dict.fromkeys(form.format(value) for value in sorted(values))
    return " – ".join(texts)


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
