"""Prepared exchanges against those in one step: values, times, definedness, limits."""

import linecache

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trnsim
from trnsim.errors import IllegalInstruction, UninitializedRead

WIDTH = 8


@nki.jit
def exchanged(x, metadata, groups, call, is_prepared, options):
    """One exchange; returns dst, and the metadata after it."""
    ranks = len(groups.groups[0])
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray((ranks * x.shape[0],), dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    shape = metadata.shape if options.get("is_in_hbm", True) else (1, *metadata.shape)
    where = nl.shared_hbm if options.get("is_in_hbm", True) else nl.sbuf
    counts = nl.ndarray(shape, dtype=nl.uint32, buffer=where, name="counts")
    out = nl.ndarray(dst.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    after = nl.ndarray(metadata.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=counts, src=metadata.reshape(shape))
    for part in range(ranks):
        nisa.dma_copy(dst=dst[part * x.shape[0] : (part + 1) * x.shape[0]], src=x)
    flags = {"recv_counts_known": options.get("recv_counts_known", False)}
    if is_prepared:
        prepared = getattr(ncc, f"{call}_prepare")([src], [dst], groups, counts, **flags)
        nisa.dma_copy(dst=src, src=x)
        getattr(ncc, f"{call}_trigger")(prepared)
    else:
        nisa.dma_copy(dst=src, src=x)
        getattr(ncc, call)([src], [dst], groups, counts, **flags)
    nisa.dma_copy(dst=out, src=dst)
    nisa.dma_copy(dst=after, src=counts)
    return out, after


def both(call, ranks, seed, *, lnc=1, per_group=None, **options):
    """The world in two steps and that in one, with random metadata."""
    rng = np.random.default_rng(seed)
    per_group = per_group or ranks
    groups = ncc.ReplicaGroup(
        [list(range(at, at + per_group)) for at in range(0, ranks, per_group)]
    )
    elements = per_group * WIDTH
    sent = [rng.integers(0, 9999, elements).astype(np.float32) for _ in range(ranks)]
    counts = rng.integers(0, elements // 2, (ranks, per_group))
    displs = rng.integers(0, elements // 2, (ranks, per_group))

    def inputs(rank):
        rows = [counts[rank], displs[rank], np.full(per_group, 77)]
        return sent[rank], np.array(rows, np.uint32), groups, call

    def world(is_prepared):
        return trnsim.run(
            exchanged[lnc],
            ranks=ranks,
            inputs=lambda rank: (*inputs(rank), is_prepared, options),
            races="warn",
        )

    return world(True), world(False)


def equal(two_steps, one_step):
    for ours, theirs in zip(two_steps.outputs, one_step.outputs, strict=True):
        for got, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(got, expected)


@settings(max_examples=6, deadline=None)
@given(st.sampled_from([4, 8]), st.booleans(), st.booleans(), st.integers(0, 2**31))
def test_two_steps_have_the_values_of_one(ranks, known, is_in_hbm, seed):
    worlds = both("all_to_all_v", ranks, seed, recv_counts_known=known, is_in_hbm=is_in_hbm)
    equal(*worlds)


@settings(max_examples=3, deadline=None)
@given(st.sampled_from([4, 8]), st.integers(0, 2**31))
def test_a_gather_in_two_steps_has_the_values_of_one(ranks, seed):
    equal(*both("all_gather_v", ranks, seed, lnc=2, per_group=4))


def test_two_cores_of_a_rank_prepare_too():
    equal(*both("all_to_all_v", 4, 3, lnc=2))


def starts(world, opcode):
    """Start and end of the instruction on the first rank."""
    (span,) = [s for s in world.runs[0].timeline.spans() if s.opcode == opcode]
    return span.start_s, span.end_s


def test_a_preparation_beside_the_load_of_the_source_saves_its_time():
    two_steps, one_step = both("all_to_all_v", 8, 0)
    first, last = starts(two_steps, "all_to_all_v_prepare")
    setup_s = last - first
    triggered = starts(two_steps, "all_to_all_v_trigger")
    whole = starts(one_step, "all_to_all_v")
    assert setup_s == pytest.approx(3.16e-6)
    assert triggered[1] - triggered[0] == pytest.approx(whole[1] - whole[0] - setup_s)
    gain_s = one_step.runs[0].total_time_s - two_steps.runs[0].total_time_s
    assert 0 < gain_s <= setup_s * (1 + 1e-9)


def test_a_run_without_values_has_both_steps():
    metadata = np.zeros((3, 4), np.uint32)
    args = np.zeros(32, np.float32), metadata, ncc.ReplicaGroup([[0, 1, 2, 3]]), "all_to_all_v"
    world = trnsim.run(exchanged, ranks=4, inputs=lambda _: (*args, True, {}), numerics=False)
    opcodes = [span.opcode for span in world.runs[0].timeline.spans()]
    assert {"all_to_all_v_prepare", "all_to_all_v_trigger"} <= set(opcodes)


@nki.jit
def stepwise(x, metadata, steps):
    """An all_to_all_v on two ranks; `steps` has functions called before, between and after."""
    group = ncc.ReplicaGroup([[0, 1]])
    src, dst, out, counts, seen = (
        nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm, name=name)
        for name, shape, dtype in (
            ("src", (8,), nl.float32),
            ("dst", (16,), nl.float32),
            ("out", (16,), nl.float32),
            ("counts", (3, 2), nl.uint32),
            ("seen", (1, 2), nl.uint32),
        )
    )
    rows = steps.get("rows", 3)
    nisa.dma_copy(dst=counts[:rows], src=metadata[:rows])
    nisa.dma_copy(dst=dst[:8], src=x)
    nisa.dma_copy(dst=dst[8:], src=x)
    prepared = ncc.all_to_all_v_prepare([src], [dst], group, counts)
    nisa.dma_copy(dst=src, src=x)
    if "between" in steps:
        steps["between"](counts, seen, metadata)
    ncc.all_to_all_v_trigger(prepared)
    nisa.dma_copy(dst=out, src=dst)
    return out


def run_steps(counts=(2, 3), displs=(0, 4), **steps):
    metadata = np.array([counts, displs, (0, 0)], np.uint32)
    x = np.arange(8, dtype=np.float32)
    return trnsim.run(stepwise, ranks=2, inputs=lambda _: (x, metadata, steps)).outputs


def test_the_trigger_has_the_metadata_of_the_preparation():
    def overwrite(counts, seen, metadata):
        del seen
        nisa.dma_copy(dst=counts[0:1], src=metadata[2:3])

    first, second = run_steps(between=overwrite)
    np.testing.assert_array_equal(first[:10], [0, 1, 2, 3, 4, 5, 6, 7, 0, 1])
    np.testing.assert_array_equal(second[:3], [4, 5, 6])


def test_received_counts_are_there_after_the_trigger():
    def read(counts, seen, metadata):
        del metadata
        nisa.dma_copy(dst=seen, src=counts[2:3])

    with pytest.raises(UninitializedRead, match="dma_copy reads counts"):
        run_steps(rows=2, between=read)


@pytest.mark.parametrize(
    ("steps", "error", "message"),
    [
        ({"counts": (9, 0)}, IllegalInstruction, "sends elements 0 to 9 .* its source has 8"),
        ({"displs": (0, 6)}, IllegalInstruction, "sends elements 6 to 9 to rank 1"),
        ({"rows": 1}, UninitializedRead, "all_to_all_v_prepare reads counts"),
    ],
)
def test_wrong_metadata_are_refused_at_the_preparation(steps, error, message):
    with pytest.raises(error, match=message) as caught:
        run_steps(**steps)
    assert caught.value.reason.startswith("all_to_all_v_prepare")
    assert "_v_prepare([src], [dst], group" in linecache.getline(*caught.value.line)


def test_metadata_have_a_column_for_each_rank():
    @nki.jit
    def kernel(x):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        dst = nl.ndarray((16,), dtype=x.dtype, buffer=nl.shared_hbm)
        counts = nl.ndarray((3, 3), dtype=nl.uint32, buffer=nl.shared_hbm)
        ncc.all_to_all_v_prepare([src], [dst], ncc.ReplicaGroup([[0, 1]]), counts)

    message = r"all_to_all_v_prepare: `metadata_tensor` is .*; legal for 2 ranks: \[3, 2\]"
    with pytest.raises(IllegalInstruction, match=message):
        trnsim.run(kernel, np.zeros(8, np.float32), ranks=2)


def test_an_ultraserver_with_switches_exchanges_in_one_step():
    metadata = np.zeros((3, 8), np.uint32)
    args = np.zeros(32, np.float32), metadata, ncc.ReplicaGroup([list(range(8))]), "all_to_all_v"
    with pytest.raises(IllegalInstruction, match="has NeuronSwitches; legal: instances") as caught:
        trnsim.run(exchanged[2], ranks=8, inputs=lambda _: (*args, True, {}), target="trn3")
    assert caught.value.fix == "call ncc.all_to_all_v, which exchanges in one step"
