"""A small hub on 127.0.0.1: as much of the Hugging Face hub's API as its client needs, with faults on demand."""

import base64
import dataclasses
import hashlib
import io
import json
import random
import re
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
from support.listening import listening
from support.paths import ROOT

from grue.task_files import load_task

HEAD_COMMIT = "1" * 40
CONVERTED = "2" * 40  # the commit of refs/convert/parquet


@dataclass
class Fault:
    """What happens to the next `times` requests whose path matches.

    Attributes:
        status, headers: Answered instead of the file.
        keep: Only this share of the body is sent; then the connection is dropped.
        truncate: This many bytes are missing at the end, and the server does not know it.
        gate: Waited for before the connection is dropped.
    """

    path: str
    method: str = "GET"
    times: int = 1
    status: int = 0
    headers: dict = field(default_factory=dict)
    keep: float = 1.0
    truncate: int = 0
    gate: threading.Event | None = None


@dataclass
class Hub:
    """Repositories and plain files by path, the faults to come, and what was served."""

    address: str = ""
    files: dict = field(default_factory=dict)  # (kind, repository, commit) → path → bytes
    plain: dict = field(default_factory=dict)  # path → bytes: files that no repository has
    revisions: dict = field(default_factory=dict)  # (kind, repository) → branch → commit
    tokens: dict = field(default_factory=dict)  # token → owners that it may write to
    stored: dict = field(default_factory=dict)  # sha256 → bytes: large files that were sent
    private: set = field(default_factory=set)  # names of models
    ignored: str = ""  # pattern of what a .gitignore leaves out
    headers: list = field(default_factory=list)  # (method, path, Authorization)
    faults: list = field(default_factory=list)
    served: Counter = field(default_factory=Counter)  # path → bytes of bodies
    requests: list = field(default_factory=list)  # (method, path, Range)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind, name, content, branch="main", commit=HEAD_COMMIT):
        """Put files into a repository, on a branch whose commit they are."""
        self.files.setdefault((kind, name, commit), {}).update(content)
        self.revisions.setdefault((kind, name), {})[branch] = commit

    def bytes_of(self, pattern):
        return sum(size for path, size in self.served.items() if re.search(pattern, path))

    def fault_for(self, method, path):
        with self.lock:
            for fault in self.faults:
                if fault.times > 0 and fault.method == method and re.search(fault.path, path):
                    fault.times -= 1
                    return fault
        return None


@contextmanager
def serving() -> Iterator[Hub]:
    """Serve an empty hub as long as the block runs."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        do_HEAD = do_GET = lambda self: respond(hub, self)
        do_POST = do_PUT = lambda self: receive(hub, self)

    with listening(Handler) as hub.address:
        yield hub


def received(hub, request):
    """Note a request; return its path, its authorization, and the fault that it meets."""
    path, authorization = urllib.parse.unquote(request.path.partition("?")[0]), request.headers.get("Authorization")
    with hub.lock:
        hub.requests.append((request.command, path, request.headers.get("Range")))
        hub.headers.append((request.command, path, authorization))
    return path, authorization, hub.fault_for(request.command, path)


def respond(hub, request):
    path, _, fault = received(hub, request)
    if fault is not None and fault.status:
        return send(hub, request, fault.status, b"", fault.headers)
    if path in hub.plain:
        return send_file(hub, request, hub.plain[path], {"ETag": f'"{sha1(hub.plain[path])}"'}, fault)
    if match := re.fullmatch(r"/api/(datasets|models)/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", path):
        kind, name, what, revision = match.groups()
        return send_api(hub, request, kind, name, what, revision or "main")
    if match := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/(refs/convert/parquet|[^/]+)/(.+)", path):
        kind = "datasets" if match[1] else "models"
        commit = commit_of(hub, kind, match[2], match[3])
        content = hub.files.get((kind, match[2], commit), {}).get(match[4]) if commit else None
        if content is None:
            code = "EntryNotFound" if commit else "RevisionNotFound"
            return send(hub, request, 404, b"", {"X-Error-Code": code, "X-Repo-Commit": commit or ""})
        tag = sha256(content)
        headers = {"ETag": f'"{tag}"', "X-Linked-Etag": f'"{tag}"', "X-Linked-Size": str(len(content))}
        return send_file(hub, request, content, {**headers, "X-Repo-Commit": commit}, fault)
    return send(hub, request, 404, b"", {"X-Error-Code": "RepoNotFound"})


def commit_of(hub, kind, name, revision):
    known = hub.revisions.get((kind, name), {})
    return revision if revision in known.values() else known.get(revision)


def send_api(hub, request, kind, name, what, revision):
    if (kind, name) not in hub.revisions:
        return send(hub, request, 401, b'{"error":"Repository not found"}', {"X-Error-Code": "RepoNotFound"})
    commit = commit_of(hub, kind, name, revision)
    if commit is None:
        return send(hub, request, 404, b"", {"X-Error-Code": "RevisionNotFound"})
    content = hub.files[kind, name, commit]
    if what == "tree":
        answer = [
            {
                "type": "file", "path": path, "size": len(data), "oid": sha1(data),
                "lfs": {"oid": sha256(data), "size": len(data), "pointerSize": 130},
            }
            for path, data in content.items()
        ]  # fmt: skip
    else:
        siblings = [{"rfilename": path} for path in content]
        private = kind == "models" and name in hub.private
        answer = {"id": name, "_id": "0", "sha": commit, "siblings": siblings, "tags": [], "private": private}
    return send(hub, request, 200, json.dumps(answer).encode(), {"Content-Type": "application/json"})


# --- writing: what huggingface_hub sends to make a repository and to commit to it -------------------------------------

LARGE = (".safetensors",)  # what goes by LFS


def receive(hub, request):
    """Answer a request that writes."""
    body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
    if request.headers.get("Transfer-Encoding") == "chunked":
        body = b"".join(iter(lambda: chunk_of(request), b""))
    path, authorization, fault = received(hub, request)
    if fault is not None:
        return send(hub, request, fault.status, b"", fault.headers)
    if match := re.fullmatch(r"/stored/([0-9a-f]{64})", path):
        assert sha256(body) == match[1] and authorization is None, "large files are sent without the token"
        hub.stored[match[1]] = body
        return answer(hub, request, {})
    if path == "/api/validate-yaml":
        return answer(hub, request, {"errors": [], "warnings": []})
    owners = hub.tokens.get((authorization or "").removeprefix("Bearer "))
    if owners is None:
        refused = {"X-Error-Message": "Invalid credentials in Authorization header"}
        return answer(hub, request, {"error": f"no such token: {authorization}"}, 401, refused)
    asked = [json.loads(line) for line in body.split(b"\n") if line.strip()]
    if path == "/api/repos/create":
        owner, name = asked[0]["organization"], asked[0]["name"]
        if owner not in owners:
            return answer(hub, request, {"error": "You don't have the rights to create a model there"}, 403)
        hub.add("models", f"{owner}/{name}", {".gitattributes": b"*.safetensors filter=lfs\n"})
        hub.private |= {f"{owner}/{name}"} if asked[0].get("visibility") == "private" else set()
        return answer(hub, request, {"url": f"{hub.address}/{owner}/{name}", "id": "0", "name": f"{owner}/{name}"})
    match = re.fullmatch(
        r"/(?:api/models/)?([^/]+/[^/.]+)(?:/(preupload|commit)/main|\.git/info/lfs/objects/batch)", path
    )
    if match is None:
        return answer(hub, request, {"error": f"nothing at {path}"}, 404)
    if match[1].partition("/")[0] not in owners:
        return answer(hub, request, {"error": "this token may not write"}, 403)
    verb = {"preupload": preupload, "commit": commit, None: batch}[match[2]]
    return verb(hub, request, match[1], asked)


def chunk_of(request):
    """Read a chunk of a body that comes in chunks."""
    size = int(request.rfile.readline(), 16)
    content = request.rfile.read(size)
    request.rfile.readline()
    return content


def answer(hub, request, found, status=200, headers=None):
    headers = {"Content-Type": "application/json", **(headers or {})}
    return send(hub, request, status, json.dumps(found).encode(), headers)


def preupload(hub, request, name, asked):
    """Say how each file is to be sent, and what the repository has of it."""
    held = hub.files["models", name, commit_of(hub, "models", name, "main")]
    files = []
    for one in asked[0]["files"]:
        path, large = one["path"], one["path"].endswith(LARGE)
        known = held.get(path)
        oid = None if known is None else sha256(known) if large else sha1(b"blob %d\0" % len(known) + known)
        ignored = bool(hub.ignored and re.search(hub.ignored, path))
        files.append({"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": ignored, "oid": oid})
    return answer(hub, request, {"files": files})


def batch(hub, request, name, asked):
    """Say where each large file is to be put, unless it is there."""
    found = []
    for one in asked[0]["objects"]:
        place = {"upload": {"href": f"{hub.address}/stored/{one['oid']}", "header": {}}}
        found.append({**one, **({} if one["oid"] in hub.stored else {"actions": place})})
    return answer(hub, request, {"transfer": "basic", "objects": found})


def commit(hub, request, name, asked):
    """Make a commit of the files that were sent and of those that were there."""
    before = commit_of(hub, "models", name, "main")
    held = dict(hub.files["models", name, before])
    for line in asked:
        value = line["value"]
        if line["key"] == "header" and value.get("parentCommit") not in (None, before):
            return answer(hub, request, {"error": "A commit has happened since."}, 412)
        if line["key"] == "file":
            held[value["path"]] = base64.b64decode(value["content"])
        elif line["key"] == "lfsFile":
            held[value["path"]] = hub.stored[value["oid"]]
        elif line["key"] == "deletedFile":
            del held[value["path"]]
    made = sha1(repr((before, sorted(held.items()))).encode())
    hub.files["models", name, made] = held
    hub.revisions["models", name]["main"] = made
    url = f"{hub.address}/{name}/commit/{made}"
    return answer(hub, request, {"success": True, "commitOid": made, "commitUrl": url})


def send_file(hub, request, content, headers, fault):
    if fault is not None and fault.truncate:
        content = content[: -fault.truncate]
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
    known = request.headers.get("If-Range", headers["ETag"]) == headers["ETag"]
    status, body, headers = 200, content, {**headers, "Accept-Ranges": "bytes"}
    if asked and known:
        first, last = int(asked[1]), min(int(asked[2] or len(content)), len(content) - 1)
        if first >= len(content):
            return send(hub, request, 416, b"", {"Content-Range": f"bytes */{len(content)}"})
        status, body = 206, content[first : last + 1]
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
    return send(hub, request, status, body, headers, fault)


def send(hub, request, status, body, headers, fault=None):
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    if request.command == "HEAD":
        return
    sent = body if fault is None else body[: int(len(body) * fault.keep)]
    with hub.lock:  # counted before they go: who has read them may ask at once
        hub.served[urllib.parse.unquote(request.path.partition("?")[0])] += len(sent)
    request.wfile.write(sent)
    if len(sent) < len(body):
        request.wfile.flush()
        if fault.gate is not None:
            fault.gate.wait(30)
        request.close_connection = True
        request.connection.shutdown(2)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def sha1(data):
    return hashlib.sha1(data).hexdigest()


# --- the seven data sets, as the hub has them -------------------------------------------------------------------------


def parquet(rows, **settings):
    """Return the bytes of a parquet file."""
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, **settings)
    return sink.getvalue()


def row(name, split, number):
    """Return one row of a data set, with the columns of the real one: a small text of its own in each split."""
    n = f"{split} {number}"
    if name == "imdb":
        return {"text": f"The film of {n} begins well and then it ends as it began", "label": number % 2}
    if name == "commongen":
        concepts = [f"dog{number}", f"ball{split}", "park"]
        return {"concept_set_idx": number, "concepts": concepts, "target": f"A dog finds a ball in the park of {n}."}
    if name == "cnn_dailymail":
        article = f"The town of {n} has a new bridge. It is red."
        return {"article": article, "highlights": f"{n}: bridge", "id": sha1(n.encode())}
    if name == "wmt16":
        return {"translation": {"de": f"Das Haus {n} ist rot.", "en": f"The house {n} is red."}}
    if name == "dailydialog":
        said = [f"Line {turn} of {n}, my friend." for turn in range(7)]
        return {"dialog": said, "act": [1, 2, 3, 4, 1, 2, 3], "emotion": [0, 1, 2, 3, 4, 5, 6]}
    if name == "narrativeqa":
        book = random.Random(n).randbytes(38_400).hex()  # cannot be packed
        about = dict.fromkeys(("kind", "url", "start", "end"), "x") | {"file_size": 9, "word_count": 9}
        summary = {"text": f"In {n} a man seeks a ring.", "tokens": ["In"], "url": "u", "title": "t"}
        return {
            "document": {"id": f"book{number}", **about, "summary": summary, "text": book},
            "question": {"text": f"What does the man of {n} seek?", "tokens": ["What"]},
            "answers": [{"text": "A ring", "tokens": ["A"]}, {"text": "the ring", "tokens": ["the"]}],
        }
    cells = [[("Year", True), ("Town", True)], [(str(1900 + number), False), (split, False)]]
    kinds = ("original_sentence", "sentence_after_deletion", "sentence_after_ambiguity", "final_sentence")
    return {
        **{"id": number, "table_page_title": f"Page {n}", "table_webpage_url": "u", "table_section_title": "Section"},
        "table_section_text": "",
        "table": [[{"column_span": 1, "is_header": h, "row_span": 1, "value": v} for v, h in line] for line in cells],
        "highlighted_cells": [[1, 0]],
        "example_id": str(10_000 * len(split) + number),
        "sentence_annotations": {key: [f"It was {n}."] for key in kinds},
        "overlap_subset": "none" if split == "train" else "True",
    }


SHARDS, CONVERSION = "{split}-{part:05d}-of-{parts:05d}.parquet", "default/{split}/{part:04d}.parquet"
# Task → repository, branch, commit, and the pattern of its files.
PLACES = {
    "imdb": ("stanfordnlp/imdb", "main", HEAD_COMMIT, f"plain_text/{SHARDS}"),
    "commongen": ("allenai/common_gen", "main", HEAD_COMMIT, f"data/{SHARDS}"),
    "cnn_dailymail": ("abisee/cnn_dailymail", "main", HEAD_COMMIT, f"3.0.0/{SHARDS}"),
    "wmt16": ("wmt/wmt16", "main", HEAD_COMMIT, f"de-en/{SHARDS}"),
    "narrativeqa": ("deepmind/narrativeqa", "main", HEAD_COMMIT, f"data/{SHARDS}"),
    "dailydialog": ("li2017dailydialog/daily_dialog", "refs/convert/parquet", CONVERTED, CONVERSION),
    "totto": ("google-research-datasets/totto", "refs/convert/parquet", CONVERTED, CONVERSION),
}
ROWS = {"train": 60, "validation": 12, "test": 10}
PARTS = {"train": 2, "validation": 1, "test": 1}


@cache
def tables(name):
    """Return the files of a data set's repository."""
    found = {}
    for split, count in ROWS.items():
        size = count // PARTS[split]
        for part in range(PARTS[split]):
            rows = [row(name, split, number) for number in range(part * size, (part + 1) * size)]
            found[PLACES[name][3].format(split=split, part=part, parts=PARTS[split])] = parquet(rows, row_group_size=20)
    return found


def add_data_sets(hub, *names):
    """Put small tables, like those of the real data sets, where the hub has them."""
    for name in names or PLACES:
        repository, branch, commit, _ = PLACES[name]
        hub.add("datasets", repository, tables(name), branch, commit)


# --- clients ----------------------------------------------------------------------------------------------------------


@contextmanager
def connected(hub, monkeypatch, folder):
    """Let this process use the hub and a cache of its own; yields the seconds that it would have waited for the hub."""
    from huggingface_hub import constants

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("GRUE_DATA", raising=False)
    monkeypatch.setenv("GRUE_CACHE", str(folder / "cache"))
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "hf"))
    waited = []
    monkeypatch.setattr(time, "sleep", waited.append)
    try:
        yield waited
    finally:
        huggingface_hub.close_session()


def small(name, **changes):
    """The task of the suite grue, without the figures of the real data sets."""
    task = load_task(name, "grue")
    figures = {"rows": 0, "examples": 0, "ids_sha256": ""}
    splits = {key: dataclasses.replace(split, **figures) for key, split in task.data.splits.items()}
    for key, figure in changes.items():
        splits[key] = dataclasses.replace(splits[key], **figure)
    return dataclasses.replace(task, data=dataclasses.replace(task.data, splits=splits))


def suite(folder, *names):
    """Task files without the figures of the real data sets."""
    (folder / "grue").mkdir()
    for name in names:
        text = (ROOT / "tasks" / "grue" / f"{name}.toml").read_text(encoding="utf-8")
        text = re.sub(r', (rows|examples) = \d+|, ids_sha256 = "\w+"', "", text)
        (folder / "grue" / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder / "grue"
