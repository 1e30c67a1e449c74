import errno
import os
import subprocess
import sys
import threading

import pytest

from trnsim.compiler.compile_cache import lock
from trnsim.compiler.compile_cache.lock import held_lock, is_locked

HOLDER = """
import sys, time
from pathlib import Path
from trnsim.compiler.compile_cache.lock import held_lock
with held_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_held_in_the_block_and_its_file_is_gone_after_it(tmp_path):
    path = tmp_path / "lock"
    assert not is_locked(path)
    with held_lock(path) as is_held:
        assert is_held
        assert path.read_text().strip().isdecimal()
        assert is_locked(path)
        with held_lock(path, is_waiting=False) as is_second:
            assert not is_second
    assert not path.exists()
    assert not is_locked(path)


def test_whoever_waits_gets_it_after_the_holder(tmp_path):
    path, order = tmp_path / "lock", []

    def wait():
        with held_lock(path):
            order.append("second")

    with held_lock(path):
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(0.1)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_a_file_that_no_process_holds_locks_nothing(tmp_path):
    path = tmp_path / "lock"
    path.write_text("99999999\n")
    assert not is_locked(path)
    with held_lock(path, is_waiting=False) as is_held:
        assert is_held


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_the_lock_of_another_user_is_seen_by_reading_its_file(tmp_path, monkeypatch):
    path = tmp_path / "lock"

    def opened(name, flags, *mode):
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return os_open(name, flags, *mode)

    with held_lock(path):
        os_open = os.open
        monkeypatch.setattr(lock.os, "open", opened)
        assert is_locked(path)


def test_a_lock_on_nfs_is_seen_by_a_shared_one(tmp_path, monkeypatch):
    """NFS gives an exclusive lock to files open for writing alone (flock(2), NFS details)."""
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "lock"

    def flock(descriptor, operation):
        mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        if mode == (os.O_RDONLY if operation & fcntl.LOCK_EX else os.O_WRONLY):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        fcntl.flock(descriptor, operation)

    monkeypatch.setattr(lock, "flock", flock)
    with held_lock(path):
        assert is_locked(path)
    path.write_text("")
    assert not is_locked(path)


def test_a_file_system_without_locks_has_none_and_no_file_stays_open(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    path.write_text("")
    closed = []

    def refuse(_, **__):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    def close(descriptor):
        closed.append(descriptor)
        os_close(descriptor)

    os_close = os.close
    monkeypatch.setattr(lock, "_take_lock", refuse)
    monkeypatch.setattr(lock.os, "close", close)
    assert not is_locked(path)
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)), held_lock(path):
        pass
    assert len(closed) == 2


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_free(tmp_path):
    path = tmp_path / "lock"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    assert is_locked(path)
    process.kill()
    process.wait()
    process.stdout.close()
    assert path.is_file()  # left behind
    assert not is_locked(path)
    with held_lock(path, is_waiting=False) as is_held:
        assert is_held
