"""Boards: ranks of one machine meet without a message; all others are left to the store."""

import os
import threading
import time
from pathlib import Path

import pytest

from trnsim.device import boards
from trnsim.device.boards import Boards


class Texts(dict):
    """A store that counts its reads."""

    reads = 0

    def set(self, key, value):
        self[key] = value

    def check(self, keys):
        self.reads += 1
        return all(key in self for key in keys)

    def multi_get(self, keys):
        return [self[key].encode() for key in keys]


@pytest.fixture
def store():
    return Texts()


def open_files():
    return len([*Path("/proc/self/fd").iterdir()])


def pair(store):
    return [Boards(store, rank, "test") for rank in (0, 1)]


def met(*calls):
    """What each call returns, all at once in threads."""
    results = [None] * len(calls)

    def run(offset):
        results[offset] = calls[offset]()

    threads = [
        threading.Thread(target=run, args=(offset,), daemon=True) for offset in range(len(calls))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return results


def test_ranks_that_show_the_same_meet_and_ask_the_store_once(store):
    first, second = pair(store)
    for number in range(50):
        texts = [
            lambda each=each, n=number: each.meet("0", (0, 1), n, f"{n}", 5)
            for each in (first, second)
        ]
        assert met(*texts) == [True, True]
    assert store.reads == 2


def test_a_rank_that_comes_late_is_waited_for(store):
    first, second = pair(store)

    def late():
        time.sleep(0.05)
        return second.meet("0", (0, 1), 0, "a", 5)

    assert met(lambda: first.meet("0", (0, 1), 0, "a", 5), late) == [True, True]


def test_another_text_of_the_same_number_ends_the_wait_at_once(store):
    first, second = pair(store)
    begun_s = time.monotonic()
    assert met(
        lambda: first.meet("0", (0, 1), 0, "a", 20), lambda: second.meet("0", (0, 1), 0, "b", 20)
    ) == [False, False]
    assert time.monotonic() - begun_s < 10


@pytest.mark.parametrize("shown", [("0", 0, "a"), ("0", 2, "a"), ("1", 1, "a"), None])
def test_another_number_or_group_and_silence_are_waited_for_in_vain(store, shown):
    first, second = pair(store)
    if shown is not None:
        group, number, text = shown
        second.meet(group, (0, 1), number, text, 0)
    assert not first.meet("0", (0, 1), 1, "a", 0.01)


def test_a_rank_without_a_board_or_of_another_machine_is_left_to_the_store(store, monkeypatch):
    first = Boards(store, 0, "test")
    assert not first.meet("0", (0, 1), 0, "a", 5)  # it has not begun
    monkeypatch.delattr(os, "memfd_create")
    without = Boards(store, 1, "test")
    assert not without.meet("0", (0, 1), 0, "a", 5)
    assert not first.meet("0", (0, 1), 1, "a", 5)
    path, _ = store["test/board/0"].split()
    for address in (f"{path} {'0' * 32}", f"/proc/{os.getpid()}/fd/99999 {'0' * 32}", "junk"):
        assert boards._map_board(address) is None


def test_a_pipe_at_the_address_is_no_board_and_does_not_block(tmp_path):
    """On another machine the path may be that of a pipe, which opens when somebody writes."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert met(lambda: boards._map_board(f"{pipe} {'0' * 32}") is None) == [True]


def test_a_group_with_a_rank_without_a_board_waits_for_no_other(store, monkeypatch):
    first, _ = pair(store)
    monkeypatch.delattr(os, "memfd_create")
    Boards(store, 2, "test")
    begun_s = time.monotonic()
    assert not first.meet("0", (0, 1, 2), 0, "a", 20)
    assert time.monotonic() - begun_s < 10


def test_a_rank_in_another_process_is_met(store):
    first = Boards(store, 0, "test")
    ready, begin = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            second = Boards(store, 1, "test")
            os.write(begin, store["test/board/1"].encode())
            os._exit(0 if second.meet("0", (0, 1), 0, "a", 20) else 1)
        finally:
            os._exit(2)
    store.set("test/board/1", os.read(ready, 1000).decode())
    assert first.meet("0", (0, 1), 0, "a", 20)
    assert os.waitpid(child, 0)[1] == 0


def test_a_board_that_is_forgotten_leaves_no_file_open(store):
    before = open_files()
    first = Boards(store, 0, "test")
    assert open_files() > before
    del first
    assert open_files() == before
