import csv
import json

import pytest

from trnsim.cli import report_files
from trnsim.errors import BadInput


def test_three_files_are_written_and_an_old_report_is_replaced(tmp_path):
    folder = tmp_path / "new" / "report"
    for page in ("<p>old</p>", "<p>ä</p>"):
        report_files.check(folder)
        made = report_files.write(folder, page, {"usd": 1.5}, [["a", "b"], ["x, y", "1"]])
    assert [path.name for path in made] == ["page.html", "figures.json", "table.csv"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in made)
    assert made[0].read_text(encoding="utf-8") == "<p>ä</p>"
    assert json.loads(made[1].read_text()) == {"usd": 1.5}
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


def test_a_number_that_json_lacks_is_an_error_and_not_a_broken_file(tmp_path):
    with pytest.raises(ValueError, match="Out of range"):
        report_files.write(tmp_path, "", {"usd": float("nan")}, [])
    assert not list(tmp_path.iterdir())
