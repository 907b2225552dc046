"""The folder of an evaluation: what it evaluates, whether it is finished, and whether its files are unchanged.

`evaluation.json` says what is evaluated (the claim) and, once everything is scored, the sha256 of the other files. The
result is written last: with it, the evaluation is finished.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from grue import claims, files
from grue.errors import DataError
from grue.records import UNFINISHED, Result

CLAIM, PREDICTIONS, SCORES, RESULT = "evaluation.json", "predictions.jsonl", "scores.jsonl", "result.json"
SEARCHED = "searched.jsonl"
"""Answers by the task's `[search]`, in addition to the predictions."""
ANSWERS = "answers.jsonl"
"""An endpoint's replies, from which the predictions of its evaluation follow."""
LOCK = ".evaluation.lock"
"""The lock file; it stays. A run's is another, since a run may be evaluated while it trains."""
CODE = "code"
"""Key of the claim: hashes of the files of the user's own metrics."""
ASKED = "asked"
"""Key of the claim: hash of a chat prompt as an endpoint is asked, without how answers are cut out of replies."""
SHA256 = "sha256"
"""Key of the claim: hashes of the files."""


def sole_writer(folder: Path, force: bool) -> AbstractContextManager[None]:
    """Hold the lock of an evaluation that is to be written; a finished one is only read, maybe from a read-only disk.

    Raises:
        ConfigError: Another process evaluates here.
    """
    if not force and fault_of(folder) is None:
        return nullcontext()
    refusal = f"{folder}: another process is evaluating here; wait for it, or write elsewhere with --output."
    return claims.sole_owner(folder, refusal, LOCK)


def claim(folder: Path, identity: Mapping[str, Any], warn: Callable[[str], None]) -> Result | None:
    """Return the result if the folder holds this very evaluation, finished; claim the folder if it holds none.

    An evaluation whose scores or result were changed is not finished; this warns of it. Answers of an
    endpoint may be continued at another host or port; if the chat prompt cuts answers out differently, this is redone.

    Raises:
        ConfigError: It holds another evaluation.
        DataError: Its predictions were changed, or the claim cannot be read.
    """
    path = folder / CLAIM
    if not path.exists():
        if (folder / RESULT).exists():
            warn(f"{folder}: holds a result, and no {CLAIM} that says of what; evaluating anew.")
        _begin(folder, identity)
        return None
    saved = _read_claim(folder)
    identity = claims.as_held(saved, identity)
    stated = (identity.keys() | saved.keys()) - {ASKED, SHA256}  # a claim leaves out what does not apply
    changed = {key for key in stated if (saved.get(key) or None) != (identity.get(key) or None)}
    places = [re.sub(r"^https?://[^/]+", "", str(of.get("endpoint"))) for of in (saved, identity)]
    if "endpoint" in changed and places[0] == places[1] != "None":  # the same model at another host or port
        changed.remove("endpoint")
        warn(
            f"{folder}: holds answers of {saved['endpoint']}; they are kept, and only those that are missing are asked "
            f"for at {identity['endpoint']}. --force asks for all anew."
        )
    if saved.get(UNFINISHED) and changed:
        warn(f"{folder}: holds an evaluation of the run before it was finished; evaluating anew.")
        _begin(folder, identity)
        return None
    cut_again = "chat" in changed and saved.get(ASKED) == identity.get(ASKED, "")
    if changed and changed <= ({CODE, "chat"} if cut_again else {CODE}):
        change = (
            "the chat prompt cuts other answers out of the replies" if cut_again else "the code of a metric has changed"
        )
        warn(f"{folder}: {change}; scoring again.")
        (folder / RESULT).unlink(missing_ok=True)
        if cut_again:
            (folder / PREDICTIONS).unlink(missing_ok=True)
        files.write_json(path, {**({} if cut_again else saved), **identity})
        return None
    if changed:
        differing = {key: identity.get(key) for key in (*identity, *saved) if key in changed}
        cure = "Write elsewhere with --output, or replace it with --force."
        claims.refuse_other(folder, "an evaluation", saved, differing, cure)
    fault = fault_of(folder)
    if fault is None:
        return files.load_json(folder / RESULT, Result)
    name, change = fault
    if name in (PREDICTIONS, SEARCHED) and (folder / name).exists():
        raise DataError(
            f"{folder / name}: {change}: these are not the answers that were scored. Restore the file, or answer and "
            "score anew with `grue evaluate --force`; `grue score` scores any file of predictions as it is."
        )
    if (folder / RESULT).exists():
        warn(f"{folder / name}: {change}; {'answering' if name in (PREDICTIONS, SEARCHED) else 'scoring'} again.")
        (folder / RESULT).unlink()
    if name in (PREDICTIONS, SEARCHED):
        files.write_json(path, identity)  # else new answers would be taken for changed ones after a kill
    return None


def _begin(folder: Path, identity: Mapping[str, Any]) -> None:
    """Claim the folder for this evaluation; if killed in between, it holds nothing."""
    if folder.is_dir():
        discard(folder)
    files.write_json(folder / CLAIM, identity)


def seal(folder: Path, identity: Mapping[str, Any], result: Result) -> None:
    """Write the result of an evaluation, after its predictions and scores, and the hashes of all three."""
    text = files.indented_json(result)
    names = (PREDICTIONS, SCORES, *((SEARCHED,) if result.searched else ()))
    sums = {name: files.sha256_file(folder / name) for name in names}
    files.write_json(folder / CLAIM, {**identity, SHA256: {**sums, RESULT: files.sha256_text(text)}})
    files.write_text(folder / RESULT, text)


def fault_of(folder: Path) -> tuple[str, str] | None:
    """Return the file of an evaluation that was changed or is missing, and what is wrong with it; None if none is."""
    sums = _read_claim(folder).get(SHA256) if (folder / CLAIM).exists() else None
    if not isinstance(sums, dict):
        return RESULT, f"has no hash in {CLAIM}"
    for name in (PREDICTIONS, *((SEARCHED,) if SEARCHED in sums else ()), SCORES, RESULT):
        if not (folder / name).exists():
            return name, "is missing"
        if files.sha256_file(folder / name) != sums.get(name):
            return name, "was changed after the evaluation"
    return None


def weights_of(folder: Path) -> str:
    """Return the hash of the evaluated weights; empty if the folder does not say."""
    return str(_read_claim(folder).get("weights", "")) if (folder / CLAIM).exists() else ""


def discard(folder: Path) -> None:
    """Remove the files of an evaluation, and nothing else, from a folder."""
    for name in (CLAIM, ANSWERS, PREDICTIONS, SEARCHED, SCORES, RESULT):
        (folder / name).unlink(missing_ok=True)


def withdraw(folder: Path) -> None:
    """Remove an evaluation that produced nothing, and its folders `<system>/seed-<n>` if they are empty."""
    discard(folder)
    (folder / LOCK).unlink(missing_ok=True)
    for parent in (folder, folder.parent) if folder.name.startswith("seed-") else ():
        if not any(parent.iterdir()):
            parent.rmdir()


def _read_claim(folder: Path) -> dict[str, Any]:
    return claims.read_claim(folder / CLAIM, "Restore the file, or replace the evaluation with --force.")
