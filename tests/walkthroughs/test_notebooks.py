"""docs/notebooks run as they stand, with less work."""

import pytest
from run_notebooks import NOTEBOOKS, as_kept, executed

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # of the kernel's libraries
def test_every_cell_runs(path, tmp_path):
    assert len(NOTEBOOKS) == 2
    done = executed(path, tmp_path, {"NOTEBOOK_QUICK": "1"})
    assert as_kept(done, tmp_path)["cells"]
