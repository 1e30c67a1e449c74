"""Attention of few queries with keys of their own."""

import pytest
from made_graphs import Made

from trnsim.isa import Engine
from trnsim.lower.emit.attending import operands
from trnsim.lower.emit.attending.decoding import pack_groups


def test_groups_stand_together_up_to_128_queries():
    groups = [[(n, h) for h in range(4)] for n in range(20)]
    found = pack_groups(groups, 2)
    assert [len(pack) for pack in found] == [16, 4]
    assert [heads for pack in found for heads in pack] == groups


def test_one_group_or_many_queries_stand_alone():
    assert pack_groups([[(0,)]], 1) is None
    assert pack_groups([[(0,), (1,)], [(2,), (3,)]], 17) is None


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("16-1-1-2600-1-128")
@pytest.mark.parametrize(
    ("batch", "shared", "group", "past", "new", "width"),
    [
        (3, 2, 1, 200, 1, 32),  # fewer keys than a bank
        (2, 2, 4, 2048, 1, 64),  # a bank more than a pass
        (2, 1, 2, 4300, 3, 128),  # several passes
        (1, 3, 1, 127, 1, 16),
        (2, 1, 1, 127, 127, 32),  # two tensors of the same length
        (16, 1, 1, 2600, 1, 128),  # more heads than keep 2,048 keys each: three passes
    ],
)
def test_each_query_reads_its_own_keys(batch, shared, group, past, new, width):
    made = Made("bfloat16")
    graph = made.graph
    query = made.given(batch, shared, group, 1, width)
    wide = (batch, shared, group, past + new, width)
    sides = []
    for _ in "kv":
        cache, fresh = (made.given(batch, shared, n, width) for n in (past, new))
        joined = graph.concatenate([cache, fresh], 2)
        sides.append(graph.broadcast_in_dim(joined, wide, (0, 1, 3, 4)))
    made.check(made.attention(query, *sides))


def test_queries_of_all_heads_are_one_pass_of_the_vector_engine():
    made = Made("bfloat16")
    query = made.given(4, 2, 1, 64)
    keys, values = made.given(4, 2, 300, 64), made.given(4, 2, 300, 64)
    names = made.opcodes(made.attention(query, keys, values))
    assert names.count("activation_reduce") == 1


@pytest.mark.slow
def test_keys_that_do_not_fit_on_the_chip_pass_through_it():
    # 8 heads of 16,384 keys are 512 KiB of a partition that has 192.
    made = Made("bfloat16")
    query = made.given(8, 1, 1, 128)
    keys, values = made.given(8, 1, 16384, 128), made.given(8, 1, 16384, 128)
    run = made.run(made.attention(query, keys, values), chip="trn1")
    assert not any("spill" in span.operands for span in run.timeline.spans())
    # Each key and value comes once: two transfers a head and pass of 2,048 keys.
    loads = [s for s in run.timeline.spans() if "[128, 16, 128]" in s.operands.split("src=")[0]]
    assert sum(span.opcode == "dma_copy" for span in loads) == 8 * 2 * 16384 // 2048


@pytest.mark.slow
def test_keys_lie_where_those_of_two_passes_before_lay(monkeypatch):
    made = Made("bfloat16")
    query = made.given(4, 1, 1, 128)
    keys, values = made.given(4, 1, 16384, 128), made.given(4, 1, 16384, 128)
    shapes = []
    new = operands.new
    monkeypatch.setattr(operands, "new", lambda s, *more: shapes.append(tuple(s)) or new(s, *more))
    made.run(made.attention(query, keys, values), chip="trn1")
    assert shapes.count((128, 16, 128)) == 4 * 2 * 2  # heads, keys and values, passes


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_a_pass_computes_while_keys_of_the_next_come(chip):
    made = Made("bfloat16")
    query, key, value = (made.given(8, 2, rows, 128) for rows in (1, 4096, 4096))
    timeline = made.run(made.attention(query, key, value), chip=chip).timeline
    # On trn2 the array is the busiest: a key is transposed, which loads it, and a value is loaded.
    assert timeline.device_time_s < 1.2 * max(timeline.busy_s().values())


@pytest.mark.parametrize(
    ("count", "most", "packs"),
    [
        (8, 8, [8]),
        (9, 8, [5, 4]),
        (17, 8, [6, 6, 5]),
        (3, 1, [1, 1, 1]),
        (40, 128, [32, 8]),  # 128 queries of four a group
    ],
)
def test_a_pack_has_at_most_so_many_groups(count, most, packs):
    groups = [[(n, h) for h in range(4)] for n in range(count)]
    found = pack_groups(groups, 1, most)
    assert [len(pack) for pack in found] == packs
    assert [heads for pack in found for heads in pack] == groups


@pytest.mark.slow
def test_more_heads_take_no_longer_each():
    # Twelve heads in one pass would have 1,024 keys each, in runs of 2 KiB, for 1.7 times as long.
    times_s, transfers_s = [], []
    for heads in (4, 12, 20):
        made = Made("bfloat16")
        query, key, value = (made.given(heads, 1, rows, 128) for rows in (1, 6144, 6144))
        timeline = made.run(made.attention(query, key, value), chip="trn1").timeline
        times_s.append(timeline.device_time_s / heads)
        transfers_s.append(timeline.busy_s()[Engine.dma] / heads)
    assert transfers_s == pytest.approx([transfers_s[0]] * 3, rel=0.02)
    assert times_s == sorted(times_s, reverse=True)
    assert times_s[-1] < 1.1 * transfers_s[-1]
