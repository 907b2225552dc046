"""tools/mutations.py: each fault is one that the code can still have."""

import pytest
from mutations import MUTATIONS, mutated
from support.paths import ROOT


def test_a_fault_changes_one_line_and_its_tests_exist():
    for mutation in MUTATIONS:
        source = (ROOT / mutation.file).read_text(encoding="utf-8")
        lines = zip(source.splitlines(), mutated(source, mutation).splitlines(), strict=True)
        assert sum(before != after for before, after in lines) == 1, mutation.name
        assert all((ROOT / path).exists() for path in mutation.tests), mutation.name
    with pytest.raises(ValueError, match="0 times"):
        mutated("", MUTATIONS[0])
