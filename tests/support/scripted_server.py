"""A server on 127.0.0.1 that answers with given bytes, and with nothing that HTTP asks for."""

import socket
import threading
from contextlib import contextmanager, suppress


@contextmanager
def scripted(*answers):
    """Serve connections one after another; yields (address, requests).

    Args:
        answers: For each connection, the bytes to send, or a function that is called with the socket once the request
            is read. The last one is repeated.
    """
    listener, requests, done = socket.create_server(("127.0.0.1", 0)), [], threading.Event()

    def serve():
        number = 0
        while not done.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            answer = answers[min(number, len(answers) - 1)]
            number += 1
            threading.Thread(target=speak, args=(connection, answer), daemon=True).start()

    def speak(connection, answer):
        with connection:
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(4096) or b"\r\n\r\n"
            requests.append(request.decode("latin-1"))
            with suppress(OSError):  # the client has given up, as it should
                answer(connection) if callable(answer) else connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        done.set()
        listener.close()


def answer(status, body=b"", **headers):
    """Return the bytes of an answer; `content_length` and the like are its headers."""
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body
