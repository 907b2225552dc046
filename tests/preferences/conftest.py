import pytest


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A reward model's folder, which no test changes, and what it says of itself; backbone and pairs lie beside it."""
    from support import preferences

    return preferences.train(tmp_path_factory.mktemp("reward"))


@pytest.fixture(scope="session")
def second(trained):
    """Another reward model, of another seed."""
    from support import preferences

    return preferences.train(trained[0].parent, "second", seed=2)
