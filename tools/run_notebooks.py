"""Run the notebooks of docs/notebooks and keep what cells print: `python tools/run_notebooks.py`, or `make notebooks`.

What differs between machines and runs (times, versions, ids, paths, warnings of libraries) is not kept.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
LONGEST = 3600


def executed(path: Path, folder: Path, environment: Mapping[str, str]) -> Any:
    """Return a notebook after running its cells in a folder, with some more environment.

    Raises:
        CellExecutionError: A cell raised; the message has its traceback.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=LONGEST, kernel_name="python3", resources={"metadata": {"path": folder}})
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", **environment})
    return notebook


def as_kept(notebook: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return what is committed of a notebook: its cells, and what they print and draw.

    Raises:
        ValueError: An output names the folder in which the notebook was run.
    """
    cells = []
    for number, cell in enumerate(notebook["cells"], start=1):
        source = "".join(cell["source"])
        kept = {"cell_type": cell["cell_type"], "id": f"cell-{number}", "metadata": {}, "source": source}
        if cell["cell_type"] == "code":
            kept |= {"execution_count": None, "outputs": _outputs(cell["outputs"])}
        cells.append(kept)
    if str(folder) in json.dumps(cells):
        raise ValueError(f"An output names {folder}: print no absolute path in a notebook.")
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _outputs(outputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what a cell printed and drew; what it printed in pieces is one text."""
    kept: list[dict[str, Any]] = []
    for output in outputs:
        if output["output_type"] != "stream":
            kept.append({**output, "metadata": {}, **_count(output)})
        elif output["name"] == "stdout" and kept and kept[-1]["output_type"] == "stream":
            kept[-1]["text"] += "".join(output["text"])
        elif output["name"] == "stdout":
            kept.append({"name": "stdout", "output_type": "stream", "text": "".join(output["text"])})
    for output in kept:
        if "text" in output:
            output["text"] = settled(output["text"])
    return kept


def settled(text: str) -> str:
    """Return what a terminal shows in the end of a text that moves its cursor, as progress bars do."""
    lines = [""]
    for part in re.split(r"(\n|\r|\x1b\[[0-9;?]*[A-Za-z])", text.replace("\r\n", "\n")):
        if part == "\n":
            lines.append("")
        elif part == "\x1b[1A" and len(lines) > 1:
            lines.pop()
        elif part in ("\r", "\x1b[2K"):
            lines[-1] = ""
        elif not part.startswith("\x1b"):
            lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _count(output: Mapping[str, Any]) -> dict[str, None]:
    return {"execution_count": None} if output["output_type"] == "execute_result" else {}


def main() -> None:
    """Run every notebook, or those that are named, and write it again."""
    for path in [Path(name) for name in sys.argv[1:]] or NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            kept = as_kept(executed(path, Path(folder), {}), Path(folder))
        path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
