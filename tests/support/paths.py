"""Where the checkout, its tests and the real data are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
REAL = ROOT.parent / "shared" / "data"
"""Samples of the real data sets, if there are any beside the checkout; the tests that need them skip otherwise."""
