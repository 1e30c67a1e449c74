import pytest

from trnsim.arch.catalogue import parse, read_rows
from trnsim.errors import BadInput
from trnsim.facts import Evidence
from trnsim.system.platform import compared, platform, platforms


@pytest.mark.parametrize("name", ["trn1", "trn2", "trn3", "inf2", "p5", "p5en"])
def test_every_short_name_has_its_facts(name):
    found = platform(name)
    assert found.instance.name == platforms()[name]
    assert all(fact.provenance.source for fact in found.facts.values())


def test_these_are_the_short_names():
    assert list(platforms()) == ["trn1", "trn2", "trn3", "inf2", "p5", "p5en"]


def test_instance_names_work_as_well():
    assert platform("p4d.24xlarge").chip.name == "a100-40"


def test_hardware_facts_come_from_the_catalogue():
    rows = read_rows()
    rows["chips"]["trainium2"]["peak"]["bf16"]["value"] = 1
    assert platform("trn2", parse(rows)).facts["peak FLOP/s (bf16)"] == 1e12


def test_an_efficiency_is_assumed_where_nobody_published_one():
    kinds = {
        name: platform(name).facts["training efficiency"].provenance.kind for name in compared()
    }
    assert kinds == {
        "trn1": Evidence.DERIVED,
        "trn2": Evidence.ASSUMED,
        "trn3": Evidence.ASSUMED,
        "p5en": Evidence.MEASURED,
    }


def test_trn3_says_that_nothing_is_measured():
    assert platform("trn3").note == "no public measurement of Trn3 exists"


def test_an_unknown_target_lists_the_legal_ones():
    with pytest.raises(
        BadInput, match=r"^target 'foo' is not known; legal: trn1, trn2, trn3, inf2, p5, p5en, inf1"
    ):
        platform("foo")


def test_a_card_without_a_link_of_its_own_shares_pcie():
    link = platform("g5.48xlarge").facts["chip-to-chip bytes/s"]
    assert link == 12e9
    assert link.provenance.kind is Evidence.ASSUMED


def test_t4_has_the_peak_of_the_only_format_of_16_bits_that_it_multiplies():
    found = platform("g4dn.xlarge")
    assert found.facts["peak FLOP/s (bf16)"] == 65e12
    assert found.chip.memory_bytes_per_s == 320e9
