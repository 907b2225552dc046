"""DailyDialog's official files, small, and a task that has them as its only source."""

import dataclasses
import io
import zipfile

from support.hub_server import row

from grue.tasks import Source


def from_files(task, url, sha256=""):
    """The task with official files as its only source."""
    source = Source("files", task.data.format, urls=(url,), sha256={url: sha256} if sha256 else {})
    return dataclasses.replace(task, data=dataclasses.replace(task.data, sources=(source,)))


def zipped(files, method=zipfile.ZIP_STORED):
    """Return a zip archive, the same at any time."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return sink.getvalue()


def dialogues(split):
    rows = [row("dailydialog", split, number) for number in range(3)]
    lines = {
        "dialogues": [" __eou__ ".join(each["dialog"]) + " __eou__" for each in rows],
        "dialogues_act": [" ".join(map(str, each["act"])) for each in rows],
        "dialogues_emotion": [" ".join(map(str, each["emotion"])) for each in rows],
    }
    return zipped({f"{split}/{kind}_{split}.txt": "\n".join(each) + "\n" for kind, each in lines.items()})


OFFICIAL = zipped({f"ijcnlp_dailydialog/{split}.zip": dialogues(split) for split in ("train", "validation", "test")})
