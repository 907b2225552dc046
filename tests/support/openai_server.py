"""A server on 127.0.0.1 that speaks OpenAI's protocol, and fails as it is told to."""

import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.listening import listening


@dataclass
class Served:
    """What was asked of a server, and how it answers.

    Attributes:
        faults: What the next requests get in place of an answer: (status, body, headers), or a function of the handler.
        reply: Text of an answer, from the body of its request.
        usage: Whether tokens are counted; prompts have 10, answers 3.
    """

    url: str = ""
    faults: list = field(default_factory=list)
    asked: list = field(default_factory=list)
    headers: list = field(default_factory=list)
    reply: Any = lambda body: "A dog runs."
    finish: str = "stop"
    usage: bool = True
    lock: Any = field(default_factory=threading.Lock)
    at_once: int = 0
    most_at_once: int = 0

    def prompts(self):
        """What was asked, in the order of arrival."""
        return [body["messages"][-1]["content"] if "messages" in body else body["prompt"] for _, body in self.asked]


def answered(served, path, body):
    text = served.reply(body)
    choice = {"text": text} if path.endswith("/v1/completions") else {"message": {"role": "assistant", "content": text}}
    found = {
        "id": "x",
        "model": f"{body['model']}-0613",
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "finish_reason": served.finish, **choice}],
    }
    return found | ({"usage": {"prompt_tokens": 10, "completion_tokens": 3}} if served.usage else {})


def error(status, message="no", headers=None, **more):
    """Return a fault in the form of OpenAI's errors."""
    return status, json.dumps({"error": {"message": message, **more}}).encode(), headers or {}


def cut(handler):
    """Announce more than is sent."""
    send(handler, 200, b'{"choices": [', {}, announced=500)


def hang_up(handler):
    handler.connection.shutdown(socket.SHUT_RDWR)


def send(handler, status, body, headers, announced=None):
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **headers}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body) if announced is None else announced))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def serving(**how):
    """Serve on a free port; yields a `Served`."""
    served = Served(**how)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with served.lock:
                served.asked.append((self.path, body))
                served.headers.append({name.title(): value for name, value in self.headers.items()})
                fault = served.faults.pop(0) if served.faults else None
                served.at_once += 1
                served.most_at_once = max(served.at_once, served.most_at_once)
            try:
                if callable(fault):
                    fault(self)
                elif fault is not None:
                    send(self, *fault)
                else:
                    send(self, 200, json.dumps(answered(served, self.path, body)).encode(), {})
            except OSError:
                pass  # the client has given up, as it should
            finally:
                with served.lock:
                    served.at_once -= 1
                self.close_connection = True

        do_GET = do_POST

        def log_message(self, *_):
            pass

    with listening(Handler) as address:
        served.url = f"{address}/v1"
        yield served
