import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trnsim.instance.state import identity

LINUX = sys.platform == "linux"


def test_this_process_lives_and_has_one_start():
    pid, started = identity.own_identity()
    assert pid == os.getpid()
    assert started
    assert identity.own_identity() == (pid, started)
    assert identity.is_alive(pid, started)


def test_another_start_time_is_another_process():
    """The number was given to another process since."""
    pid, started = identity.own_identity()
    assert not identity.is_alive(pid, started + "0")
    assert not identity.is_alive(pid, "")


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1])
def test_a_number_that_no_process_has(pid):
    assert identity.start_time(pid) == ""
    assert not identity.is_alive(pid, "1")


def test_a_process_that_ended_and_was_not_collected_is_dead():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = identity.start_time(child.pid)
    assert identity.is_alive(child.pid, started)
    child.kill()
    until = time.monotonic() + 5
    while identity.is_alive(child.pid, started) and time.monotonic() < until:
        time.sleep(0.01)
    assert not identity.is_alive(child.pid, started)
    child.communicate()
    assert not identity.is_alive(child.pid, started)


@pytest.mark.skipif(not LINUX, reason="reads /proc")
def test_a_command_with_parentheses_and_spaces_is_read(tmp_path):
    named = tmp_path / "a) R (b 1 2"
    named.symlink_to("/bin/sleep")
    with subprocess.Popen([named, "30"]) as child:
        found = identity.start_time(child.pid)
        child.kill()
    assert found.isdecimal()
    assert int(found) >= int(identity.own_identity()[1])


@pytest.mark.skipif(not LINUX or not shutil.which("ps"), reason="compares with ps")
def test_the_start_agrees_with_ps():
    """ps says when it was; the ticks since boot, added to the boot's time, are the same moment."""
    ticks = int(identity.own_identity()[1]) / os.sysconf("SC_CLK_TCK")
    since_boot_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    asked = [shutil.which("ps"), "-o", "etimes=", "-p", str(os.getpid())]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert abs(since_boot_s - ticks - float(done.stdout)) < 3
