"""Worlds in which ranks share a trace, a record or a timeline: each tells what is its own."""

# nki: 0.5

from contextlib import contextmanager

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trnsim
from trnsim import worlds
from trnsim.errors import Deadlock
from trnsim.program import CoreContext, records
from trnsim.program.records import RankCall

X = np.ones((8, 8), np.float32)


@nki.jit
def reduced(x, groups):
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], groups, nl.add)
    nisa.dma_copy(dst=out, src=dst)
    return out


def whole(ranks):
    return ncc.ReplicaGroup([list(range(ranks))])


@nki.jit
def told(x, tell, steps):
    """Collectives of `steps`; says that it was called, and computes what `tell` returns."""
    for _ in range(tell() or 0):
        nl.zeros((1, 1), dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    at = x
    for number, groups in enumerate(steps):
        src, dst = (
            nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=f"{name}{number}")
            for name in ("src", "dst")
        )
        nisa.dma_copy(dst=src, src=at)
        ncc.all_reduce([src], [dst], groups, nl.add)
        at = dst
    nisa.dma_copy(dst=out, src=at)
    return out


@contextmanager
def each_alone():
    """Every rank is traced and timed on its own."""
    with pytest.MonkeyPatch.context() as patch:
        alone = lambda found: [(rank,) for rank in range(len(found))]  # noqa: E731
        patch.setattr(worlds, "rank_classes", alone)
        patch.setattr(worlds, "timing_classes", alone)
        patch.setattr(RankCall, "begin", lambda *_: None)
        yield


def facts(world):
    """All that a world tells of its ranks, but for the objects."""
    found = []
    for run in world.runs:
        spans = [list(timeline.spans()) for timeline in run.timelines]
        outputs = np.asarray(run.outputs).tolist()
        found.append((spans, outputs, run.warnings, run.timeline.interval()))
    return found, world.skew_s, world.links


@pytest.mark.parametrize("lnc", [1, 2])
def test_without_values_one_rank_is_traced_for_all_that_are_given_alike_arguments(lnc):
    calls = []
    steps = (whole(8), ncc.ReplicaGroup([[0, 1], [2, 3], [4, 5], [6, 7]]))

    def run():
        calls.clear()
        return trnsim.run(
            told[lnc],
            ranks=8,
            inputs=lambda rank: (np.full((4, 4), rank, np.float32), tell, steps),
            numerics=False,
            races="warn",
        )

    def tell():
        calls.append(1)

    shared = run()
    assert len(calls) == lnc
    assert len({id(one.timelines[0]) for one in shared.runs}) == 1
    with each_alone():
        assert facts(run()) == facts(shared)
    assert len(calls) == 8 * lnc


@pytest.mark.slow
@pytest.mark.parametrize("values", [False, True])
@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=8, max_size=8),
    st.lists(
        st.sampled_from([1, 2, 4, 8]).flatmap(
            lambda size: st.permutations(range(8)).map(
                lambda ranks: [ranks[at : at + size] for at in range(0, 8, size)]
            )
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([1, 2]),
)
def test_ranks_that_share_have_the_results_of_ranks_alone(values, kinds, steps, lnc):
    given = tuple(map(ncc.ReplicaGroup, steps))
    tells = [lambda: 0, lambda: 5, lambda: 9]

    def run():
        return trnsim.run(
            told[lnc],
            ranks=8,
            inputs=lambda rank: (X * (rank % 3), tells[kinds[rank]], given),
            numerics=values,
            races="warn",
        )

    shared = facts(run())
    with each_alone():
        assert facts(run()) == shared


def number():
    return int(ncc.rank_id())


def shown():
    return len(repr(ncc.rank_id()))


def moved():
    register = nisa.register_alloc(0)
    nisa.register_move(dst=register, src=ncc.rank_id())
    return int(register)


def computed():
    return int(ncc.rank_id() + 1)


def condition():
    return 3 if ncc.rank_id() else 0


def looped():
    return len([1 for _ in nl.dynamic_range(ncc.rank_id())])


def swallowed():
    try:
        return [5, 6, 7, 8][ncc.rank_id() - 1]
    except IndexError:
        return 0


READERS = (number, moved, computed, condition, looped, swallowed)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("tell", READERS)
@pytest.mark.parametrize("lnc", [1, 2])
def test_a_kernel_whose_python_reads_its_number_is_traced_on_every_rank(tell, lnc):
    def run():
        return trnsim.run(told[lnc], X, tell, (whole(4),), ranks=4, numerics=False, races="warn")

    shared = run()
    assert len({len(one.program) for one in shared.runs}) > 1
    with each_alone():
        assert facts(run()) == facts(shared)


def test_what_shows_the_number_of_a_rank_reads_it():
    calls = []

    def tell():
        calls.append(repr(ncc.rank_id()))

    trnsim.run(told, X, tell, (), ranks=4, numerics=False)
    assert calls[-4:] == [f"VirtualRegister({rank})" for rank in range(4)]


def test_a_number_that_is_returned_is_each_ranks_own():
    @nki.jit
    def kernel(x):
        return [x, ncc.rank_id()]

    world = trnsim.run(kernel, X, ranks=4, numerics=False)
    assert [int(run.outputs[1]) for run in world.runs] == [0, 1, 2, 3]


def test_a_number_that_fills_an_offset_is_no_difference():
    calls = []

    @nki.jit
    def kernel(x):
        calls.append(1)
        out = nl.ndarray((1, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        row = x.ap(pattern=[[8, 1], [1, 8]], scalar_offset=ncc.rank_id(), indirect_dim=0)
        nisa.dma_copy(dst=out, src=row)
        return out

    world = trnsim.run(kernel, X, ranks=4, numerics=False)
    assert len(calls) == 1
    with each_alone():
        assert facts(trnsim.run(kernel, X, ranks=4, numerics=False)) == facts(world)


@pytest.mark.parametrize(
    ("pairs", "traced"), [([(0, 1), (1, 0)], 4), ([(0, 1), (1, 2), (2, 3), (3, 0)], 1)]
)
def test_a_permute_of_some_ranks_makes_the_others_differ(pairs, traced):
    calls = []

    @nki.jit
    def kernel(x):
        calls.append(1)
        src, dst = (
            nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=name) for name in "sd"
        )
        nisa.dma_copy(dst=src, src=x)
        ncc.collective_permute([src], [dst], pairs)

    world = trnsim.run(kernel, X, ranks=4, numerics=False)
    assert len(calls) in (traced, traced + 1)
    assert [len(run.program) for run in world.runs] == [2] * len(pairs) + [1] * (4 - len(pairs))


def test_results_of_ranks_that_share_are_apart():
    @nki.jit
    def kernel(x):
        return [x, {"key": 1}]

    world = trnsim.run(kernel, X, ranks=2, numerics=False)
    world.runs[0].outputs[1]["key"] = 2
    assert world.runs[1].outputs == [None, {"key": 1}]


@pytest.mark.parametrize("wrong", ["shape", "rank", "error"])
def test_errors_without_values_are_those_of_ranks_alone(wrong):
    @nki.jit
    def kernel(x, rank):
        src, dst = (
            nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=name) for name in "sd"
        )
        nisa.dma_copy(dst=src, src=x)
        if wrong == "error" and rank:
            raise ValueError(f"no rank {rank}")
        if wrong != "rank" or not rank:
            ncc.all_reduce([src], [dst], whole(4), nl.add)

    def message():
        kind = ValueError if wrong == "error" else Deadlock
        shape = (4, 4) if wrong == "shape" else (8, 8)
        with pytest.raises(kind) as caught:
            trnsim.run(
                kernel,
                ranks=4,
                inputs=lambda rank: (np.ones(shape if rank > 1 else (8, 8), np.float32), rank > 1),
                numerics=False,
            )
        return str(caught.value), caught.value.__notes__ if wrong == "error" else None

    shared = message()
    with each_alone():
        assert message() == shared


def test_an_instruction_that_agrees_is_recorded_once(monkeypatch):
    seen = []
    append = CoreContext._record_new
    monkeypatch.setattr(
        CoreContext, "_record_new", lambda *args: seen.append(args[1]) or append(*args)
    )
    trnsim.run(reduced, ranks=8, inputs=lambda rank: (X * rank, whole(8)))
    assert [info.checked.opcode for info in seen] == ["dma_copy", "all_reduce", "dma_copy"]


def test_ranks_with_values_share_one_record():
    world = trnsim.run(reduced, ranks=8, inputs=lambda rank: (X * rank, whole(8)))
    assert len({id(run.program) for run in world.runs}) == 1
    assert len({id(run.timelines[0]) for run in world.runs}) == 1
    assert all((run.outputs == 28).all() for run in world.runs)


@pytest.mark.parametrize("more", [(0,), (3,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_rank_that_issues_more_than_the_first_leaves_the_record(more, where):
    @nki.jit
    def kernel(x, is_long):
        if is_long and where == "before":
            nl.zeros((4, 4), dtype=nl.float32, buffer=nl.sbuf)
        out = reduced(x, whole(4))
        if is_long and where == "after":
            nl.zeros((4, 4), dtype=nl.float32, buffer=nl.sbuf)
        return out

    def run():
        return trnsim.run(kernel, ranks=4, inputs=lambda rank: (X * rank, rank in more))

    shared = run()
    lengths = [len(one.program) for one in shared.runs]
    assert lengths == [4 if rank in more else 3 for rank in range(4)]
    with each_alone():
        assert facts(run()) == facts(shared)


def test_a_record_too_long_to_keep_is_shared_by_nobody(monkeypatch):
    monkeypatch.setattr(records, "MAX_STEPS", 2)
    world = trnsim.run(reduced, ranks=4, inputs=lambda rank: (X * rank, whole(4)))
    assert [len(run.program) for run in world.runs] == [3] * 4
    assert len({id(run.program) for run in world.runs}) == 4


@pytest.mark.slow_cases("64-1-False")
@pytest.mark.slow_cases("64-2-True")
@pytest.mark.parametrize(("ranks", "lnc", "values"), [(64, 1, True), (64, 1, False), (64, 2, True)])
def test_a_world_repeats_to_the_byte(tmp_path, ranks, lnc, values):
    def made(name):
        world = trnsim.run(
            told[lnc],
            ranks=ranks,
            inputs=lambda rank: (X * rank, lambda: rank // 32, (whole(ranks),)),
            instance="trn2.48xlarge",
            numerics=values,
            races="warn",
        )
        page = world.report(tmp_path / name).read_bytes()
        columns = [
            [program.timing_key() for program in (t.program for t in run.timelines)]
            for run in world.runs
        ]
        return columns, facts(world), page

    assert made("one.html") == made("two.html")
