"""The operations: names, factors of the bus bandwidth, and buffers of a rank."""

import pytest

from trnsim.errors import BadInput
from trnsim.fabric.choice import KINDS
from trnsim.tools.nccom.operations import ITEM_BYTES, OPERATIONS, item_bytes, operation

# nccom-test.rst, Bus Bandwidth Calculation; r is the number of ranks.
FACTORS = {
    "all_reduce": lambda r: (2 * (r - 1)) / r,
    "all_gather": lambda r: (r - 1) / r,
    "all_gatherv": lambda r: (r - 1) / r,
    "reduce_scatter": lambda r: (r - 1) / r,
    "sendrecv": lambda _: 1,
    "alltoall": lambda r: (r - 1) / r,
    "permute": lambda _: 1,
    "alltoallv": lambda r: (r - 1) / r,
}


@pytest.mark.parametrize("ranks", [2, 3, 64])
@pytest.mark.parametrize("name", FACTORS)
def test_the_bus_factor_is_that_of_awss_table(name, ranks):
    assert operation(name).bus_factor(ranks) == pytest.approx(FACTORS[name](ranks))


def test_short_names_are_the_same_operations():
    for short, name in (
        ("allr", "all_reduce"),
        ("allg", "all_gather"),
        ("allgv", "all_gatherv"),
        ("redsct", "reduce_scatter"),
    ):
        assert operation(short) is operation(name)
    assert {row.name for row in OPERATIONS.values()} == set(FACTORS)
    assert {row.kind for row in OPERATIONS.values()} <= set(KINDS)


@pytest.mark.parametrize(
    ("name", "buffers"),
    [
        ("all_gather", (32, 1024)),  # nccom-test.rst, --show-input-output-size: 32 ranks
        ("reduce_scatter", (1024, 32)),
        ("all_reduce", (1024, 1024)),
        ("alltoall", (1024, 1024)),
        ("permute", (1024, 1024)),
    ],
)
def test_buffers_of_a_rank(name, buffers):
    assert operation(name).buffers(1024, 4, 32) == buffers


def test_a_part_has_whole_elements():
    assert operation("allg").buffers(8, 4, 32) == (4, 8)


def test_data_types_have_the_bytes_of_their_names():
    assert set(ITEM_BYTES.values()) == {1, 2, 4}
    for name, nbytes in ITEM_BYTES.items():
        bits = int("".join(filter(str.isdigit, name.replace("fp8e4", "fp8"))))
        assert item_bytes(name) == nbytes == bits // 8


def test_another_operation_or_type_is_refused_with_a_near_name():
    with pytest.raises(
        BadInput, match=r"operation 'allreduce'; legal: all_reduce, all_gather"
    ) as e:
        operation("allreduce")
    assert "perhaps all_reduce" in e.value.fix
    with pytest.raises(BadInput, match=r"--datatype fp64; legal: uint8, int8, fp8") as e:
        item_bytes("fp64")
    assert e.value.fix.startswith("perhaps fp")
    with pytest.raises(BadInput) as e:
        operation("")
    assert e.value.fix == ""
