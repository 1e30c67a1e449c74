import runpy
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.errors import BadInput, EmulatorError, IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.torch.traces.kernels.issuer import SavedKernel
from trnsim.torch.traces.kernels.kernel_checks import checked_kernel

EXAMPLES = Path(__file__).parents[4] / "examples"
FLOATS = np.random.default_rng(0).standard_normal((128, 512)).astype(np.float32)
SQUARE = FLOATS[:, :128].copy()


@jit
def matmul(a_t, b):
    """A product in two steps of the contraction, into one bank."""
    out = nl.ndarray((a_t.shape[1], b.shape[1]), nl.float32, buffer=nl.shared_hbm)
    sums = nl.ndarray(out.shape, nl.float32, buffer=nl.psum)
    for k in range(0, a_t.shape[0], 64):
        nisa.nc_matmul(sums, nl.load(a_t[k : k + 64]), nl.load(b[k : k + 64]))
    tile = nl.ndarray(out.shape, nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(tile, sums)
    nisa.dma_copy(out, tile)
    return out


@jit
def rmsnorm(x, gain):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    mean = nl.mean(nl.square(tile), axis=1, keepdims=True)
    nisa.tensor_scalar(tile, tile, nl.multiply, nl.rsqrt(nl.add(mean, 1e-6)))
    nl.store(out, nl.multiply(tile, nl.broadcast_to(nl.load(gain), x.shape)))
    return out


@jit
def softmax(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    least = nl.negative(nl.max(tile, axis=1, keepdims=True))
    nisa.activation(tile, nl.exp, tile, bias=least)
    total = nl.sum(tile, axis=1, keepdims=True)
    nisa.tensor_scalar(tile, tile, nl.multiply, nl.reciprocal(total))
    nl.store(out, tile)
    return out


@jit
def chain(x):
    """Elementwise functions, with infinities and negative zeros among the numbers."""
    out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.maximum, -0.0, False, nl.minimum, float("inf"))
    nisa.activation(tile, nl.gelu, tile, scale=0.5)
    nl.store(out, nl.tanh(nl.add(tile, nl.sigmoid(tile)), dtype=nl.bfloat16))
    return out


@jit
def transposes(x):
    by_engine = nl.ndarray((128, 128), x.dtype, buffer=nl.psum)
    by_dma = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf)
    outs = [nl.ndarray((128, 128), t.dtype, buffer=nl.shared_hbm) for t in (by_engine, by_dma)]
    tile = nl.load(x)
    nisa.nc_transpose(by_engine, tile)
    nisa.dma_transpose(by_dma, nl.copy(tile, dtype=nl.bfloat16))
    copied = nl.ndarray((128, 128), x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(copied, by_engine)
    nl.store(outs[0], copied)
    nl.store(outs[1], by_dma)
    return {"engine": outs[0], "dma": (outs[1],)}


@jit
def causal(x):
    """A mask by a pattern, added to numbers by a pattern."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    counted = nl.ndarray(x.shape, nl.int32, buffer=nl.sbuf)
    masked = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.iota(counted, [[1, x.shape[1]]], 3, 1)
    nisa.affine_select(
        masked, [[-1, x.shape[1]]], 1, nl.load(x), -9984.0, nl.greater_equal, offset=0
    )
    nl.store(out, nl.add(masked, counted))
    return out


@jit
def reductions(x):
    out = nl.ndarray((x.shape[0], 8), nl.float32, buffer=nl.shared_hbm)
    sums = nl.ndarray((x.shape[0], 4), nl.float32, buffer=nl.sbuf)
    tile = nl.load(x)
    nisa.tensor_reduce(sums, nl.add, tile.reshape((128, 4, 128)), axis=(2,), negate=True)
    largest = nl.ndarray((x.shape[0], 8), nl.float32, buffer=nl.sbuf)
    nisa.max8(largest, tile)
    nisa.tensor_tensor(largest[:, 0:4], largest[:, 0:4], sums, nl.add)
    nl.store(out, largest)
    return out


@jit
def with_constant(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ramp = nl.shared_constant(np.arange(512, dtype=np.float32).reshape(1, 512))
    nl.store(out, nl.add(nl.load(x), nl.broadcast_to(nl.load(ramp), x.shape)))
    return out


@jit
def gathered(x, index):
    """Rows by a vector of indices, and one more by a register from memory."""
    out = nl.ndarray((index.shape[0] + 1, x.shape[1]), x.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((index.shape[0], x.shape[1]), x.dtype, buffer=nl.sbuf)
    places, register = nl.load(index), nisa.register_alloc()
    width = x.shape[1]
    nisa.dma_copy(rows, x.ap([[width, rows.shape[0]], [1, width]], vector_offset=places))
    nisa.register_load(register, places[0:1, 0:1])
    nl.store(out[0 : rows.shape[0]], rows)
    nisa.dma_copy(out[rows.shape[0] :], x.ap([[width, 1], [1, width]], scalar_offset=register))
    return out


@jit
def looped(x):
    """A loop on the device, whose variable addresses a row."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)

    def body(i):
        row = nl.ndarray((1, x.shape[1]), x.dtype, buffer=nl.sbuf)
        pattern = [[x.shape[1], 1], [1, x.shape[1]]]
        nisa.dma_copy(row, x.ap(pattern, scalar_offset=i + 1))
        nisa.dma_copy(out.ap(pattern, scalar_offset=i), row)

    nl.fori_loop(0, 3, body)
    nl.store(out[3:], nl.load(x[3:]))
    return out


@jit
def ordered(x):
    """Blocks that keep their order, an edge, and addresses."""
    out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
    late = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 4096))
    ready = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 0))
    nisa.memset(ready, 1.0)
    with nl.no_reorder():
        loaded = nisa.dma_copy(late, x)
        nisa.tensor_scalar(late, late, nl.add, 1.0)
    added = nisa.tensor_scalar(ready, ready, nl.add, 2.0)
    added.depends_on(loaded, kind=nisa.dependency.runtime)
    nl.store(out[0], late)
    nl.store(out[1], ready)
    return out


@jit
def halves(x):
    """Each core a half; the second then reads what the first wrote."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    again = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    core, half = nl.program_id(0), x.shape[0] // 2
    own, other = (slice(k * half, (k + 1) * half) for k in (core, 1 - core))
    tile = nl.load(x[own])
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0 + core)
    nl.store(out[own], tile)
    nisa.core_barrier(out, (0, 1))
    nl.store(again[own], nl.load(out[other]))
    return again


@jit
def uneven(x):
    """The first core makes another tensor before the one that both return."""
    core, half = nl.program_id(0), x.shape[0] // 2
    tile = nl.load(x[:half]) if core == 0 else None
    out = nl.ndarray((half, x.shape[1]), x.dtype, buffer=nl.shared_hbm)
    if core == 0:
        nl.store(out, nl.add(tile, 1.0))
    return out


def attention(*arrays):
    return runpy.run_path(str(EXAMPLES / "attention.py"))["attention"], *arrays


CALLS = {
    "matmul": (matmul, SQUARE, FLOATS),
    "rmsnorm": (rmsnorm, FLOATS, FLOATS[:1].copy()),
    "softmax": (softmax, FLOATS),
    "chain": (chain, FLOATS),
    "transposes": (transposes, SQUARE),
    "causal": (causal, SQUARE),
    "reductions": (reductions, FLOATS),
    "with_constant": (with_constant, FLOATS),
    "gathered": (gathered, FLOATS, np.array([[7], [3], [120]], np.int32)),
    "looped": (looped, FLOATS[:8].copy()),
    "ordered": (ordered, FLOATS),
    "halves": (halves[2], FLOATS),
    "uneven": (uneven[2], FLOATS),
    "bfloat16": (chain, FLOATS.astype(ml_dtypes.bfloat16)),
    "attention": attention(*(FLOATS.reshape(1024, 64)[i::2].copy() for i in (0, 1, 0))),
}


def leaves(outputs):
    if isinstance(outputs, dict):
        outputs = tuple(outputs.values())
    return [leaf for o in outputs for leaf in leaves(o)] if type(outputs) is tuple else [outputs]


def lines(run):
    return [[t.program.line(i) for i in range(len(t.program))] for t in run.timelines]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "attention")) for n in CALLS]
)
def test_a_saved_kernel_computes_and_takes_what_its_python_does(stored_kernel, name):
    kernel, *arrays = CALLS[name]
    saved = SavedKernel(stored_kernel(kernel, *arrays))
    expected = trnsim.run(kernel, *(array.copy() for array in arrays))
    for _ in range(3):  # the third call is compared with the record of the second
        run = trnsim.run(saved, *(array.copy() for array in arrays))
        for result, known in zip(leaves(run.outputs), leaves(expected.outputs), strict=True):
            assert (result.dtype, result.tobytes()) == (known.dtype, known.tobytes())
        times = [timeline.total_time_s for timeline in run.timelines]
        assert times == [timeline.total_time_s for timeline in expected.timelines]
    assert lines(run) == lines(expected)
    assert saved.title == kernel.title
    assert saved.line == kernel.line
    assert saved.may_spill


def test_values_that_address_are_those_of_the_call(stored_kernel):
    index = np.array([[7], [3], [120]], np.int32)
    saved = SavedKernel(stored_kernel(gathered, FLOATS, index))
    for other in (index, index - 3):
        rows = trnsim.run(saved, FLOATS.copy(), other).outputs[0]
        np.testing.assert_array_equal(rows, FLOATS[[*other[:, 0], other[0, 0]]])
    with pytest.raises(IllegalInstruction, match="index 1007 of") as refused:
        trnsim.run(saved, FLOATS.copy(), index + 1000)
    assert refused.value.line.file == __file__


def test_other_arguments_than_were_saved_are_refused(form):
    saved = SavedKernel(checked_kernel(form, "kernels[0]"))
    with pytest.raises(BadInput, match=r"doubled is given .*\[8, 8\].*; legal: \[4, 8\] float32"):
        trnsim.run(saved, np.ones((8, 8), np.float32))
    with pytest.raises(BadInput, match=r"int32 as tensor 0; legal: \[4, 8\] float32"):
        trnsim.run(saved, np.ones((4, 8), np.int32))
    with pytest.raises(BadInput, match="given 2 tensors; legal: 1"):
        trnsim.run(saved, *[np.ones((4, 8), np.float32)] * 2)


def changed(form, number, **members):
    """The kernel of a form with another operand or line in an instruction."""
    instruction = form["cores"][0]["instructions"][number]
    operands = instruction["operands"] | members
    form["cores"][0]["instructions"][number] = instruction | {"operands": operands}
    return SavedKernel(checked_kernel(form, "kernels[0]"))


def operand(form, number, name, **members):
    return form["cores"][0]["instructions"][number]["operands"][name] | members


@pytest.mark.parametrize(
    ("number", "name", "members", "text"),
    [
        (0, "dst", {"offset_bytes": 4096}, "reaches beyond its storage of 128 bytes"),
        (0, "dst", {"shape": [4, 9]}, "reaches beyond its storage"),
        (0, "src", {"shape": [4, 1 << 22]}, "reaches beyond its storage"),
        (0, "src", {"shape": [4, 0]}, "has no elements"),
        (1, "data", {"tensor": 0}, "legal: SBUF or PSUM"),
        (1, "data", {"dtype": "int64"}, "int64"),
    ],
)
def test_an_operand_that_the_chip_has_not_is_refused_at_its_line(form, number, name, members, text):
    saved = changed(form, number, **{name: operand(form, number, name, **members)})
    with pytest.raises(EmulatorError, match=text) as refused:
        trnsim.run(saved, np.ones((4, 8), np.float32))
    assert refused.value.line.file.endswith("conftest.py")


@pytest.mark.parametrize("op0", ["no_such_operator", "__class__", None])
def test_an_operator_that_does_not_exist_is_refused(form, op0):
    with pytest.raises(EmulatorError, match="tensor_scalar"):
        trnsim.run(changed(form, 1, op0=op0), np.ones((4, 8), np.float32))


def test_an_instruction_that_its_class_cannot_read_is_named(form):
    loaded = {"value": None, "origins": [], "dtype": None, "is_comparison": False}
    index = {"source": loaded, "stride_bytes": 4, "limit": 8, "limit_reason": ""}
    saved = changed(form, 1, data=operand(form, 1, "data", index=index))
    with pytest.raises(BadInput, match="doubled has instruction 1, tensor_scalar, which"):
        trnsim.run(saved, np.ones((4, 8), np.float32))


def test_edges_that_wait_for_each_other_are_refused(form):
    edge = {"waits": True, "form": "depends_on", "text": "a after b", "line": None}
    form["cores"][0]["edges"] = [
        edge | {"consumer": 0, "producer": 2},
        edge | {"consumer": 2, "producer": 0},
    ]
    saved = SavedKernel(checked_kernel(form, "kernels[0]"))
    with pytest.raises(IllegalInstruction, match="a after b closes a cycle"):
        trnsim.run(saved, np.ones((4, 8), np.float32))


def test_the_configuration_of_precision_does_not_reach_a_saved_kernel(stored_kernel, monkeypatch):
    saved = SavedKernel(stored_kernel(chain, FLOATS.astype(ml_dtypes.bfloat16)))
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    (result,) = saved(FLOATS.astype(ml_dtypes.bfloat16))
    monkeypatch.delenv("NKI_PRECISE_FP")
    expected = chain(FLOATS.astype(ml_dtypes.bfloat16))
    assert result.tobytes() == expected.tobytes()


def test_the_version_of_nki_is_that_of_the_file(form, monkeypatch):
    form["version"] = "0.4"
    saved = SavedKernel(checked_kernel(form, "kernels[0]"))
    monkeypatch.setenv("TRNSIM_NKI", "0.6")
    assert trnsim.run(saved, np.ones((4, 8), np.float32)).version.version.name == "0.4"


def test_a_kernel_may_stand_in_the_first_line_of_its_file(form):
    form["lines"] = [{"file": "kernel.py", "line": 1}] * len(form["lines"])
    saved = SavedKernel(checked_kernel(form, "kernels[0]"))
    assert trnsim.run(saved, np.ones((4, 8), np.float32)).program.line(0) == ("kernel.py", 1)


def test_no_line_of_a_kernel_may_be_known(form):
    form["lines"] = [line | {"file": "<frozen os>"} for line in form["lines"]]
    saved = SavedKernel(checked_kernel(form, "kernels[0]"))
    assert trnsim.run(saved, np.ones((4, 8), np.float32)).program.line(0).file == __file__
