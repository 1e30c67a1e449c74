"""What all collectives have in common: groups, operands, the meeting, time, races of two cores."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from exchanges import exchange, exchanged, groups_of

import trnsim
from trnsim.errors import DataRace, IllegalInstruction, UninitializedRead
from trnsim.fabric.exchange import exchange as fabric_exchange
from trnsim.isa import Engine
from trnsim.isa.collectives.setting import in_words

X = np.arange(16, dtype=np.float32).reshape(4, 4)
GROUPS = {
    "overlap: rank 1 is in several places": [[0, 1], [1, 2, 3]],
    "overlap: rank 0 is in several places": [[0, 0, 1, 2, 3]],
    "leave out rank 3; legal: each of the ranks 0 to 3 in one group": [[0, 1, 2]],
    "name rank 4, of 4 ranks": [[0, 1, 2, 3, 4]],
    "have one without ranks": [[0, 1, 2, 3], []],
}


def test_ranks_in_words_draw_neighbours_together():
    assert in_words([0, 1, 2, 3, 7, 9, 8]) == "0-3, 7, 9, 8"
    assert in_words([5]) == "5"


@pytest.mark.parametrize("message", GROUPS)
def test_groups_have_each_rank_once(message):
    groups = ncc.ReplicaGroup(GROUPS[message])
    with pytest.raises(IllegalInstruction, match=message) as caught:
        exchanged([X] * 4, lambda s, d: ncc.all_reduce(s, d, groups, nl.add), (4, 4))
    assert "test_collective.py" in str(caught.value.line)


def test_a_collective_meets_the_cores_of_all_ranks_of_its_group():
    call = lambda s, d: ncc.all_reduce(s, d, groups_of(4, 2), nl.add)  # noqa: E731
    for where, ring in ((nl.shared_hbm, [0, 1, 4, 5]), (nl.sbuf, [0, 4])):
        world = trnsim.run(exchange[2], X, call, (4, 4), where, ranks=4)
        program = world.runs[0].timelines[0].program
        (made,) = [c.instruction for c in program.checked if c.instruction.meets_ranks]
        at, found = made.meeting(0), [0]
        while (following := made.meeting(found[-1]).receiver) != 0:
            found.append(following)
            assert made.meeting(following).label == at.label
        assert found == ring


def test_members_start_together_when_the_last_is_ready_and_take_the_fabrics_time():
    @nki.jit
    def kernel(x, copies, groups):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        for _ in range(copies):
            nisa.dma_copy(dst=src, src=x)
        ncc.all_reduce([src], [dst], groups, nl.add)
        return x

    groups = groups_of(4, 2)
    world = trnsim.run(kernel, ranks=4, inputs=lambda rank: (X, 1 + 3 * (rank == 2), groups))
    spans = [next(s for s in r.timeline.spans() if s.opcode == "all_reduce") for r in world.runs]
    assert spans[0].start_s == spans[2].start_s > spans[1].start_s == spans[3].start_s
    taken = fabric_exchange(world.fabric, "all_reduce", 64.0, ((0, 2), (1, 3)))
    for span in spans:
        assert span.engine is Engine.collective
        assert span.busy_until_s - span.start_s == pytest.approx(taken.time_s)
        assert span.end_s == span.busy_until_s
    assert world.skew_s[2] == world.skew_s[1] == world.skew_s[3] == 0
    assert world.skew_s[0] == pytest.approx(spans[0].start_s - spans[1].start_s)


def test_a_collective_overlaps_with_what_does_not_depend_on_it():
    @nki.jit
    def kernel(x, waits):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=src, src=x)
        ncc.all_reduce([src], [dst], groups_of(2, 2), nl.add)
        nisa.dma_copy(dst=tile, src=dst if waits else x)
        return x

    spans = {
        waits: list(trnsim.run(kernel, X, waits, ranks=2).runs[0].timeline.spans())
        for waits in (True, False)
    }
    assert spans[True][2].start_s >= spans[True][1].end_s
    assert spans[False][2].start_s < spans[False][1].start_s


def test_arguments_and_results_of_the_kernel_are_no_operands():
    @nki.jit
    def kernel(x, which):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        nisa.dma_copy(dst=src, src=x)
        given = x if which == "src" else src
        ncc.all_reduce([given], [x if which == "dst" else dst], groups_of(2, 2), nl.add)
        return dst if which == "result" else src if which == "source" else None

    for which in ("src", "dst"):
        with pytest.raises(IllegalInstruction, match="is an argument of the kernel; legal"):
            trnsim.run(kernel, X.copy(), which, ranks=2)
    for which in ("result", "source"):
        with pytest.raises(IllegalInstruction, match="which a collective reads or writes"):
            trnsim.run(kernel, X.copy(), which, ranks=2)
    trnsim.run(kernel, X.copy(), "neither", ranks=2)


def mixed(src, dst, count=1, shape=(4, 4)):
    """A kernel with an all_reduce of `count` tensors between two kinds of memory."""

    @nki.jit
    def kernel(x):
        srcs = [nl.ndarray(shape, dtype=x.dtype, buffer=src, name=f"src{i}") for i in range(count)]
        dsts = [nl.ndarray(shape, dtype=x.dtype, buffer=dst, name=f"dst{i}") for i in range(count)]
        for one in srcs:
            nisa.dma_copy(dst=one, src=x.reshape(shape))
        ncc.all_reduce(srcs, dsts, groups_of(2, 2), nl.add)
        return x

    return kernel


def test_memories_are_not_mixed_and_tensors_in_sbuf_are_single_matrices():
    hbm, sbuf = nl.shared_hbm, nl.sbuf
    for legal in (mixed(hbm, hbm), mixed(sbuf, sbuf), mixed(hbm, hbm, 3)):
        trnsim.run(legal, X, ranks=2)
    trnsim.run(mixed(hbm, hbm, shape=(2, 2, 4)), X, ranks=2)
    for message, kernel in {
        "tensors in HBM and SBUF; legal: all in HBM or all in SBUF": mixed(hbm, sbuf),
        "2 tensors in SBUF; legal: one in SBUF": mixed(sbuf, sbuf, 2),
        "legal in SBUF: two dimensions": mixed(sbuf, sbuf, shape=(2, 2, 4)),
        "`dsts` is .* PSUM": mixed(sbuf, nl.psum),
    }.items():
        with pytest.raises(IllegalInstruction, match=message):
            trnsim.run(kernel, X, ranks=2)
    with pytest.raises(IllegalInstruction, match="some tensors are in shared and some in private"):
        trnsim.run(mixed(hbm, nl.private_hbm)[2], X, ranks=2)


def test_a_priority_is_for_generation_4():
    def prioritized(priority):
        return lambda s, d: ncc.all_reduce(s, d, groups_of(2, 2), nl.add, priority=priority)

    exchanged([X] * 2, prioritized(3), (4, 4), target="trn3")
    with pytest.raises(IllegalInstruction, match="priority on NeuronCore-v3"):
        exchanged([X] * 2, prioritized(3), (4, 4))
    with pytest.raises(IllegalInstruction, match="priority 4; legal: 0 to 3"):
        exchanged([X] * 2, prioritized(4), (4, 4), target="trn3")


def test_dtypes_of_source_and_destination_are_equal():
    def call(srcs, dsts):
        ncc.all_reduce(srcs, [dsts[0].view(nl.int32)], groups_of(2, 2), nl.add)

    with pytest.raises(IllegalInstruction, match="legal: equal dtypes"):
        exchanged([X] * 2, call, (4, 4))


def halves(*, before, after=False):
    """Each core writes and reads back its half, with or without a barrier around the collective."""

    @nki.jit
    def kernel(x):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id(0)
        own, other = (slice(2 * c, 2 * c + 2) for c in (core, 1 - core))
        nisa.dma_copy(dst=src[own], src=x[own])
        if before:
            nisa.core_barrier(src, (0, 1))
        ncc.all_reduce([src], [dst], groups_of(2, 2), nl.add)
        nisa.dma_copy(dst=src[own], src=dst[own])
        if after:
            nisa.core_barrier(src, (0, 1))
        nisa.dma_copy(dst=out[own], src=src[other] if after is not None else dst[other])
        return out

    return kernel


def test_a_collective_reads_what_the_other_core_wrote_only_after_a_barrier():
    world = trnsim.run(halves(before=True, after=True)[2], X, ranks=2)
    np.testing.assert_array_equal(world.outputs[0], 2 * X[[2, 3, 0, 1]])
    with pytest.raises(DataRace, match=r"nothing orders the two"):
        trnsim.run(halves(before=False, after=True)[2], X, ranks=2)


def test_what_comes_after_a_collective_comes_after_it_on_both_cores():
    """Each core reads the other half of what the collective wrote: one collective of the rank."""
    world = trnsim.run(halves(before=True, after=None)[2], X, ranks=2)
    np.testing.assert_array_equal(world.outputs[1], 2 * X[[2, 3, 0, 1]])


def test_what_is_read_of_the_other_cores_copies_needs_a_barrier():
    with pytest.raises(DataRace, match="nothing orders"):
        trnsim.run(halves(before=True, after=False)[2], X, ranks=2)


def test_both_cores_may_do_the_same_work_before_a_collective():
    call = lambda s, d: ncc.all_reduce(s, d, groups_of(2, 2), nl.add)  # noqa: E731
    world = trnsim.run(exchange[2], X, call, (4, 4), ranks=2)
    assert all("equal for these inputs" in text for text in world.warnings)
    np.testing.assert_array_equal(world.outputs[0], 2 * X)


def test_on_sbuf_each_core_exchanges_with_its_like():
    @nki.jit
    def kernel(x):
        src = nl.ndarray((4, 4), dtype=x.dtype, buffer=nl.sbuf)
        dst = nl.ndarray((4, 4), dtype=x.dtype, buffer=nl.sbuf)
        out = nl.ndarray((2, 4, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=src, src=x[nl.program_id(0)])
        ncc.all_reduce([src], [dst], groups_of(2, 2), nl.add)
        nisa.dma_copy(dst=out[nl.program_id(0)], src=dst)
        return out

    x = np.stack([X, 10 * X])
    for out in trnsim.run(kernel[2], x, ranks=2).outputs:
        np.testing.assert_array_equal(out, 2 * x)


def partly(written, read, call, shape=(4, 4)):
    """A kernel that writes some rows of src, and copies some rows of dst out."""

    @nki.jit
    def kernel(x):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        out = nl.ndarray((read.stop - read.start, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        if written:
            nisa.dma_copy(dst=src[:written], src=x[:written])
        call([src], [dst])
        nisa.dma_copy(dst=out, src=dst[read])
        return out

    return kernel


CALLS = {
    "all_reduce": lambda s, d: ncc.all_reduce(s, d, groups_of(2, 2), nl.maximum),
    "permute": lambda s, d: ncc.collective_permute(s, d, [(0, 1), (1, 0)]),
    "implicit": lambda s, d: ncc.collective_permute_implicit([s], [d], groups_of(2, 2)),
    "implicit_reduce": lambda s, d: ncc.collective_permute_implicit_reduce(
        [s], [s], [d], groups_of(2, 2), nl.minimum
    ),
}


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_elements_that_nothing_wrote_arrive_unwritten(name, lnc):
    world = trnsim.run(partly(3, slice(0, 3), CALLS[name])[lnc], X, ranks=2)
    np.testing.assert_array_equal(world.outputs[1], X[:3])
    with pytest.raises(IllegalInstruction, match="some elements were never written"):
        trnsim.run(partly(3, slice(0, 4), CALLS[name])[lnc], X, ranks=2)


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_a_source_of_which_nothing_is_written_is_refused(name, lnc):
    with pytest.raises(UninitializedRead, match=f"{name}.* reads src"):
        trnsim.run(partly(0, slice(0, 4), CALLS[name])[lnc], X, ranks=2)


def test_an_unwritten_element_makes_what_was_there_unwritten():
    """As a copy does: what the destination had is gone."""

    @nki.jit
    def kernel(x):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=src[:3], src=x[:3])
        nisa.dma_copy(dst=dst, src=x)
        ncc.all_reduce([src], [dst], groups_of(2, 2), nl.add)
        nisa.dma_copy(dst=out, src=dst)
        return out

    with pytest.raises(IllegalInstruction, match="some elements were never written"):
        trnsim.run(kernel, X, ranks=2)


def test_what_the_other_core_writes_while_a_rank_waits_is_offered():
    """Each core writes its half; without a barrier it is a race, and the values are there."""
    world = trnsim.run(halves(before=False, after=True)[2], X, ranks=2, races="warn")
    assert any("nothing orders the two" in text for text in world.warnings)
    np.testing.assert_array_equal(world.outputs[0], 2 * X[[2, 3, 0, 1]])
