"""The command line in this process, and what it leaves in a folder."""

import torch
from click.testing import CliRunner

from grue.cli.main import main


def here(*command):
    """Run the command line on one thread, as in a process of its own: sums of floats depend on it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return CliRunner().invoke(main, list(command))
    finally:
        torch.set_num_threads(threads)


def contents(folder):
    """Every file below a folder: when it was written, and its bytes."""
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }
