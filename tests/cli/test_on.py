"""The option --on: chips, families and instance types."""

import pytest

from trnsim.cli.on import chips, one_platform
from trnsim.errors import BadInput


@pytest.mark.parametrize("on", ["trn2", "TRN2", "gen3", "Trainium2", "trn2u", "trn2.3xlarge"])
def test_a_chip_is_named_by_itself_its_family_or_its_instance(on):
    assert [chip.name for chip in chips([on])] == ["trn2"]


def test_chips_are_named_once_and_have_a_default():
    assert [chip.name for chip in chips(["trn1,trn1n.32xlarge", "inf2"])] == ["trn1", "inf2"]
    assert [chip.name for chip in chips(None)] == ["trn2"]


@pytest.mark.parametrize("on", ["p5en", "h100", "inf1", "g5.xlarge"])
def test_what_is_not_emulated_is_refused_with_the_reason(on):
    with pytest.raises(BadInput, match=r"is planned for and priced, not emulated; legal: trn1, "):
        chips([on])


def test_one_platform_is_one():
    assert one_platform(["trn2u"]).instance == "trn2u.48xlarge"
    assert one_platform(None, "trn1").name == "trn1"
    for on in (None, ["trn1,trn2"]):
        with pytest.raises(BadInput, match="legal: one platform"):
            one_platform(on)
