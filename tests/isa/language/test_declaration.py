"""What the declaration of an operand says of it."""

from dataclasses import MISSING, dataclass, fields

import pytest

from trnsim.dtypes import FLOAT32
from trnsim.isa.language.declaration import (
    READ_ACCESSES,
    WRITE_ACCESSES,
    names,
    reads,
    reads_many,
    updates,
    vector_or_number,
    writes,
)
from trnsim.memory import Memory


@dataclass
class Declared:
    dst: object = writes("P F", Memory.SBUF, Memory.PSUM, dtypes=(FLOAT32,))
    kept: object = updates("P F", Memory.SBUF)
    data: object = reads("K M", Memory.SBUF)
    named: object = names("", Memory.HBM)
    several: object = reads_many(Memory.SBUF)
    scale: object = vector_or_number("P 1", Memory.SBUF, default=1.0)
    mask: object = reads("P F", Memory.SBUF, default=None)


FIELDS = {field.name: field for field in fields(Declared)}


@pytest.mark.parametrize(
    ("name", "looks", "changes"),
    [
        ("dst", False, True),
        ("kept", True, True),
        ("data", True, False),
        ("named", False, False),
        ("several", True, False),
        ("scale", True, False),
    ],
)
def test_an_operand_looks_at_its_tile_or_changes_it(name, looks, changes):
    access = FIELDS[name].metadata["operand"].access
    assert (access in READ_ACCESSES, access in WRITE_ACCESSES) == (looks, changes)


def test_axes_memories_and_dtypes_are_kept():
    dst = FIELDS["dst"].metadata["operand"]
    assert dst.axes == ("P", "F")
    assert dst.memories == (Memory.SBUF, Memory.PSUM)
    assert dst.dtypes == (FLOAT32,)
    assert FIELDS["named"].metadata["operand"].axes == ()


def test_an_operand_without_a_default_must_be_given():
    defaults = {name: field.default for name, field in FIELDS.items()}
    assert (defaults["scale"], defaults["mask"]) == (1.0, None)
    assert [name for name, default in defaults.items() if default is MISSING] == [
        "dst",
        "kept",
        "data",
        "named",
        "several",
    ]


def test_numbers_and_tuples_stand_where_they_are_declared():
    kinds = {
        name: (operand.is_immediate, operand.is_many)
        for name, field in FIELDS.items()
        if (operand := field.metadata["operand"])
    }
    assert kinds["scale"] == (True, False)
    assert kinds["several"] == (False, True)
    assert kinds["data"] == (False, False)


def test_a_result_in_another_memory_is_allocated_elsewhere_and_an_input_copied():
    dst, kept, data = (FIELDS[name].metadata["operand"] for name in ("dst", "kept", "data"))
    assert dst.memory_fix == "allocate it in nl.sbuf, and copy the result on from there"
    assert kept.memory_fix == data.memory_fix == "copy it to SBUF first"


def test_a_result_of_another_dtype_is_allocated_anew_and_an_input_cast():
    dst, data = (FIELDS[name].metadata["operand"] for name in ("dst", "data"))
    assert dst.dtype_fix.startswith("allocate it with a legal dtype")
    assert data.dtype_fix.startswith("cast it with nisa.tensor_copy")
