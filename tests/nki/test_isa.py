"""`nki.isa`: AWS's names and signatures over the declared instructions."""

import inspect
import operator
from dataclasses import fields
from enum import Enum

import numpy as np
import pytest

import trnsim
from trnsim.behaviours import VERSIONS
from trnsim.errors import IllegalInstruction
from trnsim.isa import Engine, Instruction
from trnsim.nki import isa as nisa
from trnsim.nki import jit, simulate
from trnsim.nki import language as nl
from trnsim.nki.notices import SimulatorOnlyWarning
from trnsim.program import current_core

# nki/api/nki/isa/__init__.py: parameters in order; what has no default is marked "!".
PUBLISHED = {
    "dma_copy": "dst! src! priority oob_mode dge_mode engine name",
    "tensor_copy": "dst! src! engine name",
    "memset": "dst! value! engine name",
    "nc_matmul": (
        "dst! stationary! moving! is_stationary_onezero is_moving_onezero is_transpose accumulate "
        "tile_position tile_size perf_mode name"
    ),
    "nc_transpose": "dst! data! engine name",
    "activation": "dst! op! data! bias scale reduce_op reduce_res reduce_cmd name",
    "activation_reduce": "dst! op! data! reduce_op! reduce_res! bias scale name",
    "tensor_reduce": "dst! op! data! axis! negate keepdims name",
    "tensor_tensor": "dst! data1! data2! op! engine name",
    "tensor_scalar": "dst! data! op0! operand0 reverse0 op1 operand1 reverse1 engine name",
    "scalar_tensor_tensor": "dst! data! op0! operand0! op1! operand1! reverse0 reverse1 name",
    "reciprocal": "dst! data! name",
}


def on_core(body, target="trn2", **options):
    """Run `body(x, out)` with a [128, 8] tile of twos and an output; the output."""

    @jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        result = body(nl.load(x))
        nl.store(out, nl.load(x) if result is None else result)
        return out

    return trnsim.run(kernel, np.full((128, 8), 2, np.float32), target=target, **options).outputs


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_function_has_the_published_signature(name):
    signature = inspect.signature(getattr(nisa, name))
    spelled = [
        p.name + ("!" if p.default is p.empty else "") for p in signature.parameters.values()
    ]
    assert " ".join(spelled) == PUBLISHED[name]
    assert signature.parameters["name"].default is None


# The functions that return a scalar, or take one, are written by hand.
BY_HAND = {"scalar_load", "scalar_store"}


@pytest.mark.parametrize("opcode", sorted(set(PUBLISHED) & set(Instruction.registry) - BY_HAND))
def test_every_declared_instruction_is_a_function_of_that_name(opcode):
    function = getattr(nisa, opcode)
    assert function.__name__ == function.__qualname__ == opcode
    assert function.__doc__ == Instruction.registry[opcode].__doc__


def test_positions_and_keywords_mean_the_same():
    def by_position(tile):
        nisa.tensor_scalar(tile, tile, nl.subtract, 5.0, True)
        return tile

    def by_keyword(tile):
        nisa.tensor_scalar(
            dst=tile, data=tile, op0=nl.subtract, operand0=5.0, reverse0=True, name="x"
        )
        return tile

    assert on_core(by_position)[0, 0] == on_core(by_keyword)[0, 0] == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda t: nisa.activation(dst=t, data=t),
        lambda t: nisa.activation(dst=t, op=nl.exp),
        nisa.memset,
        lambda t: nisa.tensor_reduce(t, nl.add, t),
        lambda t: nisa.tensor_tensor(t, t, t),
        lambda t: nisa.reciprocal(t, t, t, t, t),
        lambda t: nisa.reciprocal(t, source=t),
    ],
    ids=["no op", "no data", "no value", "no axis", "no operator", "too many", "misspelt"],
)
def test_a_call_that_does_not_fit_is_refused_with_the_signature(call):
    message = r"was given \d positional operands and .*; legal: dst, "
    with pytest.raises(IllegalInstruction, match=message) as caught:
        on_core(call)
    assert caught.value.fix.startswith("call it as nisa.")
    assert "<" not in caught.value.fix


def test_the_name_of_an_instruction_may_stand_behind_its_operands():
    names = []

    def copy_twice(tile):
        names.append(nisa.tensor_copy(tile, tile, nisa.engine.vector, "first").name)
        names.append(nisa.memset(tile, 1.0, nisa.engine.vector, None).name)

    on_core(copy_twice)
    assert names == ["first", None]


def test_a_misspelt_operand_has_near_names_and_defaults_are_written_as_in_programs():
    with pytest.raises(IllegalInstruction, match="0 positional operands and engin: ") as caught:
        on_core(lambda _: nisa.memset(engin=3))
    call = "nisa.memset(dst, value, engine=nisa.engine.unknown, name=None)"
    assert caught.value.fix == f"call it as {call}; perhaps with engine"
    assert caught.value.line.file == __file__


@pytest.mark.parametrize(
    ("call", "reason", "hint"),
    [
        (
            lambda t: nisa.tensor_copy(t, t, mask=None),
            "keyword argument 'mask'",
            "masks ended with",
        ),
        (lambda t: nisa.activation(t, nl.exp, t, dtype=1), "argument 'dtype'", "is that of dst"),
        (
            lambda t: nisa.reciprocal(data=t),
            "missing a required argument: 'dst'",
            "writes dst, and",
        ),
        (nisa.reciprocal, "missing a required argument: 'data'", "data, name=None)"),
    ],
    ids=["mask", "dtype", "dst", "data"],
)
def test_what_does_not_fit_is_named_and_operands_of_nki_0_1_by_what_became_of_them(
    call, reason, hint
):
    with pytest.raises(IllegalInstruction, match=reason) as caught:
        on_core(call)
    assert hint in caught.value.fix


def test_numpys_numbers_are_numbers():
    def body(tile):
        nisa.tensor_scalar(tile, tile, nl.add, np.float32(1.5))
        sums = nl.ndarray((128, 1), nl.float32)
        nisa.tensor_reduce(sums, nl.add, tile, axis=np.int64(1))
        nisa.tensor_scalar(tile, tile, nl.multiply, sums)
        return tile

    assert on_core(body)[0, 0] == 3.5 * 3.5 * 8


def test_a_list_of_axes_is_as_good_as_a_tuple():
    def body(tile):
        sums = nl.ndarray((128, 1), nl.float32)
        nisa.tensor_reduce(sums, nl.add, tile.reshape((128, 2, 4)), axis=[1, 2])
        nisa.tensor_scalar(tile, tile, nl.add, sums)
        return tile

    assert on_core(body)[0, 0] == 18


def test_an_array_in_place_of_a_tile_is_refused_by_the_operands_name():
    with pytest.raises(IllegalInstruction, match="`operand0` is ndarray; legal: a tensor or a"):
        on_core(lambda t: nisa.tensor_scalar(t, t, nl.add, np.ones((128, 1), np.float32)))


def test_a_name_that_aws_has_not_is_an_attribute_error():
    with pytest.raises(
        AttributeError,
        match=r"module 'nki\.isa' has no attribute 'nc_matmull'; did you mean 'nc_matmul'\?",
    ):
        _ = nisa.nc_matmull
    assert not hasattr(nisa, "tensor_tensr")


def test_every_published_instruction_is_a_function():
    assert all(callable(getattr(nisa, name)) for name in PUBLISHED)


@pytest.mark.parametrize(
    ("target", "version"), [("trn1", "gen2"), ("trn2", "gen3"), ("trn3", "gen4")]
)
def test_the_version_is_that_of_the_core(target, version):
    seen = []
    on_core(lambda _: seen.append(nisa.get_nc_version()), target)
    assert seen == [nisa.nc_version[version]]


def test_engines_have_their_older_names_too():
    assert nisa.vector_engine is nisa.engine.vector is Engine.vector
    assert {nisa.tensor_engine, nisa.scalar_engine, nisa.gpsimd_engine} < set(nisa.engine)
    assert nisa.unknown_engine is Engine.unknown


def test_what_is_no_instruction_is_there_too():
    assert nisa.VirtualRegister(5).value == 5
    assert nisa.get_nc_sub_version() == 0
    assert nisa.NkiValidationError is IllegalInstruction


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.exp])
@pytest.mark.parametrize("by_name", [True, False])
def test_an_operator_is_nkis_and_not_numpys(ufunc, by_name):
    def body(tile):
        if by_name:
            nisa.tensor_scalar(dst=tile, data=tile, op0=ufunc, operand0=1.0)
        else:
            nisa.tensor_scalar(tile, tile, ufunc, 1.0)
        return tile

    message = f"`op0` is numpy's {ufunc.__name__}; legal: operators of nki.language"
    with pytest.raises(IllegalInstruction, match=message) as caught:
        on_core(body)
    assert caught.value.fix == f"pass nl.{ufunc.__name__}"
    assert caught.value.source.endswith("Supported Math Operators by NKI ISA")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("value", "shown", "fix"),
    [
        ("add", "'add'", "pass nl.add"),
        ("nl.add", "'nl.add'", "pass nl.add"),
        ("plus", "'plus'", "pass an operator of nl, such as nl.add"),
        (max, "the function max", "pass nl.maximum"),
        (operator.mul, "the function mul", "pass nl.multiply"),
        (np.absolute, "numpy's absolute", "pass nl.abs"),
        (lambda a, b: a + b, "the function <lambda>", "pass an operator of nl, such as nl.add"),
        (np.ones(2), "a ndarray", "pass an operator of nl, such as nl.add"),
    ],
)
def test_an_operator_is_no_name_and_no_function_in_any_version(version, value, shown, fix):
    @jit
    def kernel(x):
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.tensor_tensor(tile, tile, tile, value)

    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(kernel, np.ones((1, 1), np.float32), nki=version)
    assert caught.value.reason.startswith(
        f"tensor_tensor: `op` is {shown}; legal: operators of nki"
    )
    assert caught.value.fix == fix
    assert caught.value.line.file == __file__


def all_operators():
    """Opcode and field of every operand of nki.isa that is an operator."""
    for opcode, made in sorted(Instruction.registry.items()):
        for field in fields(made):
            if made.is_in_nki_isa and "op" in field.name.rstrip("01").split("_"):
                yield opcode, field.name


@pytest.mark.parametrize(("opcode", "key"), list(all_operators()))
def test_each_operator_of_an_instruction_is_nkis(opcode, key):
    with pytest.raises(IllegalInstruction, match=f"{opcode}: `{key}` is 'add'; legal: operators"):
        getattr(nisa, opcode)(**{key: "add"})


def all_enumerations():
    """Opcode, field and place of every operand that is a member of an enumeration."""
    for opcode, made in sorted(Instruction.registry.items()):
        for place, field in enumerate(fields(made)):
            if made.is_in_nki_isa and isinstance(field.default, Enum):
                yield opcode, field.name, place, type(field.default)


@pytest.mark.parametrize(("opcode", "name", "place", "enumeration"), [*all_enumerations()])
@pytest.mark.parametrize("is_positional", [False, True])
def test_what_is_no_member_and_no_number_of_one_is_refused(
    opcode, name, place, enumeration, is_positional
):
    first = next(iter(enumeration))
    for wrong in (first.name, 99, True, None, np.int64(-1), nl.add):
        defaults = [field.default for field in fields(Instruction.registry[opcode])[:place]]
        before = [default if isinstance(default, Enum) else None for default in defaults]
        args = [*before, wrong] if is_positional else []
        given = {} if is_positional else {name: wrong}
        with pytest.raises(IllegalInstruction) as caught:
            getattr(nisa, opcode)(*args, **given)
        assert caught.value.reason.startswith(f"{opcode}: `{name}` is {wrong!r}; legal: nisa.")
        for member in enumeration:
            is_named = f".{member.name}" in caught.value.reason
            assert is_named is (member is not Engine.collective)  # no kernel names it
        public = caught.value.reason.partition("legal: nisa.")[2].partition(".")[0]
        assert getattr(nisa, public) is enumeration
        assert caught.value.source.endswith("Integer enum constants no longer supported")


@pytest.mark.parametrize("is_positional", [False, True])
@pytest.mark.parametrize("number", [3, np.int32(3)])
def test_a_number_stands_for_its_member_by_position_and_by_keyword(is_positional, number):
    def body(tile):
        copied = nl.ndarray(tile.shape, tile.dtype)
        if is_positional:
            nisa.dma_copy(copied, tile, 0, nisa.oob_mode.error, number)
        else:
            nisa.dma_copy(dst=copied, src=tile, dge_mode=number)
        last = current_core().program.checked[-1].instruction
        assert last.dge_mode is nisa.dge_mode(3)
        return copied

    assert (on_core(body, "trn3") == 2).all()


@pytest.mark.parametrize("version", ["gen2", "gen3", "gen4"])
def test_a_kernel_asks_for_a_generation_and_later(version):
    def body(tile):
        here = nisa.get_nc_version()
        value = 3.0 if here >= nisa.nc_version[version] and here >= int(version[-1]) else 5.0
        nisa.memset(tile, value)
        return tile

    for target, number in (("trn1", 2), ("trn2", 3), ("trn3", 4)):
        expected = 3.0 if number >= int(version[-1]) else 5.0
        assert on_core(body, target)[0, 0] == expected


@pytest.mark.parametrize("is_positional", [False, True])
def test_awss_simulator_takes_names_of_members_too(is_positional):
    def copied(mode):
        @jit
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            tile = nl.load(x)
            if is_positional:
                nisa.dma_copy(out, tile, 0, nisa.oob_mode.error, mode)
            else:
                nisa.dma_copy(dst=out, src=tile, dge_mode=mode)
            return out

        return simulate(kernel)

    x = np.ones((4, 8), np.float32)
    np.testing.assert_array_equal(copied(3)(x), x)
    with pytest.warns(SimulatorOnlyWarning, match="`dge_mode` is 'none'; legal: nisa.dge_mode.unk"):
        np.testing.assert_array_equal(copied("none")(x), x)
    for wrong in (4, True, "nothing", None):
        with pytest.raises(IllegalInstruction, match=f"`dge_mode` is {wrong!r}; legal"):
            copied(wrong)(x)


@pytest.mark.parametrize("word", ["double_row", "none", "fast"])
def test_a_performance_mode_is_refused_as_a_word_whatever_the_shapes(word):
    def body(tile):
        bank = nl.ndarray((8, 8), nl.float32, buffer=nl.psum)
        nisa.nc_matmul(bank, tile, tile, perf_mode=word)
        return tile

    legal = "nisa.matmul_perf_mode.none, nisa.matmul_perf_mode.double_row"
    message = f"nc_matmul: `perf_mode` is '{word}'; legal: {legal}"
    with pytest.raises(IllegalInstruction, match=message):
        on_core(body)
