import errno
import os
import select
import sys

import pytest
from instance_shells import in_fork, in_namespace, needs_namespace, needs_root

from trnsim.instance.shell import linux_calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="calls of Linux")


def test_a_refusal_is_an_oserror_that_names_its_target():
    with pytest.raises(OSError, match="/no/such/folder") as raised:
        linux_calls.mount("trnsim", "/no/such/folder", "tmpfs")
    assert raised.value.errno in (errno.ENOENT, errno.EPERM)
    assert raised.value.filename == "/no/such/folder"
    with pytest.raises(OSError, match=r"\S"):
        linux_calls.unmount("/no/such/folder")
    with pytest.raises(OSError, match="Invalid argument"):
        linux_calls.unshare(1)


@needs_namespace
@needs_root
def test_a_mount_is_seen_in_its_namespace_alone(tmp_path):
    def mounts():
        linux_calls.mount("trnsim", str(tmp_path), "tmpfs", data="mode=755")
        (tmp_path / "inside").write_text("")
        return 0 if os.path.ismount(tmp_path) else 3

    assert in_namespace(mounts) == 0
    assert list(tmp_path.iterdir()) == []

    def unmounts():
        mounts()
        linux_calls.unmount(str(tmp_path))
        return 0 if list(tmp_path.iterdir()) == [] else 3

    assert in_namespace(unmounts) == 0


def test_a_written_file_is_noticed(tmp_path):
    descriptor = linux_calls.inotify()
    try:
        number = linux_calls.watch(descriptor, str(tmp_path))
        assert number >= 1
        assert select.select([descriptor], [], [], 0)[0] == []
        (tmp_path / "total").write_text("1")
        assert select.select([descriptor], [], [], 2)[0] == [descriptor]
        assert int.from_bytes(os.read(descriptor, 4096)[:4], sys.byteorder) == number
    finally:
        os.close(descriptor)
    with pytest.raises(OSError, match="No such file"):
        linux_calls.watch(linux_calls.inotify(), str(tmp_path / "none"))


def test_a_child_that_fails_says_so():
    assert in_fork(lambda: 4) == 4
