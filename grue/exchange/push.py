"""The repository of a checkpoint on the hub: its files, its card with the scores, `.eval_results/`, and its answers."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from grue import files
from grue.data.hub.upload import Content, with_results
from grue.errors import ConfigError, DataError
from grue.evaluation.folder import PREDICTIONS, RESULT, SCORES
from grue.exchange.hub_results import FOLDER, NAMES, eval_results, results_of
from grue.exchange.measured import Described, Measured, check_whole, measured_of, of_a_part
from grue.lm.checkpoint import (
    ANSWERS,
    MANIFEST,
    README,
    CheckpointManifest,
    find_checkpoint,
    read_manifest,
    results_folder,
)
from grue.records import UNFINISHED
from grue.submissions.folder import read_result

PARTS = (PREDICTIONS, SCORES, RESULT)
"""The files of an evaluation that are uploaded as samples."""


def content_of(source: Path, described: Described, samples: bool, warn: Callable[[str], None]) -> Content:
    """Return the files of a checkpoint's repository, by their path in it.

    Args:
        source: A run's folder or a checkpoint.
        warn: Called if there are no scores, or none for `.eval_results/`.
    """
    folder = find_checkpoint(source)
    folder = folder if folder.name else folder.absolute()  # "." has no parent of its own
    manifest = read_manifest(folder)
    if not (folder / README).is_file():
        raise DataError(f"{folder}: it has no {README}, which the hub shows as the model's card; write one.")
    content: dict[str, Path | bytes] = {name: folder / name for name in sorted({MANIFEST, *manifest.files})}
    card = files.read_text(folder / README)
    results = results_folder(folder, manifest)
    measured = _evaluated(folder, results, manifest, warn)
    if measured is None:
        if samples:
            raise ConfigError(
                f"{results}: --samples was asked for, and there is no evaluation of this checkpoint; write one with "
                f"`grue evaluate --checkpoint {folder}`."
            )
        return content | {README: card.encode()}
    first = measured.first
    name = f"{measured.system}-{first.task}-seed-{first.seed}"
    card = with_results(_with_table(card, measured), name, [results_of(measured, described)])
    if described.dataset_of(measured) is None:
        warn(
            f"{measured.task}: its data were not read from the hub, so the scores are in the card alone; --benchmark "
            f"OWNER/NAME names the data set there whose leaderboard they are for, and adds {FOLDER}."
        )
    else:
        content[f"{FOLDER}/{first.suite}_{first.task}.yaml"] = eval_results([measured], described).encode()
    if samples:
        content |= {f"{ANSWERS}/{part}": results / part for part in PARTS}
    return content | {README: card.encode()}


def listed(manifest: bytes) -> Iterable[str]:
    """Return the files that an earlier push uploaded, by its `grue.json`; none if that cannot be read."""
    try:
        record = json.loads(manifest)
        scores = f"{FOLDER}/{record['suite']}_{record['task']}.yaml"
        return [*map(str, record["files"]), scores, *(f"{ANSWERS}/{part}" for part in PARTS)]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _evaluated(
    folder: Path, results: Path, manifest: CheckpointManifest, warn: Callable[[str], None]
) -> Measured | None:
    """Return the result of this very checkpoint; None, with a warning, if there is no valid one."""
    path = results / RESULT
    if not path.is_file():
        warn(f"{path} is not there, so no scores go along; `grue evaluate --checkpoint {folder}` writes it.")
        return None
    result = read_result(path)
    check_whole(results)
    if result.system.get("weights") != manifest.weights:
        warn(f"{path} is of other weights than {folder}, so no scores go along.")
    elif of_a_part(result) or result.system.get(UNFINISHED) or result.status != "complete":
        warn(f"{path} is of a part of the split, of an unfinished run or not complete, so no scores go along.")
    else:
        return measured_of([(result, path)])
    return None


def _with_table(card: str, measured: Measured) -> str:
    """Return a card with the scores of the evaluation split before its section on use, once."""
    heading = f"## Scores on the {measured.first.split} split"
    if heading in card:
        return card
    rows = [
        f"| {NAMES.get(measure.name, f'`{measure.name}`')} | {measure.mean:.4f} |"
        for measure in (*measured.axes, *measured.metrics)
    ]
    section = "\n".join([heading, "", "| score | value |", "|---|---|", *rows])
    before, use, after = card.partition("\n## Use\n")
    return f"{before}\n{section}\n{use}{after}" if use else f"{card.rstrip()}\n\n{section}\n"
