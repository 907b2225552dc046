"""tools/frozen.py: tests of what is frozen are left out only while nothing that they read has changed."""

import frozen
import pytest


@pytest.fixture
def house(tmp_path, monkeypatch):
    for name in "tests/world/test_a.py tests/support/b.py world/a.py world/deep/b.toml other/c.py page.md".split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(frozen, "ROOT", tmp_path)
    monkeypatch.setattr(frozen, "RECORD", tmp_path / "frozen.json")
    monkeypatch.setattr(frozen, "READ", {"world": ("world", "*.md")})
    monkeypatch.setattr(frozen, "SHARED", ("tests/support",))
    monkeypatch.setattr("sys.argv", ["frozen.py", "--passed"])
    assert frozen.unchanged() == []
    frozen.main()
    assert frozen.unchanged() == ["world"]
    return tmp_path


@pytest.mark.parametrize("name", ["tests/world/test_a.py", "tests/support/b.py", "world/deep/b.toml", "world/new"])
def test_whatever_changes_of_what_is_read_brings_the_tests_back(house, name):
    (house / name).write_text("other")
    assert frozen.unchanged() == []


def test_a_file_that_is_moved_or_removed_counts_and_one_that_is_not_read_does_not(house):
    (house / "other/c.py").write_text("other")
    (house / "world/__pycache__").mkdir()
    (house / "world/__pycache__/a.pyc").write_text("compiled")
    assert frozen.unchanged() == ["world"]
    (house / "world/a.py").rename(house / "world/b.py")
    assert frozen.unchanged() == []
    (house / "world/b.py").rename(house / "world/a.py")
    assert frozen.unchanged() == ["world"]
    (house / "page.md").unlink()
    assert frozen.unchanged() == []


def test_every_folder_that_is_left_out_has_tests_and_reads_something():
    for name, patterns in frozen.READ.items():
        assert list((frozen.ROOT / "tests" / name).glob("test_*.py"))
        assert all(list(frozen.ROOT.glob(pattern)) for pattern in (*frozen.SHARED, *patterns)), name
