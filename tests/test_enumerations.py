"""Members that an enumeration lacks, however a program asks for them."""

import copy
import pickle

import pytest

from trnsim.enumerations import NoMember
from trnsim.isa import NcVersion
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.collectives import rg_partition_op
from trnsim.nki.compiler import AddressRotation

ENUMERATIONS = [
    (nisa.engine, "nisa.engine", "unknown, tensor, scalar, gpsimd, dma, vector, sync"),
    (nisa.dge_mode, "nisa.dge_mode", "unknown, swdge, hwdge, none"),
    (nisa.dma_engine, "nisa.dma_engine", "dma, gpsimd_dma"),
    (nisa.oob_mode, "nisa.oob_mode", "error, skip"),
    (nisa.matmul_perf_mode, "nisa.matmul_perf_mode", "none, double_row"),
    (nisa.reduce_cmd, "nisa.reduce_cmd", "idle, reset, reduce, reset_reduce, load_reduce"),
    (nisa.nc_version, "nisa.nc_version", "gen2, gen3, gen4"),
    (nisa.dependency, "nisa.dependency", "runtime, schedule"),
    (rg_partition_op, "ncc.rg_partition_op", "bitwise_and, div, mod"),
    (nl.MemoryRegion, "nl.MemoryRegion", "sbuf, psum, private_hbm, shared_hbm"),
    (AddressRotation, "nki.compiler.AddressRotation", "AUTO, ENABLE, DISABLE"),
]
WAYS = {
    ".qqq": lambda enumeration: enumeration.qqq,
    "['qqq']": lambda enumeration: enumeration["qqq"],
    "('qqq')": lambda enumeration: enumeration("qqq"),
    "['_x']": lambda enumeration: enumeration["_x"],
    "('_x')": lambda enumeration: enumeration("_x"),
    "(77)": lambda enumeration: enumeration(77),
    "()": lambda enumeration: enumeration(),
    "('qqq', x=3)": lambda enumeration: enumeration("qqq", x=3),
    "(1, 2, x=3)": lambda enumeration: enumeration(1, 2, x=3),
}


@pytest.mark.parametrize("asked", WAYS)
@pytest.mark.parametrize(("enumeration", "label", "legal"), ENUMERATIONS)
def test_a_member_that_is_not_there_is_refused_with_those_that_are(
    enumeration, label, legal, asked
):
    with pytest.raises(NoMember) as caught:
        WAYS[asked](enumeration)
    error = caught.value
    first = legal.partition(",")[0]
    assert error.reason == f"{label}{asked}: there is none; legal: {legal}"
    assert error.fix == f"write one of these, such as {label}.{first}"
    assert error.source.startswith("nki.")
    assert error.line.file == __file__


def test_the_error_is_also_that_of_python():
    with pytest.raises(AttributeError, match=r"engine[.]vecto"):
        _ = nisa.engine.vecto
    with pytest.raises(KeyError, match=r"engine\[.vecto"):
        _ = nisa.engine["vecto"]
    with pytest.raises(ValueError, match=r"engine\(77"):
        nisa.engine(77)
    assert getattr(nisa.engine, "vecto", None) is None
    assert not hasattr(nisa.engine, "vecto")


def test_a_near_name_is_what_to_write():
    with pytest.raises(NoMember, match=r"write nisa[.]engine[.]vector\n"):
        _ = nisa.engine.vecter


def test_a_member_has_no_attributes_but_its_own():
    with pytest.raises(AttributeError, match=r"nl[.]MemoryRegion[.]sbuf[.]foo: there is none"):
        _ = nl.sbuf.foo
    assert not hasattr(nl.sbuf, "__array__")


@pytest.mark.parametrize("enumeration", [each for each, *_ in ENUMERATIONS])
def test_members_are_found_in_every_way(enumeration):
    for member in enumeration:
        assert getattr(enumeration, member.name) is member
        assert enumeration[member.name] is member
        assert enumeration(member.value) is member
        assert copy.deepcopy(member) is member
        assert pickle.loads(pickle.dumps(member)) is member  # noqa: S301  our own


def test_a_generation_is_a_number():
    assert NcVersion(3) is NcVersion.gen3 > NcVersion.gen2
    assert NcVersion.gen3 + 1 == 4
