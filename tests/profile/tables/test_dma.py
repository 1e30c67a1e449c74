import pytest

from trnsim.profile.measures.core import Core
from trnsim.profile.tables import dma


def test_packets_share_out_every_byte_of_their_transfer(kernel):
    kernel.load(5, 7)
    kernel.store(kernel.load(128, 64))
    core = Core(kernel.timeline(), 0)
    packets, whole = dma.packets(core), dma.aggregated_transfers(core)
    for row, number in enumerate(whole["id"]):
        own = [
            n
            for n, of in zip(
                packets["transfer_bytes"], packets["packet_aggregation_id"], strict=True
            )
            if of == number
        ]
        assert sum(own) == whole["transfer_bytes"][row]
        assert len(own) == min(core.transfers.packets[row], 16)
        assert max(own) - min(own) <= 1


def test_a_transfer_says_from_where_to_where(timeline):
    table = dma.aggregated_transfers(Core(timeline, 0))
    assert (table["source"][0], table["dest"][0]) == ("[HBM]", "[SBUF]")
    assert table["write_shape"][0] == "[128, 128]"
    assert table["write_num_sbuf_partitions"][0] == 128
    assert table["read_num_sbuf_partitions"][0] == 0
    assert table["throughput"][1] == pytest.approx(368e9)


def test_every_queue_reaches_every_engine(timeline):
    table = dma.queues(Core(timeline, 0))
    assert table["engine_idx"] == list(range(16))
    assert set(table["name"]) == {"qDefault"}
    assert set(table["type"]) == {"unknown"}


def test_usage_ends_with_all_bytes_moved(timeline):
    core = Core(timeline, 0)
    for table in (dma.dma_usage(core), dma.hbm_usage(core)):
        assert table["total_transfer_bytes"][-1] == 128 * 128 * 2 + 8 * 128 * 512 * 2
        assert max(table["current_throughput"]) <= 368e9 * 1.001
        assert table["current_throughput"][-1] == 0
