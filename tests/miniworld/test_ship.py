"""`python -m miniworld rows` draws the rows that ship; the training texts of the models are frozen."""

import gzip
import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from grue.mini.manifest import HERE
from miniworld import pairs, text, wmt16
from miniworld.__main__ import main
from miniworld.chance import Dice

# The first 16 digits of the sha256 of the first 300 texts of seed 1: what the small models are trained on.
TEXTS = {
    "paragraphs": "484b862c90544021",
    "reviews": "91a7246a4cad5c9f",
    "german": "cfc45cc0e0dcc328",
    "translations": "df6e48f8b36c4b39",
    "acts": "0798f0c02d01660c",
    "claims": "c614e18c1775e7e6",
    "likenesses": "c0cecb727beffe93",
}


def digest(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def miniworld(*arguments: object) -> str:
    result = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stderr


def shipped() -> dict[str, Path]:
    return {str(path.relative_to(HERE)): path for path in (HERE / "rows").rglob("*.jsonl.gz")}


def test_the_command_draws_the_rows_that_ship_byte_for_byte(tmp_path: Path) -> None:
    """Each test process has a hash seed of its own, which must not matter."""
    shutil.copy(HERE / "manifest.json", tmp_path)
    lines = miniworld("rows", "--out", tmp_path).splitlines()
    assert lines[3] == "imdb: 8000 train, 500 validation, 1000 test" and len(lines) == 7
    assert len(shipped()) == 21
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.gz")} == shipped().keys()
    for name, path in shipped().items():
        assert gzip.decompress((tmp_path / name).read_bytes()) == gzip.decompress(path.read_bytes()), name
    assert (tmp_path / "manifest.json").read_bytes() == (HERE / "manifest.json").read_bytes()


def test_rows_that_are_drawn_later_are_packed_alike(tmp_path: Path) -> None:
    packed = []
    for now in (1.0, 2e9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("time.time", lambda now=now: now)
            miniworld("rows", "--only", "wmt16", "--out", tmp_path)
        packed.append({path.name: path.read_bytes() for path in tmp_path.rglob("*.gz")})
    assert packed[0] == packed[1] and packed[0].keys() == {"train.jsonl.gz", "validation.jsonl.gz", "test.jsonl.gz"}


def test_drawing_one_task_leaves_the_others_and_the_models(tmp_path: Path) -> None:
    before = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    changed = json.loads(json.dumps(before))
    changed["rows"]["imdb"]["splits"]["test"] = {"rows": 1, "sha256": "0"}
    changed["rows"]["wmt16"]["splits"]["test"] = {"rows": 1, "sha256": "0"}
    (tmp_path / "manifest.json").write_text(json.dumps(changed), encoding="utf-8")
    assert miniworld("rows", "--only", "imdb", "--out", tmp_path) == "imdb: 8000 train, 500 validation, 1000 test\n"
    after = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert after["models"] == before["models"]
    assert after["rows"]["wmt16"]["splits"]["test"]["rows"] == 1
    after["rows"]["wmt16"] = before["rows"]["wmt16"]
    assert after == before


@pytest.mark.parametrize(("what", "name"), [("rows", "imbd"), ("models", "sentimental")])
def test_an_unknown_name_is_refused_before_anything_is_drawn(what: str, name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [what, "--only", name, "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert f"Invalid value for '--only': {name!r} is not one of " in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("kind", "expected"), TEXTS.items())
def test_training_texts_are_frozen_and_depend_on_the_seed_alone(kind: str, expected: str) -> None:
    draw = getattr(text, kind)
    drawn = draw(300, seed=1)
    assert digest(drawn) == expected
    assert draw(100, seed=1) == drawn[:100] != draw(100, seed=2)


@pytest.mark.parametrize(
    ("near_miss", "expected"), [(pairs.near_miss, "31e026a277924331"), (wmt16.near_miss, "45cc615e2983393e")]
)
def test_near_misses_are_frozen(near_miss: Callable[[Dice, str], tuple[str, str, str]], expected: str) -> None:
    dice = Dice(1)
    assert digest([near_miss(dice, "2") for _ in range(200)]) == expected
