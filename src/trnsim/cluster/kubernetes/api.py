"""A client of the Kubernetes API: reading, listing, creating and patching objects.

A token is read anew from its file for every request, as kubelet renews it. Bodies of more than
4 MiB are refused; a list whose page is longer is read in smaller pages. Every fault has a name:
`ApiDown` where no answer came, `ApiRefused` with the status and the reason of an answer.

Source: Kubernetes documentation, API concepts (chunked lists, patches), and Accessing the API from
a Pod (the files of a service account).
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import ssl
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from os import environ
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from trnsim.errors import BadInput
from trnsim.files import read_text

MOST_BYTES: Final = 4 << 20
"""Bytes of the longest body, sent or received."""
TIMEOUT_S: Final = 3.0
"""Time for an answer; kube-scheduler waits 5 s for an extender."""
_PAGE_ITEMS: Final = 500
"""Maximum number of items of a page of a list."""
_MOST_RESTARTS: Final = 2
"""Maximum number of times that a list is begun anew."""
_MOST_IDLE: Final = 4
"""Connections that are kept for further reading; each change has one of its own, sent once."""
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
"""A patch that merges lists by a key of their entries, as conditions by their type."""
_JSON: Final = "application/json"
_ERRORS_FROM: Final = 400
_MOST_REASON: Final = 300
"""Characters of an answer that an error quotes."""

Object = dict[str, Any]
"""An object of Kubernetes, as its JSON."""
PODS: Final = "/api/v1/pods"
"""The path of the pods of all namespaces."""


def mapping(value: object) -> Object:
    """A mapping in an object; {} if the value is not a mapping."""
    return value if isinstance(value, dict) else {}


def entries(value: object) -> list[Object]:
    """The objects of a list; empty if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def metadata(value: Object) -> Object:
    """The metadata of an object."""
    return mapping(value.get("metadata"))


def name_of(value: Object) -> str:
    """The name of an object; "" without one."""
    return str(metadata(value).get("name", ""))


def node_path(name: str = "") -> str:
    """The path of a node; of all nodes without a name."""
    return f"/api/v1/nodes/{quote(name, safe='')}" if name else "/api/v1/nodes"


def pod_path(namespace: str, name: str) -> str:
    """The path of a pod."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


class ApiDown(BadInput):
    """The API gave no answer, or none that can be read."""


class ApiRefused(BadInput):
    """The API refused a request.

    Attributes:
        status: the code of its answer, such as 404.
    """

    def __init__(self, reason: str, status: int, *, fix: str = "") -> None:
        super().__init__(reason, fix=fix)
        self.status = status


@dataclass(frozen=True)
class ApiAccess:
    """The address of an API, and the files that open it.

    Attributes:
        token_file: the file of a bearer token; None without one.
        ca_file: certificates of authorities, one of which signed the server's; None for the
            authorities of the system.
    """

    server: str
    token_file: Path | None = None
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        """Check the URL.

        Raises:
            BadInput: `server` is no HTTP URL, or a token would be sent unencrypted to another
                machine.
        """
        url = _url(self.server)
        if url is None:
            raise BadInput(
                f"--server {self.server!r} is no address of an API; legal: https://HOST:PORT",
                fix="kubectl config view shows the address of a cluster",
            )
        if url.scheme == "http" and self.token_file and not _is_loopback(str(url.hostname)):
            raise BadInput(
                f"--server {self.server} would carry the token unencrypted to another machine",
                fix="write https://",
            )


def _url(server: str) -> SplitResult | None:
    """The parts of an HTTP address; None for other texts."""
    try:
        url = urlsplit(server)
        is_address = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return None
    return url if is_address else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def access(server: str | None, token_file: Path | None, ca_file: Path | None) -> ApiAccess:
    """The API at `server`, or else the API of the pod in which this process runs.

    Raises:
        BadInput: no server is named, and this is no pod.
    """
    if server is not None:
        return ApiAccess(server, token_file, ca_file)
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise BadInput(
            "no API of Kubernetes is named, and this process runs in no pod",
            fix="--server https://HOST:PORT --token-file FILE --ca-file FILE",
        )
    name = f"[{host}]" if ":" in host else host
    return ApiAccess(
        f"https://{name}:{port}", token_file or _ACCOUNT / "token", ca_file or _ACCOUNT / "ca.crt"
    )


class KubernetesApi:
    """The API of a cluster.

    It reads lists and no watch: a list has the state that is stored now, on which decisions must
    rest, and a watch learns of it later.

    Attributes:
        skew_s: seconds by which this machine's clock is behind the API's in the last answer.
    """

    def __init__(self, access: ApiAccess, timeout_s: float = TIMEOUT_S) -> None:
        self.skew_s = 0.0
        self._access = access
        self._url: SplitResult = urlsplit(access.server)
        self._timeout_s = timeout_s
        self._idle_connections: deque[http.client.HTTPConnection] = deque()
        self._tls = _tls(access) if self._url.scheme == "https" else None

    @property
    def server(self) -> str:
        """The URL of the API."""
        return self._access.server

    def close(self) -> None:
        """Close the connections that are kept."""
        while self._idle_connections:
            self._idle_connections.pop().close()

    def get(self, path: str) -> Object:
        """The object at `path`.

        Raises:
            ApiDown: there is no answer.
            ApiRefused: with the status 404 where there is no such object.
        """
        return self._request("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Object:
        """Create an object; errors as of `get`."""
        return self._request("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any], kind: str = MERGE) -> Object:
        """Merge `body` into an object (RFC 7386), such as annotations; errors as of `get`."""
        return self._request("PATCH", path, body, kind)

    def list(self, path: str, **query: str) -> list[Object]:
        """All objects at `path`, of one state; errors as of `get`.

        A token for further pages expires after minutes (410): the list is then begun anew, as
        Kubernetes asks of who needs one state. Source: Kubernetes API reference, ListOptions.
        """
        objects: list[Object] = []
        page, token, restarts = _PAGE_ITEMS, "", 0
        while True:
            page_query = {**query, "limit": str(page)} | ({"continue": token} if token else {})
            try:
                answer = self._request("GET", f"{path}?{urlencode(page_query)}")
            except _LongAnswer:
                if page == 1:
                    raise
                page //= 2
                continue
            except ApiRefused as error:
                if error.status != HTTPStatus.GONE or not token or restarts == _MOST_RESTARTS:
                    raise
                objects, token, restarts = [], "", restarts + 1
                continue
            objects += entries(answer.get("items"))
            token = metadata(answer).get("continue") or ""
            if not token:
                return objects

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, kind: str = _JSON
    ) -> Object:
        content = None if body is None else json.dumps(body).encode()
        try:
            if method == "GET":
                with suppress(IndexError, ConnectionError, http.client.BadStatusLine):
                    return self._exchange(self._idle_connections.pop(), method, path, content, kind)
            return self._exchange(self._connection(), method, path, content, kind)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise self._down_error(error) from error

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        content: bytes | None,
        kind: str,
    ) -> Object:
        """The answer to one request; afterwards the connection is idle or closed.

        Raises:
            OSError, HTTPException: the connection broke.
            ApiDown: the answer is no object of at most 4 MiB.
            ApiRefused: the answer is an error.
        """
        headers = {"Accept": _JSON}
        if content is not None:
            headers["Content-Type"] = kind
        is_kept = False
        try:
            if self._access.token_file is not None:
                headers["Authorization"] = f"Bearer {_token(self._access.token_file)}"
            connection.request(method, f"{self._url.path.rstrip('/')}{path}", content, headers)
            answer = connection.getresponse()
            self._compare_clocks(answer.getheader("Date"))
            if answer.status >= _ERRORS_FROM:
                raise _refusal(method, path, answer.status, _status(answer.read(MOST_BYTES)))
            answer_bytes = answer.read(MOST_BYTES + 1)
            is_kept = answer.isclosed() and not answer.will_close
        finally:
            if is_kept and len(self._idle_connections) < _MOST_IDLE:
                self._idle_connections.append(connection)
            else:
                connection.close()
        if len(answer_bytes) > MOST_BYTES:
            raise _LongAnswer(
                f"the API at {self.server} answers {method} {path} with more than 4 MiB",
                fix="delete what the object's annotations hold beside its own fields",
            )
        return self._parse(answer_bytes, path)

    def _connection(self) -> http.client.HTTPConnection:
        host, port, timeout_s = str(self._url.hostname), self._url.port, self._timeout_s
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=self._tls)

    def _compare_clocks(self, date: str | None) -> None:
        """Note how far this machine's clock is behind the Date of an answer, whole seconds."""
        try:
            server_s = parsedate_to_datetime(date or "").timestamp()
        except ValueError:
            return
        self.skew_s = float(round(server_s - time.time()))

    def _parse(self, answer_bytes: bytes, path: str) -> Object:
        try:
            value = json.loads(answer_bytes)
        except (ValueError, RecursionError) as error:
            raise ApiDown(
                f"the API at {self.server} answers {path} with no JSON: {error}",
                fix="check that --server names the API of a cluster",
            ) from error
        if not isinstance(value, dict):
            raise ApiDown(f"the API at {self.server} answers {path} with no object")
        return value

    def _down_error(self, error: Exception) -> ApiDown:
        reason = "no answer in time" if isinstance(error, TimeoutError) else str(error)
        return ApiDown(
            f"the Kubernetes API at {self.server} does not answer: "
            f"{reason or type(error).__name__}",
            fix="check that it runs, and --server, --ca-file and --token-file",
        )


class _LongAnswer(ApiDown):
    """The answer has more than 4 MiB."""


def _tls(access: ApiAccess) -> ssl.SSLContext:
    """Settings of TLS that check the server's certificate.

    Raises:
        BadInput: the file of authorities cannot be read, or has no certificate.
    """
    if access.ca_file is None:
        return ssl.create_default_context()
    text = read_text(access.ca_file)
    try:
        # Without any text Python would trust the authorities of the system.
        return ssl.create_default_context(cadata=text or " ")
    except (ssl.SSLError, ValueError) as error:
        raise BadInput(
            f"--ca-file {access.ca_file} has no certificate: {error}",
            fix="name the file of the cluster's authority (certificate-authority)",
        ) from error


def _token(file: Path) -> str:
    """The token in `file`.

    Raises:
        BadInput: the file cannot be read, or has no single word.
    """
    words = read_text(file).split()
    if len(words) != 1:
        raise BadInput(
            f"--token-file {file} has {len(words)} words; legal: a token",
            fix="write the token alone into it",
        )
    return words[0]


def _status(answer_bytes: bytes) -> Object:
    """The Status object of an answer; {} for other texts, which become its message."""
    try:
        value = json.loads(answer_bytes)
    except (ValueError, RecursionError):
        return {"message": answer_bytes[:_MOST_REASON].decode(errors="replace").strip()}
    return value if isinstance(value, dict) else {}


def _refusal(method: str, path: str, status: int, answer: Object) -> ApiRefused:
    kind = str(answer.get("reason") or "")
    message = str(answer.get("message") or http.client.responses.get(status, ""))[:_MOST_REASON]
    fix = "check --token-file and the role of its account" if status in (401, 403) else ""
    return ApiRefused(
        f"the API refuses {method} {path.partition('?')[0]} with {status} "
        f"{kind}{': ' if message else ''}{message}",
        status,
        fix=fix,
    )
