"""The front matter of a model card, read as the hub's library reads it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from grue import files
from grue.errors import DataError, escaped


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
