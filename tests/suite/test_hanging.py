"""Where a test hangs is printed, and tests that follow each other quickly share one watch."""

import os
import subprocess
import sys
import time
from pathlib import Path

import hanging
import pytest


@pytest.fixture
def printed():
    """A descriptor to print to, and a function that reads what was printed."""
    reading, writing = os.pipe()
    yield writing, lambda: os.read(reading, 65536).decode()
    os.close(reading)


@pytest.fixture
def armed(monkeypatch):
    """What the watch was told, instead of what it would do beside the one of this run."""
    told = []
    watch = hanging.faulthandler
    monkeypatch.setattr(watch, "dump_traceback_later", lambda after_s, **_: told.append(after_s))
    monkeypatch.setattr(watch, "cancel_dump_traceback_later", lambda: told.append("nothing"))
    return told


def test_tests_of_half_a_minute_share_a_watch(armed, printed, monkeypatch):
    descriptor, _ = printed
    watch = hanging.Watch(descriptor)
    times_s = iter((100, 101, 129, 130, 159, 161))
    monkeypatch.setattr(time, "monotonic", lambda: next(times_s))
    for _ in range(6):
        watch.pytest_runtest_logstart()
    assert armed == [300, 300, 300]
    watch.pytest_unconfigure()
    assert armed[3:] == ["nothing"]


def test_who_debugs_is_not_interrupted(armed):
    hanging.Watch(None).pytest_enter_pdb()
    assert armed == ["nothing"]


def test_a_test_that_hangs_says_where(printed):
    descriptor, read = printed
    program = (
        "import sys, time, hanging\n"
        "hanging.TIMEOUT_S = 0.05\n"
        f"hanging.Watch({descriptor}).pytest_runtest_logstart()\n"
        "time.sleep(0.5)\n"
    )
    command = [sys.executable, "-c", program]
    folder = Path(hanging.__file__).parent
    subprocess.run(command, cwd=folder, pass_fds=[descriptor], check=True)
    os.close(descriptor)
    assert 'File "<string>", line 4' in read()
