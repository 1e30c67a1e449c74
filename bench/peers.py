"""Other interpreters beside the table of calls: the same tiles, as ratios to plain numpy.

usage: peers.py [NAME ...] [--rounds N]

Columns: a call of `pallas_call(interpret=True)`, which XLA compiles for the CPU; one of the TPU
interpreter (`pltpu.InterpretParams()`), which keeps memories and copies as trnsim does; and
triton-viz's interpreter of NKI 0.1, where `pip install triton-viz triton==3.5.1` put it in an
environment (JAX may be left out there). All are after a first call. CPU seconds of the process, the
best of the rounds, alternately with numpy. Results are compared with numpy's.

triton-viz needs AWS's compiler for the names of `neuronxcc.nki.language` alone, in whose place it
puts functions of its own: an empty module stands for it here. It has no memories, no checks but of
bounds and no time, no maximum of two tensors, and products of bfloat16 only as numpy's: it gets
float32.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from types import ModuleType

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import calls
import numpy as np

P = 128
ROUNDS = {"small": 20, "large": 3}


def matmul(pl, jnp, jax, interpret, stationary, moving):
    """Tiles of 128 x 512 of ``stationary.T @ moving``, summed over 128 rows at a time."""
    depth, rows = stationary.shape
    columns, width = moving.shape[1], 512

    def kernel(left, right, out):
        @pl.when(pl.program_id(2) == 0)
        def _():
            out[...] = jnp.zeros_like(out)

        out[...] += jax.lax.dot_general(
            left[...], right[...], (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32
        )

    return pl.pallas_call(
        kernel,
        grid=(rows // P, columns // width, depth // P),
        in_specs=[
            pl.BlockSpec((P, P), lambda i, _, k: (k, i)),
            pl.BlockSpec((P, width), lambda _, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((P, width), lambda i, j, _: (i, j)),
        out_shape=jax.ShapeDtypeStruct((rows, columns), jnp.float32),
        interpret=interpret,
    )(stationary, moving)


def rmsnorm(pl, jnp, jax, interpret, x, weight):
    """Rows x / sqrt(mean(x ** 2) + 1e-6) * weight."""
    width = x.shape[1]

    def kernel(rows_of_x, scale, out):
        tile = rows_of_x[...]
        mean = jnp.sum(tile * tile, axis=1, keepdims=True) * (1 / width)
        out[...] = tile * (1 / jnp.sqrt(mean + 1e-6)) * scale[...]

    return _by_rows(pl, jax, interpret, kernel, x, weight)(x, weight)


def elementwise(pl, jnp, jax, interpret, x):
    """Ten elementwise operations."""

    def kernel(rows_of_x, out):
        tile = rows_of_x[...]
        other = tile * 0.5
        tile = tile + other
        other = jnp.maximum(tile, -1.0)
        tile = tile - other
        other = jnp.minimum(other, 1.0)
        tile = other * tile
        tile = tile + 0.25
        other = jnp.maximum(tile, other)
        other = other * 2.0
        out[...] = tile + other

    return _by_rows(pl, jax, interpret, kernel, x)(x)


def gather(pl, jnp, jax, interpret, table, indices):
    """Rows of a table by index, 128 at a time."""
    rows, width = indices.shape[0], table.shape[1]

    def kernel(chosen, whole, out):
        out[...] = jnp.take(whole[...], chosen[:, 0], axis=0)

    return pl.pallas_call(
        kernel,
        grid=(rows // P,),
        in_specs=[
            pl.BlockSpec((P, 1), lambda i: (i, 0)),
            pl.BlockSpec(table.shape, lambda _: (0, 0)),
        ],
        out_specs=pl.BlockSpec((P, width), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((rows, width), jnp.float32),
        interpret=interpret,
    )(indices, table)


def _by_rows(pl, jax, interpret, kernel, x, *whole):
    """A call on blocks of 128 rows of `x`, with other arrays of one row as they are."""
    block = pl.BlockSpec((P, x.shape[1]), lambda i: (i, 0))
    others = [pl.BlockSpec(array.shape, lambda _: (0, 0)) for array in whole]
    return pl.pallas_call(
        kernel,
        grid=(x.shape[0] // P,),
        in_specs=[block, *others],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=interpret,
    )


KERNELS = {"matmul": matmul, "rmsnorm": rmsnorm, "elementwise": elementwise, "gather": gather}


def viz_matmul(nl, tensor, stationary, moving):
    """As `matmul`, of float32."""
    (depth, rows), columns, width = stationary.shape, moving.shape[1], 512
    left, right = (tensor(value=array.astype(np.float32)) for array in (stationary, moving))
    out = tensor(value=np.empty((rows, columns), np.float32))
    for row in range(0, rows, P):
        for column in range(0, columns, width):
            total = nl.zeros((P, width), np.float32)
            for start in range(0, depth, P):
                first = nl.masked_load(left, _tile(start, row))
                second = nl.masked_load(right, _tile(start, column, width))
                total = total + nl.matmul(first, second, transpose_x=True)
            nl.masked_store(out, _tile(row, column, width), total)
    return out.data


def viz_rmsnorm(nl, tensor, x, weight):
    """As `rmsnorm`."""
    given, scale, out = tensor(value=x), tensor(value=weight), tensor(value=np.empty_like(x))
    factors = nl.masked_load(scale, _tile(0, 0, x.shape[1], rows=1))
    for row in range(0, len(x), P):
        tile = nl.masked_load(given, _tile(row, 0, x.shape[1]))
        mean = nl.sum(nl.square(tile), axis=1, keepdims=True) * np.float32(1 / x.shape[1])
        tile = nl.multiply(nl.multiply(tile, nl.rsqrt(mean + np.float32(1e-6))), factors)
        nl.masked_store(out, _tile(row, 0, x.shape[1]), tile)
    return out.data


def viz_gather(nl, tensor, table, indices):
    """As `gather`."""
    rows, width = len(indices), table.shape[1]
    given, places = tensor(value=table), tensor(value=indices)
    out = tensor(value=np.empty((rows, width), table.dtype))
    columns = tensor(value=np.arange(width)[None, :])
    for row in range(0, rows, P):
        chosen = nl.masked_load(places, _tile(row, 0, 1))
        nl.masked_store(out, _tile(row, 0, width), nl.masked_load(given, (chosen, columns)))
    return out.data


def _tile(row, column, width=P, rows=P):
    return slice(row, row + rows), slice(column, column + width)


OF_VIZ = {"matmul": viz_matmul, "rmsnorm": viz_rmsnorm, "gather": viz_gather}
NAMES = "neuronxcc", "neuronxcc.nki", "neuronxcc.nki.language"


def pallas_ways(name, arrays):
    """By column, a call of a Pallas kernel."""
    import jax  # noqa: PLC0415  after the environment is set
    import jax.numpy as jnp  # noqa: PLC0415  likewise
    from jax.experimental import pallas as pl  # noqa: PLC0415  likewise
    from jax.experimental.pallas import tpu as pltpu  # noqa: PLC0415  likewise

    given = [jnp.asarray(array) for array in arrays]
    for label, interpret in (("interpret", True), ("TPU", pltpu.InterpretParams())):
        call = jax.jit(
            lambda *given, interpret=interpret: KERNELS[name](pl, jnp, jax, interpret, *given)
        )
        yield label, lambda call=call: call(*given).block_until_ready()


def viz_ways(name, arrays):
    """A call of triton-viz's functions, where it has those of the kernel."""
    for module in NAMES:
        sys.modules[module] = ModuleType(module)
    from triton_viz.core.nki import NDArray, nki_builder  # noqa: PLC0415  after its stand-ins

    sys.modules[NAMES[-1]].shared_hbm = object()  # the buffer that it looks for
    if name in OF_VIZ:
        yield "triton-viz", lambda: OF_VIZ[name](nki_builder, NDArray, *arrays)


def row(name, size, rounds):
    """The milliseconds of numpy, and by interpreter the ratio to it."""
    case = calls.CASES[name]
    arrays = case.arrays(size)
    expected = case.plain(*arrays)
    ways = {}
    for package, made in (("jax", pallas_ways), ("triton_viz", viz_ways)):
        if find_spec(package) is not None:
            ways |= made(name, arrays)
    for label, way in ways.items():
        error = np.abs(np.asarray(way()) - expected).max() / np.abs(expected).max()
        assert error <= max(case.tolerance, 1e-5), f"{name}, {label}: differs by {error}"
    best = dict.fromkeys([*ways, "numpy"], np.inf)
    for _ in range(rounds):
        for label, way in [*ways.items(), ("numpy", lambda: case.plain(*arrays))]:
            best[label] = min(best[label], calls.seconds(way))
    return best["numpy"], {label: best[label] / best["numpy"] for label in ways}


def main():
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *KERNELS])
    parser.add_argument("--size", choices=ROUNDS)
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    columns = ("interpret", "TPU", "triton-viz")
    print(f"{'':<19} {'numpy ms':>9} " + " ".join(f"{column:>10}" for column in columns))
    for name in options.names or KERNELS:
        for size in [options.size] if options.size else ROUNDS:
            numpy_s, ratios = row(name, size, options.rounds or ROUNDS[size])
            cells = " ".join(
                f"{ratios[column]:10.2f}" if column in ratios else f"{'-':>10}"
                for column in columns
            )
            print(f"{name:<12} {size:<6} {numpy_s * 1e3:9.3f} {cells}", flush=True)


if __name__ == "__main__":
    main()
