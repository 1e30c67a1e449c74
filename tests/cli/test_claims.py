import json

from typer.testing import CliRunner

from trnsim.cli import app


def run(*arguments):
    result = CliRunner().invoke(app, ["claims", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_every_claim_is_printed_with_its_verdict():
    output = run()
    assert output.startswith("C01  REPRODUCED        a Trn1 instance")
    assert "C14  WRONG" in output
    assert "          missing: any price of Trn3 Gen2 UltraServer\n" in output
    assert "34 claims: " in output


def test_figures_that_agree_come_first_and_all_shows_the_rest():
    assert " more: trnsim claims --all" in run()
    assert "138.1" in run("--all")
    assert "more: trnsim claims" not in run("--all")


def test_json_has_every_basis():
    claims = json.loads(run("--json"))
    assert len(claims) == 34
    by_id = {claim["id"]: claim for claim in claims}
    assert by_id["C22"]["verdict"] == "not checkable"
    assert len(by_id["C07"]["parts"][0]["figures"]) > 20
