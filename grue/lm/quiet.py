"""Silencing transformers' messages on the terminal; what they report is checked here."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers.utils import logging


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' progress bars and loading reports; `load_pretrained` checks what they report."""
    switches: Any = logging
    verbosity, bars = switches.get_verbosity(), switches.is_progress_bar_enabled()
    switches.set_verbosity_error()
    switches.disable_progress_bar()
    try:
        yield
    finally:
        switches.set_verbosity(verbosity)
        if bars:
            switches.enable_progress_bar()
