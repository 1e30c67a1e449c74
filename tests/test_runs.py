"""Runs: from a kernel to its values, instructions, time and warnings; who is told of them."""

import gc
import html
import math
from unittest.mock import Mock, call

import numpy as np
import pytest

import trnsim
from trnsim import arch, observers
from trnsim.errors import BadInput, EmulatorError, OutOfMemory
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.runs import RunObservers, collecting, seldom_collected, watching


@jit
def scaled(x, factor=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), factor))
    return out


@jit
def too_large(x):
    tiles = [nl.zeros((128, 60_000), nl.bfloat16) for _ in range(3)]
    for tile in tiles:
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    return x


def test_a_run_has_values_instructions_and_a_time(random):
    x = random((128, 64))
    run = trnsim.run(scaled, x, 3.0)
    np.testing.assert_array_equal(run.outputs, np.float32(3) * x)
    assert (run.title, run.target) == ("scaled", arch.target("trn2"))
    assert [c.opcode for c in run.program.checked] == ["dma_copy", "tensor_scalar", "dma_copy"]
    assert run.total_time_s == run.timeline.total_time_s > run.timeline.launch_s > 0
    assert run.warnings == ()


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_without_values_the_time_is_the_same(target, random):
    x = random((128, 64))
    with_values = trnsim.run(scaled, x, target=target)
    without = trnsim.run(scaled, x, target=target, numerics=False)
    assert without.outputs is None
    assert without.total_time_s == with_values.total_time_s


def test_the_same_kernel_takes_the_same_time(random):
    times = {trnsim.run(scaled, random((128, 64), seed=seed)).total_time_s for seed in range(3)}
    assert len(times) == 1


def test_a_program_that_does_not_fit_is_refused_where_that_is_asked_for(random):
    with pytest.raises(OutOfMemory, match="SBUF of NeuronCore-v3 holds 229376 bytes a partition"):
        trnsim.run(too_large, random((4, 8)), capacity="raise")


@pytest.mark.filterwarnings("ignore::trnsim.user_warnings.SpillWarning")
def test_a_program_that_does_not_fit_spills(random):
    x = random((4, 8))
    run = trnsim.run(too_large, x)
    np.testing.assert_array_equal(run.outputs, x)
    (warning,) = run.warnings
    assert run.overfull == (warning,)
    assert "360000 are live at" in warning
    assert str(run).endswith(", 1 warning")
    # One tile fits at a time: each is saved for the next one, and comes back.
    tile_bytes = 128 * 60_000 * 2
    assert f"{3 * tile_bytes:,} bytes saved to HBM and {3 * tile_bytes:,} reloaded" in warning
    in_no_time = trnsim.run(too_large, x, capacity="warn")
    assert run.total_time_s > in_no_time.total_time_s
    assert run.summary["spill_save_bytes"] == run.summary["spill_reload_bytes"] == 3 * tile_bytes
    assert run.summary["hbm_write_bytes"] == 3 * tile_bytes
    assert run.summary["inputs_outputs_weights_size_bytes"] == 0
    assert in_no_time.summary["spill_save_bytes"] == in_no_time.summary["spill_reload_bytes"] == 0


@pytest.mark.filterwarnings("ignore::trnsim.user_warnings.SpillWarning")
def test_each_core_of_a_logical_core_spills(random):
    @jit
    def spread(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        rows = x.shape[0] // 2
        first = nl.program_id(0) * rows
        tiles = [nl.load(x[first : first + rows]) for _ in range(15)]  # 16 KiB of 224 KiB each
        for tile in tiles:
            nisa.tensor_tensor(tile, tile, tiles[-1], nl.add)
        nisa.core_barrier(out, (0, 1))
        for tile in tiles:
            nl.store(out[first : first + rows], tile)
        return out

    x = random((256, 4096))
    run, in_no_time = (trnsim.run(spread[2], x, capacity=word) for word in ("spill", "warn"))
    np.testing.assert_array_equal(run.outputs, 2 * x)
    assert len(run.overfull) == 2
    for timeline, other in zip(run.timelines, in_no_time.timelines, strict=True):
        assert len(timeline) > len(other)
        assert timeline.device_time_s > other.device_time_s
    assert run.timeline.interval().p10 > 0


@pytest.mark.filterwarnings("ignore::trnsim.user_warnings.SpillWarning")
def test_spills_that_take_no_time_are_asked_for(random):
    x = random((4, 8))
    run = trnsim.run(too_large, x, capacity="warn")
    np.testing.assert_array_equal(run.outputs, x)
    assert "360000 are live at" in run.overfull[0]
    assert run.program is run.program.issued


def test_a_failed_run_leaves_no_kernel_running(random):
    with pytest.raises(EmulatorError):
        trnsim.run(too_large, random((4, 8)), capacity="raise")
    assert trnsim.run(scaled, random((4, 8))).total_time_s > 0


def test_runs_are_collected_in_order(random):
    x = random((4, 8))
    with collecting() as runs:
        scaled(x)
        first = trnsim.run(scaled, x, target="trn1")
        with collecting() as inner:
            second = trnsim.run(scaled, x)
    trnsim.run(scaled, x)
    assert [run.target.name for run in runs] == ["trn2", "trn1"]
    assert runs[1] is first
    assert inner == [second]


def test_a_run_is_shown_in_a_line_and_as_its_page(random, tmp_path):
    run = trnsim.run(scaled, random((128, 64)))
    line = f"scaled on trn2: {run.summary}"
    assert (str(run), repr(run)) == (line, f"<Run of {line}>")
    assert repr(run.summary) == f"<Summary: {run.summary}>"
    assert str(run.summary).endswith(f"({run.summary.interval_text()}), bound by launch")
    shown = run._repr_html_()
    assert shown.startswith(f"<p>{line}</p><iframe srcdoc=")
    page = run.report(tmp_path / "a.html").read_text(encoding="utf-8")
    assert html.unescape(shown.partition('srcdoc="')[2].partition('"')[0]) == page


def test_a_summary_is_made_once(random):
    run = trnsim.run(scaled, random((4, 8)))
    assert run.summary is run.summary
    assert math.isfinite(run.total_time_s)


def test_a_report_is_a_page_that_names_the_kernel(random, tmp_path):
    path = trnsim.run(scaled, random((4, 8))).report(tmp_path / "page.html")
    assert "scaled on trn2" in path.read_text(encoding="utf-8")


def test_a_summary_answers_to_neuron_explorers_names(random):
    run = trnsim.run(scaled, random((128, 64)))
    assert run.summary["total_time"] == run.timeline.device_time_s
    assert run.summary["mfu_estimated_percent"] == 0
    assert run.summary["hbm_read_bytes"] == 128 * 64 * 4


def test_a_long_run_says_how_far_it_is(random):
    @jit
    def long(x):
        tile = nl.load(x)
        for _ in range(1500):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        return x

    told = []
    with watching(told.append):
        watched = trnsim.run(long, random((4, 8)))
    assert told == ["long on trn2: 0 instructions", "long on trn2: 1,024 instructions"]
    assert trnsim.run(long, random((4, 8))).total_time_s == watched.total_time_s
    assert len(told) == 2


@pytest.mark.parametrize(
    ("name", "words"), [("races", ("raise", "warn")), ("capacity", ("spill", "raise", "warn"))]
)
@pytest.mark.parametrize("word", ["rais", "WARN", "", None, True, ["warn"]])
def test_what_a_run_does_about_races_and_spills_has_words(name, words, word, random):
    with pytest.raises(BadInput) as caught:
        trnsim.run(scaled, random((4, 8)), **{name: word})
    legal = ", ".join(f'"{one}"' for one in words)
    assert caught.value.reason == f"run({name}={word!r}); legal: {legal}"
    assert name in caught.value.fix
    for one in words:
        trnsim.run(scaled, random((4, 8)), **{name: one})


@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize(
    ("target", "is_legal"), [("trn1", 0), ("inf2", 0), ("trn2", 1), ("trn3", 1)]
)
def test_a_logical_core_of_two_is_trn2s_and_trn3s(target, is_legal, numerics, random):
    x = random((4, 8))
    assert trnsim.run(scaled[1], x, target=target, numerics=numerics).total_time_s > 0
    if is_legal:
        assert len(trnsim.run(scaled[2], x, target=target, numerics=numerics).timelines) == 2
        return
    with pytest.raises(
        BadInput, match=r"kernel\[2\] on NeuronCore-v2; legal: kernel\[1\]"
    ) as caught:
        trnsim.run(scaled[2], x, target=target, numerics=numerics)
    assert "logical-neuroncore-config.rst" in caught.value.source


@pytest.mark.parametrize("order", ["", "kernel", ["issued"], 1])
def test_an_order_that_does_not_exist_is_refused_and_none_is_the_default(order):
    x = np.ones((4, 8), np.float32)
    with pytest.raises(BadInput, match="is not known; legal: compiler, issued"):
        trnsim.run(scaled, x, order=order)
    assert trnsim.run(scaled, x, order=None).summary.order == "compiler"
    assert trnsim.run(scaled, x, order="issued").summary.order == "issued"


@pytest.mark.parametrize(("own", "inside"), [(700, 100_000), (1_000_000, 1_000_000), (0, 0)])
@pytest.mark.parametrize("fails", [False, True])
def test_cycles_are_looked_for_seldom_while_a_kernel_runs(own, inside, fails):
    seen = []

    @jit
    def noting(x):
        seen.append(gc.get_threshold())
        return nl.load(x, x) if fails else x

    known = gc.get_threshold()
    gc.set_threshold(own, 7, 9)
    try:
        if fails:
            with pytest.raises(EmulatorError):
                trnsim.run(noting, np.ones((4, 8), np.float32))
        else:
            trnsim.run(noting, np.ones((4, 8), np.float32))
        assert (seen, gc.get_threshold()) == ([(inside, 7, 9)], (own, 7, 9))
    finally:
        gc.set_threshold(*known)


def test_runs_of_overlapping_threads_leave_the_collector_as_it_was():
    before = gc.get_threshold()
    first, second = seldom_collected(), seldom_collected()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] == 100_000
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


@pytest.fixture
def handed_in(monkeypatch):
    """The maker of an observer, which is handed in."""
    make = Mock()
    monkeypatch.setattr(observers, "run_observer_factories", [make])
    return make


def test_an_observer_is_made_with_the_first_run_that_the_user_is_to_make(handed_in):
    told = RunObservers()
    told.begins()  # a run of our own
    assert told.present == []
    told.expect()
    assert not handed_in.called
    told.begins("fabric", 4)
    told.issues("team", "title", 3)
    told.ended("run", 3)
    told.all_over()
    assert handed_in.return_value.method_calls == [
        call.begins("fabric", 4),
        call.issues("team", "title", 3),
        call.ended("run", 3),
        call.all_over(),
    ]


def test_an_observer_is_told_once_however_often_the_user_runs(handed_in):
    told = RunObservers()
    for _ in range(3):
        told.expect()
        told.begins()
    assert told.present == [handed_in.return_value]
    assert handed_in.return_value.method_calls == [call.begins(None, 1)] * 3


def test_a_run_while_observers_are_paused_is_told_to_nobody_and_what_follows_is(handed_in):
    told = RunObservers()
    told.expect()
    with told.paused():
        told.begins()
        told.all_over()
    assert not handed_in.called
    told.begins()
    with pytest.raises(ValueError, match="inside"), told.paused():
        raise ValueError("inside")
    told.all_over()
    assert handed_in.return_value.method_calls == [call.begins(None, 1), call.all_over()]
