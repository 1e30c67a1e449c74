"""The scheduler extender over HTTP, on loopback or a Unix socket that only its owner may open.

    POST /filter, /bind    a call of kube-scheduler; the answer's Error says what is wrong
    GET /healthz           "ok"

The body of a request is at most 4 MiB of JSON. Status 411 refuses a body without a length, 413 a
longer body, 400 a body that is not JSON, and 404 any other path.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from trnsim.cluster.kubernetes.api import MOST_BYTES, Object
from trnsim.errors import BadInput
from trnsim.tools.monitor.scrape_server import Application, BoundedServer, ScrapeServer

LOOPBACK: Final = "127.0.0.1"
_OWNER_FILE_MODE: Final = 0o600
_MOST_DIGITS: Final = 18
"""Maximum number of digits of a Content-Length that is converted to a number."""
_MOST_SOCKET_PATH: Final = 107
"""Bytes of a socket's path. Source: unix(7), sun_path."""

Call = Callable[[Object], Object]


def application(filter_call: Call, bind_call: Call) -> Application:
    """The WSGI application (PEP 3333) that answers the two calls."""
    calls = {"/filter": filter_call, "/bind": bind_call}

    def answer(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environment["REQUEST_METHOD"], environment.get("PATH_INFO", "")
        if method == "GET" and path == "/healthz":
            return _respond(start, "200 OK", b"ok", "text/plain")
        call = calls.get(path) if method == "POST" else None
        if call is None:
            reason = f"no call {method} {path!r}; legal: POST /filter and POST /bind"
            return _error(start, "404 Not Found", reason)
        try:
            content = _request_content(environment)
        except _RequestRefused as refusal:
            return _error(start, *refusal.args)
        return _respond(start, "200 OK", json.dumps(call(content)).encode(), "application/json")

    return answer


class _RequestRefused(Exception):
    """Refusal of a malformed call; its arguments are the HTTP status and the reason."""


def _request_content(environment: dict[str, Any]) -> Object:
    """The JSON object of a call.

    Raises:
        _RequestRefused: its length is not stated or above 4 MiB, or it is no JSON object.
    """
    length = environment.get("CONTENT_LENGTH") or ""
    if not (length.isascii() and length.isdecimal()):
        raise _RequestRefused("411 Length Required", "the call states no Content-Length")
    if len(length) > _MOST_DIGITS or int(length) > MOST_BYTES:
        length_text = f"{int(length):,}" if len(length) <= _MOST_DIGITS else "too many"
        raise _RequestRefused(
            "413 Request Entity Too Large",
            f"the call has {length_text} bytes; legal: at most {MOST_BYTES:,} (4 MiB); set "
            "nodeCacheCapable: true, with which a call has names of nodes alone",
        )
    body = environment["wsgi.input"].read(int(length))
    if len(body) < int(length):
        raise _RequestRefused(
            "400 Bad Request", f"the call ends after {len(body)} of {length} bytes"
        )
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _RequestRefused("400 Bad Request", f"the call is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise _RequestRefused("400 Bad Request", "the call is no JSON object")
    return value


def _error(start: Callable[..., Any], status: str, reason: str) -> Iterable[bytes]:
    return _respond(start, status, json.dumps({"Error": reason}).encode(), "application/json")


def _respond(start: Callable[..., Any], status: str, body: bytes, kind: str) -> Iterable[bytes]:
    start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


class SocketServer(BoundedServer):
    """A server on a Unix socket, which only its owner may open."""

    address_family = getattr(socket, "AF_UNIX", socket.AF_INET)

    def server_bind(self) -> None:
        """Bind; the socket has mode 0600 from the start, as Linux takes it from the descriptor."""
        with suppress(OSError):
            os.fchmod(self.socket.fileno(), _OWNER_FILE_MODE)
        self.socket.bind(self.server_address)
        Path(str(self.server_address)).chmod(_OWNER_FILE_MODE)
        self.server_name, self.server_port = "localhost", 0
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Answer a client of a Unix socket with an empty address: it has none, WSGI needs one."""
        super().process_request(request, ("", 0))


@contextmanager
def listening(
    answer: Application, port: int, path: Path | None = None
) -> Generator[tuple[BoundedServer, str]]:
    """A server, and its address: a `port` of loopback, or the socket at `path`.

    A call binds pods and has no password, so other machines must not reach the server.

    Raises:
        BadInput: the server cannot listen at the address.
    """
    if path is not None:
        _check_socket(path)
    try:
        server = SocketServer(str(path), answer) if path else ScrapeServer(LOOPBACK, port, answer)
    except (OSError, OverflowError) as error:
        is_taken = getattr(error, "errno", None) == errno.EADDRINUSE
        raise BadInput(
            f"cannot listen on {path or f'{LOOPBACK} port {port}'}: "
            f"{'another program has it' if is_taken else error}",
            fix="name another --socket" if path else "name another --port (0 for a free one)",
        ) from error
    try:
        yield server, str(path) if path else f"http://{LOOPBACK}:{server.server_port}"
    finally:
        server.server_close()
        if path is not None:
            with suppress(OSError):
                path.unlink()


def _check_socket(path: Path) -> None:
    """Check the path of a socket, and remove a socket that a killed process left there.

    Raises:
        BadInput: this system has no Unix sockets, the path is too long, or a file or another
            server's socket lies there.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise BadInput("--socket: this system has no Unix sockets", fix="--port PORT")
    if len(os.fsencode(path)) > _MOST_SOCKET_PATH:
        raise BadInput(
            f"--socket {path} has {len(os.fsencode(path))} bytes; legal: {_MOST_SOCKET_PATH}",
            fix="name a shorter path, such as /run/trnsim.sock",
        )
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadInput(f"--socket {path}: {error.strerror}", fix="name another path") from error
    if not stat.S_ISSOCK(mode):
        raise BadInput(f"--socket {path} is a file already", fix="name another path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise BadInput(f"--socket {path}: another program listens there", fix="name another path")
