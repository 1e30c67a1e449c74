import errno
import os
import sys
from pathlib import Path

import pytest
from instance_shells import NOBODY, NOBODYS, answer, needs_namespace, needs_root, nobodys_python

from trnsim.instance.shell import namespace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces of Linux")

ENTERS = """
import os
from trnsim.instance.shell import linux_calls, namespace
before = os.readlink("/proc/self/ns/mnt"), os.readlink("/proc/self/ns/user")
namespace.enter()
after = os.readlink("/proc/self/ns/mnt"), os.readlink("/proc/self/ns/user")
print([a != b for a, b in zip(before, after)], os.getuid(), os.getgid())
print(any(" shared:" in line for line in open("/proc/self/mountinfo")), namespace.is_inside())
linux_calls.mount("trnsim", "/dev", "tmpfs")
print(namespace.is_inside())
"""


@needs_namespace
@needs_root
def test_root_needs_no_user_namespace():
    assert answer(ENTERS).splitlines() == ["[True, False] 0 0", "False False", "True"]
    assert not namespace.is_inside()


@needs_namespace
@needs_root
def test_nobody_keeps_its_own_number():
    said = answer(ENTERS, *NOBODY, python=nobodys_python(), env=NOBODYS)
    assert said.splitlines() == ["[True, True] 65534 65534", "False False", "True"]


@needs_namespace
def test_a_child_tries_first_so_that_a_refusal_leaves_this_process_where_it_is(monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(namespace.linux_calls, "mount", refused)
    before = os.readlink("/proc/self/ns/mnt"), os.readlink("/proc/self/ns/user")
    with pytest.raises(namespace.NamespaceRefusal, match="Permission denied"):
        namespace.enter()
    assert (os.readlink("/proc/self/ns/mnt"), os.readlink("/proc/self/ns/user")) == before


def test_a_limit_on_namespaces_is_no_full_disk(monkeypatch):
    """unshare(2): ENOSPC is a limit of /proc/sys/user."""
    monkeypatch.setattr(namespace.sys, "platform", "linux")
    monkeypatch.setattr(namespace, "_in_child", lambda: errno.ENOSPC)
    with pytest.raises(namespace.NamespaceRefusal, match=r"^no more namespaces are allowed$"):
        namespace.enter()


def test_without_proc_nobody_is_inside(monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert not namespace.is_inside()
