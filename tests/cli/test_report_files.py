import csv
import json

import pytest

from trnsim.cli import report_files
from trnsim.document.answer import Document, Section, Table, columns
from trnsim.errors import BadInput


def of(title):
    table = Table(columns("a | b"), [["x, y", "1"]])
    return Document(title, {"usd": 1.5, "none": float("nan")}, [Section("", [table])])


def test_three_files_are_written_and_an_old_report_is_replaced(tmp_path):
    folder = tmp_path / "new" / "report"
    for title in ("old", "ä"):
        report_files.check(folder)
        made = report_files.write(folder, of(title))
    assert [path.name for path in made] == ["page.html", "figures.json", "table.csv"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in made)
    assert "<title>ä</title>" in made[0].read_text(encoding="utf-8")
    assert json.loads(made[1].read_text()) == {"usd": 1.5, "none": None}
    with made[2].open(newline="") as table:
        assert list(csv.reader(table)) == [["a", "b"], ["x, y", "1"]]


def test_what_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot write to the folder .*: it is a file"):
        report_files.check(tmp_path / "file")
    (tmp_path / "table.csv").mkdir()
    with pytest.raises(BadInput, match=r"cannot write .*table.csv"):
        report_files.check(tmp_path)


def test_nothing_is_left_by_the_check(tmp_path):
    report_files.check(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())


def test_a_document_is_printed_as_text_or_json_and_its_report_named(tmp_path, capsys):
    report_files.answer(of("t"))
    assert capsys.readouterr().out == "a     b\nx, y  1\n"
    report_files.answer(of("t"), tmp_path)
    assert capsys.readouterr().out.endswith(f"wrote {tmp_path / 'page.html'}\n")
    report_files.answer(of("t"), tmp_path, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"usd": 1.5, "none": None}
