"""Operands for an operation's examples: the edges of an element type, and quieter numbers."""

import ml_dtypes
import numpy as np

FLOAT_EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, np.inf, -np.inf, np.nan]


def values(kind, wanted, limit, rng):
    """An array of a type, by the name that an example gives its values."""
    dtype = wanted.numpy_dtype()
    if kind == "zeros":
        return np.zeros(wanted.shape, dtype)
    if kind == "places":
        return np.asarray(rng.integers(0, max(limit, 1), wanted.shape)).astype(dtype)
    if kind == "distinct":
        numbers = rng.permutation(wanted.elements).reshape(wanted.shape)
        return np.asarray(numbers - wanted.elements // 2).astype(dtype)
    if kind == "small":
        if wanted.is_floating:
            return rng.uniform(-1, 1, wanted.shape).astype(dtype)
        return rng.integers(0 if dtype.kind in "ub" else -2, 3, wanted.shape).astype(dtype)
    edges = _edges(wanted, dtype)
    return rng.permutation(np.resize(edges, wanted.elements)).reshape(wanted.shape)


def _edges(wanted, dtype):
    if wanted.dtype == "bool":
        return np.array([False, True])
    if wanted.is_floating:
        limits = ml_dtypes.finfo(dtype)
        own = [float(limits.max), float(limits.min), float(limits.smallest_normal)]
        own += [float(limits.eps), 1 + float(limits.eps), 1e-4, 7.25, -100.0, 1000.0]
        return np.array(FLOAT_EDGES + own, np.float32).astype(dtype)
    limits = np.iinfo(dtype)
    own = [limits.min, limits.min + 1, limits.max, limits.max - 1, limits.max // 2, 0, 1, 2, 3, 7]
    own += [-1, -2, -7] if limits.min else []
    large = [n for n in (2**24, 2**24 + 1, -(2**24) - 1) if limits.min <= n <= limits.max]
    return np.array(own + large, dtype)
