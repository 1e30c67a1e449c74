"""Fields that are no operands: each holds what its type says."""

import numpy as np
import pytest

from trnsim.errors import IllegalInstruction
from trnsim.isa import (
    DmaCopy,
    DmaTranspose,
    Instruction,
    Memset,
    NcMatmul,
    TensorReduce,
    TensorScalar,
    VirtualRegister,
)
from trnsim.isa.fields import wrong_field


@pytest.fixture
def tile(bench):
    return bench().tile(np.zeros((4, 4), np.float32))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda t: Memset(t, "x"), ("value", "'x'", "a number or a Tile")),
        (lambda t: Memset(t, (1, 2)), ("value", "(1, 2)", "a number or a Tile")),
        (
            lambda t: Memset(t, 1.0, 7),
            ("engine", "7", "one of unknown, tensor, scalar, gpsimd, dma"),
        ),
        (lambda t: TensorReduce(t, "add", t, "x"), ("axis", "'x'", "a whole number or a tuple")),
        (lambda t: TensorReduce(t, "add", t, (1, 0.5)), ("axis", "(1, 0.5)", "each of it a whole")),
        (lambda t: TensorReduce(t, 3, t, 1), ("op", "3", "an operator such as nl.add")),
        (lambda t: TensorReduce(t, "add", t, 1, 2), ("negate", "2", "True or False")),
        (lambda t: TensorScalar(t, t, 1.5), ("op0", "1.5", "an operator such as nl.add or None")),
        (lambda t: DmaCopy(t, t, "x"), ("priority", "'x'", "a whole number or None")),
        (lambda t: DmaTranspose(t, t, 3), ("axes", "3", "a tuple, each of it a whole number")),
        (
            lambda t: TensorReduce(t, "add", t, np.zeros(3)),
            ("axis", repr(np.zeros(3)), "a whole number or a tuple"),
        ),
        (
            lambda t: TensorReduce(t, "add", t, 1, np.zeros(3)),
            ("negate", repr(np.zeros(3)), "True or False"),
        ),
        (
            lambda t: TensorReduce(t, "add", t, VirtualRegister(1)),
            ("axis", "VirtualRegister(1)", "a whole number"),
        ),
        (lambda t: NcMatmul(t, t, t, accumulate="x"), ("accumulate", "'x'", "True or False or No")),
    ],
)
def test_a_field_of_another_type_is_named_with_what_is_legal(tile, make, expected):
    name, value, legal = expected
    found = wrong_field(make(tile))
    assert found is not None
    assert found[:2] == (name, value)
    assert legal in found[2]


def test_what_a_kernel_may_pass_fits(tile):
    for made in (
        Memset(tile, 1),
        Memset(tile, np.float64(2)),
        TensorReduce(tile, "add", tile, [1]),
        TensorReduce(tile, "add", tile, np.int64(1), 1),
        TensorReduce(tile, None, tile, 1),  # of a missing operator the instruction's rules speak
        DmaTranspose(tile, tile, None),
    ):
        assert wrong_field(made) is None


def test_the_types_of_every_instruction_are_known():
    for kind in Instruction.registry.values():
        made = object.__new__(kind)
        made.__dict__.update(dict.fromkeys(kind.__dataclass_fields__))
        wrong_field(made)


def test_an_instruction_refuses_it_where_its_own_rules_do_not(bench, tile):
    work = bench()
    with pytest.raises(IllegalInstruction, match="`negate` is 2; legal: True or False") as found:
        work.issue(TensorReduce(work.empty((4, 1)), "add", tile, 1, 2))
    assert found.value.fix


def test_the_words_of_its_own_rules_come_first(bench, tile):
    with pytest.raises(IllegalInstruction, match=r"nisa\.engine\.vector, nisa\.engine"):
        bench().issue(Memset(tile, "x", engine=7))


def test_a_defect_of_a_rule_is_no_mistake_of_the_kernel(bench, tile, monkeypatch):
    def broken(self, core, n):
        del self, core, n
        raise TypeError("a defect")

    monkeypatch.setattr(Memset, "check", broken)
    with pytest.raises(TypeError, match="a defect"):
        bench().issue(Memset(tile, 1.0))
