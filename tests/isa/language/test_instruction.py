"""The language in which instructions are declared, and what is derived from a declaration."""

import numpy as np
import pytest

from trnsim import isa
from trnsim.dtypes import BFLOAT16, FLOAT32, INT32
from trnsim.errors import IllegalInstruction, InternalError
from trnsim.isa import Activation, DmaCopy, Engine, Instruction, Memset, NcMatmul, TensorCopy
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.instruction import Dims
from trnsim.memory import Memory
from trnsim.nki import collectives

SBUF, PSUM, HBM = Memory.SBUF, Memory.PSUM, Memory.HBM
# nki/api/nki/isa/__init__.py: the functions that are instructions.
PUBLISHED = frozenset(
    [
        "dma_copy",
        "tensor_copy",
        "memset",
        "tensor_copy_predicated",
        "nc_matmul",
        "nc_matmul_mx",
        "nc_transpose",
        "dma_transpose",
        "tensor_tensor",
        "tensor_scalar",
        "tensor_reduce",
        "tensor_partition_reduce",
        "tensor_scalar_cumulative",
        "activation",
        "activation_reduce",
        "activate2",
        "iota",
        "affine_select",
        "local_gather",
        "nc_n_gather",
        "bn_stats",
        "bn_aggr",
        "tensor_tensor_scan",
        "nc_stream_shuffle",
        "rng",
        "dropout",
        "set_rng_seed",
        "rand_set_state",
        "rand_get_state",
        "rand2",
        "exponential",
        "reciprocal",
        "max8",
        "sequence_bounds",
        "scalar_tensor_tensor",
        "tensor_scalar_reduce",
        "core_barrier",
        "dma_compute",
        "quantize_mx",
        "range_select",
        "select_reduce",
        "sendrecv",
        "register_alloc",
        "register_move",
        "register_load",
        "register_store",
        "scalar_load",
        "scalar_store",
        "nc_find_index8",
        "nc_match_replace8",
        "nonzero_with_count",
        "topk",
    ]
)
FIRST = {
    "activation",
    "activation_reduce",
    "dma_copy",
    "memset",
    "nc_matmul",
    "nc_transpose",
    "reciprocal",
    "scalar_tensor_tensor",
    "tensor_copy",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_tensor",
}


@pytest.fixture
def forget_new_classes():
    """A class declared by a test is taken out of the registry again."""
    before = dict(Instruction.registry)
    yield
    Instruction.registry.clear()
    Instruction.registry.update(before)


def test_the_registry_holds_published_instructions_under_awss_names():
    published = {name for name, made in Instruction.registry.items() if made.is_in_nki_isa}
    assert published <= PUBLISHED
    others = set(Instruction.registry) - published
    exchanges = set(collectives.__all__) - {
        *("ReplicaGroup", "reduce_scatter_v", "rg_partition_op")
    }
    # The guide has the first; Python's operators on scalars issue the second.
    assert others == {"nc_matmul_sparse", "scalar_arithmetic"} | exchanges
    assert set(Instruction.registry) >= FIRST


@pytest.mark.parametrize("opcode", sorted(Instruction.registry))
def test_every_instruction_is_exported_explained_sourced_and_priced(opcode):
    made = Instruction.registry[opcode]
    assert made in vars(isa).values()
    assert made.opcode == opcode
    assert made.source
    assert made.__doc__
    assert made.engines
    assert made.execute is not Instruction.execute
    assert made.cost is not Instruction.cost


@pytest.mark.parametrize("opcode", sorted(FIRST))
def test_the_first_operand_of_a_computation_is_what_it_writes(opcode):
    made = Instruction.registry[opcode]
    assert made.source == f"nki.isa.{opcode}"
    assert made.__doc__.startswith("``dst ")
    assert next(iter(made.operands)) == "dst"
    assert made.operands["dst"].access == "write"


@pytest.mark.usefixtures("forget_new_classes")
def test_an_instruction_without_values_or_price_is_a_defect_never_free(bench):
    class NothingYet(Instruction, engines=(Engine.vector,)):
        dst: object = writes("P F", SBUF)

    work = bench()
    tile = work.empty((4, 4))
    assert NothingYet.opcode == "nothing_yet"
    with pytest.raises(InternalError, match="nothing_yet declares no cost"):
        work.issue(NothingYet(tile))
    with pytest.raises(InternalError, match="nothing_yet declares no values"):
        NothingYet(tile).execute(work.core)


@pytest.mark.usefixtures("forget_new_classes")
def test_a_class_gets_operands_opcode_and_source_from_its_declaration():
    class FooBar8(Instruction, engines=(Engine.scalar,), source="page, heading"):
        dst: object = writes("P F", PSUM, dtypes=(FLOAT32,))
        src: object = reads("P 1", SBUF, HBM)
        speed: int = 3

    assert (FooBar8.opcode, FooBar8.source) == ("foo_bar8", "page, heading")
    assert list(FooBar8.operands) == ["dst", "src"]
    assert FooBar8.operands["dst"].dtypes == (FLOAT32,)
    assert FooBar8.operands["src"].axes == ("P", "1")
    assert FooBar8.operands["src"].memories == (SBUF, HBM)
    assert Instruction.registry["foo_bar8"] is FooBar8


def test_lengths_read_as_attributes():
    n = Dims(K=128)
    assert n.K == n["K"] == 128
    with pytest.raises(AttributeError, match="M"):
        _ = n.M


def test_verify_binds_the_lengths_of_the_axes(bench):
    work = bench()
    n = TensorCopy(work.empty((4, 2, 3)), work.empty((4, 6))).verify(work.core)
    assert n == {"P": 4, "F": 6}


def test_axes_that_disagree_are_refused_with_both_lengths(bench):
    work = bench()
    with pytest.raises(IllegalInstruction, match="axis F is 6 elsewhere but 5 in `src`") as caught:
        TensorCopy(work.empty((4, 6)), work.empty((4, 5))).verify(work.core)
    assert str(caught.value).startswith("tensor_copy: ")
    assert caught.value.source == "nki.isa.tensor_copy"
    assert caught.value.line.file == __file__


def test_an_axis_of_one_must_be_one(bench):
    work = bench()
    data, wide = work.empty((4, 6)), work.empty((4, 2))
    Activation(data, "exp", data, bias=work.empty((4, 1))).verify(work.core)
    with pytest.raises(IllegalInstruction, match="axis 1 must be 1 but 2 in `bias`"):
        Activation(data, "exp", data, bias=wide).verify(work.core)
    with pytest.raises(IllegalInstruction, match="axis P is 4 elsewhere but 3 in `bias`"):
        Activation(data, "exp", data, bias=work.empty((3, 1))).verify(work.core)


def test_a_tile_in_another_memory_is_refused_with_the_legal_ones(bench):
    work = bench()
    tile = work.empty((4, 4))
    for bad, legal in ((HBM, "SBUF or PSUM"),):
        with pytest.raises(IllegalInstruction, match=f"`src` is HBM .*; legal: {legal}"):
            TensorCopy(tile, work.empty((4, 4), memory=bad)).verify(work.core)
    with pytest.raises(
        IllegalInstruction, match=r"`src` is PSUM .* under NKI .* legal: in NKI 0.2"
    ):
        DmaCopy(tile, work.empty((4, 4), memory=PSUM)).verify(work.core)


def test_another_dtype_is_refused_with_the_legal_ones(bench):
    work = bench()
    dst, good = work.empty((4, 4), memory=PSUM), work.empty((8, 4), BFLOAT16)
    NcMatmul(dst, good, good).verify(work.core)
    message = "`moving` is .* int32; legal dtypes: bfloat16 or float16 or"
    with pytest.raises(IllegalInstruction, match=message):
        NcMatmul(dst, good, work.empty((8, 4), INT32)).verify(work.core)


@pytest.mark.parametrize("value", [None, 3, np.zeros((4, 4)), "x", [1]])
def test_what_is_no_tile_is_refused(bench, value):
    work = bench()
    with pytest.raises(
        IllegalInstruction, match=f"`src` is {type(value).__name__}; legal: a tensor"
    ):
        TensorCopy(work.empty((4, 4)), value).verify(work.core)


@pytest.mark.parametrize("value", [None, np.zeros((4, 1)), "x"])
def test_what_is_neither_tile_nor_number_is_refused(bench, value):
    work = bench()
    tile = work.empty((4, 4))
    message = f"`scale` is {type(value).__name__}; legal: a tensor or a number"
    with pytest.raises(IllegalInstruction, match=message):
        Activation(tile, "exp", tile, scale=value).verify(work.core)


def test_an_operand_that_may_be_left_out_may_be_none(bench):
    work = bench()
    tile = work.empty((4, 4))
    Activation(tile, "exp", tile, bias=None, reduce_res=None).verify(work.core)


# trainium_inferentia2_arch.rst: up to 32 partitions start at 0, 32, 64, 96; up to 64 at 0, 64.
@pytest.mark.parametrize(
    ("length", "legal"),
    [
        (1, {0, 32, 64, 96}),
        (32, {0, 32, 64, 96}),
        (33, {0, 64}),
        (64, {0, 64}),
        (65, {0}),
        (128, {0}),
    ],
)
def test_tiles_start_at_the_partitions_that_their_length_allows(bench, length, legal):
    work = bench(has_values=False)
    for start in range(129 - length):
        tile = work.empty((length, 1), address=(start, 0))
        instruction = Memset(tile, 0.0)
        if start in legal:
            instruction.verify(work.core)
            continue
        message = f"starts at partition {start} and spans {length}; legal starts for {length}"
        with pytest.raises(IllegalInstruction, match=message):
            instruction.verify(work.core)


def test_dma_starts_at_any_partition(bench):
    work = bench()
    tile = work.empty((3, 4), address=(5, 0))
    DmaCopy(tile, work.empty((3, 4), memory=HBM)).verify(work.core)


def test_an_engine_that_cannot_do_it_is_refused_with_those_that_can(bench):
    work = bench()
    tile = work.empty((4, 4))
    message = r"engine Tensor Engine; legal: nisa.engine.vector, nisa.engine.gpsimd"
    with pytest.raises(IllegalInstruction, match=message):
        Memset(tile, 0.0, Engine.tensor).verify(work.core)
    with pytest.raises(IllegalInstruction, match=r"engine 'vector'; legal: nisa\.engine\.vector"):
        Memset(tile, 0.0, "vector").verify(work.core)


def test_without_an_engine_the_first_legal_one_works(bench):
    work = bench()
    tile = work.empty((4, 4))
    assert TensorCopy(tile, tile).chosen_engine(work.core) is Engine.vector
    assert TensorCopy(tile, tile, Engine.gpsimd).chosen_engine(work.core) is Engine.gpsimd


def test_equal_signatures_have_equal_operands_up_to_their_storage(bench):
    work = bench()
    a, b, c = (work.empty((4, 4)) for _ in range(3))
    assert TensorCopy(a, b).signature() == TensorCopy(b, c).signature()
    assert TensorCopy(a, b).signature() != TensorCopy(a, b, Engine.gpsimd).signature()
    assert TensorCopy(a, b).signature() != TensorCopy(a, work.empty((4, 4), BFLOAT16)).signature()
    assert Memset(a, 0.0).signature() != Memset(a, 1.0).signature()


def test_an_outline_costs_the_same_and_holds_no_bytes(bench, random):
    work = bench()
    instruction = TensorCopy(work.empty((32, 64), BFLOAT16), work.tile(random((32, 64))))
    outline = instruction.outline()
    assert outline.signature() == instruction.signature()
    assert all(tile.storage.data is None for _, tile in outline.tiles())
    assert work.cost(outline) == work.cost(instruction)


def test_tiles_are_the_operands_that_are_tiles(bench):
    work = bench()
    data, bias = work.empty((4, 4)), work.empty((4, 1))
    found = list(Activation(data, "exp", data, bias=bias, scale=2.0).tiles())
    assert [(operand.access, tile) for operand, tile in found] == [
        ("write", data),
        ("read", data),
        ("read", bias),
    ]
