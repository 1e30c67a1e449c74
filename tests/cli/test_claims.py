import json

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.document.text import WIDTH
from trnsim.errors import BadInput


def run(*arguments):
    result = CliRunner().invoke(app, ["claims", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_every_claim_has_a_line_in_a_hundred_columns():
    lines = run().splitlines()
    assert lines[0].split() == ["id", "verdict", "claimed", "ours", "what", "is", "claimed"]
    ids = [line.split()[0] for line in lines if line[:1] == "C" and line[1:3].isdigit()]
    assert ids == [f"C{n:02}" for n in range(1, 71)]
    assert max(map(len, lines)) <= WIDTH
    assert any(line.startswith("C14  wrong ") for line in lines)
    assert any(line.startswith("70 claims: ") for line in lines)


@pytest.mark.parametrize("claim_id", ["C07", "c07"])
def test_one_claim_has_everything_that_it_rests_on(claim_id):
    output = run(claim_id)
    assert output.startswith("C07  DEPENDS ON BASIS  Trn2 has 30 to 40 %")
    assert 'document 002, 000, 003: "30-40% better price-performance' in output
    assert "capacity_block 2025-12-04" in output
    assert "[1] " in output
    assert max(map(len, output.splitlines())) <= WIDTH


def test_json_has_every_basis_with_kind_day_source_and_rows():
    claims = json.loads(run("--json"))
    assert len(claims) == 70
    by_id = {claim["id"]: claim for claim in claims}
    first = by_id["C07"]["parts"][0]["bases"][0]
    assert first["kind"] == "price"
    assert first["days"][0] == "capacity_block 2025-12-04"
    assert first["matches"] is True
    assert first["sources"]
    assert "chips/trainium2" in first["rows"]
    assert by_id["C22"]["parts"][0]["not_known"] == ["any price of Trn3 Gen2 UltraServer"]
    assert json.loads(run("C22", "--json")) == by_id["C22"]


def test_a_page_is_written(tmp_path):
    path = tmp_path / "claims.html"
    assert run("--output", str(path)).endswith(f"wrote {path}\n")
    assert path.read_text(encoding="utf-8").count('<section class="panel" id="C') == 70


def test_a_claim_that_does_not_exist_is_refused():
    with pytest.raises(BadInput, match=r"there is no claim 'C99'; legal: C01 to C70"):
        CliRunner().invoke(app, ["claims", "C99"], catch_exceptions=False)
