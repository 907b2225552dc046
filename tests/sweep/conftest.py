import pytest
from support.sweeps import end_all, start


@pytest.fixture
def sweeping():
    """Start sweeps in processes of their own, and leave nothing of them behind."""
    begun = []

    def begin(*command, **settings):
        begun.append(start(*command, **settings))
        return begun[-1]

    yield begin
    for process in begun:
        end_all(process)
