"""Implicit permutes: what the rank before in the ring of each channel has."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction
from trnsim.fabric.exchange import rings
from trnsim.fabric.fabric import fabric


@nki.jit
def permuted(x, groups, channels, reduces, where=nl.shared_hbm):
    """One step of each channel, with row c of x for channel c."""
    made = lambda name: nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=where, name=name)  # noqa: E731
    srcs = [[made(f"src{c}")] for c in range(channels)]
    dsts = [[made(f"dst{c}")] for c in range(channels)]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for channel in range(channels):
        nisa.dma_copy(dst=srcs[channel][0], src=x[channel])
    ids = list(range(channels))
    if reduces:
        ncc.collective_permute_implicit_reduce(srcs, srcs, dsts, groups, nl.add, ids)
    else:
        ncc.collective_permute_implicit(srcs, dsts, groups, ids)
    for channel in range(channels):
        nisa.dma_copy(dst=out[channel], src=dsts[channel][0])
    return out


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("where", [nl.shared_hbm, nl.sbuf])
@pytest.mark.parametrize("reduces", [False, True])
@pytest.mark.parametrize(("ranks", "lnc"), [(2, 1), (4, 2), (8, 2), (16, 1), (16, 2)])
def test_each_channel_brings_what_the_one_before_in_its_ring_has(ranks, lnc, reduces, where):
    rng = np.random.default_rng(ranks)
    arrays = [rng.standard_normal((2, 2, 3)).astype(np.float32) for _ in range(ranks)]
    group = tuple(range(ranks))
    world = trnsim.run(
        permuted[lnc],
        ranks=ranks,
        inputs=[(a, ncc.ReplicaGroup([group]), 2, reduces, where) for a in arrays],
        instance="trn2.48xlarge",
    )
    for channel, ring in enumerate(rings(world.fabric, group)[:2]):
        for place, rank in enumerate(ring):
            wanted = arrays[ring[place - 1]][channel] * (2 if reduces else 1)
            np.testing.assert_array_equal(world.outputs[rank][channel], wanted)


def test_four_channels_where_the_group_has_all_devices_of_a_node_else_two():
    node = fabric("trn2.48xlarge", lnc=2)
    whole = rings(node, tuple(range(64)))
    assert len(whole) == 4
    assert len(rings(node, tuple(range(16)))) == len(rings(node, (0, 1, 2, 3))) == 2
    assert all(sorted(ring) == list(range(64)) for ring in whole)


def test_a_ring_runs_over_connections():
    node = fabric("trn2.48xlarge", lnc=2)
    for ring in rings(node, tuple(range(32))):
        assert all(node.is_direct(ring[i - 1], ring[i]) for i in range(len(ring)))


def run(call, ranks=4):
    x = np.ones((2, 2), np.float32)

    @nki.jit
    def kernel(x):
        src, other, dst = (
            nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=name) for name in "abc"
        )
        nisa.dma_copy(dst=src, src=x)
        nisa.dma_copy(dst=other, src=x)
        call(src, other, dst, ncc.ReplicaGroup([list(range(ranks))]))
        return x

    trnsim.run(kernel, x, ranks=ranks)


REFUSED = {
    r"channel_ids=\[1\]; legal: consecutive": lambda a, _, c, g: ncc.collective_permute_implicit(
        [[a]], [[c]], g, [1]
    ),
    "1 tensors for 2 channels": lambda a, _, c, g: ncc.collective_permute_implicit(
        [[a]], [[c]], g, [0, 1]
    ),
    "which has 2 channels; legal: 0 to 1": lambda a, _, c, g: ncc.collective_permute_implicit(
        [[a]] * 3, [[c]] * 3, g, [0, 1, 2]
    ),
    "has 2 tensors for a channel; legal: a list of one": (
        lambda a, b, c, g: ncc.collective_permute_implicit([[a, b]], [[c]], g)
    ),
    "has NkiTensor for a channel": lambda a, _, c, g: ncc.collective_permute_implicit([a], [c], g),
    "srcs0 are .* and srcs1": lambda a, b, c, g: ncc.collective_permute_implicit_reduce(
        [[a]], [[b[:1]]], [[c]], g, nl.add
    ),
    "op is subtract": lambda a, b, c, g: ncc.collective_permute_implicit_reduce(
        [[a]], [[b]], [[c]], g, nl.subtract
    ),
    "legal: a destination as large": lambda a, _, c, g: ncc.collective_permute_implicit(
        [[a]], [[c[:1]]], g
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_an_implicit_permute_refuses(message):
    with pytest.raises(IllegalInstruction, match=message):
        run(REFUSED[message])
    run(lambda a, _, c, g: ncc.collective_permute_implicit([[a]], [[c]], g))
    run(lambda a, b, c, g: ncc.collective_permute_implicit_reduce([[a]], [[b]], [[c]], g, nl.add))


@pytest.mark.parametrize("partial", [0, 1])
def test_a_reduction_with_an_unwritten_operand_is_unwritten(partial):
    @nki.jit
    def kernel(x, rows):
        first, second, dst = (
            nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=name) for name in "abc"
        )
        out = nl.ndarray((rows, 2), dtype=x.dtype, buffer=nl.shared_hbm)
        for place, tensor in enumerate((first, second)):
            written = 1 if place == partial else 2
            nisa.dma_copy(dst=tensor[:written], src=x[:written])
        group = ncc.ReplicaGroup([[0, 1]])
        ncc.collective_permute_implicit_reduce([[first]], [[second]], [[dst]], group, nl.add)
        nisa.dma_copy(dst=out, src=dst[:rows])
        return out

    x = np.ones((2, 2), np.float32)
    assert (trnsim.run(kernel, x, 1, ranks=2).outputs[0] == 2).all()
    with pytest.raises(IllegalInstruction, match="some elements were never written"):
        trnsim.run(kernel, x, 2, ranks=2)
