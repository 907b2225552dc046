"""`submissions/reviewed.toml`: what maintainers have looked at and accepted.

["mini/my-ppo".GRUE-S034]
manifest = "…"          # sha256 of the submission's MANIFEST.sha256: it holds for these files alone
by = "A. Maintainer"
date = "2026-01-31"
why = "…"
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grue.errors import ConfigError
from grue.files import read_toml, sha256_file
from grue.shapes import from_dict
from grue.submissions.folder import MANIFEST, place_of
from grue.submissions.problems import CHECKS, Problem
from grue.submissions.reading import refuse_strange

REVIEWED = "reviewed.toml"


@dataclass(frozen=True, slots=True)
class Review:
    """That a maintainer accepts what a check asks about."""

    manifest: str
    by: str
    date: str
    why: str


Reviews = Mapping[tuple[str, str], Review]
"""("<suite>/<system>", id of the check) → its review."""


def read_reviewed(folder: Path) -> Reviews:
    """Read the reviews in the folder `submissions/`; empty if it has none.

    Raises:
        ConfigError: The file has another shape, or names a check that needs no review.
        DataError: It is a link or no file.
    """
    path = folder / REVIEWED
    if not path.exists():
        return {}
    refuse_strange(path)
    return parse_reviewed(read_toml(path), str(path))


def parse_reviewed(tables: Mapping[str, Any], where: str) -> Reviews:
    """Return the reviews of a file's content; errors as in `read_reviewed`, which begin with `where`."""
    found = {}
    for system, checks in tables.items():
        if not isinstance(checks, Mapping):
            raise ConfigError(f"{where}: {system}: must be a table of checks.")
        for name, table in checks.items():
            if name not in CHECKS or CHECKS[name].severity != "review":
                raise ConfigError(f"{where}: {system}: {name} is not a check that asks for a review.")
            found[system, name] = from_dict(Review, table, f"{where}: {system}.{name}")
    return found


def accepted(problem: Problem, system: Path, reviews: Reviews) -> Problem:
    """Return a problem of a system; as a warning, if a maintainer has accepted it for these very files."""
    if problem.severity != "review":
        return problem
    manifest = system / MANIFEST
    seal = sha256_file(manifest) if manifest.is_file() and not manifest.is_symlink() else None
    review = reviews.get(("/".join(place_of(system).parts[-2:]), problem.id))
    if review is None or review.manifest != seal:
        return problem
    said = f"{problem.message} Accepted by {review.by}, {review.date}: {review.why}"
    return replace(problem, severity="warning", message=said)
