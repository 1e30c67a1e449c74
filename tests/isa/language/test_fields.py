"""Fields that are no operands: each holds what its type says."""

from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import pytest

from trnsim.dtypes import INT32
from trnsim.errors import EmulatorError, IllegalInstruction
from trnsim.isa import (
    DmaCopy,
    DmaTranspose,
    Instruction,
    Iota,
    Memset,
    NcMatmul,
    TensorReduce,
    TensorScalar,
    VirtualRegister,
)
from trnsim.isa.language.fields import converted_fields, wrong_field
from trnsim.isa.reference.example import examples
from trnsim.memory import Memory
from trnsim.program import issuing_to


@pytest.fixture
def tile(bench):
    return bench().tile(np.zeros((4, 4), np.float32))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda t: Memset(t, "x"), ("value", "'x'", "a number")),
        (lambda t: Memset(t, ()), ("value", "()", "a number")),
        (lambda t: Memset(t, (1, 2)), ("value", "(1, 2)", "a number")),
        (
            lambda t: Memset(t, 1.0, 7),
            ("engine", "7", "one of unknown, tensor, scalar, gpsimd, dma"),
        ),
        (lambda t: TensorReduce(t, "add", t, "x"), ("axis", "'x'", "a whole number or a tuple")),
        (lambda t: TensorReduce(t, "add", t, (1, 0.5)), ("axis", "(1, 0.5)", "each item a whole")),
        (lambda t: TensorReduce(t, 3, t, 1), ("op", "3", "an operator such as nl.add")),
        (lambda t: TensorReduce(t, "add", t, 1, 2), ("negate", "2", "True or False")),
        (lambda t: TensorScalar(t, t, 1.5), ("op0", "1.5", "an operator such as nl.add or None")),
        (lambda t: DmaCopy(t, t, "x"), ("priority", "'x'", "a whole number or None")),
        (lambda t: DmaCopy(t, t, True), ("priority", "True", "a whole number or None")),
        (lambda t: DmaCopy(t, t, np.False_), ("priority", "np.False_", "a whole number or None")),
        (lambda t: TensorReduce(t, "add", t, True), ("axis", "True", "a whole number or a tuple")),
        (lambda t: DmaTranspose(t, t, 3), ("axes", "3", "a tuple, each item a whole number")),
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


def test_fields_are_given_their_own_type_where_they_hold_a_legal_value(tile):
    made = TensorReduce(tile, "add", tile, (np.int64(1), 2), 1)
    assert converted_fields(made) == {"axis": (1, 2), "negate": True}
    assert [type(axis) for axis in converted_fields(made)["axis"]] == [int, int]
    assert converted_fields(NcMatmul(tile, tile, tile, accumulate=0)) == {"accumulate": False}
    for plain in (
        TensorReduce(tile, "add", tile, (1,), True),
        TensorReduce(tile, "add", tile, 1.0, 2),
        NcMatmul(tile, tile, tile, accumulate=None),
        Memset(tile, 1),
    ):
        assert converted_fields(plain) == {}


# Values that Python calls equal


def equals(value):
    """`value` as each other type of number that has it; of a tuple, one item at a time."""
    if isinstance(value, tuple):
        for place, item in enumerate(value):
            for other in equals(item):
                yield (*value[:place], other, *value[place + 1 :])
    elif isinstance(value, bool | int | float):
        for kind in (bool, int, float, np.bool_, np.int64, np.float64):
            with suppress(OverflowError):
                if kind(value) == value and kind is not type(value):
                    yield kind(value)


def outcome(work, made):
    """What issuing `made` leads to: an error, or a price and what is executed."""
    try:
        with issuing_to(work.context):
            work.context.issue(made)
    except EmulatorError as error:
        return type(error), error.reason
    kept = work.program.checked[work.program.which[-1]]
    return kept.cost, [type(value) for value in vars(made).values()]


def cases():
    for opcode, kind in Instruction.registry.items():
        for number, made in enumerate(examples(kind)):
            for field in fields(kind):
                value = getattr(made, field.name)
                found = [value] if isinstance(value, bool | int | float | tuple) else []
                found += [True, False] * ("bool" in str(field.type))
                for legal in dict.fromkeys(found):
                    yield pytest.param(
                        made, field.name, legal, id=f"{opcode}-{number}-{field.name}-{legal}"
                    )


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(("made", "name", "legal"), list(cases()))
def test_an_equal_value_of_another_type_is_judged_as_if_it_came_first(
    bench, core, made, name, legal
):
    usual = replace(made, **{name: legal})
    for other in equals(legal):
        first = outcome(bench(core, has_values=False), replace(made, **{name: other}))
        work = bench(core, has_values=False)
        before = outcome(work, usual)
        assert outcome(work, replace(made, **{name: other})) == first, repr(other)
        assert outcome(work, usual) == before
        if isinstance(legal, bool) and isinstance(other, int | np.bool_ | np.integer):
            assert first == before, repr(other)


@pytest.mark.parametrize("overwrites", [False, 0, np.bool_(False), np.int64(0)])
def test_a_matmul_overwrites_where_accumulate_equals_false(bench, overwrites):
    work = bench()
    ones = work.tile(np.ones((4, 4), np.float32))
    dst = work.empty((4, 4), memory=Memory.PSUM)
    for accumulate in (False, True, overwrites):
        work.issue(NcMatmul(dst, ones, ones, accumulate=accumulate))
    assert dst.load().tolist() == [[4] * 4] * 4


@pytest.mark.parametrize("is_first", [True, False])
def test_a_fraction_is_no_whole_number_after_it_either(bench, is_first):
    work = bench()
    dst = work.empty((4, 4), INT32)
    if not is_first:
        work.issue(Iota(dst, ((1, 4),), 2))
    for wrong in (2.0, np.float64(2)):
        with pytest.raises(IllegalInstruction, match=r"`offset` is .*; legal: a whole number"):
            work.issue(Iota(dst, ((1, 4),), wrong))


def test_nan_is_checked_once(bench):
    work = bench()
    tile = work.empty((4, 4))
    for _ in range(3):
        work.issue(Memset(tile, float("nan")))
    assert len(work.program.checked) == 1
    assert np.isnan(tile.load()).all()
