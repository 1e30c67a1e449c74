import pytest

from trnsim.errors import BadInput
from trnsim.profile import (
    html,
    load,
    report,
    report_of,
    write,
    write_page,
    write_report,
    write_traces,
)


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


def test_bytes_are_written_as_they_are(tmp_path):
    assert write(tmp_path / "trace", b"\x00\xff").read_bytes() == b"\x00\xff"


def test_a_page_goes_to_the_file_or_into_the_folder(tmp_path, timeline, ran):
    report = report_of([ran(timeline)])
    assert write_page(report, tmp_path / "out") == tmp_path / "out" / "report.html"
    assert write_page(report, tmp_path / "mine.html") == tmp_path / "mine.html"
    assert "<!doctype html>" in (tmp_path / "mine.html").read_text(encoding="utf-8")


def test_a_report_is_a_page_and_what_it_was_made_from(tmp_path, timeline, ran):
    page = write_report([ran(timeline)], tmp_path / "out", "matmul")
    assert page == tmp_path / "out" / "matmul.html"
    assert html(load(tmp_path / "out")) == page.read_text(encoding="utf-8")


def test_traces_are_perfettos_chromes_and_tables(tmp_path, timeline, ran):
    told = []
    found = write_traces(ran(timeline), tmp_path, "matmul", told.append)
    assert {kind: path.name for kind, path in found.items()} == {
        "trace": "matmul.perfetto-trace",
        "chrome": "matmul.trace.json",
        "tables": "matmul-tables",
    }
    assert all(path.exists() for path in found.values())
    assert told == [str(path) for path in found.values()]


def test_without_pyarrow_there_are_no_tables(tmp_path, timeline, ran, monkeypatch):
    monkeypatch.setattr(report, "is_available", lambda: False)
    assert write_traces(ran(timeline), tmp_path, "matmul").keys() == {"trace", "chrome"}
