"""`nki.isa.constants`: the enumerations of `nki.isa` under their second address."""

import nki.isa as nisa
import pytest
from nki.isa import constants

MEMBERS = {
    "engine": "unknown tensor vector scalar gpsimd dma",
    "dge_mode": "unknown none swdge hwdge",
    "dma_engine": "dma gpsimd_dma",
    "oob_mode": "error skip",
    "matmul_perf_mode": "none double_row",
    "reduce_cmd": "idle reset reduce reset_reduce load_reduce",
    "nc_version": "gen2 gen3 gen4",
}


@pytest.mark.parametrize(("name", "members"), MEMBERS.items())
def test_an_enumeration_is_the_same_object_at_both_addresses(name, members):
    enumeration = getattr(constants, name)
    assert enumeration is getattr(nisa, name)
    assert set(members.split()) <= set(enumeration.__members__)


def test_there_is_nothing_else():
    assert sorted(constants.__all__) == sorted(MEMBERS)


def test_engines_have_names_of_their_own_in_nki_isa():
    for name in ("tensor", "vector", "scalar", "gpsimd", "unknown"):
        assert getattr(nisa, f"{name}_engine") is nisa.engine[name]
