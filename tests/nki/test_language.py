"""`nki.language`: tensors, limits of the core, loops, dtypes."""

import numpy as np
import pytest

import trnsim
from trnsim.dtypes import ALL
from trnsim.errors import BadInput, IllegalInstruction, NotModelled, OutOfMemory
from trnsim.memory import Memory
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.program import CoreContext, issuing_to


@pytest.fixture
def on_core(core_v3):
    """Inside a kernel on NeuronCore-v3."""
    with issuing_to(CoreContext(core_v3)) as context:
        yield context


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_a_dtype_is_a_name_of_the_language(dtype):
    assert getattr(nl, dtype.name) is dtype
    assert isinstance(dtype, nl.DType)


@pytest.mark.usefixtures("on_core")
@pytest.mark.parametrize(
    ("buffer", "memory"),
    [
        (nl.sbuf, Memory.SBUF),
        (nl.psum, Memory.PSUM),
        (nl.hbm, Memory.HBM),
        (nl.private_hbm, Memory.HBM),
        (nl.shared_hbm, Memory.HBM),
    ],
)
def test_ndarray_makes_a_tensor_in_the_memory_asked_for(buffer, memory):
    tensor = nl.ndarray([4, np.int64(8)], "bfloat16", buffer=buffer, name="x")
    assert (tensor.shape, tensor.dtype, tensor.memory, tensor.name) == (
        (4, 8),
        nl.bfloat16,
        memory,
        "x",
    )
    assert nl.is_hbm(buffer) is (memory is Memory.HBM)
    assert nl.is_sbuf(buffer) is (memory is Memory.SBUF)
    assert nl.is_psum(buffer) is (memory is Memory.PSUM)
    assert nl.is_on_chip(buffer) is (memory is not Memory.HBM)


@pytest.mark.usefixtures("on_core")
def test_sbuf_is_the_default_and_another_word_is_refused():
    assert nl.ndarray((4, 8), nl.float32).buffer is nl.sbuf
    with pytest.raises(BadInput, match=r"buffer='ddr'; legal: nl\.sbuf, nl\.psum, nl\.private_hbm"):
        nl.ndarray((4, 8), nl.float32, buffer="ddr")


@pytest.mark.usefixtures("on_core")
def test_a_tensor_that_cannot_be_is_refused_at_the_users_line():
    with pytest.raises(OutOfMemory, match="needs 229380 bytes a partition") as caught:
        nl.ndarray((128, 229380 // 4), nl.float32)
    assert caught.value.line.file == __file__
    with pytest.raises(IllegalInstruction, match="has 129 partitions"):
        nl.ndarray((129, 1), nl.float32)
    with pytest.raises(IllegalInstruction, match="dtype float64 is not one"):
        nl.ndarray((128, 1), "float64")


def test_full_ones_and_zeros_are_one_memset_each(on_core):
    for tensor, value in (
        (nl.full((4, 8), 2.5, nl.float32), 2.5),
        (nl.ones((4, 8), nl.int32), 1),
        (nl.zeros((4, 8), nl.bfloat16, buffer=nl.psum), 0),
    ):
        assert (tensor.load() == value).all()
    assert [on_core.program.instruction(i).opcode for i in range(3)] == ["memset"] * 3


@pytest.mark.usefixtures("on_core")
def test_zeros_may_be_made_in_hbm():
    assert not nl.zeros((4, 8), nl.float32, buffer=nl.hbm).load().any()


def test_load_and_store_are_dmas_with_a_cast_where_asked(random):
    @jit
    def kernel(x):
        out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
        tile = nl.load(x, dtype=nl.bfloat16)
        assert (tile.dtype, tile.buffer) == (nl.bfloat16, nl.sbuf)
        nl.store(out, tile)
        return out

    run = trnsim.run(kernel, random((4, 8)))
    assert [checked.opcode for checked in run.program.checked] == ["dma_copy"] * 2
    assert run.outputs.dtype == nl.bfloat16


LIMITS = {  # trn1, trn2, trn3
    "pmax": (128, 128, 128),
    "psum_fmax": (512, 512, 512),
    "psum_bank_fmax": (512, 512, 512),
    "psum_bank_fmax_bytes": (2048, 2048, 2048),
    "psum_num_banks": (8, 8, 8),
    "gemm_stationary_fmax": (128, 128, 128),
    "gemm_moving_fmax": (512, 512, 512),
    "sbuf_fmax_bytes": (192 * 1024, 224 * 1024, 256 * 1024),
    "sbuf_fmax": (48 * 1024, 56 * 1024, 64 * 1024),
    "total_available_sbuf_size": (192 * 1024, 224 * 1024, 256 * 1024),
    "sbuf_size_bytes": (24 * 2**20, 28 * 2**20, 32 * 2**20),
}


@pytest.mark.parametrize("name", LIMITS)
def test_the_limits_are_those_of_the_core_that_runs(name, core_v2, core_v3, core_v4, monkeypatch):
    found = []
    for core in (core_v2, core_v3, core_v4):
        with issuing_to(CoreContext(core)):
            found.append(getattr(nl.tile_size, name))
    assert tuple(found) == LIMITS[name]
    assert all(type(value) is int for value in found)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    assert getattr(nl.tile_size, name) == LIMITS[name][0]


@pytest.mark.parametrize("loop", [nl.affine_range, nl.sequential_range, nl.static_range])
def test_loops_are_unrolled(loop):
    assert list(loop(3)) == [0, 1, 2]
    assert list(loop(2, 8, 3)) == [2, 5]


@pytest.mark.usefixtures("on_core")
def test_one_core_has_no_grid():
    assert (nl.program_id(0), nl.num_programs(), nl.program_ndim()) == (0, 1, 0)


@pytest.mark.usefixtures("on_core")
def test_a_tensor_is_printed_with_its_prefix(capsys):
    nl.device_print("acc:", nl.full((1, 2), 1.5, nl.float32))
    assert capsys.readouterr().out == "acc: [[1.5 1.5]]\n"


def test_a_shape_only_run_prints_no_values(core_v3, capsys):
    with issuing_to(CoreContext(core_v3, has_values=False)):
        nl.device_print("acc:", nl.full((1, 2), 1.5, nl.float32))
    assert capsys.readouterr().out == "acc: (no values)\n"


def test_a_configuration_keeps_its_keywords():
    class Config(nl.NKIObject):
        rows = 3

    assert (Config(columns=4).columns, Config().rows) == (4, 3)


def test_outside_a_kernel_there_is_no_memory_to_allocate_in():
    with pytest.raises(BadInput, match="outside a kernel"):
        nl.ndarray((4, 8), nl.float32)


# nki/api/nki/language/__init__.py: its functions.
PUBLISHED = [
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "abs_max",
    "abs_min",
    "abs",
    "square",
    "power",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "tanh",
    "sigmoid",
    "relu",
    "gelu",
    "gelu_apprx_sigmoid",
    "gelu_apprx_tanh",
    "gelu_dx",
    "gelu_apprx_sigmoid_dx",
    "silu",
    "silu_dx",
    "softplus",
    "mish",
    "erf",
    "erf_dx",
    "reciprocal",
    "copy",
    "sin",
    "cos",
    "tan",
    "arctan",
    "ceil",
    "floor",
    "trunc",
    "negative",
    "sign",
    "fmod",
    "mod",
    "sum",
    "max",
    "min",
    "mean",
    "prod",
    "var",
    "all",
    "softmax",
    "rms_norm",
    "where",
    "dropout",
    "ones",
    "full",
    "zeros_like",
    "empty_like",
    "random_seed",
    "expand_dims",
    "broadcast_to",
    "transpose",
    "matmul",
    "no_reorder",
    "load_transpose2d",
    "gather_flattened",
    "ds",
    "affine_range",
    "sequential_range",
    "static_range",
    "dynamic_range",
    "fori_loop",
    "while_loop",
    "ndarray",
    "zeros",
    "load",
    "store",
    "program_id",
    "num_programs",
    "program_ndim",
    "shared_constant",
    "shared_identity_matrix",
    "device_print",
    "rand",
]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_name_is_there_or_says_that_it_is_still_to_come(name):
    try:
        found = getattr(nl, name)
    except NotModelled as error:
        found = error.__class__
    assert callable(found)


def test_bypass_is_an_operator_of_no_effect_that_instructions_know_by_name():
    assert repr(nl.bypass) == "nl.bypass"
    assert nisa.engine.vector.name == "vector"
