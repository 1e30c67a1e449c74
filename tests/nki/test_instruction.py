"""`nki.isa.NkiInstruction`: what a call returns, and instructions that come after others."""

import warnings

import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.errors import IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.instruction import DependencyWarning, NkiInstruction

X = np.ones((128, 512), np.float32)
OUTPUTS = [X + 1, X + 1]
KINDS = ("runtime", "schedule")


@nki.jit
def two_sums(x, edit):
    """An early sum and a late one, on one engine; `edit` receives the instructions."""
    out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
    early, late = (nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf) for _ in range(2))
    load = nisa.dma_copy(late, x, name="load")
    fill = nisa.memset(early, 1.0, engine=nisa.engine.gpsimd)
    first = nisa.tensor_scalar(early, early, nl.add, 1.0, name="first")
    second = nisa.tensor_scalar(late, late, nl.add, 1.0)
    stores = [nisa.dma_copy(out[0], early), nisa.dma_copy(out[1], late)]
    edit(load=load, fill=fill, first=first, second=second, stores=stores)
    return out


def spans_of(edit, **options):
    """The spans of `two_sums`, and the run."""
    run = trnsim.run(two_sums, X, edit, **options)
    np.testing.assert_array_equal(run.outputs, OUTPUTS)
    return list(run.timeline.spans()), run


def sums(edit, **options):
    """The first and the second sum on the timeline."""
    spans, _ = spans_of(edit, **options)
    first, second = sorted(
        (span for span in spans if span.opcode == "tensor_scalar"), key=lambda s: s.line.line
    )
    return first, second


def test_every_call_returns_an_instruction_but_those_that_make_a_register():
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        copied = nisa.tensor_copy(tile, tile, name="copy")
        assert isinstance(copied, NkiInstruction)
        assert repr(copied).startswith(f"tensor_copy 'copy' (at {__file__}:")
        assert not isinstance(nisa.register_alloc(1), NkiInstruction)
        assert copied.depends_on(kind=nisa.dependency.runtime) is copied

    trnsim.run(kernel, X)


@pytest.mark.parametrize("order", ["compiler", "issued"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_instruction_may_depend_on_one_that_is_issued_later(kind, order):
    def edit(first, second, **_):
        first.depends_on(second, kind=nisa.dependency[kind])

    plain_first, plain_second = sums(lambda **_: None, order=order)
    assert plain_first.start_s < plain_second.start_s
    first, second = sums(edit, order=order)
    assert first.start_s >= (second.end_s if kind == "runtime" else second.busy_until_s)
    assert second.start_s == plain_second.start_s


def test_between_engines_a_runtime_edge_costs_a_semaphore_and_a_schedule_none():
    def edited(kind):
        spans, run = spans_of(
            lambda load, fill, **_: fill.depends_on(load, kind=nisa.dependency[kind])
        )
        load = min((s for s in spans if s.opcode == "dma_copy"), key=lambda s: s.line.line)
        (fill,) = (s for s in spans if s.opcode == "memset")
        return load, fill, float(run.program.core.engine_semaphore_s)

    load, fill, semaphore_s = edited("runtime")
    assert fill.start_s == pytest.approx(load.end_s + semaphore_s)
    load, fill, _ = edited("schedule")
    assert load.start_s <= fill.start_s < load.end_s


def test_an_order_of_issue_holds_between_engines_for_all_constants():
    def edit(fill, second, **_):
        fill.depends_on(second, kind=nisa.dependency.schedule)

    spans, run = spans_of(edit)
    (fill,) = (span for span in spans if span.opcode == "memset")
    second = next(s for s in spans if s.opcode == "tensor_scalar")
    assert fill.start_s == second.start_s > spans_of(lambda **_: None)[0][1].start_s
    (time_s,) = run.timeline.device_times_on_s([run.program.core])
    assert time_s == pytest.approx(run.timeline.device_time_s)
    assert run.timeline.device_time_s == pytest.approx(run.timeline.undisturbed_new_order_s)


def test_both_spellings_of_two_edges_are_the_same():
    kind = nisa.dependency.runtime

    def chained(first, load, second, **_):
        first.depends_on(load, kind=kind).depends_on(second, kind=kind)

    def joint(first, load, second, **_):
        first.depends_on(load, second, kind=kind)

    times = {spans_of(edit)[1].total_time_s for edit in (chained, joint)}
    assert len(times) == 1


REFUSED = {
    "itself": (
        lambda first, **_: first.depends_on(first, kind=nisa.dependency.runtime),
        r"depends_on: 'first' after 'first' closes a cycle: tensor_scalar \(at .*\) waits for",
    ),
    "its own reader": (
        lambda load, second, **_: load.depends_on(second, kind=nisa.dependency.schedule),
        r"'load' after tensor_scalar closes a cycle: .*, which would come after tensor_scalar \(at",
    ),
    "both ways": (
        lambda first, second, **_: [
            first.depends_on(second, kind=nisa.dependency.runtime),
            second.depends_on(first, kind=nisa.dependency.runtime),
        ],
        r"tensor_scalar after 'first' closes a cycle",
    ),
    "a name": (
        lambda first, **_: first.depends_on("second"),
        r"given a str; legal: NkiInstruction.*\n  fix: .*c\.depends_on\(a, b\); names are for",
    ),
    "a list": (lambda first, stores, **_: first.depends_on(stores), "given a list"),
    "a kind that is none": (
        lambda first, load, **_: first.depends_on(load, kind="runtime"),
        r"kind='runtime'\); legal: nisa\.dependency\.runtime, nisa\.dependency\.schedule",
    ),
}


@pytest.mark.filterwarnings("ignore::trnsim.nki.instruction.DependencyWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_an_edge_is_refused_at_its_line(case):
    edit, words = REFUSED[case]
    with pytest.raises(IllegalInstruction, match=words) as caught:
        trnsim.run(two_sums, X, edit)
    assert caught.value.line.file == __file__
    assert caught.value.source.startswith("nki.isa.NkiInstruction")


def test_an_instruction_of_an_earlier_run_is_refused():
    kept = []
    trnsim.run(two_sums, X, lambda load, **_: kept.append(load))
    with pytest.raises(IllegalInstruction, match="of another run or core"):
        trnsim.run(
            two_sums, X, lambda first, **_: first.depends_on(*kept, kind=nisa.dependency.runtime)
        )


def test_a_name_is_a_string():
    @nki.jit
    def kernel(x):
        nisa.memset(nl.load(x), 0.0, name=7)

    with pytest.raises(IllegalInstruction, match=r"name=7; legal: a string"):
        trnsim.run(kernel, X)


def plain_edge(first, load, **_):
    first.depends_on(load)


def test_without_a_kind_it_is_a_semaphore_and_nki_0_7_warns():
    with pytest.warns(DependencyWarning, match=r"pass kind=nisa\.dependency\.runtime"):
        latest = trnsim.run(two_sums, X, plain_edge)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        older = trnsim.run(two_sums, X, plain_edge, nki="0.6")
    assert latest.total_time_s == older.total_time_s


def test_before_nki_0_6_instructions_return_nothing_to_depend_on():
    with pytest.raises(IllegalInstruction, match=r"depends_on under NKI 0\.5, .* return None"):
        trnsim.run(two_sums, X, plain_edge, nki="0.5")


def test_before_nki_0_7_there_is_no_kind():
    kind = nisa.dependency.schedule
    with pytest.raises(IllegalInstruction, match=r"under NKI 0\.6.*takes no kind"):
        trnsim.run(
            two_sums, X, lambda first, load, **_: first.depends_on(load, kind=kind), nki="0.6"
        )


@nki.jit
def in_loops(x, edit):
    """A load, a loop with a copy and a sum, and a sum after it; `edit` is called in each turn."""
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    tile, other = (nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf) for _ in range(2))
    load = nisa.dma_copy(tile, x)
    seen = []

    def body(_):
        seen.append(nisa.memset(other, 0.0, engine=nisa.engine.gpsimd))
        added = nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        edit(load=load, seen=seen, added=added, after=None)

    nl.fori_loop(0, 2, body)
    after = nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    edit(load=load, seen=seen, added=None, after=after)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize("place", ["own turn", "outside"])
def test_an_edge_is_legal_within_a_turn_and_from_outside_of_its_loop(place):
    kind = nisa.dependency.runtime

    def edit(load, seen, added, **_):
        if added is not None:
            added.depends_on(seen[-1] if place == "own turn" else load, kind=kind)

    run = trnsim.run(in_loops, X, edit)
    np.testing.assert_array_equal(run.outputs, X + 3)
    assert len(run.program.ordering.edges) == 2


@pytest.mark.parametrize(
    ("place", "words"), [("turn", "an earlier turn"), ("loop", "it is not in")]
)
def test_a_semaphore_out_of_a_turn_of_a_device_loop_is_refused(place, words):
    def edit(seen, added, after, **_):
        consumer = added if place == "turn" else after
        if consumer is not None:
            consumer.depends_on(seen[0], kind=nisa.dependency.runtime)

    with pytest.raises(IllegalInstruction, match=f"{words}.*legal: a producer at the same nesting"):
        trnsim.run(in_loops, X, edit)


def test_an_order_of_issue_may_leave_a_loop():
    def edit(seen, after, **_):
        if after is not None:
            after.depends_on(seen[0], kind=nisa.dependency.schedule)

    assert trnsim.run(in_loops, X, edit).total_time_s > 0


@pytest.mark.parametrize("has_values", [True, False])
def test_edges_survive_records(has_values):
    def edit(first, second, **_):
        first.depends_on(second, kind=nisa.dependency.runtime)

    times = [trnsim.run(two_sums, X, edit, numerics=has_values).total_time_s for _ in range(5)]
    assert len(set(times)) == 1
    plain_s = trnsim.run(two_sums, X, lambda **_: None, numerics=has_values).total_time_s
    assert plain_s < times[0]
    assert trnsim.run(two_sums, X, edit, numerics=has_values).total_time_s == times[0]


def test_a_replay_keeps_the_times_and_gives_the_values():
    def edit(first, second, **_):
        first.depends_on(second, kind=nisa.dependency.runtime)

    replay = trnsim.record(two_sums, X, edit)
    again = replay(X * 2, edit)
    np.testing.assert_array_equal(again.outputs, [X + 1, X * 2 + 1])
    assert again.total_time_s == trnsim.run(two_sums, X, edit).total_time_s


def test_edges_hold_on_both_cores_of_a_logical_core():
    @nki.jit
    def kernel(x, kind):
        out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
        tile, other = (nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf) for _ in range(2))
        load = nisa.dma_copy(tile, x)
        fill = nisa.memset(other, 1.0)
        if kind:
            fill.depends_on(load, kind=nisa.dependency[kind])
        nisa.tensor_tensor(tile, tile, other, nl.add)
        nisa.dma_copy(out[nl.program_id(0)], tile)
        return out

    plain, ordered = (trnsim.run(kernel[2], X, kind) for kind in ("", "runtime"))
    np.testing.assert_array_equal(ordered.outputs, plain.outputs)
    for timeline in ordered.timelines:
        load, fill, *_ = timeline.spans()
        assert fill.start_s > load.end_s
    assert all(t.span(1).start_s < t.span(0).end_s for t in plain.timelines)
