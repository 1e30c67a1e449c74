"""Worlds whose times are known by hand: what is busy beside a collective, who comes late."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim

X = np.ones((128, 512), np.float32)


@nki.jit
def beside(x, groups, late, loads, computes):
    """All-reduces x, beside which tiles are loaded or computed on; a late rank computes before."""
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    first = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=first, src=x)
    for _ in range(late):
        nisa.tensor_scalar(dst=first, data=first, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=src, src=first)
    ncc.all_reduce([src], [dst], groups, nl.add)
    for _ in range(loads):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
    for _ in range(computes):
        nisa.tensor_scalar(dst=first, data=first, op0=nl.add, operand0=1.0)
    return x


def world(ranks=2, *, groups=None, late=(), loads=0, computes=0, lnc=1, instance=None):
    """`beside` on ranks, of which some are late."""
    group = ncc.ReplicaGroup(groups or [list(range(ranks))])

    def inputs(rank):
        return X, group, 20 * (rank in late), loads, computes

    return trnsim.run(beside[lnc], ranks=ranks, inputs=inputs, instance=instance)
