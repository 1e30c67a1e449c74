import json
from dataclasses import fields, replace

import numpy as np
import pytest

import trnsim
from trnsim.arch import NEURONCORE_V2, NEURONCORE_V3
from trnsim.demo import examples
from trnsim.dtypes import FLOAT32
from trnsim.errors import BadInput
from trnsim.facts import assumed, documented
from trnsim.profile import EngineUse, Summary, summarize
from trnsim.profile.analysis.summary import bound_by

SLOW_LAUNCH = replace(NEURONCORE_V3, launch_s=documented(1.0, "a test"))
FAST_LAUNCH = replace(NEURONCORE_V3, launch_s=documented(1e-9, "a test"))


def one_tile(kernel, *, columns=512, dtype=None):
    options = {} if dtype is None else {"dtype": dtype}
    weights, moving = kernel.load(128, 128, **options), kernel.load(128, columns, **options)
    kernel.store(kernel.copy(kernel.matmul(weights, moving)))
    return kernel


def summary_of(kernel):
    return summarize(kernel.timeline())


def test_total_time_is_launch_plus_device_time_within_its_interval(timeline):
    summary = summarize(timeline)
    assert summary.total_time_s == pytest.approx(summary.launch_s + summary.device_time_s)
    assert summary.total_time_p10_s < summary.total_time_p50_s < summary.total_time_p90_s
    assert summary.device_time_s == timeline.device_time_s


def test_more_work_moves_every_figure_of_work(new_kernel):
    small = summary_of(one_tile(new_kernel()))
    large = summary_of(one_tile(one_tile(new_kernel())))
    for name in ("total_time_s", "total_time_p10_s", "total_time_p90_s", "device_time_s"):
        assert getattr(large, name) > getattr(small, name), name
    assert large["hbm_read_bytes"] == 2 * small["hbm_read_bytes"]
    assert large["hardware_flops"] == 2 * small["hardware_flops"] == 2 * 2 * 128 * 128 * 512
    assert large.instructions == 2 * small.instructions == 10
    assert large.opcodes == {"dma_copy": 6, "nc_matmul": 2, "tensor_copy": 2}


def test_a_summary_answers_to_neuron_explorers_names(kernel):
    summary = summary_of(one_tile(kernel))
    peak = 2 * 128 * 128 * 2.4e9
    share = summary["model_flops"] / peak / summary.device_time_s
    assert summary["mfu_estimated_percent"] == pytest.approx(100 * share)
    assert summary["cc_op_count"] is None
    assert "no collectives" in summary.missing["cc_op_count"]


def test_a_name_that_the_table_lacks_is_refused_with_those_like_it(timeline):
    with pytest.raises(BadInput, match="no 'mfu_percent'; names like it: mfu_"):
        summarize(timeline)["mfu_percent"]


def test_engines_are_busiest_first_with_their_share(kernel):
    summary = summary_of(one_tile(kernel))
    active = [use.active_s for use in summary.engines]
    assert active == sorted(active, reverse=True)
    vector = next(use for use in summary.engines if use.engine == "Vector Engine")
    assert vector.active_s == pytest.approx(512 / 0.96e9)
    assert vector.active_share == pytest.approx(vector.active_s / summary.device_time_s)
    assert vector.instructions == 1


def test_peaks_follow_the_tiles(new_kernel):
    small = summary_of(one_tile(new_kernel()))
    wide = summary_of(one_tile(new_kernel(), dtype=FLOAT32))
    assert small.sbuf_peak_bytes == 128 * 2 + 512 * 2
    assert wide.sbuf_peak_bytes == 2 * small.sbuf_peak_bytes
    assert small.psum_peak_bytes == 512 * 4
    assert summary_of(one_tile(new_kernel(), columns=256)).psum_peak_bytes == 256 * 4
    assert (small.sbuf_bytes, small.psum_bytes) == (224 * 1024, 16 * 1024)


def test_the_core_gives_target_launch_capacity_and_facts(new_kernel):
    changed = replace(NEURONCORE_V2, launch_s=assumed(20e-6, "a test"))
    old, new = summary_of(one_tile(new_kernel(changed))), summary_of(one_tile(new_kernel()))
    assert (old.target, new.target) == ("NeuronCore-v2", "NeuronCore-v3")
    assert (old.launch_s, new.launch_s) == (20e-6, NEURONCORE_V3.launch_s)
    assert old.sbuf_bytes == 192 * 1024
    assert old.facts["assumed"] == len(old.assumed) != len(new.assumed) == new.facts["assumed"]
    assert "launch_s" in old.assumed
    assert "core_barrier_s" in new.assumed
    assert sum(new.facts.values()) == len(NEURONCORE_V3.facts())


def engine(share):
    return EngineUse("Vector Engine", share, share, 1)


@pytest.mark.parametrize(
    ("launch_s", "engines", "queue_issue_s", "expected"),
    [
        (2.0, (engine(0.9),), 0.95, "launch"),
        (0.1, (engine(0.9),), 0.8, "Vector Engine"),
        (0.1, (engine(0.9),), 0.9, "Vector Engine"),
        (0.1, (engine(0.8),), 0.9, "DMA issue"),
        (0.1, (engine(0.4),), 0.6, "DMA issue"),
        (0.1, (engine(0.4),), 0.5, "latency"),
        (0.1, (engine(0.5),), 0.0, "latency"),
        (0.0, (), 0.0, "launch"),
    ],
)
def test_bound_by_is_launch_latency_issue_or_the_busiest_engine(
    launch_s, engines, queue_issue_s, expected
):
    assert bound_by(launch_s, 1.0, engines, queue_issue_s) == expected


def test_bound_by_of_programs(new_kernel):
    assert summary_of(one_tile(new_kernel(SLOW_LAUNCH))).bound_by == "launch"
    assert summary_of(one_tile(new_kernel(FAST_LAUNCH))).bound_by == "latency"
    kernel = new_kernel(FAST_LAUNCH)
    psum = kernel.matmul(kernel.load(128, 128), kernel.load(128, 512))
    for _ in range(16):
        kernel.copy(psum)
    assert summary_of(kernel).bound_by == "Vector Engine"


def test_waiting_share_is_what_the_critical_path_does_not_work(new_kernel):
    chain, stream = new_kernel(), new_kernel()
    chain.store(chain.load(128, 16))
    for _ in range(64):
        stream.load(128, 4096)
    assert summary_of(chain).waiting_share > 0.6
    assert summary_of(stream).waiting_share < 0.1


def test_an_empty_program_has_a_summary(kernel):
    summary = summary_of(kernel)
    assert (summary.device_time_s, summary.instructions, summary["total_time"]) == (0.0, 0, 0.0)
    assert "instructions" in summary.text()


def test_text_is_aligned_and_names_every_figure(timeline):
    text = summarize(timeline).text()
    rows = text.splitlines()
    assert rows[0].startswith("estimated time")
    assert {row[19:21] for row in rows} == {"  "}
    for words in (
        "P10 to P90",
        "launch",
        "MFU",
        "HFU",
        "MBU",
        "Vector Engine",
        "nc_matmul",
        "core_barrier_s",
        "SBUF",
    ):
        assert words in text, words


def test_as_dict_is_json_with_every_field(timeline):
    given = summarize(timeline).as_dict()
    assert set(json.loads(json.dumps(given))) == {field.name for field in fields(Summary)}


def test_where_the_issue_of_transfers_matters_most_it_is_the_bottleneck():
    """Attention loads all of its tiles first: the Vector Engine is busier, the queue is first."""
    array = np.zeros((1024, 128), np.float32)
    run = trnsim.run(examples.module("attention").attention, *[array] * 3, numerics=False)
    assert run.summary.engines[0].engine == "Vector Engine"
    dma = next(use for use in run.summary.engines if use.engine == "DMA")
    assert dma.active_s < run.timeline.queue_issue_s() < run.summary.engines[0].active_s
    assert run.summary.bound_by == "DMA issue"


def test_a_notebook_shows_the_summary_as_a_line_and_its_table(kernel):
    summary = summary_of(one_tile(kernel))
    shown = summary._repr_html_()
    assert shown.startswith(f"<p>{summary}</p><iframe srcdoc=")
    assert "critical path waits" in shown
    assert "expected error" in shown
