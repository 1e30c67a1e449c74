"""`trnsim nccom-test`."""

import json

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn1.32xlarge")

    def call(*arguments):
        result = CliRunner().invoke(app, ["nccom-test", *arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result

    return call


def test_the_table_is_on_the_output_and_the_floor_beside_it(run):
    found = run("allg", "-r", "32", "-b", "1KB", "-e", "1MB", "-f", "32", "-d", "fp32")
    assert found.stderr == (
        "emulated by trnsim on 1 x trn1.32xlarge: each is started by the host\n"
    )
    rows = [line.split() for line in found.stdout.splitlines()]
    assert [row[0] for row in rows[1:-1]] == ["1024", "32768", "1048576"]
    assert float(rows[1][3]) == pytest.approx(151, rel=0.01)  # as published
    assert "algorithm" not in found.stdout


def test_rows_can_be_written_as_json(run, tmp_path):
    path = tmp_path / "rows.json"
    found = run(
        "allr", "-r", "64", "-N", "2", "-b", "8", "--report-to-json-file", str(path),
        "--show-algorithm", "-n", "5", "-w", "1",
    )  # fmt: skip
    assert found.stdout.splitlines()[1].split()[-1] == "hierarchical"
    (row,) = json.loads(path.read_text())["results"]
    assert (row["size(B)"], row["floor"]) == (8, "started by the host")


def test_what_cannot_be_is_refused(run):
    with pytest.raises(BadInput, match="operation 'sum'"):
        run("sum", "-r", "2")
    with pytest.raises(BadInput, match=r"64 ranks on trn1\.32xlarge"):
        run("allr", "-r", "64")
