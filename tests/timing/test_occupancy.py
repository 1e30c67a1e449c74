import numpy as np
import pytest

from trnsim.arch import NEURONCORE_V3
from trnsim.dtypes import BFLOAT16
from trnsim.isa import DmaCopy, Memset, TensorCopy
from trnsim.memory import Memory, Tile
from trnsim.program import CoreContext
from trnsim.timing import timelines
from trnsim.timing.occupancy import columns, critical_steps, occupancy


@pytest.fixture
def context():
    return CoreContext(NEURONCORE_V3, has_values=False)


def tile(context, memory, *shape):
    return Tile(*_parts(context, memory, shape))


def _parts(context, memory, shape):
    storage, layout = context.memory.allocate(shape, BFLOAT16, memory)
    return storage, BFLOAT16, layout.pattern


@pytest.fixture
def timeline(context):
    """Two loads, a copy of the first, a store of the copy."""
    first, second, third = (tile(context, Memory.SBUF, 128, 512) for _ in range(3))
    context.issue(DmaCopy(first, tile(context, Memory.HBM, 128, 512)))
    context.issue(DmaCopy(second, tile(context, Memory.HBM, 128, 512)))
    context.issue(TensorCopy(third, first))
    context.issue(DmaCopy(tile(context, Memory.HBM, 128, 512), third))
    return timelines([context.program])[0]


def test_columns_are_the_spans(timeline):
    spans = columns(timeline)
    assert spans.start_s.tolist() == [span.start_s for span in timeline.spans()]
    assert spans.end_s.tolist() == [span.end_s for span in timeline.spans()]
    assert spans.waited_for[0] == -1
    issue_s = [timeline.program.instruction(index).cost.issue_s for index in range(4)]
    issued_s = [issue_s[0], issue_s[0] + issue_s[1], 0, spans.start_s[3] + issue_s[3]]
    assert spans.issued_s.tolist() == pytest.approx(issued_s)


def test_steps_of_the_critical_path_add_up_to_the_device_time(timeline):
    steps = critical_steps(timeline)
    assert steps.index.tolist() == timeline.critical_path()
    assert steps.busy_s.sum() + steps.waiting_s.sum() == pytest.approx(timeline.device_time_s)
    assert (steps.busy_s >= 0).all()
    assert (steps.waiting_s >= 0).all()


def test_a_step_is_busy_for_its_interval_and_waits_for_the_rest(timeline):
    steps, spans = critical_steps(timeline), list(timeline.spans())
    path = [spans[index] for index in steps.index]
    interval_s = [timeline.program.instruction(span.index).cost.interval_s for span in path]
    ends_s = [span.start_s for span in path[1:]] + [path[-1].end_s]
    assert [span.opcode for span in path] == ["dma_copy", "tensor_copy", "dma_copy"]
    assert steps.busy_s.tolist() == pytest.approx(interval_s)
    assert (steps.busy_s + steps.waiting_s).tolist() == pytest.approx(
        [end_s - span.start_s for span, end_s in zip(path, ends_s, strict=True)]
    )
    assert steps.waiting_s[-1] > 0


def test_an_engines_next_instruction_ends_the_step_that_is_busy_until_then(context):
    """Issued one after the other to one engine, nothing waits but for the engine."""
    for _ in range(3):
        source = tile(context, Memory.SBUF, 128, 512)
        context.issue(Memset(source, 0.0))
    (timeline,) = timelines([context.program])
    steps = critical_steps(timeline)
    interval_s = context.program.instruction(0).cost.interval_s
    assert steps.busy_s.tolist() == pytest.approx([interval_s] * 3)
    assert steps.waiting_s[:-1].tolist() == pytest.approx([0, 0])


def test_a_step_is_busy_while_a_queue_issues_what_the_next_one_waits_for(context):
    """Loads that are moved faster than they are issued: the last one alone is waited for."""
    for _ in range(5):
        context.issue(
            DmaCopy(tile(context, Memory.SBUF, 128, 64), tile(context, Memory.HBM, 128, 64))
        )
    (timeline,) = timelines([context.program])
    cost = context.program.instruction(0).cost
    assert cost.issue_s > 2 * cost.interval_s
    steps = critical_steps(timeline)
    assert steps.busy_s.tolist() == pytest.approx([cost.issue_s] * 4 + [cost.interval_s])
    assert steps.waiting_s.tolist() == pytest.approx([0] * 4 + [cost.latency_s], abs=1e-15)
    assert timeline.queue_issue_s() == pytest.approx(5 * cost.issue_s)


def test_a_tensor_occupies_from_its_first_write_to_the_end_of_its_last_use(timeline):
    used = occupancy(timeline, Memory.SBUF)
    row = 512 * 2
    assert used.time_s[0] == timeline.span(0).start_s
    assert used.level_bytes[0] == row
    assert used.level_bytes.max() == 3 * row
    assert (used.time_s[-1], used.level_bytes[-1]) == (timeline.span(3).end_s, 0)
    assert (np.diff(used.time_s) > 0).all()


def test_a_memory_that_nothing_uses_is_empty(timeline):
    assert len(occupancy(timeline, Memory.PSUM).time_s) == 0


def test_an_empty_timeline_has_no_steps(context):
    (timeline,) = timelines([context.program])
    assert len(critical_steps(timeline).index) == 0
    assert len(occupancy(timeline, Memory.SBUF).time_s) == 0
