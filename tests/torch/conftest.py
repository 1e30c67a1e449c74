"""NKI kernels that models of these tests call, and a clean slate for PyTorch's compiler."""

# nki: 0.6
# Kernels of one core, in graphs of two: NKI 0.7 refuses them (tests of check_degree).

import sys
from pathlib import Path

import nki
import nki.language as nl
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # groups.py is a module by its name


@nki.jit
def sine_into(source, result):
    """Writes the sine of [128, F] into its second argument."""
    nl.store(result[0:128], value=nl.sin(nl.load(source[0:128])))


@nki.jit
def cosine(source):
    """Returns the cosine of [P, F] for P of at most 128."""
    result = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nl.store(result, value=nl.cos(nl.load(source)))
    return result


@nki.jit
def both(source):
    """Returns the sine and the cosine."""
    results = [nl.ndarray(source.shape, source.dtype, buffer=nl.shared_hbm) for _ in range(2)]
    tile = nl.load(source)
    nl.store(results[0], value=nl.sin(tile))
    nl.store(results[1], value=nl.cos(tile))
    return results[0], results[1]


@nki.jit
def too_wide(source):
    """What no chip takes: a tile of more than 128 partitions."""
    return nl.ndarray((256, source.shape[1]), dtype=source.dtype, buffer=nl.sbuf)


class Kernels:
    """The kernels by name."""

    sine_into = sine_into
    cosine = cosine
    both = both
    too_wide = too_wide


@pytest.fixture(scope="session")
def kernels():
    return Kernels
