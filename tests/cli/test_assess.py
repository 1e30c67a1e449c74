from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli.assess import write_atomically
from trnsim.errors import BadInput

INVENTORY = str(Path(__file__).parents[2] / "examples" / "inventory.csv")


def run(*arguments):
    result = CliRunner().invoke(app, ["assess", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_each_workload_gets_a_decision_and_a_table():
    output = run(INVENTORY)
    assert "nightly-pretraining: GO. trn1: a migration of 60,000 USD (assumed) pays" in output
    assert "weekly-tuning: NO-GO. " in output
    assert output.count("\n  trn3 ") == 4
    assert "engineer-weeks of a migration = 12: " in output


def test_output_goes_to_a_file_whole_or_not_at_all(tmp_path):
    path = tmp_path / "report.txt"
    assert run(INVENTORY, "--output", str(path)) == f"wrote {path}\n"
    assert path.read_text() == run(INVENTORY)
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_refused(tmp_path):
    path = tmp_path / "none" / "report.txt"
    with pytest.raises(BadInput, match=r"No such file or directory\n  fix: give --output a file"):
        write_atomically(path, "text")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "report.txt"
    path.write_text("old")

    def fail(*_):
        raise OSError

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match=r"^$"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_inventory_is_refused():
    with pytest.raises(BadInput, match=r"^none\.csv: No such file or directory"):
        run("none.csv")
