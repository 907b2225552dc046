"""Examples as rows of TRL, verl, OpenRLHF and verifiers, with the ids by which `grue.rewards` finds them.

Read in TRL 1.16.0 (`GRPOTrainer._calculate_rewards`), verl 0.9.1 (`RLHFDataset`, `NaiveRewardManager`), OpenRLHF 0.11.0
(`PromptDataset`) and verifiers 0.4.0 (`TaskData`).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from grue import files
from grue.data.cache import writing
from grue.data.examples import BATCH
from grue.data.export import check_ending
from grue.records import Example
from grue.tasks import Task

Row = Mapping[str, Any]

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


def export_for(trainer: str, task: Task, split: str, examples: Iterable[Example], path: Path, chat: bool) -> None:
    """Write a split's examples as a trainer reads them, to a `.jsonl` or a `.parquet` file.

    Args:
        trainer: A key of `COLUMNS`.
        chat: Whether a prompt is a conversation with one user message.

    Raises:
        ConfigError: The name has another ending.
        DataError: The file cannot be written.
    """
    check_ending(path)
    columns = COLUMNS[trainer].items()
    schema = pa.schema([(name, MESSAGES if chat and name in PROMPTS else kind) for name, kind in columns])
    rows = rows_for(trainer, task, split, examples, chat)
    with writing(path) as temporary:
        if path.suffix == ".parquet":
            with pq.ParquetWriter(temporary, schema) as writer:
                while part := list(islice(rows, BATCH)):
                    writer.write_table(pa.Table.from_pylist(part, schema))
            return
        with temporary.open("w", encoding="utf-8", newline="\n") as handle:
            handle.writelines(files.canonical_json(row) + "\n" for row in rows)


def rows_for(trainer: str, task: Task, split: str, examples: Iterable[Example], chat: bool) -> Iterator[Row]:
    """Yield a row for each example, with the trainer's columns in their order."""
    chat, name = chat or trainer == "verl", f"{task.suite}/{task.name}"
    for index, example in enumerate(examples):
        prompt = [{"role": "user", "content": example.prompt}] if chat else example.prompt
        references = list(example.references)
        values = {
            **dict.fromkeys(("id", "label"), example.id),
            **dict.fromkeys(("data_source", "datasource", "name"), name),
            **dict.fromkeys(PROMPTS, prompt),
            "references": references,
            "ability": task.name,
            "reward_model": {"style": "rule", "ground_truth": references},
            "extra_info": {"split": split, "index": index, "id": example.id},
        }
        yield {column: values[column] for column in COLUMNS[trainer]}
