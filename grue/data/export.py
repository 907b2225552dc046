"""Examples for other systems, as a data set of the library `datasets` or as a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grue import files
from grue.data.cache import writing
from grue.data.examples import ExampleFile, record_of
from grue.errors import ConfigError
from grue.records import Example

if TYPE_CHECKING:
    from datasets import Dataset


def as_dataset(examples: Sequence[Example]) -> "Dataset":
    """Return examples as a `datasets.Dataset` with the columns id, prompt, references and meta (JSON, or None).

    Memory-mapped examples stay memory-mapped.
    """
    import datasets

    if isinstance(examples, ExampleFile):
        return datasets.Dataset(examples.table())
    return datasets.Dataset.from_list([record_of(example) for example in examples])


def export(examples: Sequence[Example], path: Path, prompts_only: bool = False) -> None:
    """Write examples to a `.jsonl` file, one per line as `grue score --examples` reads them, or to a `.parquet` file.

    Raises:
        ConfigError: The name has another ending.
        DataError: The file cannot be written.
    """
    check_ending(path)
    with writing(path) as temporary:
        if path.suffix == ".parquet":
            rows = as_dataset(examples)
            (rows.select_columns(["id", "prompt"]) if prompts_only else rows).to_parquet(str(temporary))
            return
        with temporary.open("w", encoding="utf-8", newline="\n") as handle:
            written = ({"id": each.id, "prompt": each.prompt} if prompts_only else each for each in examples)
            handle.writelines(files.canonical_json(row) + "\n" for row in written)


def check_ending(path: Path) -> None:
    """Refuse a file that is neither `.jsonl` nor `.parquet`.

    Raises:
        ConfigError: The name has another ending.
    """
    if path.suffix not in (".jsonl", ".parquet"):
        raise ConfigError(f"{path}: unknown file type; use a name that ends in .jsonl or .parquet.")
