"""A kernel, run over and over until this process is ended: a program for clients to find."""

import numpy as np

import trnsim
from trnsim import nki
from trnsim.nki import language as nl


@nki.jit
def doubled(a):
    """``a + a``."""
    result = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(result, nl.add(tile, tile))
    return result


if __name__ == "__main__":
    given = np.ones((128, 512), np.float32)
    while True:
        trnsim.run(doubled, given)
