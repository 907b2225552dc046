import pytest
from support.browser import chromium


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where pages lie, and what they save."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="session")
def browser(folder):
    """One browser for all pages."""
    with chromium(folder) as started:
        yield started
