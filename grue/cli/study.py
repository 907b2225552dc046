"""`grue tools study`: ask people about systems' outputs, and analyse their answers."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from grue import files
from grue.api import study as api
from grue.cli import options
from grue.cli.console import data_console, evaluation_progress, print_json, printable, table
from grue.errors import ConfigError
from grue.render.figures import UNKNOWN, ends, figure, p_value
from grue.render.questionnaire import PAGES
from grue.study.analysis import Agreement, PairsAnalysis, Reliability, ScaleAnalysis, StudyAnalysis
from grue.study.answers import answer_files, preference_lines, read_answers
from grue.study.key import read_key


@click.group()
def study() -> None:
    """Ask people about systems' outputs, and analyse their answers (docs/how-to/study.md)."""


@study.command(short_help="Write the pages that people answer, and their key.")
@options.option("--task", "task_name", required=True, help="Task whose evaluation split is asked about.")
@options.suite
@options.option(
    "--systems",
    required=True,
    help="Comma-separated: names as for `grue compare`, NAME@SEED for one seed, or NAME=FILE for predictions.",
)
@options.option("--items", type=options.COUNT, default=50, help="How many examples, the same for all systems.")
@options.option("--annotators", type=options.COUNT, default=3, help="How many people; each judges everything.")
@options.option("--template", help="Questionnaire, by name or a file .toml. [default: that of the task and kind]")
@options.option(
    "--kind",
    type=click.Choice(["scales", "pairs"]),
    help="Rate texts, or choose between two. [default: scales, or what the questionnaire asks]",
)
@options.option("--seed", type=int, default=0, help="Seed of the sampled items and orders.")
@options.runs
@options.submissions
@options.data
@options.output("New folder to write.", required=True)
def make(output: Path, task_name: str, systems: str, items: int, annotators: int, **arguments: Any) -> None:
    """Write one page an annotator, which needs no network and names no system, and the key to all of them.

    Send the files in OUTPUT/pages, and nothing else; put what comes back into OUTPUT/answers.

    \b
    grue tools study make --task commongen --systems supervised,supervised+ppo -o study
    grue tools study make --task imdb --systems ours=mine.jsonl,theirs=theirs.jsonl --kind pairs -o study
    """  # noqa: D301 (click reads the escape)
    with evaluation_progress("Reading systems") as progress:
        names = options.names_of(systems)
        key = api.make_study(
            output, task_name, names, items=items, annotators=annotators, progress=progress, **arguments
        )
    screens = len(key.annotators[0].screens)
    click.echo(
        f"Study {key.study}: {len(key.systems)} systems, {items} items, {screens} pages for each of {annotators}."
    )
    click.echo(f"Send {output / PAGES}: {', '.join(f'{annotator.name}.html' for annotator in key.annotators)}.")
    click.echo(f"Keep {output / 'key.json'} to yourself: it says who wrote what.")


@study.command(short_help="Say what the answers mean.")
@click.argument("folder", type=options.PATH)
@click.argument("answers", nargs=-1, type=options.PATH)
@options.option("--draws", type=click.IntRange(min=100), default=2000, help="Draws of each bootstrap and test.")
@options.option("--seed", type=int, default=0, help="Seed of those draws.")
@options.option("--complete", is_flag=True, help="Refuse answers that are not complete.")
@options.output("Picture to write: .png, .svg or .pdf.")
@options.option(
    "--answers",
    "lines",
    metavar="NEW_FILE",
    type=options.PATH,
    help="Output, of pairs: a new file to write each choice with its texts to, as JSON lines; nothing is read from it.",
)
@options.as_json
def analyse(
    folder: Path, answers: tuple[Path, ...], output: Path | None, lines: Path | None, as_json: bool, **how: Any
) -> None:
    """Say what the answers to a study mean: means, agreement, tests, and which metrics see what people see.

    ANSWERS are the files that people saved, by default all in FOLDER/answers. The option --answers names no such file,
    but a new one to write; a file that is there is never replaced.

    \b
    grue tools study analyse study
    grue tools study analyse study alice.json bob.json --complete -o study.png
    grue tools study analyse study --answers preferences.jsonl --json
    """  # noqa: D301 (click reads the escape)
    choices = None if lines is None else choices_for(lines, folder, answers)
    analysis = api.analyse_study(folder, answers, **how)
    if output is not None:
        from grue.plots.people import draw_study

        draw_study(analysis, output)
    if lines is not None and choices is not None:
        files.write_text(lines, choices)
    if as_json:
        print_json(analysis)
        return
    show(analysis, data_console())
    for written in (lines, output):
        if written is not None:
            click.echo(str(written))


def choices_for(path: Path, folder: Path, answers: Sequence[Path]) -> str:
    """Return the content of a new file: each choice between two texts with the texts, a line each."""
    key = read_key(folder)
    lines = preference_lines(key, read_answers(answers or answer_files(folder), key))
    text = "".join(f"{files.canonical_json(line)}\n" for line in lines)
    if path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
        raise ConfigError(
            f"{path}: is there already and is not replaced: --answers names a new file to write the choices to. Name "
            "another; files of answers to read stand after the study's folder, without an option."
        )
    return text


# --- printing --------------------------------------------------------------------------------------------------------


def show(analysis: StudyAnalysis, console: Console) -> None:
    """Print an analysis: each question's systems, tests and agreement, then the metrics."""
    console.print(
        Text(f"GRUE study {analysis.study}: {analysis.suite}/{analysis.task}, {printable(analysis.title)}", "bold"),
        soft_wrap=True,
    )
    if analysis.synthetic:
        are = "is a program" if len(analysis.synthetic) == 1 else "are programs"
        warning = f"Synthetic: {', '.join(analysis.synthetic)} {are}. These are no opinions of people."
        console.print(Text(warning, "bold yellow"), soft_wrap=True)
    done = ", ".join(f"{person.annotator} {person.done} of {person.asked}" for person in analysis.annotators)
    console.print(f"{len(analysis.systems)} systems, {analysis.items} items. Answered: {done}.", soft_wrap=True)
    for scale in analysis.scales:
        _show_scale(scale, console)
    if analysis.pairs is not None:
        _show_pairs(analysis.pairs, console)
    if analysis.agreement:
        console.print()
        console.print(Text("Metrics and people", "bold"), "(rank correlation, + is agreement)")
        headers = ("question", "metric", "texts: τ", "95 %", "texts: ρ", "95 %", "systems: τ", "95 %")
        console.print(table(*headers, rows=map(_correlations, analysis.agreement), left=(0, 1)))
    console.print()
    for line in (*_legend(analysis), *analysis.notes):
        console.print(Text(f"· {printable(line)}", "dim"))


def _show_scale(scale: ScaleAnalysis, console: Console) -> None:
    console.print()
    console.print(Text(printable(scale.question), "bold"), f"(1–{scale.points})")
    rows = table("system", "mean", "95 % interval", "answers", "texts", "α ordinal", "α interval")
    for rated in scale.systems:
        mean, counts = figure(rated.mean, ".2f"), (str(rated.answers), str(rated.texts))
        rows.add_row(printable(rated.system), mean, ends(rated.interval, ".2f"), *counts, *map(_alpha, rated.alpha))
    if len(scale.systems) > 1:
        rows.add_row("all", "", "", "", "", *map(_alpha, scale.alpha), style="bold")
    console.print(rows)
    if (anova := scale.anova) is not None:
        line = f"One-way ANOVA: F({anova.between}, {anova.within}) = {anova.f:.2f}, p {p_value(anova.p)}."
        if scale.within_items_p is not None:
            line += f" Permutation within items: p {p_value(scale.within_items_p)}."
        console.print(line)
    if scale.pairs:
        headers = ("A", "B", "A − B", "Tukey's interval", "Tukey p", "paired", "95 % interval", "Holm p")
        rows = table(*headers, left=(0, 1))
        for pair in scale.pairs:
            tukey = (ends(pair.tukey_interval, "+.2f"), p_value(pair.tukey_p))
            paired = (figure(pair.paired, "+.2f"), ends(pair.paired_interval, "+.2f"), p_value(pair.paired_p))
            rows.add_row(printable(pair.a), printable(pair.b), f"{pair.value:+.2f}", *tukey, *paired)
        console.print(rows)


def _show_pairs(pairs: PairsAnalysis, console: Console) -> None:
    console.print()
    console.print(Text(printable(pairs.question), "bold"), "(A's share of the choices, a tie is half)")
    headers = ("A", "B", "A wins", "ties", "B wins", "items", "same", "share of A", "95 % interval", "Holm p")
    rows = table(*headers, left=(0, 1))
    for duel in pairs.duels:
        counts = map(str, (duel.a_wins, duel.ties, duel.b_wins, duel.items, duel.same))
        share = (figure(duel.rate, ".0%"), ends(duel.interval, ".0%"), p_value(duel.p))
        rows.add_row(printable(duel.a), printable(duel.b), *counts, *share)
    console.print(rows)
    for reliability in pairs.alpha:
        console.print(f"Krippendorff's α, {reliability.level}: {_alpha(reliability)}")


def _correlations(metric: Agreement) -> tuple[str, ...]:
    found = (metric.kendall, metric.spearman, metric.systems)
    cells = (cell for of in found for cell in (figure(of.value, "+.2f"), ends(of.interval, "+.2f")))
    return printable(metric.question), printable(metric.metric), *cells


def _alpha(reliability: Reliability) -> str:
    if reliability.value is None:
        return f"{UNKNOWN} ({reliability.why})"
    interval = "" if reliability.interval is None else f" {ends(reliability.interval, '.2f')}"
    return f"{reliability.value:.2f}{interval}"


def _legend(analysis: StudyAnalysis) -> Iterator[str]:
    if analysis.kind == "scales":
        yield (
            "Means are over texts, each the mean of its annotators; intervals: other items, the same annotators. "
            "ANOVA and Tukey take texts as independent, as the paper did; paired and permuted compare systems on the "
            "same items."
        )
    else:
        yield (
            "Intervals and p: other items, the same annotators. p flips the sides of items, corrected for all pairs. "
            "Items to which both wrote the same were not asked about, and count as ties. A metric chooses between the "
            "same texts as people."
        )
    yield f"α: Krippendorff's, with the bootstrap's interval over items; {analysis.draws:,} draws of everything drawn."
    if analysis.agreement and len(analysis.systems) < 3:
        yield "A correlation over systems needs three of them."
