import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from schema_checks import assert_both_ways
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput

sys.path.append(str(Path(__file__).parents[1] / "decide" / "guard"))

from guarded import CHAT, decision


def run(*arguments):
    result = CliRunner().invoke(app, ["guard", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture
def written(tmp_path):
    decision(CHAT).write(tmp_path / "decision.json")
    return str(tmp_path / "decision.json")


def test_the_files_are_named_as_they_are_written(written, tmp_path):
    folder = tmp_path / "guard"
    assert run("write", written, "--out", str(folder)) == "".join(
        f"wrote {folder / name}\n"
        for name in ("fallback.md", "alerts.yml", "dashboard.json", "guard.json")
    )


def test_the_files_are_told_as_json(written, tmp_path):
    folder = tmp_path / "guard"
    told = json.loads(run("write", written, "--folder", str(folder), "--json"))
    assert told["files"] == ["fallback.md", "alerts.yml", "dashboard.json", "guard.json"]
    assert told["folder"] == str(folder)
    assert_both_ways([told], "guard-write/1")


def test_savings_are_printed_by_month(written, tmp_path):
    bill = tmp_path / "bill.csv"
    bill.write_text("month,workload,usd\n2026-01,chat,60000\n2026-03,chat,65000\n")
    assert run("bill", str(bill), written).splitlines() == [
        "chat",
        "month    billed USD  expected USD  saving  predicted     saved so far USD",
        "2026-01  60,000      100,000       40.0%   as predicted  40,000",
        "2026-03  65,000      100,000       35.0%   as predicted  75,000",
        "60,000 USD of the migration were paid back in 2026-03",
        "not in the bill: 2026-02",
        "months without a volume are taken to have that of the decision",
    ]
    (found,) = json.loads(run("bill", str(bill), written, "--json"))
    assert [one["saving"] for one in found["months"]] == [0.4, 0.35]
    assert found["paid_back_in"] == "2026-03"
    dear = tmp_path / "dear.csv"
    dear.write_text("month,workload,usd,volume\n2026-01,chat,160000,1\n")
    unsure = replace(CHAT, candidates=[replace(there, saving=None) for there in CHAT.candidates])
    decision(unsure).write(tmp_path / "unsure.json")
    (other,) = json.loads(run("bill", str(dear), str(tmp_path / "unsure.json"), "--json"))
    assert other["paid_back_in"] is None
    assert_both_ways([found, other], "guard-bill/1")


def test_what_is_no_decision_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(BadInput, match="no decision: it has no format"):
        run("write", str(tmp_path / "a.json"), "--out", str(tmp_path / "guard"))
