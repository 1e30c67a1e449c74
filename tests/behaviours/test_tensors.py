"""Tests of the behaviours of tensors and of functions of tiles: both sides of each boundary."""

import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.errors import IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl


def run(body, *arrays, version, target="trn3"):
    """The outputs and the run of a kernel that stores what `body` gives for its arguments."""

    @nki.jit
    def kernel(*given):
        result = body(*given)
        out = nl.ndarray(result.shape, result.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, result)
        return out

    return trnsim.run(kernel, *arrays, nki=version, target=target)


def refused(body, *arrays, version, target="trn3"):
    """The error of such a kernel."""
    with pytest.raises(IllegalInstruction) as caught:
        run(body, *arrays, version=version, target=target)
    assert caught.value.line.file == __file__
    assert caught.value.fix
    assert caught.value.source
    return caught.value


def in_sbuf(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    return tile


def in_psum(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.psum)
    nisa.tensor_copy(tile, in_sbuf(x))
    return tile


ROWS, COLUMNS = 24, 60


def random_view(generator):
    """Slices of a matrix: (first row, rows, first column, columns)."""
    first, left = generator.integers(0, (ROWS - 4, COLUMNS - 8))
    return int(first), int(ROWS - first), int(left), int(COLUMNS - left)


def random_access(generator, start, size):
    """An offset, None or a number, and a pattern from `start` on that stays within `size`."""
    offset = None if generator.random() < 0.3 else int(generator.integers(0, size - start - 8))
    room = size - start - (offset or 0) - 1
    pattern = []
    for _ in range(generator.integers(1, 4)):
        stride = int(generator.integers(0, 40))
        count = int(generator.integers(1, 1 + min(6, room // stride + 1 if stride else 6)))
        room -= stride * (count - 1)
        pattern.append([stride, count])
    return offset, pattern


@pytest.mark.parametrize("version", ["0.4", "0.5", "0.7"])
def test_offsets_of_ap_in_hbm_are_those_of_numpy(version):
    generator = np.random.default_rng(37)
    data = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    for _ in range(100):
        first, rows, left, columns = random_view(generator)
        start = first * COLUMNS + left if version != "0.4" else 0
        offset, pattern = random_access(generator, start, data.size)
        strides, counts = zip(*pattern, strict=True)
        expected = np.lib.stride_tricks.as_strided(
            data.reshape(-1)[start + (offset or 0) :], counts, [4 * step for step in strides]
        )

        def body(x, view=(first, rows, left, columns), offset=offset, pattern=pattern):
            top, height, left, width = view
            part = x[top : top + height, left : left + width]
            return part.ap(pattern) if offset is None else part.ap(pattern, offset=offset)

        output = run(body, data, version=version).outputs
        assert np.array_equal(output, expected), (first, left, offset, pattern)


@pytest.mark.parametrize("version", ["0.4", "0.5", "0.7"])
def test_offsets_of_ap_on_chip_are_those_of_numpy(version):
    generator = np.random.default_rng(38)
    data = np.arange(32 * COLUMNS, dtype=np.float32).reshape(32, COLUMNS)
    for _ in range(100):
        left = int(generator.integers(0, COLUMNS - 8))
        start = 0 if version == "0.4" else left
        offset, pattern = random_access(generator, start, COLUMNS)
        strides, counts = zip(*pattern, strict=True)
        expected = np.lib.stride_tricks.as_strided(
            data[:, start + (offset or 0) :],
            (32, *counts),
            (4 * COLUMNS, *(4 * step for step in strides)),
        )

        def body(x, left=left, offset=offset, pattern=pattern):
            return in_sbuf(x)[:, left:].ap([[COLUMNS, 32], *pattern], offset=offset)

        output = run(body, data, version=version).outputs
        assert np.array_equal(output, expected), (left, offset, pattern)


def test_a_reshape_to_another_number_of_elements_is_of_0_4():
    x = np.arange(48, dtype=np.float32).reshape(4, 12)
    assert run(lambda x: x.reshape((2, 12)), x, version="0.4").outputs.tolist() == x[:2].tolist()
    tile = run(lambda x: in_sbuf(x).reshape((4, 5)), x, version="0.4").outputs
    assert tile.tolist() == x[:, :5].tolist()
    for version in ("0.5", "0.7"):
        refused(lambda x: x.reshape((2, 12)), x, version=version)
        refused(lambda x: in_sbuf(x).reshape((4, 5)), x, version=version)


def test_a_reshape_of_0_4_does_not_reach_beyond_the_tensor():
    x = np.zeros((4, 12), np.float32)
    refused(lambda x: x.reshape((5, 12)), x, version="0.4")


LARGE = np.array([[2**24 + 1, -(2**30) - 1, 7]], np.int32)


def test_copy_goes_through_float32_on_the_scalar_engine_before_0_6():
    old = run(lambda x: nl.copy(in_sbuf(x)), LARGE, version="0.5")
    assert old.outputs.tolist() == LARGE.astype(np.float32).astype(np.int32).tolist()
    assert "activation" in {row.opcode for row in old.program.checked}
    for version in ("0.6", "0.7"):
        assert run(lambda x: nl.copy(in_sbuf(x)), LARGE, version=version).outputs.tolist() == (
            LARGE.tolist()
        )


def test_copy_reads_psum_from_0_6_on():
    x = np.ones((4, 8), np.float32)
    assert (
        "takes no tile in PSUM" in refused(lambda x: nl.copy(in_psum(x)), x, version="0.5").reason
    )
    assert run(lambda x: nl.copy(in_psum(x)), x, version="0.6").outputs.tolist() == x.tolist()


def test_rsqrt_runs_on_the_scalar_engine_and_reads_psum_before_0_5():
    x = np.full((4, 8), 4.0, np.float32)
    old = run(lambda x: nl.rsqrt(in_psum(x)), x, version="0.4")
    assert np.allclose(old.outputs, 0.5)
    assert "activation" in {row.opcode for row in old.program.checked}
    assert "GpSimd" in refused(lambda x: nl.rsqrt(in_psum(x)), x, version="0.5").reason
    new = run(lambda x: nl.rsqrt(in_sbuf(x)), x, version="0.5")
    assert "activation" not in {row.opcode for row in new.program.checked}


VIEWS = {
    "slice": lambda t: t.slice(1, 0, 2),
    "permute": lambda t: t.permute((0, 2, 1)),
    "broadcast": lambda t: t[:, 0:1].broadcast(1, 3),
    "expand_dim": lambda t: t.expand_dim(1),
    "squeeze_dim": lambda t: t[:, 0:1].squeeze_dim(1),
    "reshape_dim": lambda t: t.reshape_dim(1, (2, 2)),
    "flatten_dims": lambda t: t.flatten_dims(1, 2),
    "select": lambda t: t.select(1, 1),
    "rearrange": lambda t: t.rearrange(("p", "a", "b"), ("p", "b", "a")),
    "is_contiguous": lambda t: t.reshape((4, 4, 2)) if t.is_contiguous() else t,
    "is_indirect": lambda t: t if t.is_indirect() else t.reshape((4, 4, 2)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_methods_exist_from_0_5_on(name):
    x = np.ones((4, 4, 2), np.float32)
    run(lambda x: VIEWS[name](in_sbuf(x)), x, version="0.5")
    error = refused(lambda x: VIEWS[name](in_sbuf(x)), x, version="0.4")
    assert error.reason.startswith(f"tensor.{name}() under NKI 0.4")


@pytest.mark.parametrize("name", VIEWS)
def test_tensors_have_the_view_methods_of_their_version(name):
    def body(x):
        tile = in_sbuf(x)
        had.append((hasattr(tile, name), getattr(tile, name, None) is not None))
        return tile

    had = []
    for version in ("0.4", "0.5"):
        run(body, np.ones((4, 4, 2), np.float32), version=version)
    assert had == [(False, False), (True, True)]


def test_functions_that_rest_on_view_methods_work_before_them():
    x = np.ones((4, 8), np.float32)
    softmax = run(lambda x: nl.softmax(in_sbuf(x), axis=1), x, version="0.3").outputs
    assert np.allclose(softmax, 1 / 8)
    wide = run(lambda x: nl.broadcast_to(in_sbuf(x)[:, 0:1], (4, 8)), x, version="0.4").outputs
    assert wide.shape == (4, 8)


@pytest.mark.parametrize(
    ("name", "since", "before"),
    [
        ("sbuf_size_bytes", "0.4", "0.3"),
        ("sbuf_fmax", "0.4", "0.3"),
        ("sbuf_fmax_bytes", "0.4", "0.3"),
        ("psum_bank_fmax", "0.4", "0.3"),
        ("psum_bank_fmax_bytes", "0.4", "0.3"),
        ("psum_num_banks", "0.5", "0.4"),
    ],
)
def test_a_limit_exists_from_its_version_on(name, since, before):
    def body(x):
        sizes.append((hasattr(nl.tile_size, name), nl.tile_size.psum_fmax, nl.tile_size.pmax))
        return in_sbuf(x)

    sizes = []
    for version in (before, since):
        run(body, np.ones((4, 4), np.float32), version=version)
    assert sizes == [(False, 512, 128), (True, 512, 128)]


def test_a_dtype_of_jax_is_an_argument_from_0_4_on():
    scalar_type = type("_ScalarMeta", (type,), {"dtype": np.dtype(np.float16)})("half", (), {})

    @nki.jit
    def kernel(x, kind):
        out = nl.ndarray(x.shape, kind, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        return out

    x = np.ones((2, 2), np.float32)
    assert trnsim.run(kernel, x, scalar_type, nki="0.4").outputs.dtype == np.float16
    with pytest.raises(IllegalInstruction, match=r"`kind` is JAX's float16 under NKI 0\.3"):
        trnsim.run(kernel, x, scalar_type, nki="0.3")
