"""The card of a reward model: its training data, its accuracy, and its limits."""

from grue.lm.reward_folder import Judgement, RewardManifest
from grue.preferences.answers import PEOPLE
from grue.tasks import Task


def reward_card(manifest: RewardManifest, task: Task) -> str:
    """Return the text of `README.md`."""
    where = "last token" if manifest.pooling == "last" else "mean of all tokens"
    settings = {key: str(value) for key, value in manifest.config.items()}
    if manifest.config["max_tokens"] != (most := manifest.max_tokens):
        settings["max_tokens"] = f"{most}; {settings['max_tokens']} were asked for, and the backbone reads no more"
    held_out = "The file has no pairs in the part `test`: nothing is known of pairs that it did not see."
    if (judged := manifest.held_out) is not None:
        shown = "\n".join(f"| {' | '.join(row)} |" for row in bins(judged))
        held_out = f"{_table(figures(judged))}\n\n| confidence | pairs | right |\n|---|---|---|\n{shown}"
    rows = [
        ("task", f"`{manifest.suite}/{manifest.task}`, version {task.version}, prompts of `{manifest.split}`"),
        ("judged by", _judge(manifest)),
        ("pairs", ", ".join(f"{count:,} {part}" for part, count in manifest.pairs.items())),
        ("judged both ways", f"{manifest.contradictions:,} pairs of texts"),
        ("pairs' sha256", f"`{manifest.pairs_sha256}`"),
        ("backbone", f"`{manifest.backbone}`, read at the {where}"),
        ("reads", f"{manifest.max_tokens:,} tokens of prompt and text at most; the prompt's beginning is cut"),
        ("kept", f"step {manifest.step:,}, the best on validation"),
        ("temperature", f"{manifest.temperature:.4g}, found on validation"),
        ("scale", f"score = (logit − {manifest.centre:.4g}) / {manifest.spread:.4g}"),
    ]  # fmt: skip
    parts = [
        f"# A reward model of {manifest.suite}/{manifest.task}",
        "It says which of two answers to a prompt is better: with probability σ((logit − logit′) / temperature). As a "
        "metric or a reward, `model:DIR`, its score is in standard deviations of the texts that it was trained on.",
        _table(rows),
        f"## Held-out pairs\n\n{held_out}",
        "## Settings\n\n" + _table([(f"`{key}`", f"`{value}`") for key, value in settings.items()]),
        "## Limits\n\nIt knows what it was shown: answers like those of its pairs, to prompts of one task. A policy "
        "that is trained on it moves away from these, and finds what it overrates; measure it by something else.",
    ]
    return "\n\n".join(parts) + "\n"


def _judge(manifest: RewardManifest) -> str:
    if not manifest.judge:
        return "not known"
    if manifest.judge != manifest.noise:
        return f"`{manifest.judge}`, noise `{manifest.noise}`"
    warning = "" if manifest.judge == PEOPLE else ": answers of programs are no opinions of people"
    return f"{manifest.judge}{warning}"  # of a study


def figures(judged: Judgement) -> list[tuple[str, str]]:
    """Return a judgement as rows of a table: name and value."""
    rows = [("pairs", f"{judged.pairs:,} of {judged.prompts:,} prompts, {judged.ties:,} of them ties")]
    if judged.accuracy is not None and judged.low is not None and judged.high is not None:
        rows.append(("accuracy", f"{judged.accuracy:.1%} ({judged.low:.1%} to {judged.high:.1%})"))
    rows.append(("log-loss", f"{judged.log_loss:.3f} (chance: 0.693)"))
    if judged.ece is not None:
        rows.append(("calibration error", f"{judged.ece:.1%}"))
    return rows


def bins(judged: Judgement) -> list[tuple[str, str, str]]:
    """Return the bins that are not empty: confidence, pairs, accuracy."""
    return [
        (f"{low:.0%}–{high:.0%}", f"{count:,}", f"{right:.0%}")
        for low, high, count, _, right in judged.bins
        if right is not None
    ]


def _table(rows: list[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])
