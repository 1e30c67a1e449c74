"""Functions of tests in a child process: as another user, or with mounts of its own."""

import json
import os
import sys

import pytest

NOBODY = 65534
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root becomes another user"
)


def in_child(function):
    """What `function` gives in a forked child, through JSON; its exception is the caller's."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            answer = {"found": function()}
        except BaseException as error:  # noqa: BLE001  told to the parent
            answer = {"error": f"{type(error).__name__}: {error}"}
        with os.fdopen(writing, "w") as stream:
            json.dump(answer, stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        answer = json.load(stream)
    os.waitpid(child, 0)
    assert "found" in answer, answer["error"]
    return answer["found"]


def become_nobody():
    """Drop all rights of root in this process."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def own_mounts():
    """Give this process mounts of its own; an OSError where the kernel refuses."""
    from trnsim.instance.shell import linux_calls  # noqa: PLC0415  Linux alone has it

    linux_calls.unshare(linux_calls.CLONE_NEWNS)
    linux_calls.mount("none", "/", flags=linux_calls.MS_REC | linux_calls.MS_PRIVATE)


def refuses_mounts():
    """Why this process cannot mount here, or ""."""
    if sys.platform != "linux":
        return f"{sys.platform} has no mount namespaces"

    def tried():
        try:
            own_mounts()
        except OSError as error:
            return str(error)
        return ""

    return in_child(tried)
