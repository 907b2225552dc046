"""The part of an export that results do not contain."""

import re
from dataclasses import dataclass

from grue.errors import ConfigError
from grue.exchange.measured import Measured

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class Described:
    """What the user states about an export.

    Attributes:
        model: The model's id on the hub; empty if it has none.
        organization: Who evaluated.
        benchmark: The data set on the hub whose leaderboard the scores are for, with `@REVISION` if it matters; empty
            for the task's own data set.
        source_url: Address of outputs or logs.
    """

    model: str = ""
    organization: str = ""
    benchmark: str = ""
    source_url: str = ""

    def dataset_of(self, measured: Measured) -> tuple[str, str] | None:
        """Return the data set of the scores and its revision, empty if unknown; None if there is no data set."""
        if self.benchmark:
            name, _, revision = self.benchmark.partition("@")
            if not HUB_ID.fullmatch(name):
                raise ConfigError(f"--benchmark {self.benchmark!r}: write OWNER/NAME or OWNER/NAME@REVISION.")
            return name, revision
        return measured.hub_data
