"""Unpacking an archive by `zipfile` and by tarfile's filter for data: nothing is written outside the folder."""

import errno
import shutil
import tarfile
from pathlib import Path
from zipfile import ZipFile

from grue.data.archives import DAMAGED
from grue.data.cache import translate_disk_errors
from grue.errors import DataError, escaped

TARS = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
DAMAGE = (None, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL)
"""Numbers of system errors that archives cause; errors of gzip and bz2 have none."""


class DamagedArchive(DataError):
    """A file that cannot be unpacked as the archive that its name indicates."""

    def __init__(self, archive: Path, reason: str) -> None:
        super().__init__(f"{archive}: the archive is damaged: {reason}. Delete it and fetch it again.")
        self.archive, self.reason = archive, reason


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar archive into a folder; any other file is copied there.

    Archives inside it stay packed: the readers of original layouts read zip files.

    Raises:
        DamagedArchive: It is damaged, or not an archive.
        DataError: A tar archive has a path or a link outside the folder. A zip archive's path is cut to the inside.
    """
    name = archive.name.lower()
    with translate_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if name.endswith(".zip"):
                with ZipFile(archive) as opened:
                    opened.extractall(folder)
            elif name.endswith(TARS):
                with tarfile.open(archive) as tar:
                    tar.extractall(folder, filter="data")
            else:
                shutil.copyfile(archive, folder / archive.name)
        except tarfile.FilterError as error:
            raise DataError(f"{archive}: refused: {escaped(error)}.") from error
        except (*DAMAGED, OSError) as error:
            if isinstance(error, OSError) and error.errno not in DAMAGE:
                raise
            raise DamagedArchive(archive, escaped(error) or type(error).__name__) from error
