"""Count what the suite `grue` costs on a GPU: `python benchmarks/cost.py` prints the tables of docs/how-to/gpu-cost.md.

The work of every run is counted from its task file; GPUs are taken at their makers' figures and at assumed shares of
them, the host at what `--measure` found on the machine of `benchmarks/results/cost-cpu.json`. Who has a GPU measures
it, and replaces the assumptions: `cost.py --measure --device cuda`, then `cost.py --rates FILE`.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "workers")]  # for whoever imports this file, and for the trainer's workers

from costs.tables import page  # noqa: E402

RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "how-to" / "gpu-cost.md"
BEGIN = "<!-- written by benchmarks/cost.py -->"
END = "<!-- end of what is written -->"


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rates", type=Path, help="what --measure wrote; its machine takes the place of the cards")
    parser.add_argument("--price", type=float, help="of an hour of one GPU, in any currency; adds a column")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    parser.add_argument("--check", action="store_true", help="fail if the page is stale")
    parser.add_argument("--measure", action="store_true", help="measure this machine into results/cost-DEVICE.json")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="what --measure measures")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1, help="counted iterations of each row of --measure")
    parser.add_argument(
        "--data", type=Path, help="measure the texts of original data, in folders named after the tasks"
    )
    parser.add_argument("--tokenizers", type=Path, help="folders gpt2 and t5-base; without it they come from the hub")
    options = parser.parse_args()
    if options.rates and (options.write or options.check):
        parser.error("docs/how-to/gpu-cost.md holds the cards' figures; leave --rates out to write or check it.")
    return options


def measure(options: argparse.Namespace) -> None:
    """Measure the machine or the texts, or both, into a file of results; what is not measured now stays."""
    import torch
    from costs import measure as measuring
    from trainer import machine

    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch sees no GPU; leave --device out to measure the CPU.")
    torch.set_num_threads(options.threads)
    path = RESULTS / f"cost-{options.device}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if options.measure:
        named = machine()
        named["device"] = torch.cuda.get_device_name(0) if options.device == "cuda" else named["processor"]
        found |= {"device": options.device, "threads": options.threads, "machine": named}
        found |= measuring.machine_rates(options.device, options.threads, options.rounds)
    if options.data:
        found["texts"] = measuring.texts(options.data, options.tokenizers)
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {path}", file=sys.stderr)


def main() -> None:
    """Print the tables, or write or check the page."""
    options = parse()
    if options.measure or options.data:
        measure(options)
        return
    here = json.loads((RESULTS / "cost-cpu.json").read_text())
    rates = json.loads(options.rates.read_text()) if options.rates else None
    text = page(here, rates, options.price)
    if not (options.write or options.check):
        print(text)
        return
    now = PAGE.read_text(encoding="utf-8")
    before, rest = now.split(BEGIN)
    _, after = rest.split(END)
    wanted = f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"
    if options.check and now != wanted:
        sys.exit(f"{PAGE} is stale; run `python benchmarks/cost.py --write`.")
    if options.write:
        PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
