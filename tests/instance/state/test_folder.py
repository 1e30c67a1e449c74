import os
import stat
import sys
import time
from pathlib import Path

import pytest

from trnsim import files
from trnsim.errors import BadInput
from trnsim.instance.state import folder as module


@pytest.fixture
def place(tmp_path, monkeypatch):
    path = tmp_path / "state"
    monkeypatch.setenv("TRNSIM_STATE", str(path))
    return path


def test_the_default_is_the_user_s_own(monkeypatch, tmp_path):
    monkeypatch.delenv("TRNSIM_STATE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert module.folder() == tmp_path / "trnsim"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert module.folder() == Path.home() / ".local" / "state" / "trnsim"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert module.folder().is_relative_to(Path.home() / "Library")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert module.folder() == tmp_path / "trnsim" / "state"


def test_a_missing_folder_is_made_for_its_user_alone(place):
    assert module.state_folder() == place
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert module.state_folder() == place


def test_a_link_is_refused(place, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match=r"the state folder .* is a link\n  fix: name a folder"):
        module.state_folder()


def test_a_link_to_nothing_is_refused(place, tmp_path):
    place.symlink_to(tmp_path / "nothing")
    with pytest.raises(BadInput, match="is a link"):
        module.state_folder()
    assert not (tmp_path / "nothing").exists()


def test_a_folder_of_another_user_is_refused(place, monkeypatch):
    place.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    with pytest.raises(BadInput, match="belongs to another user"):
        module.state_folder()


def test_a_folder_that_others_may_look_into_is_refused(place):
    place.mkdir(mode=0o750)
    place.chmod(0o750)
    with pytest.raises(BadInput, match=r"others may look into .*\n  fix: chmod 700 "):
        module.state_folder()


def test_a_file_is_refused(place):
    place.write_text("")
    place.chmod(0o600)
    with pytest.raises(BadInput, match=r"cannot write to the folder .*: it is a file"):
        module.state_folder()


def test_a_folder_that_cannot_be_written_to_is_refused(place, monkeypatch):
    place.mkdir(mode=0o700)
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    with pytest.raises(BadInput, match=r"cannot write to the folder .*: Permission denied"):
        module.state_folder()


def test_a_relative_folder_stays_where_the_program_began(monkeypatch, tmp_path):
    monkeypatch.setenv("TRNSIM_STATE", "a/state")
    monkeypatch.chdir(tmp_path)
    assert module.state_folder() == tmp_path / "a" / "state"


@pytest.mark.skipif(sys.platform != "linux", reason="the variable is of Linux")
def test_a_relative_state_home_is_left_out(monkeypatch):
    """The XDG Base Directory Specification: relative paths are to be ignored."""
    monkeypatch.delenv("TRNSIM_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert module.folder() == Path.home() / ".local" / "state" / "trnsim"


def test_a_user_without_a_home_is_told_so(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    for name in ("TRNSIM_STATE", "XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(BadInput, match="there is no home in which a state could be kept"):
        module.state_folder()


def test_nobody_listens_until_a_reader_asks(place):
    module.state_folder()
    assert not module.is_listening(place)
    module.listen(place, 30)
    assert module.is_listening(place)


def test_a_longer_wish_stays_and_the_end_of_the_longest_ends_it(place):
    module.state_folder()
    module.listen(place, 30)
    until = (place / "listening").stat().st_mtime
    module.listen(place, 1)
    assert (place / "listening").stat().st_mtime == until
    os.utime(place / "listening", (time.time() - 1,) * 2)
    assert not module.is_listening(place)
    module.listen(place, 1)
    assert module.is_listening(place)


def test_a_clock_that_went_back_ends_a_wish_and_allows_a_new_one(place, monkeypatch):
    module.state_folder()
    module.listen(place, 30)
    day_before = time.time() - 86_400
    monkeypatch.setattr(time, "time", lambda: day_before)
    assert not module.is_listening(place)
    module.listen(place, 30)
    assert module.is_listening(place)


def test_a_wish_is_never_longer_than_an_hour(place):
    module.state_folder()
    module.listen(place, 1e9)
    assert module.is_listening(place)
    assert (place / "listening").stat().st_mtime <= time.time() + module.LONGEST_S


def test_a_state_that_is_not_kept_cannot_be_read(monkeypatch):
    monkeypatch.setenv("TRNSIM_STATE", "off")
    with pytest.raises(BadInput, match="TRNSIM_STATE=off: no state is kept"):
        module.state_folder()
