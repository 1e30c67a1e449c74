"""An HTTP server for scrapes: a bounded number of connections, time-outs, and a check of Host.

The library's own server takes a thread for each connection for as long as it stays open, and
answers a page of a browser whose name was pointed at this machine (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""An application of WSGI (PEP 3333)."""

CONNECTIONS_MAX: Final = 32
"""Maximum number of connections at once: a Prometheus opens one, a browser six."""
TIMEOUT_S: Final = 10.0
"""Time for which a connection may be silent; Prometheus's own limit of a scrape."""


class BoundedServer(WSGIServer):
    """A server that answers an application's requests in a bounded number of threads.

    A connection beyond the bound takes the place of the oldest, so that silent connections keep
    nobody out.
    """

    request_queue_size = CONNECTIONS_MAX

    def __init__(self, address: Any, application: Application) -> None:
        self._lock = threading.Lock()
        self._connections: OrderedDict[int, socket.socket] = OrderedDict()
        super().__init__(address, _Handler)
        self.set_app(application)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a new thread; at the bound, the oldest connection is closed first."""
        with self._lock:
            if len(self._connections) >= CONNECTIONS_MAX:
                _, oldest_connection = self._connections.popitem(last=False)
                with suppress(OSError):
                    oldest_connection.shutdown(socket.SHUT_RDWR)
            self._connections[id(request)] = request
        threading.Thread(target=self._answer, args=(request, client_address), daemon=True).start()

    def _answer(self, request: socket.socket, client_address: Any) -> None:
        try:
            # A connection that ends is not this server's error.
            with suppress(OSError):
                self.finish_request(request, client_address)
        finally:
            with self._lock:
                self._connections.pop(id(request), None)
            self.shutdown_request(request)


class ScrapeServer(BoundedServer):
    """A server on an address and a port."""

    def __init__(self, address: str, port: int, application: Application) -> None:
        family, _, _, _, socket_address = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self.address_family = family
        is_local = ipaddress.ip_address(str(socket_address[0]).partition("%")[0]).is_loopback
        super().__init__(
            (str(socket_address[0]), int(socket_address[1])),
            guarded_application(application) if is_local else application,
        )

    def server_bind(self) -> None:
        """Bind without looking up this machine's name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _Handler(WSGIRequestHandler):
    """A handler of a request, which is not logged, as with AWS's script."""

    timeout = TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
        """Log nothing."""


def guarded_application(application: Application) -> Application:
    """The application for requests to an address or to this machine's own name; others get 403."""

    def answer(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        host = str(environment.get("HTTP_HOST", ""))
        if is_own_host(host):
            return application(environment, start)
        start("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        message = (
            f"Host {host!r} is not this machine; legal: an address, localhost or "
            f"{socket.gethostname()}. To be scraped by other names, listen with --address 0.0.0.0\n"
        )
        return [message.encode()]

    return answer


def is_own_host(host: str) -> bool:
    """True if a Host header is empty, an address, or a name of this machine."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.strip("[]").rstrip(".").lower()
    with suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    own_name = socket.gethostname().lower()
    return name in ("", "localhost", own_name, own_name.partition(".")[0]) or name.endswith(
        ".localhost"
    )
