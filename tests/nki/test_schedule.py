"""`kernel.with_schedule`: AWS's examples, names, and what is refused."""

import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

X = np.full((128, 512), 2.0, np.float32)


@nki.jit
def reciprocal_plus(t):
    """The guide's first example: 1 / t + (t + 1), whose halves are independent."""
    x, a, b, c = (nl.ndarray(t.shape, t.dtype, buffer=nl.sbuf) for _ in range(4))
    nisa.dma_copy(dst=x, src=t)
    nisa.reciprocal(dst=a, data=x, name="recip")
    nisa.tensor_scalar(dst=b, data=x, op0=nl.add, operand0=1, name="plus1")
    nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)
    out = nl.ndarray(t.shape, t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=c)
    return out


@nki.jit
def exponentials(a, b, c, is_ordered=False):
    """The guide's other examples: exp of three tiles, with `no_reorder` through a function."""
    tiles, results = [], []

    def load(tensor):
        tile = nl.ndarray(tensor.shape, tensor.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=tensor)
        tiles.append(tile)

    def activate(i):
        result = nl.ndarray(tiles[i].shape, tiles[i].dtype, buffer=nl.sbuf)
        nisa.activation(dst=result, data=tiles[i], op=nl.exp, name=f"act{i}")
        results.append(result)

    for tensor in (a, b, c):
        load(tensor)
    if is_ordered:
        with nl.no_reorder():
            for i in range(3):
                activate(i)
    else:
        for i in range(3):
            activate(i)
    outs = []
    for result in results:
        out = nl.ndarray(result.shape, result.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=result)
        outs.append(out)
    return tuple(outs)


def starts(run, opcode):
    """The starts of the instructions with `opcode`, by line and then in order of issue."""
    return [span.start_s for span in run.timeline.spans() if span.opcode == opcode]


def test_the_guide_is_of_nki_0_2_whose_outputs_are_in_hbm():
    @nki.jit
    def kernel(t):
        a, b = (nl.ndarray(t.shape, t.dtype, buffer=nl.sbuf) for _ in range(2))
        nisa.dma_copy(dst=a, src=t, name="load")
        nisa.memset(dst=b, value=1.0, name="fill")
        out = nl.ndarray(t.shape, t.dtype, buffer=nl.hbm)
        nisa.dma_copy(dst=out, src=a)
        return out

    scheduled = kernel.with_schedule([("fill", "load")])
    assert len(trnsim.run(scheduled, X, nki="0.2").program.ordering.edges) == 1
    with pytest.raises(IllegalInstruction, match=r"outputs must be in nl\.shared_hbm"):
        trnsim.run(scheduled, X)


@pytest.mark.parametrize("producer", ["recip", ["recip"]])
def test_the_guides_first_example_orders_its_halves(producer):
    run = trnsim.run(reciprocal_plus.with_schedule([("plus1", producer)]), X)
    np.testing.assert_array_equal(run.outputs, 1 / X + (X + 1))
    assert starts(run, "reciprocal") < starts(run, "tensor_scalar")


def test_a_schedule_may_turn_the_order_around():
    run = trnsim.run(reciprocal_plus.with_schedule([("recip", "plus1")]), X)
    np.testing.assert_array_equal(run.outputs, 1 / X + (X + 1))
    assert starts(run, "tensor_scalar") < starts(run, "reciprocal")


@pytest.mark.parametrize("order", ["compiler", "issued"])
def test_the_guides_second_example_makes_its_activations_serial(order):
    edges = [(f"act{i}", f"act{i - 1}") for i in range(1, 3)]
    backwards = [(f"act{i - 1}", f"act{i}") for i in range(1, 3)]
    for chosen in (edges, backwards):
        run = trnsim.run(exponentials.with_schedule(chosen), X, X, X, order=order)
        np.testing.assert_allclose(run.outputs, [np.exp(X)] * 3, rtol=1e-6)
        at = {
            edge.text: (run.timeline.span(edge.consumer), run.timeline.span(edge.producer))
            for edge in run.program.ordering.edges
        }
        assert len(at) == 2
        assert all(consumer.start_s >= producer.busy_until_s for consumer, producer in at.values())


def test_no_reorder_is_the_same_order():
    run = trnsim.run(exponentials, X, X, X, True)
    assert starts(run, "activation") == sorted(starts(run, "activation"))


def test_a_schedule_gives_a_new_kernel_on_the_same_grid():
    scheduled = reciprocal_plus[2].with_schedule([("plus1", "recip")])
    assert scheduled.cores == 2
    assert scheduled.schedule is scheduled[1].schedule
    assert reciprocal_plus.schedule is None
    run = trnsim.run(scheduled, X)
    assert all(len(timeline.program.ordering.edges) == 1 for timeline in run.timelines)
    assert reciprocal_plus.with_schedule([]).schedule.pairs == ()


def test_a_name_of_one_core_alone_is_ordered_there():
    @nki.jit
    def kernel():
        tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
        nisa.memset(tile, 0.0, name="fill")
        if nl.program_id(0) == 0:
            nisa.tensor_scalar(tile, tile, nl.add, 1.0, name="add")

    run = trnsim.run(kernel[2].with_schedule([("add", "fill")]))
    assert [len(timeline.program.ordering.edges) for timeline in run.timelines] == [1, 0]


REFUSED = {
    "no such name": (
        [("plus", "recip")],
        r"names 'plus', which no .*: 'recip', 'plus1'\n.*'plus1'",
    ),
    "nothing like it": ([("x", "recip")], r"fix: name the instruction where it is issued"),
    "itself": ([("recip", "recip")], r"has a cycle: 'recip' after 'recip'; legal"),
    "a cycle": ([("a", "b"), ("b", "c"), ("c", "a")], "'a' after 'b' after 'c' after 'a'"),
    "no list": ("recip", r"was given 'recip'; legal: pairs"),
    "no pairs": (["recip"], r"has the edge 'recip'; legal: pairs"),
    "three parts": ([("a", "b", "c")], "of 3 parts"),
    "no name": ([("a", 3)], "has 3 in the place of a name"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_schedule_that_makes_no_sense_is_refused_at_its_line(case):
    edges, words = REFUSED[case]
    with pytest.raises(IllegalInstruction, match=words) as caught:
        trnsim.run(reciprocal_plus.with_schedule(edges), X)
    assert caught.value.line.file == __file__
    assert caught.value.source.startswith("how-to-scheduling-apis.rst")


def test_a_schedule_against_the_data_is_a_cycle():
    @nki.jit
    def kernel(t):
        tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(tile, t, name="load")
        nisa.tensor_scalar(tile, tile, nl.add, 1.0, name="add")

    with pytest.raises(IllegalInstruction, match=r"'load' after 'add' closes a cycle") as caught:
        trnsim.run(kernel.with_schedule([("load", "add")]), X)
    assert caught.value.line.file == __file__


@nki.jit
def named_in_a_loop(is_device_loop):
    tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
    nisa.memset(tile, 0.0, name="fill")

    def body(i):
        del i
        nisa.tensor_scalar(tile, tile, nl.add, 1.0, name="add")
        nisa.memset(nl.ndarray((1, 1), nl.float32, buffer=nl.sbuf), 0.0, name="other")

    if is_device_loop:
        nl.fori_loop(0, 3, body)
    else:
        for i in range(3):
            body(i)


def test_a_name_of_a_device_loop_is_one_instruction_in_each_turn():
    edges = [("add", "fill"), ("other", "add")]
    run = trnsim.run(named_in_a_loop.with_schedule(edges), True)
    pairs = [(edge.consumer, edge.producer) for edge in run.program.ordering.edges]
    assert pairs == [(1, 0), (3, 0), (5, 0), (2, 1), (4, 3), (6, 5)]


def test_a_name_used_twice_is_ambiguous():
    with pytest.raises(IllegalInstruction, match=r"'add', which 3 instructions have, at .*:\d+;"):
        trnsim.run(named_in_a_loop.with_schedule([("add", "fill")]), False)


def test_an_edge_out_of_a_device_loop_is_refused():
    with pytest.raises(IllegalInstruction, match=r"'fill' depends on 'add' of a device loop"):
        trnsim.run(named_in_a_loop.with_schedule([("fill", "add")]), True)


def test_a_kind_in_a_schedule_is_not_public():
    edges = [("plus1", "recip", nisa.dependency.schedule)]
    with pytest.raises(NotModelled, match="in a form that is not public"):
        reciprocal_plus.with_schedule(edges)
    with pytest.raises(NotModelled, match=r"reciprocal_plus\.with_schedule\(kind="):
        reciprocal_plus.with_schedule([], kind=nisa.dependency.runtime)


def test_before_nki_0_7_a_schedule_has_no_kind(monkeypatch):
    monkeypatch.setenv("TRNSIM_NKI", "0.6")
    with pytest.raises(IllegalInstruction, match=r"under NKI 0\.6.*takes no kind"):
        reciprocal_plus.with_schedule([], kind="schedule")


def test_a_second_schedule_and_one_of_an_inner_kernel_are_not_modelled():
    scheduled = reciprocal_plus.with_schedule([("plus1", "recip")])
    with pytest.raises(NotModelled, match="has a schedule already"):
        scheduled.with_schedule([])

    @nki.jit
    def outer(t):
        return scheduled(t)

    with pytest.raises(NotModelled, match="called by another kernel"):
        trnsim.run(outer, X)


def test_a_schedule_is_kept_by_calls_that_follow_a_record():
    scheduled = reciprocal_plus.with_schedule([("recip", "plus1")])
    times = {trnsim.run(scheduled, X).total_time_s for _ in range(4)}
    assert len(times) == 1
