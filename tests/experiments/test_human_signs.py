"""The paper's human study beside its own Table 2, as docs/reference/reported.md shows it."""

import pytest
from support.late import late
from support.paths import ROOT

signs = late("human_signs")


def test_differences_by_hand_from_the_printed_means():
    # Table 9: NLPO without KL 3.16 and 4.41, Supervised 3.51 and 3.43. Table 34: NLPO 4.18 and 3.35, Supervised 3.96, 3.59.
    imdb, dialog = (signs.gaps(task, "RL > Sup") for task in ("imdb", "dailydialog"))
    assert imdb == pytest.approx({"coherence": -0.35, "sentiment": 0.98, "mean": 0.315})
    assert dialog == pytest.approx({"coherence": 0.22, "quality": -0.24, "mean": -0.01})


def test_the_page_counts_what_agrees():
    lines = list(signs.table())
    page = (ROOT / "docs/reference/reported.md").read_text(encoding="utf-8")
    assert sum(line.endswith("| yes |") for line in lines) == 13 and "13 of the 15" in page
