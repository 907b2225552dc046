"""Answers from the sample logs of lm-evaluation-harness (0.4): `samples_TASK_DATE.jsonl`, written by --log_samples.

A line has `doc_id` (the document's place), `doc`, `arguments` (`gen_args_0.arg_0` is the prompt; older versions write
lists), `resps`, `filtered_resps` and `filter`. Each filter writes lines of its own for every document.
"""

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from grue.data.archives import File, json_values
from grue.errors import ConfigError, DataError, escaped
from grue.exchange import foreign_json
from grue.exchange.answers import LoggedAnswer

SAMPLES = "Give samples_TASK_DATE.jsonl, which --log_samples writes, not the file of results."

INVALID = "[invalid]"
"""What lm-eval's filters write if they find no answer in a text."""
NO_TEXT = "no text (the task compares likelihoods); only tasks whose output_type is generate_until have predictions."


def read_answers(
    path: Path, *, filter_name: str | None = None, warn: Callable[[str], None] = warnings.warn
) -> list[LoggedAnswer]:
    """Return the answers of a sample log; an answer is empty if the filter found none in a text.

    Args:
        warn: Called if the filter found no answer.
    """
    if path.suffix == ".json":
        raise DataError(f"{path}: {SAMPLES}")
    filters = sorted({_filter(_line(line, where)) for where, line in json_values(File(path))})
    if not filters:
        raise DataError(f"{path}: no sample; lm-eval writes them with --log_samples.")
    listed = ", ".join(map(ascii, filters))
    if filter_name is None and len(filters) > 1:
        raise ConfigError(f"{path}: holds the answers of several filters ({listed}); choose one with --filter NAME.")
    if filter_name is not None and filter_name not in filters:
        raise ConfigError(f"{path}: no answers of the filter {filter_name!r}; it has those of {listed}.")
    chosen = filter_name or filters[0]
    answers, invalid = [], 0
    for where, line in json_values(File(path)):
        if _filter(line) == chosen:
            answer = _answer(line, where)
            if answer.text.strip() == INVALID and INVALID not in json.dumps(line.get("resps")):
                answer = replace(answer, text="")
                invalid += 1
            answers.append(answer)
    if invalid:
        warn(
            f"{path}: the filter '{escaped(chosen)}' found no answer in {invalid} of {len(answers)} texts and wrote "
            f"{INVALID}, which is read as an empty answer. For the texts themselves log a filter such as take_first."
        )
    return answers


def _filter(line: dict[str, Any]) -> str:
    return str(line.get("filter", "none"))


def _line(line: Any, where: str) -> dict[str, Any]:
    if not isinstance(line, dict) or not {"doc_id", "arguments", "filtered_resps"} <= line.keys():
        raise DataError(
            f"{where}: no sample of lm-evaluation-harness: it has no doc_id, arguments and filtered_resps. {SAMPLES}"
        )
    return line


def _answer(line: dict[str, Any], where: str) -> LoggedAnswer:
    requests = list(line["arguments"].values()) if isinstance(line["arguments"], dict) else line["arguments"]
    if not isinstance(requests, list) or not requests:
        raise DataError(f"{where}: arguments: expected the requests of a document.")
    first = list(requests[0].values()) if isinstance(requests[0], dict) else requests[0]
    # The only request asks for a text if its second argument is settings.
    if len(requests) > 1 or not isinstance(first, list) or len(first) < 2 or not isinstance(first[1], dict):
        raise DataError(f"{where}: its request asks for {NO_TEXT}")
    responses = line["filtered_resps"]
    while isinstance(responses, list) and len(responses) == 1:
        responses = responses[0]
    if isinstance(responses, list):
        # That of a likelihood request: a number, and whether the text is the likeliest.
        if len(responses) == 2 and (type(responses[1]) is bool or type(responses[0]) is float):
            raise DataError(f"{where}: its answer is {NO_TEXT}")
        count = f"{len(responses)} answers to one document"
        raise DataError(f"{where}: {count}; log it with a filter that takes one, such as take_first.")
    document = line["doc"] if isinstance(line.get("doc"), dict) else {}
    own, place = document.get("id"), line["doc_id"]
    return LoggedAnswer(
        foreign_json.checked_text(responses, where, "filtered_resps"),
        foreign_json.shown_prompt(first[0]),
        str(own) if isinstance(own, str | int) and not isinstance(own, bool) else "",
        place if isinstance(place, int) else None,
    )
