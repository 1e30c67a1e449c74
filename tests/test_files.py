"""Files: every fault of reading and writing, each with an oracle of the operating system's own."""

import errno
import os
import re
import stat
import struct
from pathlib import Path

import numpy as np
import pytest

from trnsim import files
from trnsim.errors import BadInput


def refusal(function, *arguments):
    with pytest.raises(BadInput) as caught:
        function(*arguments)
    return caught.value


# Writing


def test_text_is_utf_8_and_bytes_are_as_they_are(tmp_path):
    assert files.write(tmp_path / "note.txt", "täxt").read_bytes() == "täxt".encode()
    assert files.write(tmp_path / "trace", b"\x00\xff").read_bytes() == b"\x00\xff"


def test_text_of_others_in_a_file_commands_no_terminal_that_shows_it(tmp_path):
    text = "µ\x1b[31m\x9b\u202e\ud800\tb\n"
    files.write(tmp_path / "a.html", text)
    files.write_together(tmp_path, {"b.md": text, "c.csv": text})
    shown = "µ\\x1b[31m\\u009b\\u202e\\ud800\tb\n"
    assert {path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {shown}


def test_missing_folders_are_made_only_where_asked_for(tmp_path):
    path = tmp_path / "a" / "b" / "note.txt"
    assert "No such file or directory" in refusal(files.write, path, "text").reason
    assert not path.parent.exists()
    assert files.write(path, "text", parents=True).read_text() == "text"


def test_a_line_goes_to_the_end_and_takes_no_other_with_it(tmp_path):
    path = tmp_path / "log"
    files.append(path, "täxt")
    with path.open("a") as other:  # of a process that has it open
        files.append(path, "second")
        other.write("third\n")
    files.append(path, "fourth")
    assert path.read_text(encoding="utf-8").split() == ["täxt", "second", "third", "fourth"]
    assert "Is a directory" in refusal(files.append, tmp_path, "line").reason


def test_what_was_there_is_replaced_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("old")
    path.chmod(0o640)
    files.write(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["note.txt"]


def test_a_new_file_has_the_permissions_that_any_new_file_has(tmp_path):
    (tmp_path / "plain").write_text("")
    files.write(tmp_path / "ours", "")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_no_file_of_the_users_is_taken_for_a_draft(tmp_path, monkeypatch):
    tokens = iter(["taken", "free"])
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: next(tokens))
    own = {"o.npy.part", "o.part", ".o.npy.tmp", ".trnsim-taken.tmp"}
    for name in own:
        (tmp_path / name).write_text("mine")
    files.write(tmp_path / "o.npy", "result")
    assert {p.name for p in tmp_path.iterdir()} == own | {"o.npy"}
    assert all((tmp_path / name).read_text() == "mine" for name in own)


def test_a_name_of_the_greatest_length_can_be_written(tmp_path):
    path = tmp_path / ("n" * 255)
    assert files.write(path, "text").read_text() == "text"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failed_write_is_named_keeps_the_old_file_and_leaves_no_part(
    tmp_path, monkeypatch, number
):
    path = tmp_path / "note.txt"
    path.write_text("old")

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", fail)
    error = refusal(files.write, path, "new")
    assert error.reason == f"cannot write {path}: {os.strerror(number)}"
    assert error.fix.startswith("name a file" if number == errno.EIO else "make room on that disk")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["note.txt"]


def test_a_failed_replacement_leaves_no_part(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(Path, "replace", fail)
    refusal(files.write, tmp_path / "note.txt", "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_fails_while_it_is_made_leaves_no_part(tmp_path, error):
    def half():
        with files.Draft(tmp_path / "note.txt") as unfinished:
            unfinished.write_text("half")
            raise error

    with pytest.raises(error):
        half()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_device_is_written_as_it_is_and_a_full_one_is_named():
    before = Path("/dev/full").stat().st_ino
    assert "No space left on device" in refusal(files.write, "/dev/full", "text").reason
    assert files.write(os.devnull, "text") == Path(os.devnull)
    assert Path("/dev/full").stat().st_ino == before


def test_a_link_is_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "folder" / "real")
    files.write(link, "text")
    assert link.is_symlink()
    assert (tmp_path / "folder" / "real").read_text() == "text"


def test_a_path_that_cannot_be_written_is_refused_before_and_then(tmp_path):
    (tmp_path / "file").write_text("")
    for path, number in (
        (tmp_path, errno.EISDIR),
        (tmp_path / "none" / "x", errno.ENOENT),
        (tmp_path / "file" / "x", errno.ENOTDIR),
    ):
        for error in (refusal(files.check_writable, path), refusal(files.write, path, "text")):
            assert error.reason == f"cannot write {path}: {os.strerror(number)}"
            assert error.fix.startswith("name a file in a folder that exists")
    files.check_writable(tmp_path / "new")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_file_or_folder_without_permission_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "note.txt"
    path.write_text("old")
    monkeypatch.setattr(files.os, "access", lambda place, _: place not in closed)
    closed = {path}
    assert refusal(files.check_writable, path).reason.endswith("Permission denied")
    closed = {tmp_path}
    assert refusal(files.write, tmp_path / "new", "").reason.endswith("Permission denied")
    assert path.read_text() == "old"


def test_a_read_only_file_system_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    monkeypatch.setattr(files, "_is_read_only", lambda _: True)
    assert refusal(files.check_writable, tmp_path / "new").reason.endswith("Read-only file system")


def test_the_line_of_a_refusal_is_the_callers(tmp_path):
    for function in (files.check_writable, files.write):
        error = refusal(function, tmp_path, *(["text"] if function is files.write else []))
        assert error.line.file == __file__


def test_a_folder_whose_place_a_file_has_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    assert "it is a file" in refusal(files.check_folder, tmp_path / "file").reason
    assert "file is a file" in refusal(files.check_folder, tmp_path / "file" / "a" / "b").reason
    files.check_folder(tmp_path)
    files.check_folder(tmp_path / "a" / "b")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no folder where nobody makes folders")
def test_a_folder_that_cannot_be_made_is_refused_before_the_work():
    found = refusal(files.check_folder, "/proc/reports/of/mine")
    assert found.reason.startswith("cannot write to the folder /proc/reports/of/mine: ")
    assert found.fix == "name another folder"


def test_a_folder_that_nobody_may_write_to_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    assert "Permission denied" in refusal(files.check_folder, tmp_path).reason
    assert "Permission denied" in refusal(files.check_folder, tmp_path / "a" / "b").reason
    assert list(tmp_path.iterdir()) == []


# Reading


@pytest.mark.parametrize("read", [files.read_bytes, files.read_text, files.read_array])
def test_what_cannot_be_opened_is_named_with_the_reason(read, tmp_path):
    assert refusal(read, tmp_path / "none").reason == (
        f"cannot read {tmp_path / 'none'}: No such file or directory"
    )
    assert "Is a directory" in refusal(read, tmp_path).reason
    assert "null byte" in refusal(read, "a\0b").reason or read is files.read_array


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("Inventry.csv", "did you mean {}/inventory.csv? If not, write one"),
        ("STEP.json", "did you mean {}/Step.json? If not, write one"),
        ("list.csv", "write one"),
        ("inventory.csv/rows", None),
        ("a/inventory.csv", "there is no folder {}/a; write one"),
        ("a/b/inventory.csv", "there is no folder {}/a; write one"),
    ],
)
def test_a_missing_file_is_perhaps_another_of_its_folder(name, fix, tmp_path):
    (tmp_path / "inventory.csv").touch()
    (tmp_path / "Step.json").touch()
    error = refusal(files.read_text, tmp_path / name, "write one")
    assert error.fix == ("write one" if fix is None else fix.format(tmp_path))


def test_a_missing_file_is_looked_for_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "softmax.py").touch()
    assert refusal(files.read_bytes, "sofmax.py").fix.startswith("did you mean softmax.py? If not")
    assert refusal(files.read_bytes, "no/sofmax.py").fix.startswith("there is no folder no; name")


def test_an_empty_name_is_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reason = "cannot read .: Is a directory; an empty name is this folder"
    assert refusal(files.read_bytes, Path()).reason == reason
    assert refusal(files.read_bytes, tmp_path).reason.endswith(": Is a directory")


@pytest.mark.parametrize("read", [files.read_bytes, files.read_text, files.read_array])
def test_a_file_without_permission_is_named(read, tmp_path, monkeypatch):
    def closed(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = tmp_path / "closed"
    path.write_text("{}")
    monkeypatch.setattr("io.open", closed)
    monkeypatch.setattr("builtins.open", closed)
    assert refusal(read, path).reason == f"cannot read {path}: Permission denied"


def test_bytes_that_are_no_utf_8_are_named_with_their_line(tmp_path):
    path = tmp_path / "latin"
    path.write_bytes("eins\nzw\xf6lf".encode("latin-1"))
    error = refusal(files.read_text, path)
    assert error.reason == f"{path}:2: byte 0xf6 is no UTF-8 text"
    assert str(error.line) == f"{path}:2"


def test_a_file_of_200_gb_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "model.json"
    with path.open("wb") as stream:
        stream.truncate(200 * 10**9)  # sparse
    reason = f"cannot read {path}: it has 200,000,000,000 bytes; legal: at most 2,147,483,648"
    assert refusal(files.read_bytes, path).reason == reason


def test_a_byte_order_mark_is_dropped(tmp_path):
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbf[1]")
    assert files.read_text(tmp_path / "bom") == "[1]"


# Arrays


def stored(shape, data=b"", descr="<f4"):
    """A .npy file, version 1.0, by the format's own page."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def test_an_array_is_read(tmp_path):
    path = tmp_path / "a.npy"
    for array in (np.arange(6, dtype=np.int16).reshape(2, 3), np.float32(3), np.ones((0, 4))):
        np.save(path, array)
        read = files.read_array(path)
        assert read.dtype == np.asarray(array).dtype
        np.testing.assert_array_equal(read, array)
        assert type(read) is np.ndarray
    path.write_bytes(stored("(2,)", struct.pack("<2f", 1, 2)))
    assert files.read_array(path).tolist() == [1, 2]


@pytest.mark.parametrize("shape", ["(9895604649984,)", "(3,)", "(1 << 40, 4)"])
def test_a_header_that_claims_more_than_the_file_holds_is_refused(shape, tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(stored(shape.replace("1 << 40", str(1 << 40)), bytes(8)))
    assert refusal(files.read_array, path).reason == f"{path}: shorter than its own header says"


@pytest.mark.parametrize(
    "content",
    [
        stored("(-4,)", bytes(16)),
        stored("(4611686018427387904, 8)"),
        stored(f"({1 << 64},)"),
        stored("(4.5,)", bytes(16)),
        stored("(1,)", bytes(8), "|O"),
        b"\x93NUMPY\x09\x00",
        b"\x93NUMPY\x01\x00\x05\x00abcde",
        b"1 2 3\n",
        b"\x80\x04K\x01.",
    ],
)
def test_what_is_no_array_of_numbers_is_refused_without_advice_to_load_pickles(content, tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    error = refusal(files.read_array, path)
    assert error.reason == f"{path}: not an array of numbers"
    assert "pickle" not in str(error)


def test_an_empty_file_and_an_archive_are_refused(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"")
    assert "the file is empty" in refusal(files.read_array, tmp_path / "a.npy").reason
    np.savez(tmp_path / "a.npz", a=np.ones(3))
    assert "an archive of arrays" in refusal(files.read_array, tmp_path / "a.npz").reason


def test_no_other_file_of_the_project_writes_by_itself():
    """One way to write: what opens a file for writing elsewhere would leave halves."""
    room = Path(files.__file__).parent
    writing = re.compile(r"\.write_text\(|\.write_bytes\(|mkstemp|open\([^)]*[\"'][wax]b?[\"']")
    found = {
        path.relative_to(room).as_posix()
        for path in room.rglob("*.py")
        if writing.search(path.read_text())
    }
    drafts = {"cli/array_files.py"}
    logs = {"launch/supervisor.py", "launch/launcher.py"}  # what a program prints, as it prints it
    locks = {"device/alive.py"}  # a file that is held, not read
    tokens = {"cluster/slurm/announcement.py"}  # whole at once too, and its user's alone to read
    assert found == {"files.py"} | drafts | logs | locks | tokens


def test_files_are_written_together_or_not_at_all(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old")
    assert files.write_together(tmp_path, {"a": "new", "b/c": b"\xff"}) == [
        *(tmp_path / "a", tmp_path / "b" / "c"),
    ]
    written, wrote = Path.write_bytes, []

    def fills(path, content):
        wrote.append(path)
        if len(wrote) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(path, content)

    monkeypatch.setattr(Path, "write_bytes", fills)
    told = refusal(files.write_together, tmp_path, {"a": "newer", "b/c": "more", "d": "most"})
    assert f"cannot write {tmp_path / 'b' / 'c'}: No space left on device" in told.reason
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "b" / "c").read_bytes() == b"\xff"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "c"]


READERS = [
    files.read_bytes,
    files.read_text,
    files.read_array,
    files.check_readable,
]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
@pytest.mark.parametrize("read", READERS)
def test_a_pipe_is_refused_and_not_waited_for(read, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    told = refusal(read, tmp_path / "pipe")
    assert "it is a pipe, which may never end; legal: a regular file" in told.reason
    assert told.fix == "write what it gives to a file, and name that"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device that never ends")
@pytest.mark.parametrize("read", READERS)
def test_a_device_is_refused(read, tmp_path):
    (tmp_path / "link").symlink_to("/dev/zero")
    assert "it is a device" in refusal(read, tmp_path / "link").reason


def test_what_the_shell_redirects_from_a_file_is_read(tmp_path):
    (tmp_path / "note").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "note")
    assert files.read_text(tmp_path / "link") == "text"


@pytest.mark.parametrize(
    "write",
    [
        lambda path: files.write(path, "x"),
        lambda path: files.write(path, "x", parents=True),
        lambda path: files.write_together(path, {"x": "y"}),
        lambda path: files.append(path, "x"),
        files.check_writable,
        files.check_folder,
    ],
)
def test_a_path_that_no_file_can_have_is_refused(write, tmp_path):
    with pytest.raises(BadInput, match="its name has a NUL character"):
        write(tmp_path / "a\0b")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="links")
@pytest.mark.parametrize(
    "write", [files.check_writable, lambda path: files.write(path, "x"), files.check_folder]
)
def test_links_that_lead_to_each_other_are_refused(write, tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(BadInput, match=r"Too many levels of symbolic links|File exists"):
        write(tmp_path / "a")
