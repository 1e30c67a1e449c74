import errno
import os
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli import assess as command
from trnsim.errors import BadInput

INVENTORY = str(Path(__file__).parents[2] / "examples" / "inventory.csv")


@pytest.fixture(scope="module")
def once():
    return cache(command.assess_inventory)


@pytest.fixture(autouse=True)
def assessed_once(monkeypatch, once):
    """The example is assessed by the first test that asks; what is printed of it is tested here."""
    monkeypatch.setattr(command, "assess_inventory", once)


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


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_computed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(command, "assess_inventory", None)
    for path, why in ((tmp_path / "none" / "a.txt", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(BadInput, match=f"cannot write {path}: {why}"):
            run(INVENTORY, "--output", str(path))


def test_a_missing_inventory_is_refused():
    with pytest.raises(BadInput, match=r"^cannot read none\.csv: No such file or directory"):
        run("none.csv")


def test_what_cannot_be_written_in_the_end_is_printed(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(BadInput, match="No space left on device"):
        command.assess(Path(INVENTORY), tmp_path / "a.txt")
    assert "nightly-pretraining: GO." in capsys.readouterr().out
