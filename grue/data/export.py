"""Examples for other systems: a data set of the library `datasets`, a file, or the rows that another trainer reads.

Rows have the ids by which `grue.rewards` finds the examples, in the columns of TRL 1.16.0
(`GRPOTrainer._calculate_rewards`), verl 0.9.1 (`RLHFDataset`, `NaiveRewardManager`), OpenRLHF 0.11.0 (`PromptDataset`)
and verifiers 0.4.0 (`TaskData`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from grue import files
from grue.data.cache import writing
from grue.data.examples import BATCH, ExampleFile, record_of
from grue.errors import ConfigError
from grue.records import Example
from grue.tasks import Task

if TYPE_CHECKING:
    from datasets import Dataset

TEXT, TEXTS = pa.string(), pa.list_(pa.string())
MESSAGES = pa.list_(pa.struct({"role": TEXT, "content": TEXT}))
RULE = pa.struct({"style": TEXT, "ground_truth": TEXTS})
EXTRA = pa.struct({"split": TEXT, "index": pa.int64(), "id": TEXT})

COLUMNS: Mapping[str, Mapping[str, pa.DataType]] = {
    "trl": {"id": TEXT, "data_source": TEXT, "prompt": TEXT, "references": TEXTS},
    "verl": {"data_source": TEXT, "prompt": MESSAGES, "ability": TEXT, "reward_model": RULE, "extra_info": EXTRA},
    "openrlhf": {"input": TEXT, "label": TEXT, "datasource": TEXT},
    "verifiers": {"id": TEXT, "name": TEXT, "prompt": TEXT, "references": TEXTS},
}
"""Trainer → its columns; a prompt is text unless conversations are requested, which verl always reads."""
PROMPTS = ("prompt", "input")
Ask = Callable[[str], object]


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
    if _is_parquet(path):
        rows = as_dataset(examples)
        with writing(path) as temporary:
            (rows.select_columns(["id", "prompt"]) if prompts_only else rows).to_parquet(str(temporary))
    else:
        _write_lines(path, ({"id": each.id, "prompt": each.prompt} if prompts_only else each for each in examples))


def export_for(
    trainer: str, task: Task, split: str, examples: Iterable[Example], path: Path, ask: Ask | None = None
) -> None:
    """Write a split's examples as a trainer reads them, to a `.jsonl` or a `.parquet` file.

    Args:
        trainer: A key of `COLUMNS`.
        ask: Prompt → the conversation that is written instead. [default: the prompt; for verl as the user's message]

    Raises:
        ConfigError: The name has another ending.
        DataError: The file cannot be written.
    """
    rows = _rows_for(trainer, task, split, examples, ask or (_said if trainer == "verl" else str))
    if not _is_parquet(path):
        return _write_lines(path, rows)
    columns = COLUMNS[trainer].items()
    schema = pa.schema([(name, MESSAGES if ask and name in PROMPTS else kind) for name, kind in columns])
    with writing(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        while part := list(islice(rows, BATCH)):
            writer.write_table(pa.Table.from_pylist(part, schema))


def _rows_for(trainer: str, task: Task, split: str, examples: Iterable[Example], ask: Ask) -> Iterator[Any]:
    """Yield a row for each example, with the trainer's columns in their order."""
    for index, example in enumerate(examples):
        references = list(example.references)
        values = {
            **dict.fromkeys(("id", "label"), example.id),
            **dict.fromkeys(("data_source", "datasource", "name"), f"{task.suite}/{task.name}"),
            **dict.fromkeys(PROMPTS, ask(example.prompt)),
            "references": references,
            "ability": task.name,
            "reward_model": {"style": "rule", "ground_truth": references},
            "extra_info": {"split": split, "index": index, "id": example.id},
        }
        yield {column: values[column] for column in COLUMNS[trainer]}


def _said(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]


def _is_parquet(path: Path) -> bool:
    if path.suffix not in (".jsonl", ".parquet"):
        raise ConfigError(f"{path}: unknown file type; use a name that ends in .jsonl or .parquet.")
    return path.suffix == ".parquet"


def _write_lines(path: Path, rows: Iterable[Any]) -> None:
    with writing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as handle:
        handle.writelines(files.canonical_json(row) + "\n" for row in rows)
