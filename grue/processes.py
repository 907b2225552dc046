"""Ending a process with its parent."""

import multiprocessing
import os
import threading


def exit_with_parent() -> None:
    """Make this process exit as soon as its parent, or the server that forked it, is gone."""
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent, server = multiprocessing.parent_process(), os.getppid()
    assert parent is not None
    while parent.is_alive() and os.getppid() == server:
        parent.join(timeout=1)
    os._exit(1)
