"""NkiScalar: Python's operators on it, its uses, and what is refused while a kernel is traced."""

import copy
import inspect
import math

import numpy as np
import pytest

import trnsim
from trnsim.dtypes import INT32, INT64
from trnsim.errors import BadInput, IllegalInstruction, NotModelled
from trnsim.nki import isa as nisa
from trnsim.nki import jit, simulate
from trnsim.nki import language as nl

LIMITS = {np.int32: 2**31, np.int64: 2**63}


def run(body, value=4, dtype=np.int32, **options):
    """What `body(scalar)` gives, a scalar or nothing, stored by a kernel; 0 for nothing."""

    @jit
    def kernel(source):
        out = nl.ndarray((1, 1), source.dtype, buffer=nl.shared_hbm)
        scalar = nisa.scalar_load(source)
        result = body(scalar)
        nisa.scalar_store(out, scalar - scalar if result is None else result)
        return out

    source = np.array([[value]], dtype)
    outputs = trnsim.run(kernel, source, **options).outputs
    return None if outputs is None else int(outputs[0, 0])


# Values


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize(
    "body",
    [
        lambda i: i * 4 + 1,
        lambda i: 3 - i,
        lambda i: -i * i,
        lambda i: +i,
        lambda i: 2 * i - (i + i),
        lambda i: np.int32(7) * i - np.int64(2),
        lambda i: i + True,
    ],
)
def test_an_operator_on_scalars_is_that_of_python(body, dtype):
    for value in (0, 4, -9):
        assert run(body, value, dtype) == body(value)


def test_a_scalar_keeps_its_width_and_wraps():
    """nki.isa.NkiScalar: 100000 * 100000 yields 1410065408."""
    assert run(lambda i: i * 100_000, 100_000) == 1_410_065_408
    assert run(lambda i: i * i, 100_000, np.int64) == 10**10
    for dtype, half in LIMITS.items():
        assert run(lambda i: i + 1, half - 1, dtype) == -half
        assert run(lambda i: -i, -half, dtype) == -half


@jit
def scaled(index):
    """The first example of deep-dives/nki-scalar: 4 i + 1, loaded and stored through SBUF."""
    tile = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=index)
    i = nisa.scalar_load(tile)
    i = i * 4 + 1
    result = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
    nisa.scalar_store(result, i)
    out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out


def test_arithmetic_is_recorded_and_timed():
    traced = trnsim.run(scaled, np.array([[7]], np.int32))
    assert traced.outputs.tolist() == [[29]]
    assert simulate(scaled)(np.array([[7]], np.int32)).tolist() == [[29]]
    spans = {span.opcode: span for span in traced.timeline.spans()}
    recorded = [span for span in traced.timeline.spans() if span.opcode == "scalar_arithmetic"]
    assert len(recorded) == 2
    step_s = recorded[0].end_s - recorded[0].start_s
    assert step_s == pytest.approx(recorded[1].end_s - recorded[1].start_s)
    assert step_s > 0
    assert spans["scalar_load"].end_s <= recorded[0].start_s
    assert recorded[1].end_s <= spans["scalar_store"].start_s
    shape_only = trnsim.run(scaled, np.array([[7]], np.int32), numerics=False)
    assert shape_only.total_time_s == traced.total_time_s


def test_a_scalar_shows_its_dtype_and_its_value_to_a_person():
    shown = []
    run(lambda i: shown.extend([repr(i), f"{i}", repr(i < 3), nisa.NkiScalar is type(i)]))
    assert shown == ["NkiScalar(int32, 4)"] * 2 + ["NkiScalar(int32, a comparison)", True]
    run(lambda i: shown.append(repr(i)), numerics=False)
    assert shown[-1] == "NkiScalar(int32, unknown)"


def test_a_scalar_has_a_dtype_an_identity_and_no_copies():
    def body(i):
        assert i.dtype == nl.int32
        assert {i: 1}[i] == 1
        assert copy.deepcopy([i])[0] is i
        assert i is not None
        assert not any(i is other for other in (None, i + 0))
        assert (i.__eq__(None), i.__lt__("x")) == (NotImplemented, NotImplemented)
        before = i
        i += 1
        assert i is not before

    run(body)


def test_the_functions_have_awss_signatures():
    assert list(inspect.signature(nisa.scalar_load).parameters) == ["src"]
    assert list(inspect.signature(nisa.scalar_store).parameters) == ["dst", "value"]


# Addresses


@jit
def rows_from(data, index):
    """Four rows of `data` from row index + 1 on, upside down."""
    out = nl.ndarray((4, data.shape[1]), data.dtype, buffer=nl.shared_hbm)
    first, width = nisa.scalar_load(index) + 1, data.shape[1]
    for row in range(4):
        source = data.ap([[width, 1], [1, width]], scalar_offset=first + 3 - row, indirect_dim=0)
        nisa.dma_copy(dst=out[row : row + 1], src=source)
    return out


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("first", [0, 3, 11])
def test_a_scalar_is_an_offset_in_hbm(random, first, dtype):
    data = random((16, 8))
    result = trnsim.run(rows_from, data, np.array([[first]], dtype))
    np.testing.assert_array_equal(result.outputs, data[first + 1 : first + 5][::-1])
    program = result.program
    for place in range(len(program)):
        if program.instruction(place).opcode == "dma_copy":
            (awaited,) = program.waits_for(place)
            assert program.instruction(awaited).opcode == "scalar_arithmetic"
    shape_only = trnsim.run(rows_from, data, np.array([[first]], dtype), numerics=False)
    assert shape_only.total_time_s == result.total_time_s


def test_an_offset_beyond_the_tensor_is_refused(random):
    with pytest.raises(IllegalInstruction, match=r"index 16 of data HBM .*; legal: 0 to 15"):
        trnsim.run(rows_from, random((16, 8)), np.array([[12]], np.int32))


@jit
def column_of(data, index, region):
    tile = nl.ndarray(data.shape, data.dtype, buffer=region)
    nisa.tensor_copy(dst=tile, src=nl.load(data))
    out = nl.ndarray((data.shape[0], 1), data.dtype, buffer=nl.shared_hbm)
    picked = nl.ndarray((data.shape[0], 1), data.dtype)
    offset, (P, F) = nisa.scalar_load(index), data.shape
    column = tile.ap([[F, P], [1, 1]], scalar_offset=offset, indirect_dim=1)
    nisa.tensor_copy(dst=picked, src=column)
    nisa.dma_copy(dst=out, src=picked)
    return out


@pytest.mark.parametrize("region", [nl.sbuf, nl.psum])
def test_on_chip_an_offset_has_32_bits(random, region):
    data = random((4, 8))
    found = trnsim.run(column_of, data, np.array([[5]], np.int32), region).outputs
    np.testing.assert_array_equal(found, data[:, 5:6])
    with pytest.raises(IllegalInstruction, match="legal in SBUF and PSUM: int32") as caught:
        trnsim.run(column_of, data, np.array([[5]], np.int64), region)
    assert "nl.int32" in caught.value.fix


@jit
def last_of_five_gib(index):
    """A number written far from the start of a tensor of 5 GiB, and read back."""
    rows, width = 5 * 2**10, 2**18
    far = nl.ndarray((rows, width), nl.float32, buffer=nl.private_hbm)
    there = {"scalar_offset": nisa.scalar_load(index), "indirect_dim": 0}
    nisa.dma_copy(dst=far.ap([[width, 1], [1, 8]], **there), src=nl.full((1, 8), 3.0, nl.float32))
    out = nl.ndarray((1, 8), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=far.ap([[width, 1], [1, 8]], **there))
    return out


def test_64_bits_reach_beyond_4_gib_and_32_do_not():
    """nki.isa.scalar_load: "beyond the 4GB reach of a 32-bit byte offset"."""
    for row, dtype in ((4095, np.int32), (4096, np.int64), (5119, np.int64)):
        found = trnsim.run(last_of_five_gib, np.array([[row]], dtype)).outputs
        assert found.tolist() == [[3.0] * 8]
    with pytest.raises(IllegalInstruction, match="reaches 4096 steps of 1048576 bytes") as caught:
        trnsim.run(last_of_five_gib, np.array([[4096]], np.int32))
    assert "load it from an nl.int64 tensor" in caught.value.reason


# What has no value while a kernel is traced


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize(
    ("use", "words"),
    [
        (int, "as a number"),
        (range, "as a number"),
        (float, "as a number"),
        (math.floor, "as a number"),
        ([1, 2].__getitem__, "as a number"),
        (bool, "as a condition"),
        (lambda i: 1 if i else 2, "as a condition"),
        (lambda i: i and 1, "as a condition"),
        (list, "as a sequence"),
        (lambda i: [*i], "as a sequence"),
        (len, r"as a sequence \(len"),
        (lambda i: i[0], "indexed"),
        (lambda i: 3 in i, "behind `in`"),
        (np.asarray, "by numpy"),
        (np.sqrt, "numpy.sqrt"),
        (lambda i: f"{i:d}", "formatted as a number"),
    ],
)
def test_a_scalar_has_no_value_for_python(use, words, dtype):
    with pytest.raises(TypeError, match=f"a scalar of int.* is .*{words}") as caught:
        run(use, 1, dtype)
    assert isinstance(caught.value, IllegalInstruction)
    assert "nl.fori_loop(0, scalar, body)" in caught.value.fix
    assert caught.value.line is not None


@pytest.mark.parametrize(
    "condition", [lambda i: i < 3, lambda i: i >= 3, lambda i: i == 4, lambda i: np.int32(4) != i]
)
def test_a_comparison_of_int32_is_recorded_and_good_for_nothing(condition):
    def compare(i):
        condition(i)

    run(compare)
    for use in (bool, lambda c: c + 1, lambda c: c == 1, int):
        with pytest.raises(IllegalInstruction, match="the result of a comparison"):
            run(lambda i, use=use: use(condition(i)))
    with pytest.raises(IllegalInstruction, match=r"of int64 scalars; legal at 64 bits: \+ - \*"):
        run(condition, 4, np.int64)


@pytest.mark.parametrize(
    ("sign", "use"),
    [
        ("/", lambda i: i / 2),
        ("//", lambda i: 8 // i),
        ("%", lambda i: i % 3),
        ("divmod()", lambda i: divmod(i, 3)),
        ("**", lambda i: i**2),
        ("<<", lambda i: i << 1),
        (">>", lambda i: i >> 1),
        ("&", lambda i: 7 & i),
        ("abs()", abs),
        ("~", lambda i: ~i),
        ("round()", round),
    ],
)
def test_there_is_no_other_operator(sign, use):
    with pytest.raises(TypeError) as caught:
        run(use)
    assert caught.value.reason.startswith(f"`{sign}` of a scalar of int32; legal: + - * and unary")
    assert "before the kernel" in caught.value.fix


@pytest.mark.parametrize(
    ("other", "fix"),
    [(1.5, "an integer"), ("x", "an integer"), (None, "an integer"), ([1], "an integer")],
)
def test_the_other_operand_is_an_integer_or_a_scalar(other, fix):
    with pytest.raises(TypeError, match=f"`\\+` of a scalar and {type(other).__name__}") as caught:
        run(lambda i: i + other)
    assert fix in caught.value.fix


def test_a_register_is_no_operand_of_a_scalar():
    with pytest.raises(TypeError, match="a scalar and VirtualRegister") as caught:
        run(lambda i: i + nisa.register_alloc(1))
    assert "nisa.register_store" in caught.value.fix
    with pytest.raises(IllegalInstruction, match="arithmetic of a register and NkiScalar"):
        run(lambda i: nisa.register_alloc(1) + i)
    for use in (
        lambda i: nisa.register_move(nisa.register_alloc(), i),
        nisa.register_alloc,
    ):
        with pytest.raises(IllegalInstruction, match="is NkiScalar; legal:"):
            run(use)


@pytest.mark.parametrize(
    "use",
    [
        lambda tile, i: tile[i],
        lambda tile, i: tile[0:i],
        lambda tile, i: tile[:, nl.ds(i, 1)],
        lambda tile, i: tile.select(1, i),
    ],
)
def test_where_nothing_public_says_that_a_scalar_may_stand_it_is_not_emulated(use):
    with pytest.raises(
        NotModelled, match="with an NkiScalar; emulated: scalars as scalar_off"
    ) as c:
        run(lambda i: use(nl.zeros((4, 8), nl.float32), i) and None)
    assert "scalar_offset=scalar" in c.value.fix


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda _, i: nl.ndarray((i, 4), nl.float32), "known when the kernel is compiled"),
        (lambda tile, i: tile.ap([[8, 1], [1, 1]], offset=i), "known when the kernel is compiled"),
        (lambda tile, i: tile.ap([[8, 1], [1, 1]], vector_offset=i), "legal: a tensor"),
        (lambda tile, i: tile.ap([[8, 1], [1, 1]], scalar_offset=i < 3), "a comparison"),
        (nisa.memset, "legal: a number"),
        (lambda tile, i: nisa.tensor_scalar(tile, tile, nl.add, i), "a tensor or a number"),
        (lambda tile, _: nisa.scalar_store(tile[0:1, 0:1], 5), "legal: an NkiScalar"),
        (lambda _, i: nl.device_print("i", i), "legal: a tensor"),
        (lambda *_: nisa.scalar_load(3), "legal: a tensor"),
        (lambda *_: nisa.scalar_load(), "missing a required argument: 'src'; legal: src"),
        (lambda tile, _: nisa.scalar_store(tile), "'value'; legal: dst, value"),
        (lambda *_: nisa.NkiScalar(5), "legal: scalars that nisa.scalar_load returns"),
    ],
)
def test_every_other_place_refuses_a_scalar_at_its_line(use, words):
    with pytest.raises(IllegalInstruction, match=words) as caught:
        run(lambda i: use(nl.zeros((4, 8), nl.float32), i) and None)
    assert caught.value.fix
    assert caught.value.line is not None


def test_a_scalar_outside_a_kernel_computes_nothing():
    kept = []
    run(kept.append)
    with pytest.raises(BadInput, match="only while a kernel runs"):
        _ = kept[0] + 1


# int64 in memory


def test_int64_is_moved_by_dma_and_computed_by_no_engine():
    @jit
    def kernel(wide, narrow, use=None):
        tile = nl.load(wide)
        assert (tile.dtype, nl.int64, nl.int32) == (INT64, INT64, INT32)
        if use is not None:
            use(wide, tile, nl.load(narrow))
        out = nl.ndarray(wide.shape, nl.int64, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    wide, narrow = np.array([[2**62, -(2**63)]]), np.zeros((1, 2), np.int32)
    np.testing.assert_array_equal(trnsim.run(kernel, wide, narrow).outputs, wide)
    for use in (
        lambda wide, tile, short: nl.zeros((1, 1), nl.int64),  # noqa: ARG005  as the others
        lambda wide, tile, short: nisa.tensor_copy(tile, tile),  # noqa: ARG005  as the others
        lambda wide, tile, short: nisa.register_load(nisa.register_alloc(), tile),  # noqa: ARG005
    ):
        with pytest.raises(IllegalInstruction, match="no engine computes with int64"):
            trnsim.run(kernel, wide, narrow, use)
    with pytest.raises(NotModelled, match="dma_copy from int64 to int32") as caught:
        trnsim.run(kernel, wide, narrow, lambda wide, _, short: nisa.dma_copy(short, wide))
    assert "x.astype('int32')" in caught.value.fix


@pytest.mark.parametrize("label", ["scalar_offset", "vector_offset"])
def test_an_offset_in_memory_is_no_truth_value(label):
    @jit
    def kernel(data):
        index = nl.zeros((1, 1), nl.bool_)
        return data.ap([[8, 1], [1, 8]], **{label: index})

    with pytest.raises(IllegalInstruction, match=f"{label} is .* bool_; legal: a tensor of int"):
        trnsim.run(kernel, np.zeros((1, 8), np.float32))


def test_an_offset_in_memory_has_32_bits_at_most(random):
    @jit
    def kernel(data, index):
        return data.ap([[8, 1], [1, 8]], scalar_offset=nl.load(index), indirect_dim=0)

    with pytest.raises(IllegalInstruction, match="legal: a tensor of integers of up to 32 bits"):
        trnsim.run(kernel, random((4, 8)), np.array([[1]]))


def test_scalars_and_int64_came_with_0_7():
    @jit
    def kernel(x):
        for name, instead in (
            ("scalar_load", "nisa.register_load"),
            ("scalar_store", "nisa.register_store"),
            ("NkiScalar", "nisa.register_alloc"),
        ):
            with pytest.raises(AttributeError, match=f"nisa.{name} exists from NKI 0.7 on") as c:
                getattr(nisa, name)
            assert instead in c.value.fix
        return x

    @jit
    def wide(x):
        nl.ndarray((1, 1), "int64")
        return x

    x = np.zeros((1, 1), np.int32)
    trnsim.run(kernel, x, nki="0.6")
    with pytest.raises(IllegalInstruction, match=r"a tensor of int64 under NKI 0\.6") as caught:
        trnsim.run(wide, x, nki="0.6")
    assert "nl.int32" in caught.value.fix
    with pytest.raises(IllegalInstruction, match="argument `x` is int64") as caught:
        trnsim.run(kernel, x.astype(np.int64), nki="0.6")
    assert "x.astype('int32')" in caught.value.fix


def test_a_scalar_is_no_result():
    @jit
    def kernel(x):
        return nisa.scalar_load(x)

    with pytest.raises(IllegalInstruction, match="the kernel returned a scalar") as caught:
        trnsim.run(kernel, np.ones((1, 1), np.int32))
    assert "nisa.scalar_store" in caught.value.fix


def test_a_scalar_is_not_made_by_its_class():
    with pytest.raises(IllegalInstruction, match=r"NkiScalar\(\); legal: scalars that nisa.sca"):
        nisa.NkiScalar()
