"""Measure grue's trainer beside TRL's: docs/background/speed.md shows what came out.

TRL 1.12.0 is the last release with PPO; GRPO and RLOO are those of 1.16.0. Each release gets a virtual environment of
its own under ~/.cache/grue/bench (or --venvs), made on the first run. Every row of a table is a live process; rounds
give each of them one iteration in turn, so that noise on the machine hits all. Ratios are medians over rounds of CPU
seconds (on a GPU: wall seconds). Each table is written when it is done: `--resume` measures the others.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from workers.setting import Setting

from grue.lm.load import model_folder

HERE = Path(__file__).resolve().parent
CACHE = Path.home() / ".cache" / "grue" / "bench"
TRL = {"trl-1.12": "trl==1.12.0", "trl-1.16": "trl==1.16.0"}  # side → what is installed for it
TRANSFORMERS = "transformers==5.23.0"
WORKERS = {"grue": "grue_ppo.py", "trl-1.12": "trl_ppo.py", "trl-1.16": "trl_groups.py"}
GEMMA = "small:gemma-3-270m"  # of the suite small: grue[small] brings it
WARM = 1  # rounds that are not counted

SHARED, SEPARATE = {"value_model": "shared"}, {"value_model": "separate"}
Answer = dict[str, Any]

WITHOUT_CRITIC = (
    "Equal on both sides: random model, prompts, lengths, responses to a prompt, epochs, optimiser steps, reward, "
    "weight of the penalty, float32, all responses in a forward pass, and one pass of policy and reference before the "
    "first step. Not equal: TRL samples with transformers' `generate` and rewards tokens; grue has its own sampler, "
    "decodes the responses and rewards texts. TRL's recomputation of activations, its default, is off."
)
WITHOUT_CRITIC_OF_GEMMA = WITHOUT_CRITIC.replace("random model", "weights of `grue[small]`").replace(", float32", "")


EQUAL_SEQUENCES = (
    "Equal: random model, prompts, 32 responses drawn and rewarded, epochs. RFT learns one of eight responses, DPO and "
    "TPO two, PPO and PRO all, A-LoL as many as have an advantage above 0. ES draws all responses by perturbed weights "
    "and has no backward pass."
)


@dataclass(frozen=True)
class Row:
    """A line of a table.

    Attributes:
        side: "grue", "trl-1.12" or "trl-1.16".
        base: Name of the row that this one is compared with; empty compares with the first.
        copies: Processes that run at the same time, as in a sweep; its seconds are those of the slowest.
    """

    name: str
    side: str
    setting: Setting
    base: str = ""
    copies: int = 1


@dataclass(frozen=True)
class Group:
    """Rows that take turns with each other: one table.

    Attributes:
        note: What is equal on both sides and what is not, printed below the table.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    rounds: int
    note: str = ""


# --- what is measured ------------------------------------------------------------------------------------------------


def grue_rows(setting: Setting, bf16: bool = True) -> list[Row]:
    """Return grue's PPO and NLPO with both kinds of critic; NLPO is compared with PPO."""
    rows = [
        Row("grue PPO, shared trunk", "grue", replace(setting, options=SHARED)),
        Row("grue PPO, separate critic", "grue", replace(setting, options=SEPARATE)),
        Row("grue NLPO, shared trunk", "grue", replace(setting, algorithm="nlpo", options=SHARED)),
        Row("grue NLPO, separate critic", "grue", replace(setting, algorithm="nlpo", options=SEPARATE)),
    ]
    if bf16:
        half = replace(setting, precision="bfloat16", options=SHARED)
        rows.append(Row("grue PPO, shared trunk, bf16", "grue", half))
    return rows


def against_trl(setting: Setting, bf16: bool = True) -> tuple[Row, ...]:
    """Return TRL's rows and grue's; bfloat16 is compared with bfloat16."""
    rows = [Row("TRL 1.12 PPO", "trl-1.12", setting), *grue_rows(setting, bf16)]
    if bf16:
        half = "TRL 1.12 PPO, bf16"
        rows.insert(-1, Row(half, "trl-1.12", replace(setting, precision="bfloat16"), half))
        rows[-1] = replace(rows[-1], base=half)
    return tuple(rows)


def without_critic(setting: Setting) -> tuple[Row, ...]:
    """Return GRPO and RLOO of both sides: four prompts with eight responses each, each penalty on the same scale."""
    rows = []
    for name, kl in (("GRPO", 0.04), ("RLOO", 0.05)):
        options = {"samples_per_prompt": setting.rollouts // 4, "kl_coefficient": kl}
        one = replace(setting, algorithm=name.lower(), options=options)
        rows += [Row(f"TRL 1.16 {name}", "trl-1.16", one, f"TRL 1.16 {name}")]
        rows += [Row(f"grue {name}", "grue", one, f"TRL 1.16 {name}")]
    return tuple(rows)


def gemma(threads: int, rounds: int) -> list[Group]:
    """Return the tables of Gemma 3 270M, each of two processes, since four of them do not fit 24 GB."""
    base = Setting(model=GEMMA, vocabulary=262144, threads=threads, response=20, epochs=1)
    groups = []
    for precision in ("float32", "bfloat16"):
        rows = without_critic(replace(base, precision=precision))
        for name, pair in (("grpo", rows[:2]), ("rloo", rows[2:])):
            title = f"Gemma 3 270M, {name.upper()} in {precision}, 32 + 20 tokens, 32 rollouts to 4 prompts, 1 epoch"
            groups.append(Group(f"gemma-{name}-{precision}", title, pair, rounds, WITHOUT_CRITIC_OF_GEMMA))
    return groups


def methods(setting: Setting) -> tuple[Row, ...]:
    """Return an update of every method at equal sequences: four prompts with eight responses each, beside PPO's."""
    several = {"samples_per_prompt": setting.rollouts // 4}
    own = {
        "PPO, shared trunk": ("ppo", SHARED),
        "MDPO, shared trunk": ("mdpo", SHARED),
        "REINFORCE++": ("reinforce_plus_plus", {}),
        "GRPO": ("grpo", several),
        "GRPO, masked": ("grpo", {**several, "mask": "learned_top_p", "mask_updates": 10**6}),
        "GRPO, supervised_coefficient": ("grpo", {**several, "supervised_coefficient": 0.1}),
        "RFT": ("rft", several),
        "DPO, best and worst": ("dpo", several),
        "DPO, all pairs": ("dpo", {**several, "pairs": "all"}),
        "CoPG": ("copg", several),
        "PRO": ("pro", several),
        "TPO": ("tpo", several),
        "A-LoL": ("alol", several),
        "ES": ("es", {"perturbations": 4}),
    }
    return tuple(
        Row(name, "grue", replace(setting, algorithm=algorithm, options=options))
        for name, (algorithm, options) in own.items()
    )


def precisions(setting: Setting) -> tuple[Row, ...]:
    """Return PPO in float32 and in bfloat16 at the shapes of mini's models, recipes and tasks."""
    mini = replace(setting, width=128, vocabulary=4621, response=24, rollouts=128, micro_batch=64, options=SHARED)
    mini = replace(mini, epochs=2, minibatches=2)
    t5 = replace(mini, family="seq2seq", layers=2)
    shapes = {
        "mini:causal, IMDB": mini,
        "mini:seq2seq, CommonGen": replace(t5, prompt=16),
        "mini:seq2seq, CNN/DailyMail": replace(t5, prompt=160, response=52),
    }
    rows = []
    for name, shape in shapes.items():
        rows.append(Row(f"{name}, float32", "grue", shape, f"{name}, float32"))
        rows.append(Row(f"{name}, bf16", "grue", replace(shape, precision="bfloat16"), f"{name}, float32"))
    return tuple(rows)


def cpu_groups(threads: int, rounds: int) -> list[Group]:
    """Return the tables of a CPU: GPT-2 and T5 of 4 layers and width 256."""
    small = Setting(threads=threads)
    large = replace(small, vocabulary=50257)
    t5 = replace(small, family="seq2seq", options=SHARED)
    long = replace(t5, prompt=128)
    frozen = {**SHARED, "freeze_encoder": True}
    sizes = "GPT-2, 4 layers x 256, 32 + 32 tokens, 32 rollouts, 4 epochs"
    return [
        Group("small", f"{sizes}, vocabulary 5,000", against_trl(small), rounds),
        Group(
            "minibatches",
            f"{sizes} of 4 minibatches, vocabulary 5,000",
            against_trl(replace(small, minibatches=4), bf16=False)[:3],
            rounds,
        ),
        Group(
            "critic-free",
            f"{sizes} to 4 prompts, vocabulary 5,000, no critic",
            without_critic(small),
            rounds,
            WITHOUT_CRITIC,
        ),
        Group("methods", f"{sizes} to 4 prompts, vocabulary 5,000", methods(small), rounds, EQUAL_SEQUENCES),
        Group(
            "methods-t5",
            "T5, 4 + 4 layers x 256, 128 + 32 tokens, 32 rollouts to 4 prompts, 4 epochs",
            methods(replace(long, options={})),
            rounds,
            EQUAL_SEQUENCES,
        ),
        Group("precision", "PPO at mini's sizes, 128 rollouts, 2 epochs of 2 minibatches", precisions(small), rounds),
        Group("large", f"{sizes}, vocabulary 50,257", against_trl(large), max(2, rounds - 2)),
        Group(
            "t5",
            "T5, 4 + 4 layers x 256, 32 or 128 + 32 tokens, 32 rollouts, 4 epochs, shared trunk",
            (
                Row("PPO, 32 tokens", "grue", t5),
                Row("PPO, 32 tokens, frozen encoder", "grue", replace(t5, options=frozen)),
                Row("PPO, 128 tokens", "grue", long),
                Row("PPO, 128 tokens, frozen encoder", "grue", replace(long, options=frozen), "PPO, 128 tokens"),
                Row("NLPO, 32 tokens", "grue", replace(t5, algorithm="nlpo")),
            ),
            rounds,
        ),
        Group(
            "memory",
            "Memory of the vocabulary: GPT-2 as above, vocabulary 50,257, shared trunk",
            tuple(
                Row(name, "grue", replace(large, options={**SHARED, **options}))
                for name, options in {
                    "all logits at once": {},
                    "log_prob_chunk = 128": {"log_prob_chunk": 128},
                    "log_prob_chunk = 32": {"log_prob_chunk": 32},
                    "micro_batch_size = 8": {"micro_batch_size": 8},
                }.items()
            ),
            2,
        ),
        *gemma(threads, max(2, rounds - 3)),
    ]


def cuda_groups(threads: int, rounds: int) -> list[Group]:
    """Return the tables of a GPU: GPT-2 124M and T5-base 220M with random weights, at the paper's lengths."""
    base = Setting(layers=12, width=768, heads=12, device="cuda", threads=threads, rollouts=64, micro_batch=64)
    gpt2 = replace(base, vocabulary=50257, prompt=64, response=48)
    t5 = replace(base, family="seq2seq", vocabulary=32128)
    summaries = replace(t5, prompt=512, response=100, micro_batch=16)
    groups = [
        Group("imdb", "GPT-2 124M, 64 + 48 tokens (IMDB), 64 rollouts, 4 epochs", against_trl(gpt2), rounds),
        Group(
            "commongen",
            "T5-base 220M, 20 + 20 tokens (CommonGen), 64 rollouts, 4 epochs",
            tuple(grue_rows(replace(t5, prompt=20, response=20))),
            rounds,
        ),
        Group(
            "cnn_dailymail",
            "T5-base 220M, 512 + 100 tokens (CNN/Daily Mail), 64 rollouts, 4 epochs, micro-batches of 16",
            tuple(grue_rows(summaries)),
            rounds,
        ),
    ]
    one_gemma = replace(base, family="gemma", layers=18, width=640, heads=4, vocabulary=262144)
    for name, title, shape in (
        ("critic-free", "GPT-2 124M, 64 + 48 tokens", gpt2),
        ("gemma-64-48", "Gemma 3 270M, random weights, 64 + 48 tokens", replace(one_gemma, prompt=64, response=48)),
        ("gemma-20-20", "Gemma 3 270M, random weights, 20 + 20 tokens", replace(one_gemma, prompt=20, response=20)),
    ):
        for precision in ("float32", "bfloat16"):
            rows = without_critic(replace(shape, precision=precision))
            note = WITHOUT_CRITIC if precision == "float32" else WITHOUT_CRITIC.replace(" float32,", " bfloat16,")
            whole = f"{title}, 64 rollouts to 4 prompts, 4 epochs, no critic, {precision}"
            groups.append(Group(f"{name}-{precision}", whole, rows, rounds, note))
    alone = Row("one run", "grue", replace(gpt2, options=SHARED))
    several = tuple(replace(alone, name=f"{count} runs at once", copies=count) for count in (2, 4))
    groups.append(
        Group("at-once", "Runs of PPO on one GPU: GPT-2 124M, 64 + 48 tokens, 64 rollouts", (alone, *several), rounds)
    )
    return groups


def shrunk(group: Group, device: str) -> Group:
    """Return the group at a size that shows in seconds whether everything runs; its figures mean nothing."""

    def small(setting: Setting) -> Setting:
        sizes: dict[str, Any] = {
            "model": "",
            "layers": 2,
            "width": 64,
            "heads": 2,
            "vocabulary": 500,
            "rollouts": 8,
            "epochs": 2,
        }
        sizes |= {"prompt": min(16, setting.prompt), "response": min(8, setting.response)}
        sizes |= {"micro_batch": min(8, setting.micro_batch)}
        if "samples_per_prompt" in setting.options:
            sizes["options"] = {**setting.options, "samples_per_prompt": 4}
        return replace(setting, device=device, **sizes)

    rows = tuple(replace(row, setting=small(row.setting)) for row in group.rows)
    return replace(group, title=f"{group.title} [quick: sizes cut]", rows=rows, rounds=1)


def without_trl(group: Group) -> Group:
    """Return the group with our rows only, compared with the first of them where TRL's was the measure."""
    ours = tuple(row for row in group.rows if row.side == "grue")
    names = {row.name for row in ours}
    return replace(group, rows=tuple(replace(row, base=row.base if row.base in names else "") for row in ours))


# --- the two sides as processes --------------------------------------------------------------------------------------


def trl_python(folder: Path, side: str) -> str:
    """Return the interpreter of an environment with the side's TRL, making that first where there is none."""
    venv = folder / side
    python = venv / "bin" / "python"
    if not (venv / ".ready").exists():
        print(f"installing {TRL[side]} and {TRANSFORMERS} under {venv}", file=sys.stderr)
        torch = next(
            line for line in (HERE.parent / "constraints.txt").read_text().split() if line.startswith("torch=")
        )
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", TRL[side], TRANSFORMERS, torch], check=True)
        (venv / ".ready").touch()
    return str(python)


@dataclass
class Side:
    """A live process that carries out an iteration at a time."""

    row: Row
    process: subprocess.Popen[str]
    log: IO[str]

    def answer(self) -> Answer:
        """Return its next line.

        Raises:
            SystemExit: It has ended; shows what it printed last.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise SystemExit(f"{self.row.name} has ended:\n{self.log.read()[-3000:]}")
        return dict(json.loads(line))

    def ask(self, word: str = "go") -> None:
        """Have it carry out one iteration; `answer` waits for its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.log.close()


def start(row: Row, interpreters: Mapping[str, str]) -> Side:
    """Start a row's process; it builds its models at once."""
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the side
    setting, threads = row.setting, str(row.setting.threads)
    if setting.model:
        setting = replace(setting, model=str(model_folder(setting.model)))
    process = subprocess.Popen(
        [interpreters[row.side], str(HERE / "workers" / WORKERS[row.side]), json.dumps(asdict(setting))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
    )
    return Side(row, process, log)


def measure(group: Group, interpreters: Mapping[str, str]) -> tuple[dict[str, list[Answer]], dict[str, str]]:
    """Let the rows of a group take turns; return each row's iterations, and the versions of all libraries."""
    rows: dict[str, list[Side]] = {}
    versions: dict[str, str] = {}
    try:
        for row in group.rows:
            rows[row.name] = [start(row, interpreters) for _ in range(row.copies)]
        for row in group.rows:
            for side in rows[row.name]:
                versions |= {f"{row.side}: {name}": one for name, one in side.answer()["versions"].items()}
        rounds: dict[str, list[Answer]] = {name: [] for name in rows}
        for turn in range(WARM + group.rounds):
            # The order turns round, so that no row always follows the same one.
            for name in rows if turn % 2 else reversed(rows):
                answer = turn_of(rows[name])
                if turn >= WARM:
                    rounds[name].append(answer)
    finally:
        for side in (side for copies in rows.values() for side in copies):
            side.close()
    return rounds, versions


def turn_of(copies: Sequence[Side]) -> Answer:
    """Have all copies of a row carry out an iteration at the same time; return the slowest's answer."""
    for side in copies:
        side.ask()
    answers = [side.answer() for side in copies]
    return max(answers, key=lambda one: one["wall"]) | {"peak_mib": sum(one["peak_mib"] for one in answers)}


# --- figures ---------------------------------------------------------------------------------------------------------


def summary(group: Group, rounds: Mapping[str, Sequence[Answer]]) -> list[Answer]:
    """Return each row's medians, and its speed against the row it is compared with, round by round."""
    lines = []
    for row in group.rows:
        answers = rounds[row.name]
        clock = "wall" if row.setting.device == "cuda" else "cpu"
        base = rounds[row.base or group.rows[0].name]

        def median(values: Sequence[float]) -> float:
            return round(statistics.median(values), 4)

        line: Answer = {"row": row.name, "setting": asdict(row.setting), "rounds": len(answers)}
        line |= {name: median([answer[name] for answer in answers]) for name in ("cpu", "wall")}
        for phase in ("generation", "scoring", "update"):
            # Evolution strategies score under no other model: they have no such phase.
            line[phase] = median([answer["phases"].get(phase, {}).get(clock, 0.0) for answer in answers])
        line["rollouts_per_second"] = median([row.copies * row.setting.rollouts / answer["wall"] for answer in answers])
        line["speed"] = median([b[clock] / a[clock] for a, b in zip(answers, base, strict=True)])
        line["peak_mib"] = max(answer["peak_mib"] for answer in answers)
        options = row.setting.options
        told_apart = options.get("value_model") == "shared" and not options.get("log_prob_chunk")
        if "in_models" in answers[0] and clock == "cpu" and told_apart:
            line["outside_models"] = median([1.0 - answer["in_models"] / answer["cpu"] for answer in answers])
        lines.append(line)
    return lines


def table(group: Group, lines: Sequence[Answer]) -> str:
    """Return a group's table in Markdown."""
    clock = "wall" if group.rows[0].setting.device == "cuda" else "CPU"
    text = [
        f"### {group.title}",
        "",
        f"| | {clock} s | generation | scoring | update | wall s | rollouts/s | speed | peak MiB | outside models |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        total = line["wall"] if clock == "wall" else line["cpu"]
        outside = f"{line['outside_models']:.0%}" if "outside_models" in line else ""
        text.append(
            f"| {line['row']} | **{total:.2f}** | {line['generation']:.2f} | {line['scoring']:.2f} "
            f"| {line['update']:.2f} | {line['wall']:.2f} | {line['rollouts_per_second']:.1f} "
            f"| {line['speed']:.2f} | {line['peak_mib']:,.0f} | {outside} |"
        )
    if any(line["row"].startswith("grue NLPO") for line in lines):
        text += ["", *nlpo_costs(lines)]
    if group.note:
        text += ["", group.note]
    return "\n".join([*text, ""])


def profile(row: Row, interpreters: Mapping[str, str]) -> None:
    """Print the operators that an iteration spends its time in."""
    side = start(row, interpreters)
    try:
        side.answer()
        side.ask()
        side.answer()
        side.ask("profile")
        dearest = side.answer()["operators"]
    finally:
        side.close()
    print(f"\n### Operators: {row.name}, vocabulary {row.setting.vocabulary:,}\n")
    print("| operator | share | calls |\n|---|---|---|")
    for name, share, calls in dearest:
        print(f"| `{name}` | {share:.1%} | {calls} |")


def ratio(lines: Sequence[Answer], row: str, to: str) -> float:
    """Return how many times the seconds of `to` the row takes."""
    seconds = {line["row"]: line["cpu"] if line["setting"]["device"] == "cpu" else line["wall"] for line in lines}
    return float(seconds[row] / seconds[to])


def nlpo_costs(lines: Sequence[Answer]) -> list[str]:
    """Return what NLPO costs on top of PPO."""
    return [
        f"NLPO takes {ratio(lines, f'grue NLPO, {trunk}', f'grue PPO, {trunk}'):.2f} times PPO's time ({trunk})."
        for trunk in ("shared trunk", "separate critic")
    ]


def machine(device: str) -> dict[str, Any]:
    """Return what the figures were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "gpu": gpu_name() if device == "cuda" else "",
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="names of the tables to measure")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: full-size models")
    parser.add_argument("--rounds", type=int, default=5, help="counted iterations of each row")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="cut sizes: shows only that everything runs")
    parser.add_argument("--profile", action="store_true", help="print the dearest operators of the first table's rows")
    parser.add_argument("--venvs", type=Path, default=CACHE, help="folder of TRL's environments; made if missing")
    parser.add_argument("--no-trl", action="store_true", help="leave TRL's rows out")
    parser.add_argument("--resume", action="store_true", help="leave out the tables that the output already has")
    parser.add_argument("--output", type=Path, help="JSON file; else benchmarks/results/trainer-DEVICE.json")
    return parser.parse_args()


def main() -> None:
    """Measure the tables, print them, and write them as JSON."""
    options = parse()
    groups = cpu_groups(options.threads, options.rounds)
    if options.device == "cuda":
        groups = cuda_groups(options.threads, options.rounds)
    unknown = set(options.only or ()) - {group.name for group in groups}
    if unknown:
        raise SystemExit(f"no table {sorted(unknown)}; there are {', '.join(group.name for group in groups)}")
    groups = [group for group in groups if not options.only or group.name in options.only]
    if options.quick:
        device = "cuda" if options.device == "cuda" and gpu_name() else "cpu"
        groups = [shrunk(group, device) for group in groups]
    if options.no_trl:
        groups = [without_trl(group) for group in groups]
    output = options.output or HERE / "results" / f"trainer-{options.device}.json"
    if options.resume and output.exists():
        measured = json.loads(output.read_text())["tables"]
        groups = [group for group in groups if group.name not in measured]
    interpreters = {"grue": sys.executable}
    for side in {row.side for group in groups for row in group.rows} - {"grue"}:
        interpreters[side] = trl_python(options.venvs, side)
    if options.profile:
        for row in groups[0].rows:
            if row.side == "grue" and row.setting.options.get("value_model") == "shared":
                profile(row, interpreters)
        return
    for group in groups:
        rounds, versions = measure(group, interpreters)
        lines = summary(group, rounds)
        text = table(group, lines)
        print(f"\n{text}", flush=True)
        if not options.quick or options.output:
            done = {group.name: {"title": group.title, "rows": lines, "text": text}}
            machine_of = {"machine": machine(options.device), "threads": options.threads}
            write({**machine_of, "versions": versions, "tables": done}, output)


def gpu_name() -> str:
    """Return the name of the GPU, empty where there is none; --quick then shows a GPU's tables on the CPU."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def write(result: Mapping[str, Any], path: Path) -> None:
    """Write the figures as JSON, and the tables as Markdown beside it; tables not measured now stay as they are."""
    old = json.loads(path.read_text()) if path.exists() else {"tables": {}, "versions": {}}
    tables, versions = old["tables"] | result["tables"], old["versions"] | result["versions"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**result, "versions": versions, "tables": tables}, indent=1) + "\n")
    made_with = ", ".join(f"{name} {value}" for name, value in sorted(versions.items()))
    where = ", ".join(filter(None, (result["machine"]["gpu"], result["machine"]["processor"])))
    where += f", {result['threads']} thread(s), {result['machine']['date']}; {made_with}."
    path.with_suffix(".md").write_text("\n".join([where, "", *(tables[name]["text"] for name in tables)]))


if __name__ == "__main__":
    main()
