"""Connections that say nothing, and requests by names of others."""

import socket
import threading
import time
from contextlib import ExitStack, closing
from http.client import HTTPConnection

import pytest

from trnsim.tools.monitor import scrape_server
from trnsim.tools.monitor.scrape_server import CONNECTIONS_MAX, ScrapeServer, is_own_host


def application(_, start):
    start("200 OK", [("Content-Type", "text/plain")])
    return [b"metrics"]


@pytest.fixture
def server():
    made = ScrapeServer("127.0.0.1", 0, application)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def scraped(server, host="localhost"):
    with closing(HTTPConnection("127.0.0.1", server.server_port, timeout=5)) as connection:
        connection.request("GET", "/metrics", headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_half_open_connections_take_few_threads_and_keep_nobody_out(server):
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(3 * CONNECTIONS_MAX):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", server.server_port)))
            half.sendall(b"GET /metrics HT")
        assert scraped(server) == (200, "metrics")
        until_s = time.monotonic() + 5  # a thread that was told to end takes a moment
        while threading.active_count() - before > CONNECTIONS_MAX + 1:
            assert time.monotonic() < until_s
            time.sleep(0.01)


def test_a_connection_that_says_nothing_is_closed(monkeypatch):
    monkeypatch.setattr(scrape_server._Handler, "timeout", 0.05)
    server = ScrapeServer("127.0.0.1", 0, application)
    with server, socket.create_connection(server.server_address, timeout=5) as silent:
        server.handle_request()
        assert silent.recv(10) == b""


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example"])
def test_a_page_whose_name_points_here_reads_nothing(server, host):
    status, told = scraped(server, host)
    assert status == 403
    assert told.startswith(f"Host {host!r} is not this machine; legal: an address, localhost or ")
    assert "--address 0.0.0.0" in told


@pytest.mark.parametrize(
    "host",
    [
        *("", "localhost", "localhost:8000", "LOCALHOST.", "a.localhost", socket.gethostname()),
        *("127.0.0.1:80", "10.1.2.3", "[::1]:80", "[fd00::1]"),
    ],
)
def test_addresses_and_own_names_are_answered(host):
    assert is_own_host(host)


def test_who_listens_for_all_is_scraped_by_any_name():
    server = ScrapeServer("0.0.0.0", 0, application)  # noqa: S104  that is the test
    with server:
        assert server.get_app() is application
