"""The data sets by name: the files of `grue/data/sets`, and the formats of installed plug-ins.

A format reads all rows of a split at once, since some data sets spread an example over several rows. It reads the
hub's columns and those of the original files, and gives equal texts equal ids in both. All but CommonGen's stream the
rows, so that millions of them need no memory.
"""

import pkgutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from grue.data import sets
from grue.data.rows import Row
from grue.errors import DataError
from grue.records import Example
from grue.registry import Registry

if TYPE_CHECKING:
    from grue.data.archives import FolderRows

Format = Callable[[Iterable[Row]], Iterator[Example]]
Layout = Callable[[Path, str], "FolderRows"]

_FILES = {info.name: f"{sets.__name__}.{info.name}" for info in pkgutil.iter_modules(sets.__path__)}

FORMATS: Registry[Format] = Registry(
    "data format",
    modules={name: f"{module}:examples" for name, module in _FILES.items()},
    entry_points="grue.data.formats",
    functions=True,
)
LAYOUTS: Registry[Layout] = Registry(
    "data layout", modules={name: f"{module}:read_folder" for name, module in _FILES.items()}
)


def read_folder(layout: str, folder: Path, split: str) -> "FolderRows":
    """Return the rows of a split in a folder in a data set's original layout.

    A reader finds its files in the folder, in folders below it and in zip archives there; if several levels have the
    split, the nearest is read. Rows have the columns of the hub or of the original files.

    Raises:
        UnknownName: There is no such layout.
        DataError: The folder does not exist or has no such split; while the rows are read, a file is damaged.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; give --data-dir the folder of the original data.")
    try:
        return LAYOUTS[layout](folder, split)
    except DataError as error:
        from grue.data.archives import TARS

        packed = sorted(path.name for path in folder.glob("*") if path.name.endswith(TARS))
        if packed:
            raise DataError(f"{error} Only zip archives are looked into: unpack {packed[0]} first.") from error
        raise
