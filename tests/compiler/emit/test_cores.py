"""Exchanges between two cores that run together, with values."""

import numpy as np
import pytest
from made_graphs import Made, assert_near
from two_cores import EXCHANGES, half_of, halves_of

from trnsim import arch
from trnsim import run as run_kernel
from trnsim.compiler.sharding.core_exchanges import BOTH, CoreGather, CoreReduce
from trnsim.compiler.sharding.rules import split_rules
from trnsim.compiler.sharding.splits import SUM
from trnsim.graph import Graph
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.inputs import ProgramInputs
from trnsim.lower.program import trace
from trnsim.nki import language as nl
from trnsim.nki.kernel import Kernel

RESIDENT = 64 * 1024
CHIPS = ("trn2", "trn3")


def values_on_two_cores(graph, arrays, rules, chip="trn2", resident_bytes=RESIDENT):
    """What both cores' programs give, each of its own half; outputs must be whole."""
    halves = halves_of(graph, rules, target=chip)
    whole = {value.number: array for value, array in zip(graph.inputs, arrays, strict=True)}
    given = tuple(
        tuple(half_of(whole[number], split, rank) for number, split in one.inputs)
        for rank, one in enumerate(halves)
    )

    def kernel(tensors):
        rank = nl.program_id(0)
        emission = Emission(halves[rank].graph, ProgramInputs(frozenset(), None), resident_bytes)
        return emission.run(tensors[rank])

    found = run_kernel(Kernel(kernel, {})[2], given, target=chip)
    assert found.races == ()
    return halves, [
        array.reshape(value.shape)
        for array, value in zip(found.outputs, graph.outputs, strict=True)
    ]


def exchanges(halves):
    return [n.name for n in halves[0].graph.nodes if isinstance(n.operation, EXCHANGES)]


def way(node, split):
    """The way by which its result is split so."""
    return next(rule for rule in split_rules(node) if rule.results == (split,))


def product(made, rows, inner, columns):
    """A product of what was computed, so that it lies in SBUF, read by another operation."""
    x = made.of("tanh", made.given(rows, inner))
    weight = made.given(inner, columns, scale=inner**-0.5)
    made.graph.outputs = [made.of("tanh", made.graph.dot_general(x, weight, (1, 0)))]
    return [node.name for node in made.graph.nodes].index("dot_general")


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("sizes", "split"),
    [
        ((4, 6, 8), 0),  # rows: along the columns of SBUF
        ((130, 6, 8), 0),
        ((4, 6, 256), 1),  # columns in whole blocks
        ((3, 6, 512), 1),
        ((4, 6, 8), 1),  # half a block: through HBM
        ((4, 6, 300), 1),
        ((4, 6, 8), SUM),  # sums
        ((1, 256, 1), SUM),
        ((130, 512, 513), SUM),  # more than one transfer takes
        ((600, 6, 300), SUM),
    ],
)
def test_what_two_cores_exchange_is_what_one_would_have(sizes, split, dtype, chip):
    made = Made(dtype)
    place = product(made, *sizes)
    rules = [split_rules(node)[0] for node in made.graph.nodes]
    rules[place] = way(made.graph.nodes[place], split)
    halves, found = values_on_two_cores(made.graph, made.arrays, rules, chip)
    assert len(exchanges(halves)) == 1
    near = 5e-5 if dtype == "float32" else 2e-2
    assert_near(found, made.graph.reference(made.arrays), near)


def opcodes(operation, *shape):
    """Of one core's program, which stands for both."""
    graph = Graph()
    given = graph.elementwise("tanh", graph.input(shape, "float32"))
    graph.outputs = [graph.elementwise("tanh", graph.apply(operation, given))]
    arrays = [np.empty(shape, np.float32)]
    found = trace(graph, arrays, "trn2", frozenset(), numerics=False, lnc=2).run
    return [span.opcode for span in found.timeline.spans()], found


@pytest.mark.parametrize("operation", [CoreReduce(BOTH, "add"), CoreGather(BOTH, 0)])
def test_one_core_without_values_stands_for_both(operation):
    names, found = opcodes(operation, 64, 128)
    assert {"sendrecv", "core_barrier"} & set(names)
    core = arch.paired(arch.target("trn2"))
    assert found.timeline.program.core == core
    assert found.timeline.launch_s == core.paired_launch_s
    assert len(found.timelines) == 1


def test_a_reader_waits_for_the_barrier():
    names, found = opcodes(CoreGather(BOTH, 1), 6, 4, 40)
    assert "core_barrier" in names
    spans = list(found.timeline.spans())
    barrier = next(span for span in spans if span.opcode == "core_barrier")
    assert found.timeline.device_time_s > barrier.busy_until_s
    after = [span for span in spans if span.index > barrier.index and span.engine.name == "dma"]
    assert after
    assert min(span.start_s for span in after) >= barrier.busy_until_s


def test_a_sum_without_room_in_sbuf_is_loaded(monkeypatch):
    monkeypatch.setattr("trnsim.lower.program._resident_bytes", lambda *_: 0)
    names, _ = opcodes(CoreReduce(BOTH, "add"), 300, 40)
    assert names.index("sendrecv") > names.index("activation")
    first = names.index("sendrecv")
    assert names[:first].count("dma_copy") > 2  # into SBUF, out of it, and back


def test_halves_without_room_in_sbuf_go_through_hbm(monkeypatch):
    names, _ = opcodes(CoreGather(BOTH, 0), 128, 128)
    assert "sendrecv" in names
    monkeypatch.setattr("trnsim.lower.program._resident_bytes", lambda *_: 64 * 1024)
    names, found = opcodes(CoreGather(BOTH, 0), 128, 12_000)  # both halves do not fit
    assert found.overfull == ()
    assert "core_barrier" in names


@pytest.mark.parametrize(("sizes", "resident"), [((130, 6, 8), 530), ((260, 6, 100), 1100)])
def test_halves_without_room_in_sbuf_have_their_values(sizes, resident):
    # Room for the operands and one half, and not for both.
    made = Made()
    place = product(made, *sizes)
    rules = [split_rules(node)[0] for node in made.graph.nodes]
    rules[place] = way(made.graph.nodes[place], 0)
    halves, found = values_on_two_cores(made.graph, made.arrays, rules, resident_bytes=resident)
    assert len(exchanges(halves)) == 1
    assert_near(found, made.graph.reference(made.arrays), 5e-5)


def test_halves_without_room_in_sbuf_are_written_as_they_lie(monkeypatch):
    monkeypatch.setattr("trnsim.lower.program._resident_bytes", lambda *_: 10 * 1024)
    graph = Graph()
    x = graph.elementwise("tanh", graph.input((128, 1024), "bfloat16"))
    product = graph.dot_general(x, graph.input((128, 256), "bfloat16"), (0, 0))
    whole = graph.apply(CoreGather(BOTH, 0), graph.elementwise("tanh", product))
    graph.outputs = [graph.dot_general(whole, graph.input((256, 128), "bfloat16"), (1, 0))]
    arrays = [np.empty(one.shape, one.type.numpy_dtype()) for one in graph.inputs]
    found = trace(graph, arrays, "trn2", frozenset(), numerics=False, lnc=2).run
    spans = list(found.timeline.spans())
    barrier = next(place for place, one in enumerate(spans) if one.opcode == "core_barrier")
    # Element by element it would be 256 Ki descriptors of 2 bytes, two milliseconds.
    assert "nc_transpose" not in [one.opcode for one in spans[:barrier]]
    assert found.timeline.device_time_s < 2e-4


def test_a_sum_larger_than_sbuf_is_added_in_parts(monkeypatch):
    monkeypatch.setattr("trnsim.lower.program._resident_bytes", lambda *_: 0)
    names, found = opcodes(CoreReduce(BOTH, "add"), 128, 100_000)
    assert found.overfull == ()
    assert names.count("sendrecv") > 100
