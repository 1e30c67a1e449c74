"""Edges: cycles, orders that obey, blocks, and the loops around an instruction."""

import numpy as np
import pytest

from trnsim.arch import NEURONCORE_V3
from trnsim.isa import DmaCopy, Engine, Memset, TensorCopy
from trnsim.program.edges import Edge, Nesting, Ordering, apply_edges, loops_of
from trnsim.program.liveness import fit_programs
from trnsim.timing import timelines
from trnsim.timing.compiler_policy import POLICIES

ENGINES = (Engine.vector, Engine.gpsimd, Engine.scalar, Engine.dma)


def edge(consumer, producer, *, waits=True):
    return Edge(consumer, producer, waits, "depends_on", None, f"{consumer} after {producer}")


def filled(bench, count, engine=Engine.vector):
    """A program of `count` independent fills."""
    work = bench(has_values=False)
    for _ in range(count):
        work.issue(Memset(work.empty((4, 4)), 0.0, engine))
    return work


def add(work, *edges):
    """Add edges; returns the program with their dependences."""
    for each in edges:
        assert work.context.ordering.cycle(work.program, each.consumer, each.producer) == []
        work.context.ordering.add(each)
    return apply_edges(work.program)


def before(program):
    return [(list(program.waits_for(i)), list(program.follows(i))) for i in range(len(program))]


def test_without_edges_a_program_is_unchanged(bench):
    program = filled(bench, 2).program
    assert apply_edges(program) is program


def test_a_semaphore_is_waited_for_and_an_order_of_issue_is_followed(bench):
    work = filled(bench, 3)
    program = add(work, edge(1, 0), edge(2, 0, waits=False), edge(2, 1))
    assert before(program) == [([], []), ([0], []), ([1], [0])]
    assert program.without_edges is work.program
    assert apply_edges(program) is program


def test_both_kinds_of_one_edge_are_a_semaphore(bench):
    program = add(filled(bench, 2), edge(1, 0, waits=False), edge(1, 0))
    assert before(program) == [([], []), ([0], [])]


def test_an_edge_that_points_back_moves_its_consumer(bench):
    work = bench(has_values=False)
    tiles = [work.empty((4, 4)) for _ in range(3)]
    for tile in tiles:
        work.issue(Memset(tile, 0.0))
    work.issue(TensorCopy(tiles[0], tiles[1]))
    moved = add(work, edge(0, 2, waits=False))
    assert before(moved) == [([], []), ([], []), ([], [1]), ([0], [2])]
    assert [(e.consumer, e.producer) for e in moved.ordering.edges] == [(2, 1)]
    uses = [
        (moved.uses[tile.storage.serial].first_write, moved.uses[tile.storage.serial].last_use)
        for tile in tiles
    ]
    assert uses == [(2, 3), (0, 3), (1, 1)]
    assert list(moved.which) == [work.program.which[i] for i in (1, 2, 0, 3)]


def test_a_cycle_is_a_path_from_the_producer_back_to_the_consumer(bench):
    work = bench(has_values=False)
    tile = work.empty((4, 4))
    work.issue(Memset(tile, 0.0))
    work.issue(Memset(work.empty((4, 4)), 0.0))
    work.issue(TensorCopy(work.empty((4, 4)), tile))
    ordering = work.context.ordering
    assert ordering.cycle(work.program, 0, 0) == [0]
    assert ordering.cycle(work.program, 0, 2) == [2, 0]
    ordering.add(edge(1, 2))
    assert ordering.cycle(work.program, 0, 1) == [1, 2, 0]
    assert ordering.cycle(work.program, 2, 1) == [1, 2]


def test_a_forward_edge_may_close_a_cycle_with_one_that_points_back(bench):
    work = filled(bench, 3)
    work.context.ordering.add(edge(0, 2))
    assert work.context.ordering.cycle(work.program, 2, 0) == [0, 2]
    assert work.context.ordering.cycle(work.program, 2, 1) == []


def test_cycles_are_found_through_chains_of_edges_that_point_back(bench):
    work = filled(bench, 12)
    for consumer, producer in ((0, 3), (3, 6), (8, 10)):
        work.context.ordering.add(edge(consumer, producer))
    cycle = work.context.ordering.cycle
    assert cycle(work.program, 6, 0) == [0, 3, 6]
    assert cycle(work.program, 10, 8) == [8, 10]
    assert cycle(work.program, 6, 8) == []
    work.context.ordering.add(edge(6, 8))
    assert cycle(work.program, 10, 0) == [0, 3, 6, 8, 10]
    assert cycle(work.program, 0, 10) == []


def test_the_order_of_a_block_admits_no_edge_against_it(bench):
    work = bench(has_values=False)
    with work.context.in_order(), work.context.in_order():
        work.issue(Memset(work.empty((4, 4)), 0.0, Engine.vector))
        work.issue(Memset(work.empty((4, 4)), 0.0, Engine.gpsimd))
        assert work.context.ordering.cycle(work.program, 0, 1) == [1, 0]
    work.issue(Memset(work.empty((4, 4)), 0.0, Engine.vector))
    assert work.context.ordering.blocks == [(0, 2)]
    assert work.context.ordering.cycle(work.program, 0, 1) == [1, 0]
    assert work.context.ordering.cycle(work.program, 1, 2) == []


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
def test_random_edges_hold_on_the_timeline(bench, policy):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        work = bench(has_values=False)
        tiles = [work.empty((4, 64)) for _ in range(6)]
        for tile in tiles:
            work.issue(Memset(tile, 0.0))
        for _ in range(60):
            engine = ENGINES[rng.integers(4)]
            dst, src = (tiles[i] for i in rng.choice(len(tiles), 2, replace=False))
            work.issue(DmaCopy(dst, src) if engine is Engine.dma else TensorCopy(dst, src, engine))
        ordering, count = work.context.ordering, len(work.program)
        for _ in range(12):
            consumer, producer = map(int, rng.choice(count, 2, replace=False))
            if not ordering.cycle(work.program, consumer, producer):
                ordering.add(edge(consumer, producer, waits=bool(rng.integers(2))))
        (program,), _ = fit_programs([work.program], "spill")
        (timeline,) = timelines([program], policy)
        assert len(program.ordering.edges) == len(ordering.edges)
        for each in program.ordering.edges:
            consumer, producer = timeline.span(each.consumer), timeline.span(each.producer)
            if each.waits:
                assert consumer.start_s >= producer.end_s
            elif consumer.engine is producer.engine and consumer.engine is not Engine.dma:
                assert consumer.start_s >= producer.busy_until_s
            else:
                assert consumer.start_s >= producer.start_s


def test_loops_are_numbered_in_the_turn_around_them():
    nesting = Nesting()
    seen = []
    with nesting.loop() as begin_turn:
        for _ in range(2):
            begin_turn()
            for _ in range(2):
                with nesting.loop() as begin_inner:
                    begin_inner()
                    seen.append(nesting.turns)
    assert nesting.turns == ()
    assert seen == [
        ((0, 0), (0, 0)),
        ((0, 0), (1, 0)),
        ((0, 1), (0, 0)),
        ((0, 1), (1, 0)),
    ]
    assert loops_of(seen[3]) == (0, 1)


def test_edges_move_with_their_instructions():
    ordering = Ordering([edge(0, 1)])
    assert [(e.consumer, e.producer) for e in ordering.renumbered([5, 3]).edges] == [(5, 3)]
    assert ordering.producers(9) == ()


def test_edges_stay_on_their_instructions_in_a_program_with_spills(bench):
    work = bench(has_values=False)
    row_elements = 48 * 1024
    tiles = [work.empty((128, row_elements)) for _ in range(2)]
    for tile in tiles:
        work.issue(Memset(tile, 0.0))
    for tile in tiles:
        work.issue(TensorCopy(tile, tile))
    work.context.ordering.add(edge(2, 1))
    work.context.ordering.add(edge(3, 0, waits=False))
    (program,), exceeded = fit_programs([work.program], "spill")
    assert exceeded
    assert program.core is NEURONCORE_V3
    for each, opcode in zip(program.ordering.edges, ("memset", "memset"), strict=True):
        assert program.instruction(each.consumer).opcode == "tensor_copy"
        assert program.instruction(each.producer).opcode == opcode
        kind = program.waits_for if each.waits else program.follows
        assert each.producer in {*kind(each.consumer), *program.waits_for(each.consumer)}
