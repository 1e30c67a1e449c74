"""CcOp and CcStream: fields that Neuron Explorer documents, of collectives of known bytes."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.profile.measures.core import Core
from trnsim.profile.tables import collectives, explorer_tables

RANKS = 4
ROWS, COLUMNS = 6, 10


@nki.jit
def exchanging(x, late):
    """Two all-reduces and an all-gather; a late rank sets a tensor before."""
    group = ncc.ReplicaGroup([list(range(RANKS))])
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    all_of = nl.ndarray((RANKS * ROWS, COLUMNS), dtype=x.dtype, buffer=nl.shared_hbm, name="all")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(late):
        nisa.memset(dst=tile, value=1)
    nisa.dma_copy(dst=src, src=tile) if late else nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], group, nl.add)
    ncc.all_gather([dst], [all_of], group, collective_dim=0)
    ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1], [2, 3]]), nl.add)
    return x


def world(lnc=1):
    x = np.ones((ROWS, COLUMNS), np.float32)
    return trnsim.run(exchanging[lnc], ranks=RANKS, inputs=lambda rank: (x, 200 * (rank == 3)))


@pytest.fixture(scope="module")
def ran():
    return world()


def test_each_collective_is_a_row_with_what_it_moved(ran):
    table = collectives.operations(Core(ran.runs[0].timeline, 0))
    nbytes = ROWS * COLUMNS * 4
    assert table["operation"] == ["AllReduce", "AllGather", "AllReduce"]
    assert table["input_size"] == [nbytes] * 3
    assert table["output_size"] == [nbytes, RANKS * nbytes, nbytes]
    assert table["num_elements"] == [60, 240, 60]
    assert set(table["dtype"]) == {"float32"}
    assert table["replica_group"] == ["[[0, 1, 2, 3]]"] * 2 + ["[[0, 1], [2, 3]]"]
    assert list(table["replica_group_id"]) == [0, 0, 1]
    assert all(name[0].isupper() for name in table["algorithm"])
    lasted_s = np.array(table["duration_ns"]) * 1e-9
    rates = np.array([nbytes, RANKS * nbytes, nbytes]) / lasted_s
    np.testing.assert_allclose(table["algorithm_bandwidth"], rates, rtol=1e-3)
    factors = [2 * 3 / 4, 3 / 4, 2 * 1 / 2]
    np.testing.assert_allclose(table["bus_bandwidth"], rates * factors, rtol=1e-3)


def test_who_waits_for_a_late_rank_was_triggered_before(ran):
    first, late = (collectives.operations(Core(ran.runs[r].timeline, 0)) for r in (0, 3))
    assert first["start_ts"][0] == late["start_ts"][0]
    assert first["cc_trigger_start_delay"][0] > 5000
    assert late["cc_trigger_start_delay"][0] == 0
    for table in (first, late):
        delays = np.array(table["start_ts"]) - np.array(table["trigger_start_ts"])
        np.testing.assert_allclose(delays, table["cc_trigger_start_delay"], atol=1)


def test_the_second_core_has_rows_of_what_it_exchanges_by_itself():
    run = world(lnc=2).runs[0]
    tables = explorer_tables(run.timelines, run.summary, "exchanging")
    assert len(tables["CcOp"]["op_id"]) == 3
    assert tables["CcStream"]["cc_core_ids"] == ["[0,1]"]
    assert tables["CcOp"]["trigger_engine"] == [None] * 3
    told = [row for row in tables["Warning"]["message"] if row.startswith("CcOp:")]
    assert told == ["CcOp: the emulator knows nothing of trigger_engine"]


def test_a_core_without_collectives_has_no_rows(timeline):
    core = Core(timeline, 0)
    assert all(not len(column) for column in collectives.operations(core).values())
    assert all(not len(column) for column in collectives.streams(core).values())
