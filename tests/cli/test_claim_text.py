from trnsim.cli.claim_text import lines_of
from trnsim.system.claims import claims


def test_a_claim_has_its_verdict_its_figures_and_what_is_missing():
    (claim,) = [one for one in claims() if one.id == "C22"]
    lines = lines_of(claim)
    assert lines[0].startswith("C22  NOT CHECKABLE ")
    assert "          missing: any price of Trn3 Gen2 UltraServer" in lines


def test_a_shortened_list_says_how_much_is_left_out():
    (claim,) = [one for one in claims() if one.id == "C07"]
    assert any(line.endswith(" more: trnsim claims --all") for line in lines_of(claim, 3))
    assert not any("more: trnsim" in line for line in lines_of(claim))
