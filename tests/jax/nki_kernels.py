"""Kernels that the tests of this folder call from JAX."""

# nki: 0.6
# Kernels of one core, in graphs of two: NKI 0.7 refuses them (tests of check_degree).

import nki
import nki.language as nl


def stored(value, shape, dtype):
    result = nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)
    nl.store(result, value=value)
    return result


@nki.jit
def double(x):
    return stored(nl.multiply(nl.load(x), 2.0), x.shape, x.dtype)


@nki.jit
def add(a, b, scale=1.0):
    assert a.shape == b.shape, "add takes tensors of one shape"
    return stored(nl.multiply(nl.add(nl.load(a), nl.load(b)), scale), a.shape, a.dtype)


@nki.jit
def both(tree, factor=3.0, *, dtype=None):
    """A sum of `dtype`, and in a tuple with a number the difference times a factor."""
    a, b = nl.load(tree["x"]), nl.load(tree["y"])
    shape = tree["x"].shape
    total = stored(nl.add(a, b), shape, dtype or tree["x"].dtype)
    return {
        "sum": total,
        "rest": (stored(nl.multiply(nl.subtract(a, b), factor), shape, nl.float32), 7),
    }


@nki.jit
def into(x, out):
    nl.store(out, value=nl.multiply(nl.load(x), 2.0))
    return out


@nki.jit
def lost(x, out):
    nl.store(out, value=nl.load(x))
    return stored(nl.load(x), x.shape, x.dtype)


@nki.jit
def nothing(x):
    nl.load(x)


@nki.jit
def unwritten(x):
    """Reads what nothing wrote, which shows when it runs with values."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    return stored(nl.add(tile, nl.load(x)), x.shape, x.dtype)


@nki.jit
def partly(x):
    """Returns what nothing wrote."""
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)


@nki.jit
def wide(x):
    """What no chip takes: a tile of more than 128 partitions."""
    return nl.ndarray((256, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)


@nki.jit
def halves(x):
    """Each core of a logical one does its rows."""
    rows = x.shape[0] // nl.num_programs()
    start = nl.program_id() * rows
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    own = nl.load(x[start : start + rows])
    nl.store(result[start : start + rows], value=nl.multiply(own, 2.0))
    return result


@nki.jit
def reduced(x):
    """A kernel with a collective."""
    kept = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2)]
    nki.isa.dma_copy(dst=kept[0], src=x)
    group = nki.collectives.ReplicaGroup([[0]])
    nki.collectives.all_reduce(srcs=kept[:1], dsts=kept[1:], replica_group=group, op=nl.add)
    return kept[1]
