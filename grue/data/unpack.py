"""Unpacking an archive that is not trusted, by `zipfile` and by tarfile's filter for data.

What leads out of the folder is an error, and so is an archive that unpacks to far more than data does.
"""

import errno
import shutil
import tarfile
from pathlib import Path

from grue.data.cache import translate_disk_errors
from grue.data.limits import DAMAGED, check_count, check_ratio, open_zip
from grue.errors import DataError, escaped

TARS = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
DAMAGE = (None, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL)
"""Numbers of the system's errors that an archive causes; those that gzip and bz2 raise have none."""


class DamagedArchive(DataError):
    """What cannot be unpacked as the archive that its name says it is."""

    def __init__(self, archive: Path, reason: str) -> None:
        super().__init__(f"{archive}: the archive is damaged: {reason}. Delete it and fetch it again.")
        self.archive, self.reason = archive, reason


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar archive into a folder; any other file is copied there.

    Archives within it stay packed: the readers of original layouts look into zip files.

    Raises:
        DamagedArchive: It is damaged, or none.
        DataError: It contains paths or links outside the folder, or unpacks to more than data does.
    """
    name = archive.name.lower()
    with translate_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if name.endswith(".zip"):
                _unzip(archive, folder)
            elif name.endswith(TARS):
                _untar(archive, folder)
            else:
                shutil.copyfile(archive, folder / archive.name)
        except tarfile.FilterError as error:
            raise DataError(f"{archive}: refused: {escaped(error)}.") from error
        except (*DAMAGED, OSError) as error:
            if isinstance(error, OSError) and error.errno not in DAMAGE:
                raise
            raise DamagedArchive(archive, escaped(error) or type(error).__name__) from error


def _unzip(archive: Path, folder: Path) -> None:
    with open_zip(archive, archive) as opened:
        for name in opened.namelist():
            _check_inside(archive, folder, name)
        opened.extractall(folder)


def _untar(archive: Path, folder: Path) -> None:
    unpacked = 0
    with tarfile.open(archive) as opened:
        for number, member in enumerate(opened, start=1):
            unpacked += member.size
            check_count(archive, number)
            check_ratio(archive, unpacked, archive.stat().st_size)
            _check_inside(archive, folder, member.name)
            opened.extract(member, folder, filter="data")


def _check_inside(archive: Path, folder: Path, name: str) -> None:
    inside = folder.resolve()
    if not (inside / name.replace("\\", "/")).resolve().is_relative_to(inside):
        raise DataError(f"{archive}: refused: it contains {name!r:.80}, a path outside its folder.")
