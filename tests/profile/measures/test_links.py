"""Rates of links over time: their integral is what passed."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from made_world import X, world

import trnsim
from trnsim.profile.measures.links import link_rates


def integrals(ran):
    """Bytes by resource."""
    rates = link_rates([run.timelines for run in ran.runs])
    return {
        one.name: float((one.rate.bytes_per_s[:-1] * np.diff(one.rate.time_s)).sum())
        for one in rates
    }


@pytest.mark.parametrize("given", [{"ranks": 8}, {"lnc": 2}, {"ranks": 4, "late": (1,)}])
def test_a_rate_adds_up_to_the_bytes_that_passed(given):
    ran = world(**given, instance="trn2.48xlarge")
    assert integrals(ran) == pytest.approx({one.name: one.nbytes for one in ran.links})


def test_groups_at_other_times_add_up():
    ran = world(ranks=4, groups=[[0, 1], [2, 3]], late=(3,))
    found = {one.name: one.rate for one in link_rates([run.timelines for run in ran.runs])}
    assert integrals(ran) == pytest.approx({one.name: one.nbytes for one in ran.links})
    begins = {name: rate.time_s[0] for name, rate in found.items()}
    assert begins["DMA of chip 0, core 2"] > begins["DMA of chip 0, core 0"]


@pytest.mark.parametrize("channels", [1, 2])
def test_bytes_of_channels_are_counted_once(channels):
    @nki.jit
    def permuted(x):
        pairs = []
        for channel in range(channels):
            src, dst = (
                nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=f"{end}{channel}")
                for end in ("src", "dst")
            )
            nisa.dma_copy(dst=src, src=x)
            pairs.append(([src], [dst]))
        sources, targets = ([one[side] for one in pairs] for side in (0, 1))
        group = ncc.ReplicaGroup([[0, 1, 2, 3]])
        ncc.collective_permute_implicit(sources, targets, group, channel_ids=list(range(channels)))
        return x

    ran = trnsim.run(permuted, X, ranks=4)
    sent = {one.name: one.nbytes for one in ran.links if one.name.startswith("DMA")}
    assert sent == {f"DMA of chip 0, core {core}": channels * X.nbytes for core in range(4)}
    assert integrals(ran) == pytest.approx({one.name: one.nbytes for one in ran.links})


def test_without_collectives_no_link_has_a_rate():
    @nki.jit
    def kernel(x):
        return x

    assert link_rates([run.timelines for run in trnsim.run(kernel, X, ranks=2).runs]) == []
