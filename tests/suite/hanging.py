"""A test that hangs says where: after five minutes the stacks of its process are printed.

A pytest plugin. Pytest's own faulthandler_timeout starts a thread for each test and waits for its
end, which takes milliseconds where every core is busy; here tests of half a minute share one.
"""

import faulthandler
import os
import time

import pytest

TIMEOUT_S = 300
SHARED_S = 30


class Watch:
    """A pytest plugin that has the stacks printed to a file descriptor, unless tests go on."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._armed_s = -SHARED_S

    def pytest_runtest_logstart(self):
        """Puts off what would be printed, where the last time lies back."""
        now_s = time.monotonic()
        if now_s - self._armed_s >= SHARED_S:
            faulthandler.dump_traceback_later(TIMEOUT_S, file=self._descriptor)
            self._armed_s = now_s

    def pytest_enter_pdb(self):
        """Who debugs takes his time."""
        faulthandler.cancel_dump_traceback_later()

    def pytest_unconfigure(self):
        """Nothing hangs after the last test."""
        faulthandler.cancel_dump_traceback_later()
        os.close(self._descriptor)


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Watches; what tests write is captured, but not yet here."""
    config.pluginmanager.register(Watch(os.dup(2)), "watch of tests that hang")
