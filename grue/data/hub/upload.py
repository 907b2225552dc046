"""Uploading files to a model's repository on the hub, in one commit, and the results in its card.

The token is that of `hf auth login` or HF_TOKEN. It is used only in the header of requests.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from grue import files
from grue.data.hub.errors import transport_error
from grue.errors import ConfigError, DataError, escaped

Content = Mapping[str, Path | bytes]
"""Path in the repository → a local file, or content."""
REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
HARMLESS = re.compile(r"\.gitattributes|\.gitignore|README\.md|LICENSE[\w.-]*|\.eval_results/.*")
"""Files that a repository may have and still count as empty."""
AGAIN = "Nothing was changed on this machine; rerun the command to continue."


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The outcome of an upload.

    Attributes:
        commit: Its newest commit.
        changed: Whether this upload made it; else all files were already there.
    """

    url: str
    commit: str
    changed: bool


def check_repository(name: str, endpoint: str) -> None:
    """Refuse an invalid repository name or hub address; a ConfigError if one is invalid."""
    if not REPOSITORY.fullmatch(name) or ".." in name or "--" in name or name.endswith((".git", ".ipynb")):
        raise ConfigError(f"{name!r} is not a repository name: write OWNER/NAME, in letters, digits and _ . -")
    if not endpoint:
        return
    address = urlsplit(endpoint)
    if address.scheme not in ("http", "https") or not address.hostname or "@" in address.netloc or address.query:
        raise ConfigError("The hub's address: write https://HOST, without a user or a token in it.")


def page_of(name: str, endpoint: str) -> str:
    """Return the address of a repository's page."""
    from huggingface_hub import constants

    return f"{(endpoint or str(constants.ENDPOINT)).rstrip('/')}/{name}"


def upload(
    name: str,
    content: Content,
    message: str,
    *,
    mark: str,
    listed: Callable[[bytes], Iterable[str]],
    endpoint: str,
    private: bool,
    force: bool,
) -> Uploaded:
    """Commit files to a model's repository, which is created if needed; unchanged files are not sent again.

    Args:
        name, endpoint: As `check_repository` accepts them; by default HF_ENDPOINT, or huggingface.co.
        mark: A file that shows that a repository holds an earlier upload.
        listed: From that file's content, the files of that upload; those that are not uploaded again are deleted.
        private: Whether a new repository is private; an existing one then must be, too.
        force: Commit to a repository that holds something else.

    Raises:
        ConfigError: There is no token or connection, or the repository is public or holds something else.
        DataError: The hub refuses the upload, or the commit lacks files.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token

    token = get_token()
    if token is None:
        raise ConfigError(
            f"No token for the hub, so {name} cannot be written: log in with `hf auth login`, or set HF_TOKEN to "
            "a token with write access."
        )
    api = HfApi(endpoint=endpoint.rstrip("/") or None, token=token)
    with _translate_errors(name, token):
        before = _get_or_create(api, name, private)
        held = _held(api, name, before)
        foreign = sorted(path for path in held if not HARMLESS.fullmatch(path))
        if foreign and mark not in held and not force:
            shown = escaped(", ".join(foreign[:3])) + (", …" if len(foreign) > 3 else "")
            raise ConfigError(
                f"{name} holds something else ({shown}) and no checkpoint of grue: nothing was sent. Choose another "
                "name; --force adds the checkpoint to what is there."
            )
        earlier: set[str] = set()
        if mark in held:
            earlier.update(listed(Path(api.hf_hub_download(name, mark, revision=before)).read_bytes()))
        operations: list[Any] = [CommitOperationAdd(path, str(source) if isinstance(source, Path) else source)
                                 for path, source in content.items()]  # fmt: skip
        stale = sorted(path for path in earlier & held.keys() if path not in content)
        operations += [CommitOperationDelete(path) for path in stale]
        commit = str(api.create_commit(name, operations, commit_message=message, parent_commit=before).oid)
        made = _held(api, name, commit)
    lacking = [path for path, size in sizes_of(content).items() if path not in made or made[path].size != size]
    if lacking:
        raise DataError(
            f"{name}: the commit {commit[:12]} lacks {escaped(', '.join(lacking[:3]))} or has other content there: "
            "a .gitignore of the repository may exclude it. Correct that on the hub, and push again."
        )
    return Uploaded(page_of(name, endpoint), commit, commit != before)


def _get_or_create(api: Any, name: str, private: bool) -> str:
    """Return the newest commit of a repository, which is created if needed."""
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        info = api.model_info(name, timeout=30)
    except RepositoryNotFoundError:
        api.create_repo(name, private=private or None, exist_ok=True)
        info = api.model_info(name, timeout=30)
    if private and not info.private:
        raise ConfigError(
            f"{name} is public, but --private was given: nothing was sent. Make it private on the hub, choose "
            "another name, or leave --private out."
        )
    return str(info.sha)


def _held(api: Any, name: str, commit: str) -> dict[str, Any]:
    from huggingface_hub.hf_api import RepoFile

    tree = api.list_repo_tree(name, revision=commit, recursive=True)
    return {file.path: file for file in tree if isinstance(file, RepoFile)}


def sizes_of(content: Content) -> dict[str, int]:
    """Return the bytes of each file, by path."""
    return {
        path: source.stat().st_size if isinstance(source, Path) else len(source)
        for path, source in sorted(content.items())
    }


@contextmanager
def _translate_errors(name: str, token: str) -> Iterator[None]:
    """Translate the errors of the hub's library, without showing the token."""
    from huggingface_hub import errors as hub

    def reason(error: BaseException) -> str:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return escaped(" ".join(lines).replace(token, "…").rstrip("."), 400) or type(error).__name__

    owner = name.partition("/")[0]
    try:
        yield
    except hub.OfflineModeIsEnabled as error:
        raise ConfigError(f"{name}: HF_HUB_OFFLINE is set, and a push needs a connection; unset it.") from error
    except hub.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 404) or isinstance(error, hub.RepositoryNotFoundError):
            cure = (
                f"the hub knows no such repository for this token: check the name and that {owner} is you or your "
                "organisation, and log in again with `hf auth login` if the token is old"
            )
        elif status == 403:
            cure = f"this token may not write there: it needs write access, and you must be {owner} or a member of it"
        elif status in (409, 412):
            cure = f"someone else has just changed it: {reason(error)}"
        else:
            cure = f"the hub answered {status}: {reason(error)}"
        raise DataError(f"{name}: {cure}. {AGAIN}") from error
    except (transport_error(), RuntimeError, OSError) as error:
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
        raise DataError(f"{name}: the upload was cut off: {reason(cause)}. {AGAIN}") from error
    except ValueError as error:
        raise DataError(f"{name}: the hub refuses it: {reason(error)}. {AGAIN}") from error


def with_results(text: str, name: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Return a model card with results added to its `model-index`; those of the same data and split are replaced.

    Args:
        text: The card.
        name: Of the model, if the card has no `model-index` yet.
        results: Entries of `model-index`.

    Raises:
        DataError: The hub cannot read the card's front matter.
    """
    from huggingface_hub import ModelCard

    try:
        card = ModelCard(text)
        data: Any = card.data  # the library declares no types here
        matter = json.loads(json.dumps(data.to_dict(), default=str, allow_nan=False))
    except Exception as error:  # of YAML, or whatever the library raises on an unexpected front matter
        raise DataError(f"README.md: the hub cannot read its front matter: {escaped(error)}.") from error
    index = matter.pop("model-index", None) or [{"name": name, "results": []}]
    new = {_of(entry) for entry in results}
    unchanged = [entry for entry in index[0]["results"] if _of(entry) not in new]
    index[0]["results"] = [*unchanged, *results]
    return f"---\n{files.yaml_text({**matter, 'model-index': index})}---\n{card.text.removeprefix(chr(10))}"


def _of(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    return entry["dataset"].get("name"), entry["dataset"].get("split")
