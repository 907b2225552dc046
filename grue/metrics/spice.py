"""SPICE (Anderson et al. 2016) by its official program, which the user provides: a jar, CoreNLP's models and Java.

None of it is part of this package: the jar is under the AGPL. It fails on Java 15 and later, which lack the script
engine that it prints with.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from grue.errors import DataError, Unavailable
from grue.metrics.metric import Average, require_references
from grue.records import Example

HOME = "GRUE_SPICE_HOME"
JAVA = "GRUE_SPICE_JAVA"
JAVAS = range(8, 15)
JAR = "spice-1.0.jar"
CORENLP = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def spice(home: str = "", java: str = "", memory: str = "8G") -> Average:
    """Return SPICE, 0–1.

    Every call starts the program, which takes half a minute to load a parser: a metric for reports, not for rewards.

    Args:
        home: Folder with spice-1.0.jar and lib/; by default the environment variable GRUE_SPICE_HOME.
        java: Program that runs it; by default GRUE_SPICE_JAVA, or java.
        memory: Memory limit of Java.

    Raises:
        Unavailable: Something that it needs is missing.
    """
    home, java = settings(home, java)
    missing = problems(home, java)
    if missing:
        listed = "".join(f"\n- {problem}" for problem in missing)
        raise Unavailable(f"spice cannot run here:{listed}\nspice_lite needs none of this, but is a different metric.")

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        require_references(examples, "spice")
        items = [
            {"image_id": index, "test": clean(text), "refs": list(filter(None, map(clean, example.references)))}
            for index, (example, text) in enumerate(zip(examples, texts, strict=True))
        ]
        scored = run([item for item in items if item["test"] and item["refs"]], Path(home), java, memory)
        return [scored.get(index, 0.0) for index in range(len(items))]

    signature = "spice|jar:1.0|corenlp:3.6.0|refs:merged"
    return Average(signature, values, lambda examples: require_references(examples, "spice"))


def settings(home: str = "", java: str = "") -> tuple[str, str]:
    """Return the folder ("" if none is set) and the Java to use, from the options or the environment."""
    return home or os.environ.get(HOME, ""), java or os.environ.get(JAVA, "") or "java"


def problems(home: str, java: str) -> list[str]:
    """Return what is missing to run SPICE, each with its cure; only `java -version` is run."""
    return [*_problems_of_java(java), *_problems_of_home(home)]


def _problems_of_java(java: str) -> list[str]:
    cure = f"install Java {JAVAS[0]} to {JAVAS[-1]} and name the program in {JAVA} or the option java"
    if shutil.which(java) is None:
        return [f"There is no program {java!r}; {cure}."]
    try:
        answer = _output([java, "-version"])
    except OSError as error:
        return [f"{java!r} does not start ({error.strerror}); {cure}."]
    version = _VERSION.search(answer.stderr + answer.stdout)
    if version is None:
        return [f"{java!r} does not print its version as Java does; {cure}."]
    if int(version[1]) not in JAVAS:
        return [f"{java!r} is Java {version[1]}, on which SPICE does not run; {cure}."]
    return []


def _problems_of_home(home: str) -> list[str]:
    if not home:
        return [f"No folder is named; unpack SPICE-1.0.zip and name its folder in {HOME} or the option home."]
    folder = Path(home)
    missing = []
    if not (folder / JAR).is_file():
        missing.append(f"{folder / JAR} is missing; unpack SPICE-1.0.zip from https://panderson.me/spice there.")
    for name in CORENLP:
        if not (folder / "lib" / name).is_file():
            archive = "stanford-corenlp-full-2015-12-09.zip"
            missing.append(f"{folder / 'lib' / name} is missing; it is in {archive} from https://nlp.stanford.edu.")
    return missing


def _output(command: Sequence[str], cwd: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, errors="replace", check=False)


def clean(text: str) -> str:
    """Return `text` on one line, without control characters and halves of surrogate pairs."""
    return _UNSAFE.sub(" ", text).strip()


def run(items: Sequence[dict[str, Any]], home: Path, java: str, memory: str) -> dict[int, float]:
    """Return image_id → F1 of the program for items of image_id, test and refs; without items it is not started.

    It raises a DataError if the program fails or does not answer every item.
    """
    if not items:
        return {}
    with TemporaryDirectory(prefix="grue-spice-") as folder:
        input_file, output_file = Path(folder, "in.json"), Path(folder, "out.json")
        input_file.write_text(json.dumps(items), encoding="utf-8")
        program = Path(shutil.which(java) or java).absolute()  # it runs in another folder
        command = (program, f"-Xmx{memory}", "-jar", home.absolute() / JAR, input_file, "-out", output_file)
        done = _output([*map(str, command), "-detailed", "-silent"], cwd=folder)
        if done.returncode or not output_file.is_file():
            output = "\n".join((done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-20:])
            raise DataError(
                f"SPICE stopped with code {done.returncode} and wrote no scores; run {JAR} by hand to see why. "
                f"Its output:\n{output}"
            )
        answer = output_file.read_text(encoding="utf-8", errors="replace")
    try:  # sub-categories may be NaN or null where a text has no such tuple, F1 may not
        scores = {int(item["image_id"]): float(item["scores"]["All"]["f"]) for item in json.loads(answer)}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"SPICE's scores are not of its format ({type(error).__name__}: {error}); "
            f"check that {JAR} is the official release."
        ) from error
    unanswered = [item["image_id"] for item in items if item["image_id"] not in scores]
    if unanswered:
        raise DataError(
            f"SPICE scored {len(items) - len(unanswered)} of {len(items)} texts, not the one at {unanswered[0]}; "
            f"check that {JAR} is the official release."
        )
    return scores


METRICS = {"spice": spice}
