"""The live view of a run: its bar, the last update's figures, and some of its responses."""

import math
import unicodedata
from collections.abc import Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.constrain import Constrain
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text
from rich.theme import Theme

Sample = tuple[str, str, float]  # prompt, response, score

# Label, name in the log and format; figures that an algorithm does not log are left out.
HEADLINES = (("reward", "objective/reward", ".3f"), ("loss", "loss/total", ".3f"))
FIGURES = (
    ("KL", "objective/kl", ".3f"),
    ("entropy", "objective/entropy", ".2f"),
    ("length", "objective/length", ".1f"),
)
BARS = "▁▂▃▄▅▆▇█"
HISTORY = 10  # bars of the headline's history; all figures then fit 80 columns
RESPONSE_LINES = 2
WIDEST = 100  # columns
GAP = "  "
CALM = Theme({"progress.download": "default", "progress.elapsed": "dim", "progress.remaining": "default"})


class LiveView:
    """A rich renderable; it draws nothing until a job is opened."""

    def __init__(self, console: Console) -> None:
        console.push_theme(CALM)
        self.bar = Progress(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=None, style="bright_black", complete_style="cyan", finished_style="cyan"),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left", style="dim"),
            TimeRemainingColumn(),
            console=console,
            expand=True,
            speed_estimate_period=3600,  # seconds: an update may take minutes
        )
        self.history: list[float] = []
        self.line: Mapping[str, float] = {}
        self.samples: Sequence[Sample] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it, at most `WIDEST` columns wide."""
        width = min(options.max_width, WIDEST)
        if self.bar.tasks:
            yield Constrain(self.bar, width)
            yield from flowing(self._figures(), width)
            for sample in self.samples:
                yield Text()
                yield from drawn_sample(console, *sample, width)

    def begin(self, title: str, done: int, total: int, before: Sequence[Mapping[str, float]]) -> None:
        """Open a job; `before` are the log lines of a resumed run."""
        self.end()
        self.bar.add_task(title, total=total, completed=done)
        for line in before:
            self.update(done, line, ())
        self.line = {}

    def update(self, done: int, line: Mapping[str, float], samples: Sequence[Sample]) -> None:
        """Take an update's figures and responses."""
        self.line, self.samples = line, samples
        value = next((line[name] for _, name, _ in HEADLINES if name in line), math.nan)
        if math.isfinite(value):
            self.history.append(value)
        self.bar.update(self.bar.task_ids[0], completed=done)

    def end(self) -> None:
        """Close the job."""
        for job in self.bar.task_ids:
            self.bar.remove_task(job)
        self.history, self.line, self.samples = [], {}, ()

    def _figures(self) -> list[Text]:
        line = self.line
        shown = [row for row in HEADLINES if row[1] in line][:1] + [row for row in FIGURES if row[1] in line]
        cells = [Text.assemble((f"{label} ", "dim"), f"{line[name]:{form}}") for label, name, form in shown]
        if cells:
            cells[0].append(f" {sparkline(self.history, HISTORY):{HISTORY}}", "cyan")
        if line.get("seconds", 0.0) > 0:
            cells.append(Text.assemble(f"{line.get('tokens', 0.0) / line['seconds']:,.0f}", (" tokens/s", "dim")))
        return cells


def clock(seconds: float) -> str:
    """Return seconds as 45 s, 12 min or 3 h 20 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def flowing(cells: Sequence[Text], width: int) -> list[Text]:
    """Set cells side by side, indented, in as few lines as hold them whole."""
    lines: list[Text] = []
    for cell in cells:
        if lines and lines[-1].cell_len + len(GAP) + cell.cell_len <= width:
            lines[-1].append(GAP).append_text(cell)
        else:
            lines.append(one_line(Text("  ").append_text(cell)))
    return lines


def drawn_sample(console: Console, prompt: str, response: str, score: float, width: int) -> list[Text]:
    """Set a response under its prompt, the score beside both: one line for the prompt, two for the response."""
    label = f"  {score:>6.3f}  "
    room = max(8, width - len(label) - len("→ "))
    said = Text(printable(response)) if response.strip() else Text("(empty)", "dim")
    lines = [line.plain.rstrip() for line in said.wrap(console, room)]
    if len(lines) > RESPONSE_LINES:
        lines[RESPONSE_LINES - 1 :] = [f"{beginning(lines[RESPONSE_LINES - 1], room - len(' …'))} …"]
    rows = [Text.assemble((label, "cyan"), (shortened(printable(prompt).strip(), room + len("→ ")), "dim"))]
    for index, line in enumerate(lines):
        rows.append(Text.assemble(" " * len(label), ("  " if index else "→ ", "dim"), (line, said.style)))
    return [one_line(row) for row in rows]


def one_line(text: Text) -> Text:
    """Return text that a narrow terminal crops instead of wrapping it."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def printable(text: str) -> str:
    """Return text that cannot move the cursor: whitespace is a space, any other control character is shown as �."""
    spaced = "".join(" " if character.isspace() else character for character in text)
    return "".join("�" if unicodedata.category(character)[0] == "C" else character for character in spaced)


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw values as at most `width` bars between the lowest and the highest; a longer history is averaged."""
    count = min(width, len(values))
    edges = [len(values) * index // count for index in range(count + 1)] if count else []
    means = [sum(values[start:end]) / (end - start) for start, end in zip(edges, edges[1:], strict=False)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    if high == low:
        return BARS[len(BARS) // 2] * count
    return "".join(BARS[round((mean - low) / (high - low) * (len(BARS) - 1))] for mean in means)


def shortened(text: str, width: int) -> str:
    """Return a text that fits `width` columns, shortened in the middle: both ends of a prompt matter."""
    if len(text) <= width:
        return text
    tail = (width - len(" … ")) // 2
    head = width - len(" … ") - tail
    return f"{beginning(text, head)} … {beginning(text[::-1], tail)[::-1]}"


def beginning(text: str, width: int) -> str:
    """Return the whole words among a text's first `width` characters, or the characters of one long word."""
    if len(text) <= width:
        return text
    whole = text[: width + 1].rpartition(" ")[0].rstrip()
    return whole or text[:width]
