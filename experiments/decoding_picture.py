"""Draw what decoding.py measured: preference over the tokens of an answer, the means of seeds.

python experiments/decoding_picture.py docs/images/decoding.png
"""

import json
import sys
from pathlib import Path
from statistics import fmean

from grue.plots.drawing import COLOURS, canvas, coloured_line, write_legend

MEASURED = Path(__file__).with_name("decoding.json")
# Name → its rows, and the line's marker; those of plain decoding are single points.
WAYS = {
    "start": (["supervised"], "o"),
    "PPO": (["ppo"], "s"),
    "GRPO": (["grpo"], "^"),
    "GRPO on the reward that guides": (["grpo, same reward"], "D"),
    "best of 4, 16, 64": ([f"best-of-{n}" for n in (4, 16, 64)], "o"),
    "DeAL, 2, 4, 8 candidates": ([f"deal, {k} candidates" for k in (2, 4, 8)], "s"),
    "Transfer Q*, 2, 4, 8": ([f"transfer_q, {k} candidates" for k in (2, 4, 8)], "^"),
    "GenARM, weight 0.5": (["genarm, weight 0.5"], "P"),
}
TITLES = {
    "commongen": "CommonGen, guided by the share of concepts",
    "narrativeqa": "NarrativeQA, guided by a learned reward",
}


def main() -> None:
    path, measured = Path(sys.argv[1]), json.loads(MEASURED.read_text())
    with canvas(path, "Preference over the cost of an answer", 3.9) as figure:
        marks = {}
        for place, (task, title) in enumerate(TITLES.items(), 1):
            axes = figure.add_subplot(1, 2, place)
            axes.set_title(title, fontsize=9)
            axes.set_xscale("log")
            axes.set_xticks((8, 32, 128, 512, 2048), ("8", "32", "128", "512", "2,048"))
            axes.minorticks_off()
            axes.set_xlabel("tokens of an answer, read or drawn")
            axes.set_ylabel("preference")
            seeds = measured[task]["seeds"].values()
            plain = fmean(rows["best-of-4"]["tokens"] for rows in seeds) / 4
            for number, (name, (systems, marker)) in enumerate(WAYS.items()):
                look = COLOURS[number % len(COLOURS)], "-" if len(systems) > 1 else "", marker
                line, marks[name] = coloured_line(*look), coloured_line(*look)  # type: ignore[arg-type]  # "": no line
                costs = [fmean(rows[system]["tokens"] or plain for rows in seeds) for system in systems]
                line.set_data(costs, [fmean(rows[system]["preference"] for rows in seeds) for system in systems])
                axes.add_line(line)
            axes.autoscale_view()
            axes.set_ylim(bottom=0)
        write_legend(figure, "Means over the seeds of experiments/decoding.json.", marks)


if __name__ == "__main__":
    main()
