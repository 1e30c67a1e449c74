"""Kernels with a parameter that a piece of advice speaks of: each does the same with any value."""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128
BANK = 512


def in_sbuf(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def in_psum(shape):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)


def loaded(source, dtype=None):
    tile = in_sbuf(source.shape, dtype or source.dtype)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def result(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


@nki.jit
def scaled(x, width, piece=64):
    """2 * x, loaded and stored `width` columns at a time."""
    out = result(x.shape, x.dtype)
    for start in range(0, x.shape[1], width):
        columns = slice(start, start + width)
        tile = loaded(x[:, columns])
        twice = in_sbuf(tile.shape, x.dtype)
        for at in range(0, width, piece):
            part = slice(at, at + piece)
            nisa.tensor_scalar(
                dst=twice[:, part], data=tile[:, part], op0=nl.multiply, operand0=2.0
            )
        nisa.dma_copy(dst=out[:, columns], src=twice)
    return out


@nki.jit
def sums(x, width, piece):
    """The sum of each row, loaded `width` columns at a time."""
    out = result((x.shape[0], 1))
    partial = in_sbuf((x.shape[0], x.shape[1] // piece))
    for start in range(0, x.shape[1], width):
        tile = loaded(x[:, start : start + width])
        for at in range(0, width, piece):
            column = (start + at) // piece
            nisa.tensor_reduce(
                dst=partial[:, column : column + 1],
                op=nl.add,
                data=tile[:, at : at + piece],
                axis=1,
            )
    total = in_sbuf((x.shape[0], 1))
    nisa.tensor_reduce(dst=total, op=nl.add, data=partial, axis=1)
    nisa.dma_copy(dst=out, src=total)
    return out


@nki.jit
def projected(x_t, weights, width):
    """weights.T @ x_t, loaded and stored `width` columns at a time."""
    N, M = x_t.shape[1], weights.shape[1]
    out = result((M, N), x_t.dtype)
    stationary = loaded(weights)
    for start in range(0, N, width):
        moving = loaded(x_t[:, start : start + width])
        kept = in_sbuf((M, width), x_t.dtype)
        for at in range(0, width, min(BANK, width)):
            part = slice(at, at + min(BANK, width))
            product = in_psum((M, min(BANK, width)))
            nisa.nc_matmul(dst=product, stationary=stationary, moving=moving[:, part])
            nisa.tensor_copy(dst=kept[:, part], src=product)
        nisa.dma_copy(dst=out[:, start : start + width], src=kept)
    return out


@nki.jit
def weighted(x_t, weights, at_once):
    """The sum of weights[:, tile].T @ x_t over tiles of 128 columns, of which some load at once."""
    tiles = weights.shape[1] // P
    moving = loaded(x_t)
    out = result((P, x_t.shape[1]))
    product = in_psum((P, x_t.shape[1]))
    for start in range(0, tiles, at_once):
        stationary = loaded(weights[:, start * P : (start + at_once) * P])
        for at in range(at_once):
            nisa.nc_matmul(
                dst=product, stationary=stationary[:, at * P : (at + 1) * P], moving=moving
            )
    kept = in_sbuf(product.shape)
    nisa.tensor_copy(dst=kept, src=product)
    nisa.dma_copy(dst=out, src=kept)
    return out


@nki.jit
def product_of(lhs_t, rhs, dtype, N=BANK):
    """lhs_t.T @ rhs from operands that are `dtype` on the chip."""
    (K, M), columns = lhs_t.shape, rhs.shape[1]
    out = result((M, columns))
    left = [
        [loaded(lhs_t[k : k + P, m : m + P], dtype) for m in range(0, M, P)] for k in range(0, K, P)
    ]
    for n in range(0, columns, N):
        right = [loaded(rhs[k : k + P, n : n + N], dtype) for k in range(0, K, P)]
        for m in range(M // P):
            product = in_psum((P, N))
            for k in range(K // P):
                nisa.nc_matmul(dst=product, stationary=left[k][m], moving=right[k])
            kept = in_sbuf((P, N))
            nisa.tensor_copy(dst=kept, src=product)
            nisa.dma_copy(dst=out[m * P : (m + 1) * P, n : n + N], src=kept)
    return out


@nki.jit
def gram_twice(x, w, dtype, rounds):
    """x <- w.T @ x, `rounds` times, on independent tiles of `dtype`."""
    weights = loaded(w, dtype)
    out = result(x.shape)
    tiles = [loaded(x[:, n : n + BANK], dtype) for n in range(0, x.shape[1], BANK)]
    for _ in range(rounds):
        for n in range(len(tiles)):
            product = in_psum((P, BANK))
            nisa.nc_matmul(dst=product, stationary=weights, moving=tiles[n])
            kept = in_sbuf((P, BANK), dtype)
            nisa.activation(dst=kept, op=nl.copy, data=product)
            tiles[n] = kept
    for n in range(len(tiles)):
        nisa.dma_copy(dst=out[:, n * BANK : (n + 1) * BANK], src=tiles[n])
    return out


@nki.jit
def polynomial(x, dtype, width, degree):
    """Horner's scheme on the Vector Engine, on tiles of `dtype`."""
    out = result(x.shape)
    for start in range(0, x.shape[1], width):
        tile = loaded(x[:, start : start + width], dtype)
        value = in_sbuf(tile.shape, dtype)
        nisa.tensor_copy(dst=value, src=tile)
        for _ in range(degree):
            nisa.tensor_tensor(dst=value, data1=value, data2=tile, op=nl.multiply)
            nisa.tensor_scalar(dst=value, data=value, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[:, start : start + width], src=value)
    return out


@nki.jit
def residual(x, y, dtype, width):
    """x + y, clamped, on tiles of `dtype`."""
    out = result(x.shape)
    for start in range(0, x.shape[1], width):
        columns = slice(start, start + width)
        a, b = loaded(x[:, columns], dtype), loaded(y[:, columns], dtype)
        total = in_sbuf(a.shape, dtype)
        nisa.tensor_tensor(dst=total, data1=a, data2=b, op=nl.add)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.maximum, operand0=0.0)
        nisa.tensor_scalar(dst=total, data=total, op0=nl.minimum, operand0=6.0)
        nisa.dma_copy(dst=out[:, columns], src=total)
    return out


@nki.jit
def streamed(x_t, w, N):
    """w.T @ x_t: matmuls stream N columns, all else works on whole banks."""
    (K, columns), M = x_t.shape, w.shape[1]
    out = result((M, columns))
    stationary = [loaded(w[k : k + P]) for k in range(0, K, P)]
    for start in range(0, columns, BANK):
        moving = [loaded(x_t[k : k + P, start : start + BANK]) for k in range(0, K, P)]
        product = in_psum((M, BANK))
        for at in range(0, BANK, N):
            for k in range(len(moving)):
                nisa.nc_matmul(
                    dst=product[:, at : at + N],
                    stationary=stationary[k],
                    moving=moving[k][:, at : at + N],
                )
        kept = in_sbuf((M, BANK))
        nisa.tensor_copy(dst=kept, src=product)
        nisa.dma_copy(dst=out[:, start : start + BANK], src=kept)
    return out


@nki.jit
def tiled(x_t, w, N):
    """w.T @ x_t in tiles of N columns, evicted and stored as they are."""
    (K, columns), M = x_t.shape, w.shape[1]
    out = result((M, columns))
    stationary = [loaded(w[k : k + P]) for k in range(0, K, P)]
    moving = [loaded(x_t[k : k + P]) for k in range(0, K, P)]
    for start in range(0, columns, N):
        product = in_psum((M, N))
        for k in range(len(moving)):
            nisa.nc_matmul(
                dst=product, stationary=stationary[k], moving=moving[k][:, start : start + N]
            )
        kept = in_sbuf((M, N))
        nisa.tensor_copy(dst=kept, src=product)
        nisa.dma_copy(dst=out[:, start : start + N], src=kept)
    return out


@nki.jit
def deep(x_t, w, rows):
    """w.T @ x_t, contracted `rows` at a time."""
    (K, N), M = x_t.shape, w.shape[1]
    out = result((M, N))
    moving = [loaded(x_t[k : k + rows]) for k in range(0, K, rows)]
    stationary = [loaded(w[k : k + rows]) for k in range(0, K, rows)]
    for start in range(0, N, BANK):
        product = in_psum((M, BANK))
        for k in range(len(moving)):
            nisa.nc_matmul(
                dst=product, stationary=stationary[k], moving=moving[k][:, start : start + BANK]
            )
        kept = in_sbuf((M, BANK))
        nisa.tensor_copy(dst=kept, src=product)
        nisa.dma_copy(dst=out[:, start : start + BANK], src=kept)
    return out


@nki.jit
def heads(x_t, w, columns):
    """w.T @ x_t, `columns` of w at a time, evicted and stored as they are."""
    (K, N), M = x_t.shape, w.shape[1]
    out = result((M, N), nl.bfloat16)
    stationary = [loaded(w[k : k + P]) for k in range(0, K, P)]
    moving = [loaded(x_t[k : k + P]) for k in range(0, K, P)]
    for start in range(0, N, BANK):
        for m in range(0, M, columns):
            product = in_psum((columns, BANK))
            for k in range(len(moving)):
                nisa.nc_matmul(
                    dst=product,
                    stationary=stationary[k][:, m : m + columns],
                    moving=moving[k][:, start : start + BANK],
                )
            kept = in_sbuf((columns, BANK), nl.bfloat16)
            nisa.tensor_copy(dst=kept, src=product)
            nisa.dma_copy(dst=out[m : m + columns, start : start + BANK], src=kept)
    return out


def chosen(at, other, every, share):
    """`other` for `share` of `every` turns, else the Vector Engine."""
    return other if every and at % every < share else nisa.engine.vector


@nki.jit
def layers(x, w, rounds, other=nisa.engine.scalar, every=0, share=1):
    """x <- w.T @ x, `rounds` times, on independent tiles that two engines evict."""
    weights = loaded(w)
    out = result(x.shape, x.dtype)
    tiles = [loaded(x[:, n : n + BANK]) for n in range(0, x.shape[1], BANK)]
    at = 0
    for _ in range(rounds):
        for n in range(len(tiles)):
            product = in_psum((w.shape[1], BANK))
            nisa.nc_matmul(dst=product, stationary=weights, moving=tiles[n])
            kept = in_sbuf((w.shape[1], BANK), x.dtype)
            nisa.tensor_copy(dst=kept, src=product, engine=chosen(at, other, every, share))
            at += 1
            tiles[n] = kept
    for n in range(len(tiles)):
        nisa.dma_copy(dst=out[:, n * BANK : (n + 1) * BANK], src=tiles[n])
    return out


@nki.jit
def affine(x, width, steps, other=nisa.engine.scalar, every=0, share=1, by_tile=False):
    """x <- x / 2 + 1, `steps` times, tile by tile."""
    out = result(x.shape, x.dtype)
    tile = loaded(x)
    for i in range(x.shape[1] // width):
        columns = slice(i * width, (i + 1) * width)
        for s in range(steps):
            engine = chosen(i if by_tile else i * steps + s, other, every, share)
            nisa.tensor_scalar(
                dst=tile[:, columns],
                data=tile[:, columns],
                op0=nl.multiply,
                operand0=0.5,
                op1=nl.add,
                operand1=1.0,
                engine=engine,
            )
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def products(x, y, width, steps, other=nisa.engine.gpsimd, every=0, share=1, by_tile=False):
    """x <- x * y, `steps` times, tile by tile."""
    out = result(x.shape, x.dtype)
    a, b = loaded(x), loaded(y)
    for i in range(x.shape[1] // width):
        columns = slice(i * width, (i + 1) * width)
        for s in range(steps):
            engine = chosen(i if by_tile else i * steps + s, other, every, share)
            nisa.tensor_tensor(
                dst=a[:, columns],
                data1=a[:, columns],
                data2=b[:, columns],
                op=nl.multiply,
                engine=engine,
            )
    nisa.dma_copy(dst=out, src=a)
    return out


@nki.jit
def reused(x, width, tiles):
    """x / exp(x) by way of `tiles` sets of buffers."""
    out = result(x.shape)
    sets = [[in_sbuf((x.shape[0], width)) for _ in range(3)] for _ in range(tiles)]
    for i in range(x.shape[1] // width):
        columns = slice(i * width, (i + 1) * width)
        a, b, c = sets[i % tiles]
        nisa.dma_copy(dst=a, src=x[:, columns])
        nisa.activation(dst=b, op=nl.exp, data=a)
        nisa.reciprocal(dst=c, data=b)
        nisa.tensor_tensor(dst=c, data1=a, data2=c, op=nl.multiply)
        nisa.dma_copy(dst=out[:, columns], src=c)
    return out


@nki.jit
def powers(x, w, rounds, tiles, width=128):
    """x <- w.T @ x, `rounds` times, by way of `tiles` sets of buffers."""
    out = result(x.shape)
    weights = loaded(w)
    state = [in_sbuf((P, width), x.dtype) for _ in range(tiles)]
    product = [in_psum((P, width)) for _ in range(tiles)]
    for first in range(0, x.shape[1], tiles * width):
        for t in range(tiles):
            at = first + t * width
            nisa.dma_copy(dst=state[t], src=x[:, at : at + width])
        for _ in range(rounds):
            for t in range(tiles):
                nisa.nc_matmul(
                    dst=product[t], stationary=weights, moving=state[t], accumulate=False
                )
                nisa.tensor_copy(dst=state[t], src=product[t])
        for t in range(tiles):
            at = first + t * width
            nisa.dma_copy(dst=out[:, at : at + width], src=state[t])
    return out


@nki.jit
def softmax(x, tiles):
    """Softmax of the rows by way of `tiles` sets of buffers."""
    rows, columns = x.shape
    out = result(x.shape)
    data = [in_sbuf((P, columns)) for _ in range(tiles)]
    small = [[in_sbuf((P, 1)) for _ in range(2)] for _ in range(tiles)]
    for i in range(rows // P):
        tile, (top, total) = data[i % tiles], small[i % tiles]
        nisa.dma_copy(dst=tile, src=x[i * P : (i + 1) * P])
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
        nisa.activation(dst=tile, op=nl.exp, data=tile, bias=top)
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[i * P : (i + 1) * P], src=tile)
    return out


@nki.jit
def halved(x, width):
    """2 * x by two cores that meet at the end, `width` columns at a time."""
    out = result(x.shape, x.dtype)
    share = x.shape[1] // nl.num_programs(0)
    first = share * nl.program_id(0)
    for start in range(first, first + share, width):
        tile = loaded(x[:, start : start + width])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[:, start : start + width], src=tile)
    nisa.core_barrier(out, (0, 1))
    return out
