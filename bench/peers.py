"""Pallas in interpret mode beside the table of calls: the same tiles, as ratios to plain numpy.

usage: peers.py [NAME ...] [--rounds N]

Columns: a call of `pallas_call(interpret=True)`, which XLA compiles for the CPU, and one of the TPU
interpreter (`pltpu.InterpretParams()`), which keeps memories and copies as trnsim does; both after
a first call. CPU seconds of the process, the best of the rounds, alternately with numpy. Results
are compared with numpy's.
"""

from __future__ import annotations

import argparse
import os

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


def row(name, size, rounds):
    """The milliseconds of numpy, and by interpreter the ratio to it."""
    import jax  # noqa: PLC0415  after the environment is set
    import jax.numpy as jnp  # noqa: PLC0415  likewise
    from jax.experimental import pallas as pl  # noqa: PLC0415  likewise
    from jax.experimental.pallas import tpu as pltpu  # noqa: PLC0415  likewise

    case = calls.CASES[name]
    arrays = case.arrays(size)
    expected = case.plain(*arrays)
    ways = {}
    for label, interpret in (("interpret", True), ("TPU", pltpu.InterpretParams())):
        call = jax.jit(
            lambda *given, interpret=interpret: KERNELS[name](pl, jnp, jax, interpret, *given)
        )
        given = [jnp.asarray(array) for array in arrays]
        result = np.asarray(call(*given))
        error = np.abs(result - expected).max() / np.abs(expected).max()
        assert error <= max(case.tolerance, 1e-5), f"{name}, {label}: differs by {error}"
        ways[label] = lambda call=call, given=given: call(*given).block_until_ready()
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
    print(f"{'Pallas':<12} {'':<6} {'numpy ms':>9} {'interpret':>10} {'TPU':>10}")
    for name in options.names or KERNELS:
        for size in [options.size] if options.size else ROUNDS:
            numpy_s, ratios = row(name, size, options.rounds or ROUNDS[size])
            cells = " ".join(f"{ratio:10.2f}" for ratio in ratios.values())
            print(f"{name:<12} {size:<6} {numpy_s * 1e3:9.3f} {cells}", flush=True)


if __name__ == "__main__":
    main()
