import pytest

from trnsim.errors import BadInput
from trnsim.profile import write, write_report


def test_write_makes_folders_and_leaves_no_draft(tmp_path):
    path = write(tmp_path / "a" / "b" / "note.txt", "täxt")
    assert path.read_text(encoding="utf-8") == "täxt"
    assert [p.name for p in path.parent.iterdir()] == ["note.txt"]


def test_write_replaces_what_was_there(tmp_path):
    path = tmp_path / "note.txt"
    write(path, "old")
    write(path, "new")
    assert path.read_text() == "new"


def test_an_unwritable_path_is_bad_input_with_a_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot write .*note.txt.*\n  fix: name a file"):
        write(tmp_path / "file" / "note.txt", "text")
    with pytest.raises(BadInput):
        write(tmp_path, "a folder is there")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = write(tmp_path / "note.txt", "old")
    with pytest.raises(UnicodeEncodeError):
        write(path, "\ud800")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["note.txt"]


def test_a_report_goes_to_the_file_or_into_the_folder(tmp_path, timeline):
    assert write_report(timeline, tmp_path / "out", "t") == tmp_path / "out" / "report.html"
    assert write_report(timeline, tmp_path / "mine.html", "t") == tmp_path / "mine.html"
    assert "<!doctype html>" in (tmp_path / "mine.html").read_text(encoding="utf-8")
