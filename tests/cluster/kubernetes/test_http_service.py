import http.client
import json
import os
import socket
import stat
import threading
from contextlib import contextmanager

import pytest

from trnsim.cluster.kubernetes.api import MOST_BYTES
from trnsim.cluster.kubernetes.http_service import application, listening
from trnsim.errors import BadInput

LINUX = pytest.mark.skipif(os.name == "nt", reason="Unix sockets")


def called(call):
    return {"NodeNames": [call["Pod"]], "FailedNodes": {}, "Error": ""}


@contextmanager
def service(path=None):
    with listening(application(called, lambda _call: {"Error": "no"}), 0, path) as (server, place):
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server, place
        server.shutdown()


def connected(server):
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=5)


def answered(port, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    received = answer.read()
    connection.close()
    return answer.status, received


def test_calls_are_answered_with_json_and_unknown_ones_are_named():
    with service() as (server, place):
        port = server.server_port
        assert place == f"http://127.0.0.1:{port}"
        status, received = answered(port, "POST", "/filter", b'{"Pod": "a"}')
        assert (status, json.loads(received)["NodeNames"]) == (200, ["a"])
        assert answered(port, "POST", "/bind", b"{}") == (200, b'{"Error": "no"}')
        assert answered(port, "GET", "/healthz") == (200, b"ok")
        for method, path in (("GET", "/filter"), ("POST", "/healthz"), ("POST", "/filter/x")):
            status, received = answered(port, method, path, b"{}")
            assert status == 404
            assert json.loads(received)["Error"] == (
                f"no call {method} '{path}'; legal: POST /filter and POST /bind"
            )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the call is no JSON"),
        (b"{", "the call is no JSON"),
        (b"\xff", "the call is no JSON"),
        (b"[" * 200_000, "the call is no JSON"),
        (b"[]", "the call is no JSON object"),
    ],
)
def test_a_body_that_is_no_object_is_refused(body, message):
    with service() as (server, _):
        status, received = answered(server.server_port, "POST", "/filter", body)
    assert status == 400
    assert message in json.loads(received)["Error"]


def test_a_body_of_4_mib_is_read_and_a_byte_more_is_refused():
    with service() as (server, _):
        for length, expected in ((MOST_BYTES, 200), (MOST_BYTES + 1, 413)):
            call = b'{"Pod": "' + b"x" * (length - 11) + b'"}'
            assert len(call) == length
            answers = head_first(server.server_port, call)
            assert f" {expected} ".encode() in answers.split(b"\r\n")[0]
        assert b"4,194,305 bytes; legal: at most 4,194,304 (4 MiB); set nodeCacheCapable" in answers


def head_first(port, call):
    """The answer to a call whose body is sent only where the answer does not come before."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        head = f"POST /filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(call)}\r\n\r\n"
        connection.sendall(head.encode())
        if len(call) <= MOST_BYTES:
            connection.sendall(call)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@pytest.mark.parametrize("length", ["", "x", "-1", "1e3"])
def test_a_length_that_is_no_number_is_refused(length):
    with service() as (server, _), connected(server) as connection:
        head = f"POST /bind HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        connection.sendall(head.encode())
        answer = connection.recv(1 << 16)
    assert b" 411 " in answer.split(b"\r\n")[0]


def test_a_body_that_is_cut_off_is_refused():
    with service() as (server, _), connected(server) as connection:
        connection.sendall(b"POST /bind HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert b"the call ends after 1 of 9 bytes" in answer


def test_a_page_that_points_its_name_here_is_refused():
    with service() as (server, _):
        status, _ = answered(server.server_port, "POST", "/bind", b"{}", Host="evil.example")
    assert status == 403


def test_a_taken_port_is_named():
    with (
        service() as (server, _),
        pytest.raises(BadInput) as caught,
        listening(application(called, called), server.server_port),
    ):
        pass
    assert caught.value.reason == (
        f"cannot listen on 127.0.0.1 port {server.server_port}: another program has it"
    )
    assert caught.value.fix == "name another --port (0 for a free one)"


@LINUX
def test_a_socket_is_its_owner_s_alone_and_goes_with_the_server(tmp_path):
    path = tmp_path / "extension.sock"
    with service(path) as (_, place):
        assert place == str(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(path))
            connection.sendall(b"POST /bind HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
            assert b'{"Error": "no"}' in b"".join(iter(lambda: connection.recv(1 << 16), b""))
        with pytest.raises(BadInput, match="another program listens there"), service(path):
            pass
    assert not path.exists()


@LINUX
def test_the_socket_of_a_killed_process_is_replaced(tmp_path):
    path = tmp_path / "extension.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with service(path):
        assert path.exists()


@LINUX
def test_a_path_that_cannot_be_a_socket_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    for path, message in (
        (file, "is a file already"),
        (tmp_path / "absent" / "x", "cannot listen on"),
        (file / "x", "Not a directory"),
        (tmp_path / ("x" * 108), "bytes; legal: 107"),
    ):
        with pytest.raises(BadInput, match=message), service(path):
            pass
    assert file.read_text(encoding="utf-8") == "mine"


def test_a_length_of_any_number_of_digits_is_too_much():
    with service() as (server, _), connected(server) as connection:
        head = f"POST /bind HTTP/1.1\r\nHost: localhost\r\nContent-Length: {'9' * 5000}\r\n\r\n"
        connection.sendall(head.encode())
        answer = connection.recv(1 << 16)
    assert b" 413 " in answer.split(b"\r\n")[0]
