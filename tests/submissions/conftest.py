import pytest
from support.late import late

good_submission = late("support.good_submission")


@pytest.fixture
def ours(tmp_path, monkeypatch):
    """A submission of five seeds without fault."""
    good_submission.use_few_examples(monkeypatch)
    return good_submission.write_good(tmp_path / "submissions/mini/ours")
