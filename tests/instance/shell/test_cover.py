import os
import stat
import sys
from pathlib import Path

import pytest
from instance_shells import in_namespace, needs_namespace, needs_root

from trnsim.instance.shell import cover, linux_calls
from trnsim.instance.shell.cover import Cover

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="mounts of Linux"),
    needs_namespace,
    needs_root,
]


@pytest.fixture
def folder(tmp_path):
    """A folder with a file, a folder, a link and a link to nothing."""
    top = tmp_path / "top"
    (top / "below").mkdir(parents=True)
    (top / "file").write_text("machine's")
    (top / "below" / "inner").write_text("inner")
    (top / "link").symlink_to("file")
    (top / "broken").symlink_to("none")
    top.chmod(0o711)
    return top


def test_entries_of_a_folder_stay_and_files_are_added(folder):
    def covered():
        added = Cover().writable_folder(str(folder))
        Cover.write(added, {"new/deep/total": "0\n", "new/deep/present": "1\n"})
        assert added == str(folder)
        assert sorted(os.listdir(folder)) == ["below", "broken", "file", "link", "new"]
        assert (folder / "link").read_text() == (folder / "file").read_text() == "machine's"
        assert (folder / "below" / "inner").read_text() == "inner"
        assert (folder / "broken").readlink() == Path("none")
        assert (folder / "new" / "deep" / "present").read_text() == "1\n"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o711
        # What is carried over is the machine's own: a change goes through.
        (folder / "file").write_text("changed")

    assert in_namespace(covered) == 0
    assert sorted(os.listdir(folder)) == ["below", "broken", "file", "link"]
    assert (folder / "file").read_text() == "changed"


def test_folders_that_are_made_are_their_owners_to_write(folder):
    """As those of sysfs, whatever the umask."""

    def covered():
        os.umask(0)
        added = Cover().writable_folder(str(folder), "opt/bin")
        Cover.write(added, {"stats/total": "0\n"})
        made = [folder / "opt", folder / "opt" / "bin", Path(added) / "stats"]
        assert [stat.S_IMODE(one.stat().st_mode) for one in made] == [0o755] * 3

    assert in_namespace(covered) == 0


def test_folders_on_the_way_are_covered_or_made_once(folder):
    def covered():
        one = Cover()
        deep = one.writable_folder(str(folder), "below/aws/bin", without=["inner"])
        Cover.write(deep, {"tool": "x"}, 0o755)
        assert one.writable_folder(str(folder), "below/aws/bin") == deep
        assert os.access(f"{deep}/tool", os.X_OK)
        assert (folder / "below" / "inner").read_text() == "inner"
        one.writable_folder(str(folder), "below/aws", without=["bin"])
        assert (folder / "below" / "aws" / "bin" / "tool").exists()

    assert in_namespace(covered) == 0
    assert not (folder / "below" / "aws").exists()


def test_what_is_left_out_is_left_out_of_the_last_folder_alone(folder):
    def covered():
        Cover().writable_folder(str(folder), without=["file", "nothing"])
        return 0 if not (folder / "file").exists() and (folder / "below").exists() else 3

    assert in_namespace(covered) == 0


def test_a_folder_that_does_not_exist_is_not_made(folder):
    def covered():
        with pytest.raises(FileNotFoundError):
            Cover().writable_folder(str(folder / "none"), "deeper")

    assert in_namespace(covered) == 0
    assert not (folder / "none").exists()


def test_a_folder_that_cannot_be_carried_over_is_left_as_it_was(folder, monkeypatch):
    calls = []
    mount = linux_calls.mount

    def refused(source, target, *rest, **named):
        calls.append(target)
        if target.endswith("/file"):
            raise PermissionError(13, "Permission denied")
        mount(source, target, *rest, **named)

    monkeypatch.setattr(cover.linux_calls, "mount", refused)

    def covered():
        with pytest.raises(PermissionError):
            Cover().writable_folder(str(folder))
        assert str(folder / "file") in calls
        assert (folder / "below" / "inner").read_text() == "inner"
        assert not os.path.ismount(folder)

    assert in_namespace(covered) == 0


def test_a_file_is_put_over_another(tmp_path):
    file = tmp_path / "file"
    file.write_text("machine's")

    def covered():
        Cover.put_over(str(file), "ours")
        assert file.read_text() == "ours"
        assert Path("/dev/null").exists()

    assert in_namespace(covered) == 0
    assert file.read_text() == "machine's"
