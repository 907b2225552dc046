"""Answers from the logs of inspect_ai: `.eval`, a zip archive with a file for each sample, or one `.json`.

A sample has `id` (if the data set has none, its place from 1), `epoch`, `input`, `output` and `error`. Long texts
may be moved to `attachments`.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from grue.data.archives import parsed, zip_members
from grue.errors import ConfigError, DataError, escaped
from grue.exchange import foreign_json
from grue.exchange.answers import LoggedAnswer

CUT = ("max_tokens", "model_length")
ENDED = "success"
"""The status of a successful evaluation; others are started, cancelled, error."""
ATTACHED = ("attachment://", "tc://")


def read_answers(
    path: Path, *, epoch: int | None = None, warn: Callable[[str], None] = warnings.warn
) -> list[LoggedAnswer]:
    """Return the answers of a log.

    Args:
        warn: Called if the evaluation did not succeed.
    """
    by_epoch: dict[int, list[LoggedAnswer]] = defaultdict(list)  # without transcripts, which may be large
    failed: dict[int, list[str]] = defaultdict(list)
    for where, sample in read_samples(path, warn):
        fits = isinstance(sample, dict) and {"id", "input", "output"} <= sample.keys()
        if not fits or not isinstance(sample.setdefault("epoch", 1), int) or not isinstance(sample["output"], dict):
            raise DataError(f"{where}: no sample of inspect: expected id, epoch, input and output.")
        output = sample["output"]
        by_epoch[sample["epoch"]].append(_answer(sample, where))
        if sample.get("error") or not (output.get("choices") or output.get("completion")):
            failed[sample["epoch"]].append(where)
    if not by_epoch:
        raise DataError(f"{path}: no sample; inspect leaves them out with --no-log-samples.")
    listed = ", ".join(map(str, sorted(by_epoch)))
    if epoch is None and len(by_epoch) > 1:
        raise ConfigError(f"{path}: holds answers of several epochs ({listed}); choose one with --epoch N.")
    if epoch is not None and epoch not in by_epoch:
        raise ConfigError(f"{path}: has no epoch {epoch}; it has {listed}.")
    epoch = epoch or min(by_epoch)
    chosen = by_epoch[epoch]
    if failed[epoch]:
        raise DataError(
            f"{path}: {len(failed[epoch])} of {len(chosen)} samples ended with an error or without an output, the "
            f"first at {failed[epoch][0]}: finish the evaluation with `inspect eval-retry`."
        )
    counted = {answer.position for answer in chosen} == set(range(len(chosen)))
    return [replace(answer, numbered=counted) for answer in chosen]


def _note(log: Any, path: Path, warn: Callable[[str], None]) -> None:
    status = log.get("status", ENDED) if isinstance(log, dict) else ENDED
    if status != ENDED:
        warn(f"{path}: its evaluation has the status '{escaped(status)}'; the answers in it are taken as they are.")


def read_samples(path: Path, warn: Callable[[str], None] = warnings.warn) -> Iterator[tuple[str, Any]]:
    """Yield (place, sample) of a log.

    Args:
        warn: Called if the evaluation did not succeed.
    """
    if path.suffix != ".eval":
        log = foreign_json.read(path)
        listed = log.get("samples") if isinstance(log, dict) else None
        if not isinstance(log, dict) or "eval" not in log:
            raise DataError(f"{path}: no log of inspect: give its .eval file, or its .json.")
        _note(log, path, warn)
        for number, sample in enumerate(listed if isinstance(listed, list) else (), start=1):
            yield f"{path}, sample {number}", sample
        return
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    with zip_members(path) as (members, read):
        newest = {member.filename: member for member in members}  # a log that was appended to names some twice
        if not {"header.json", "_journal/start.json"} & newest.keys():
            raise DataError(f"{path}: no log of inspect: it has neither header.json nor _journal/start.json.")
        header = newest.get("header.json")  # written at the end
        _note({"status": "started"} if header is None else parsed(read(header), f"{path}/header.json"), path, warn)
        for name, member in newest.items():
            if name.startswith("samples/") and name.endswith(".json"):
                yield f"{path}/{name!a}", parsed(read(member), f"{path}/{name!a}")


def _answer(sample: dict[str, Any], where: str) -> LoggedAnswer:
    attachments = sample["attachments"] if isinstance(sample.get("attachments"), dict) else {}
    identity, output = sample["id"], sample["output"]
    choices = output["choices"] if isinstance(output.get("choices"), list) else []
    first = choices[0] if choices and isinstance(choices[0], dict) else {}
    message = first["message"] if isinstance(first.get("message"), dict) else {}
    text = _attached(output.get("completion") or foreign_json.content_of(message), attachments)
    return LoggedAnswer(
        foreign_json.checked_text(text, where, "its output"),
        _attached(foreign_json.shown_prompt(sample["input"]), attachments),
        str(identity),
        identity - 1 if isinstance(identity, int) else None,
        first.get("stop_reason") in CUT or bool(sample.get("limit")),
    )


def _attached(text: Any, attachments: dict[str, Any]) -> Any:
    """Return the attachment that a text refers to, or else the text itself."""
    if isinstance(text, str) and text.startswith(ATTACHED):
        return attachments.get(text.partition("://")[2], text)
    return text
