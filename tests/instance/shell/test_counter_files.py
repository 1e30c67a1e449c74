import os
import sys

import pytest

from trnsim.instance.shell import counter_files
from trnsim.instance.shell.counter_files import CounterFiles

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify of Linux")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "success").mkdir()
    for name in ("total", "present"):
        (tmp_path / "success" / name).write_text("0\n")
    return tmp_path


@pytest.fixture
def files(root):
    found = CounterFiles(str(root))
    found.watch(["success"])
    yield found
    os.close(found.descriptor)


@pytest.mark.parametrize("values", [(7,), (12345, 9), (9, 12345), (0, 0), (2**64, 1, 10)])
def test_a_file_shows_the_last_value_whatever_its_length_was(files, root, values):
    with (root / "success" / "total").open() as held:
        for value in values:
            files.show("success/total", value)
            assert (root / "success" / "total").read_text() == f"{value}\n"
            held.seek(0)
            assert held.read() == f"{value}\n"


def test_who_reads_in_the_middle_of_a_change_finds_a_number(files, root, monkeypatch):
    files.show("success/total", 12345)
    seen = []
    truncate = os.ftruncate

    def looked(descriptor, length):
        seen.append((root / "success" / "total").read_text())
        truncate(descriptor, length)

    monkeypatch.setattr(counter_files.os, "ftruncate", looked)
    files.show("success/total", 9)
    assert [int(text) for text in seen] == [9]


def test_files_that_programs_write_are_named_and_own_ones_are_not(files, root):
    files.show("success/total", 3)
    assert list(files.written()) == []
    (root / "success" / "total").write_text("1\n")
    assert list(files.written()) == ["success/total"]
    assert list(files.written()) == []


def test_writing_the_value_that_is_shown_is_noticed_too(files, root):
    files.show("success/total", 1)
    list(files.written())
    file = root / "success" / "total"
    file.write_text("1\n")
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 10_000_000))  # a clock tick later
    assert list(files.written()) == ["success/total"]


def test_a_file_that_is_gone_is_left_out(files, root):
    files.show("failure/total", 1)
    (root / "success" / "new").write_text("x")
    (root / "success" / "new").unlink()
    assert list(files.written()) == []


def test_where_the_kernel_watches_no_more_values_are_shown_all_the_same(root, monkeypatch):
    def refused():
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(counter_files.linux_calls, "inotify", refused)
    found = CounterFiles(str(root))
    found.watch(["success"])
    found.show("success/total", 5)
    assert (root / "success" / "total").read_text() == "5\n"
    assert list(found.written()) == []
