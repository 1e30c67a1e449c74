import os
import subprocess
import sys
import time

import pytest
from instance_shells import in_namespace, needs_namespace, needs_root

from trnsim.instance.shell import keeper, kernel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes of Linux")


def test_the_end_of_a_process_is_noticed_at_once():
    with subprocess.Popen(["sleep", "60"]) as process:
        ended = keeper._End(process.pid)
        assert not ended.within(0.01)
        process.kill()
        before_s = time.monotonic()
        assert ended.within(30)
        assert time.monotonic() - before_s < 5


def test_on_an_older_linux_it_is_looked_for(monkeypatch):
    def missing(_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(keeper.os, "pidfd_open", missing)
    with subprocess.Popen(["sleep", "60"]) as process:
        ended = keeper._End(process.pid)
        assert not ended.within(0.01)
        process.kill()
        process.wait()
        assert ended.within(0.01)


@needs_namespace
@needs_root
def test_processes_of_the_namespace_end_and_others_do_not():
    with subprocess.Popen(["sleep", "60"]) as other:

        def ends():
            kernel.mount("trnsim", "/opt", "tmpfs")
            left = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; sleep 60 & wait"])
            time.sleep(0.2)
            keeper.end_others()
            return 0 if left.wait(5) == -9 and list(keeper._others()) == [] else 3

        assert in_namespace(ends) == 0
        assert other.poll() is None
        other.kill()


def test_outside_of_an_instance_nobody_is_ended(monkeypatch):
    ended = []
    monkeypatch.setattr(keeper.os, "kill", lambda *call: ended.append(call))
    keeper.end_others()
    assert ended == []
    assert os.getpid() not in list(keeper._others())
