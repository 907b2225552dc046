"""The command line in this process, and what it leaves in a folder."""

import json

from click.testing import CliRunner

from grue.cli.main import main

SETTINGS = {
    **{"gae_lambda": 0.95, "updates": 4, "rollouts": 8, "minibatch_size": 8, "epochs": 1, "validation_examples": 8},
    **{"validate_every": 2, "save_every": 1, "keep": "best", "learning_rate": 3e-3},
    **{"kl_coefficient": 0.001, "kl_target": 0.5},
}


def grue(*arguments, code=0, **environment):
    """Run a command that must end with this code, if one is given, and no traceback; return what it printed."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], env=environment, prog_name="grue")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert code in (None, result.exit_code), result.output
    return result


def printed_json(*arguments, **environment):
    return json.loads(grue(*arguments, "--json", **environment).stdout)


def train_command(runs, **changes):
    """The command of a short run on the data that are shipped, with some settings changed."""
    values = [part for key, value in {**SETTINGS, **changes}.items() for part in ("--set", f"{key}={value}")]
    return ["train", "--task", "imdb", "--algo", "ppo", "--runs", str(runs), *values]


def run_folder(runs):
    """The folder of that run."""
    return runs / "mini" / "imdb" / "ppo" / "seed-1"


def here(*command):
    """Run the command line on one thread, as in a process of its own: sums of floats depend on it."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return CliRunner().invoke(main, list(command))
    finally:
        torch.set_num_threads(threads)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def edit(path, *changes):
    """Replace texts by others in a file, each at its first place; the file must have them."""
    text = path.read_text(encoding="utf-8")
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after, 1)
    path.write_text(text, encoding="utf-8")


def contents(folder):
    """Every file below a folder: when it was written, and its bytes."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder): (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}
