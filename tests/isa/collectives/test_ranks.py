"""Registers that hold the number of a rank."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction

TABLE = np.arange(64, dtype=np.float32).reshape(16, 4)


@nki.jit
def own_row(table):
    out = nl.ndarray((1, 4), dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(
        dst=out,
        src=table.ap(pattern=[[4, 1], [1, 4]], scalar_offset=ncc.rank_id(), indirect_dim=0),
    )
    return out


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("ranks", [1, 2, 16])
def test_rank_id_is_an_offset(lnc, ranks):
    world = trnsim.run(own_row[lnc], TABLE, ranks=ranks)
    np.testing.assert_array_equal(np.concatenate(world.outputs), TABLE[:ranks])


def test_ranks_that_differ_in_values_alone_take_the_same_time():
    world = trnsim.run(own_row, TABLE, ranks=16)
    assert len({run.total_time_s for run in world.runs}) == 1


def test_a_rank_has_no_number_outside_a_world():
    with pytest.raises(IllegalInstruction, match=r"rank_id in a run without ranks.*\n.*ranks=N"):
        trnsim.run(own_row, TABLE)


@nki.jit
def processing(groups, steps, channel, out):
    for step in range(steps):
        found = ncc.collective_permute_implicit_current_processing_rank_id(step, groups, channel)
        cell = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.register_store(cell, found)
        nisa.dma_copy(dst=out[0:1, step : step + 1], src=cell)


def steps_of(groups, channel=0, ranks=4, steps=3):
    outs = [np.zeros((1, steps), np.int32) for _ in range(ranks)]
    group = ncc.ReplicaGroup(groups)
    trnsim.run(processing, ranks=ranks, inputs=lambda rank: (group, steps, channel, outs[rank]))
    return [out[0].tolist() for out in outs]


def test_the_processed_rank_goes_back_round_the_ring():
    assert steps_of([[0, 1, 2, 3]]) == [[0, 3, 2], [1, 0, 3], [2, 1, 0], [3, 2, 1]]
    assert steps_of([[0, 2], [1, 3]]) == [[0, 2, 0], [1, 3, 1], [2, 0, 2], [3, 1, 3]]
    assert steps_of([[0, 1, 2, 3]], channel=1)[0] == [0, 1, 2]


def test_what_it_refuses():
    with pytest.raises(IllegalInstruction, match="which has 2 channels; legal: 0 to 1"):
        steps_of([[0, 1, 2, 3]], channel=2)
    with pytest.raises(IllegalInstruction, match="no group has rank 3; legal: groups with every"):
        steps_of([[0, 1, 2]])


@nki.jit
def before_the_first(x):
    ncc.collective_permute_implicit_current_processing_rank_id(-1, ncc.ReplicaGroup([[0]]))
    return x


def test_steps_count_from_0():
    with pytest.raises(IllegalInstruction, match="iteration_id=-1; legal: 0 or more"):
        trnsim.run(before_the_first, TABLE, ranks=1)
