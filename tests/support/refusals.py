"""What tests of errors share: class and exit code stand in the test, the message in a snapshot file that is reviewed as a diff.

`pytest --snapshot-update` writes the messages anew.
"""

import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import ROOT
from syrupy.extensions.amber import AmberSnapshotExtension


class Messages(AmberSnapshotExtension):
    """One file of messages a folder of tests."""

    @classmethod
    def get_file_basename(cls, *, test_location, index):
        return "messages"

    @classmethod
    def get_snapshot_name(cls, *, test_location, index=0):
        name = super().get_snapshot_name(test_location=test_location, index=index)
        return f"{name} in {Path(test_location.filepath).stem}"

    @classmethod
    def matches_test_location(cls, *, test_location, snapshot_location):
        return Path(test_location.filepath).parent == Path(snapshot_location).parent.parent


class Refused:
    """The fixture `refused`."""

    def __init__(self, snapshot, temporary):
        self._snapshot = snapshot
        self._paths = re.compile(rf"{re.escape(str(temporary))}/[^/\s'\"]+?\d+(?=\W|$)")

    @contextmanager
    def __call__(self, error, **attributes):
        """Expect an error of just this class, whose message is the snapshot's; further attributes are compared, too."""
        with pytest.raises(error) as caught:
            yield caught
        assert caught.type is error
        for name, value in attributes.items():
            assert getattr(caught.value, name) == value, name
        self.message(str(caught.value))

    def command(self, *arguments, code, **environment):
        """Expect a command of `grue` to print an error on stderr, nothing on stdout, and to leave with this code."""
        from grue.cli.main import main

        given = [str(argument) for argument in arguments]
        result = CliRunner().invoke(main, given, env=environment, prog_name="grue")
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        self.message(result.stderr[result.stderr.rindex("Error: ") :].rstrip())

    def message(self, text):
        """Expect a message, which holds for every machine: paths and ports of this one are cut out."""
        text = re.sub(r"(?<=://127\.0\.0\.1:)\d{4,}", "<port>", self._paths.sub("<tmp>", text))
        assert text.replace(str(ROOT), "<root>") == self._snapshot
