import json

import pytest

from grue import files

WORDS = "runs sits walks goes reads".split()


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Writes a task with further tables, whose splits are those given or all the same five rows, in the working folder."""
    monkeypatch.chdir(tmp_path)
    same = [{"id": f"r{n}", "prompt": f"a man {word}", "reference": f"{word} home"} for n, word in enumerate(WORDS)]
    files.write_jsonl(tmp_path / "rows.jsonl", same)

    def write(splits=None, **tables):
        for split, rows in (splits or {}).items():
            files.write_jsonl(tmp_path / f"{split}.jsonl", rows)
        every = dict.fromkeys(("train", "validation", "test"), "rows.jsonl")
        paths = {split: f"{split}.jsonl" for split in splits} if splits else every
        table = {
            "reward": "rouge1",
            "metrics": [{"name": "rouge1", "axis": "preference", "range": [0, 1]}],
            "data": {"sources": [{"kind": "local", "files": paths}]},
            "backbone": {"family": "causal", "model": "mini:causal"},
        }
        files.write_toml(tmp_path / "words.toml", table | tables)
        return tmp_path / "words.toml"

    return write


@pytest.fixture
def cut_off():
    """Leaves an evaluation as a kill after some lines of a file of answers does; returns what the file held."""

    def leave(folder, lines, name="predictions.jsonl"):
        whole, claim = (folder / name).read_bytes(), json.loads((folder / "evaluation.json").read_text())
        (folder / "result.json").unlink()
        claim.pop("sha256")  # which only a finished evaluation has
        (folder / "evaluation.json").write_text(json.dumps(claim))
        (folder / name).write_bytes(b"".join(whole.splitlines(keepends=True)[:lines])[:-3])
        return whole

    return leave
