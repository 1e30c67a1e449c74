"""`trnsim plan fleet`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput, EmulatorError

ROOT = Path(__file__).resolve().parents[3]
SMALL = (ROOT / "examples" / "fleet.yaml").read_text().replace("days: 7", "days: 1")
FEW = ("--policy", "separate,threshold", "--draws", "2")


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def run(*arguments):
    result = CliRunner().invoke(app, ["plan", "fleet", *map(str, arguments)])
    if isinstance(result.exception, EmulatorError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_text_is_at_most_100_columns_wide(small):
    printed = run(small, *FEW)
    assert max(map(len, printed.splitlines())) <= 100
    assert "separate" in printed
    assert "Mon 00:00" in printed


def test_json_is_the_same_on_stdout_and_in_the_file(small, tmp_path):
    out = tmp_path / "out.json"
    found = json.loads(run(small, *FEW, "--json", "--out", out))
    assert found == json.loads(out.read_text())
    assert list(found["policies"]) == ["separate", "threshold"]


def test_a_report_has_a_page_the_json_and_a_table(small, tmp_path):
    folder = tmp_path / "report"
    printed = run(small, *FEW, "--report", folder)
    assert printed.endswith(f"wrote {folder / 'page.html'}\n")
    assert json.loads((folder / "figures.json").read_text()) == json.loads(
        run(small, *FEW, "--json")
    )
    assert "<svg" in (folder / "page.html").read_text(encoding="utf-8")
    assert (folder / "table.csv").read_text().count("\n") == 1 + 2 * 24 * 3


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_computed(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write to the folder"):
        run(tmp_path / "no such scenario", "--report", tmp_path / "file")


def test_a_seed_decides_all_draws(small):
    one, same, other = (run(small, *FEW, "--json", "--seed", seed) for seed in (1, 1, 2))
    assert one == same
    assert json.loads(one)["policies"] != json.loads(other)["policies"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--policy", "best"), "--policy is 'best'; legal: separate, threshold, solver or all"),
        (("--policy", "separate, best"), "--policy is 'best'; legal: separate, threshold, solver"),
        (("--policy", "all,best"), "--policy is 'all'; legal: separate, threshold, solver or all"),
    ],
)
def test_bad_options_are_refused(small, arguments, said):
    with pytest.raises(BadInput, match=said.replace("(", r"\(")):
        run(small, *arguments)


@pytest.mark.parametrize("draws", ["0", "1001"])
def test_a_number_of_draws_out_of_range_is_refused(small, draws):
    told = CliRunner().invoke(app, ["plan", "fleet", str(small), "--draws", draws])
    assert "legal: whole numbers from 1 to 1000" in told.output


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"none\.yaml"):
        run(tmp_path / "none.yaml")
