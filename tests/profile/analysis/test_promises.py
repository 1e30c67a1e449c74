"""Kernels before and after they do what the advice says: each saves about what was promised."""

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import nki.language as nl
import numpy as np
import promised
import pytest

import trnsim
from trnsim.facts import assumed
from trnsim.isa import Engine
from trnsim.profile import advise
from trnsim.profile.analysis.gains import gains
from trnsim.timing import replay

BF16 = ml_dtypes.bfloat16
TRANSFERS, ARRAY, STREAMS = "small DMA transfers", "part of the array", "short matmuls"
MATMUL, VECTOR = "float32 matmul", "float32 on the Vector Engine"
ALONE, CHAIN = "one engine alone", "serial chain"


@dataclass(frozen=True)
class Promise:
    """A kernel with a flaw, and what it is called with once it follows the advice."""

    rule: str
    kernel: Any
    shapes: tuple[tuple[int, ...], ...]
    before: dict[str, Any]
    after: dict[str, Any]
    dtype: type = np.float32
    target: str = "trn2"
    also: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self):
        given = ",".join(f"{k}={v}" for k, v in (self.before | self.also).items())
        return f"{self.kernel.__name__}-{given or 'float32'}-{self.target}".replace(" ", "")

    def arrays(self):
        random = np.random.default_rng(7)
        return [(random.standard_normal(s) / 16).astype(self.dtype) for s in self.shapes]

    def run(self, options, **more):
        arrays = self.arrays()
        return trnsim.run(self.kernel, *arrays, target=self.target, **options, **self.also, **more)

    def followed(self, advice):
        """The options that do what the advice says."""
        if self.rule != ALONE:
            return self.after
        given, movable = map(int, re.findall(r"give (\d+) of (\d+)", advice.action)[0])
        share = Fraction(given, movable).limit_denominator(16)
        by_tile = {"by_tile": True} if "chains as a whole" in advice.action else {}
        return {"share": share.numerator, "every": share.denominator} | by_tile


def wide(rule, kernel, shapes, target="trn2", **also):
    before, after = {"dtype": nl.float32}, {"dtype": nl.bfloat16}
    return Promise(rule, kernel, shapes, before, after, target=target, also=also)


def shared(kernel, shapes, dtype=np.float32, target="trn2", **also):
    return Promise(ALONE, kernel, shapes, {}, {}, dtype, target, also)


def single(kernel, shapes, dtype=np.float32, target="trn2", **also):
    return Promise(CHAIN, kernel, shapes, {"tiles": 1}, {"tiles": 2}, dtype, target, also)


def flaw(rule, kernel, shapes, name, values, dtype=BF16, target="trn2", **also):
    before, after = ({name: value} for value in values)
    return Promise(rule, kernel, shapes, before, after, dtype, target, also)


k = promised
SQUARE = (128, 128)
PROMISES = [
    flaw(TRANSFERS, k.scaled, [(128, 8192)], "width", (64, 1024), np.float32),
    flaw(TRANSFERS, k.scaled, [(96, 8192)], "width", (256, 1024), np.float32),
    flaw(TRANSFERS, k.scaled, [(128, 8192)], "width", (128, 2048), target="trn3"),
    flaw(TRANSFERS, k.sums, [(128, 16384)], "width", (128, 2048), piece=128),
    flaw(TRANSFERS, k.sums, [(64, 16384)], "width", (256, 1024), np.float32, "trn1", piece=256),
    flaw(TRANSFERS, k.projected, [(128, 8192), SQUARE], "width", (512, 2048)),
    flaw(TRANSFERS, k.projected, [(96, 8192), (96, 64)], "width", (256, 2048)),
    flaw(TRANSFERS, k.weighted, [(128, 512), (128, 8192)], "at_once", (1, 16)),
    wide(MATMUL, k.product_of, [(512, 512), (512, 512)]),
    wide(MATMUL, k.product_of, [(2048, 256), (2048, 512)]),
    wide(MATMUL, k.product_of, [(256, 1024), (256, 1024)], "trn3"),
    wide(MATMUL, k.product_of, [(512, 384), (512, 1024)], "trn1"),
    wide(MATMUL, k.gram_twice, [(128, 2048), SQUARE], rounds=8),
    wide(VECTOR, k.polynomial, [(128, 8192)], width=2048, degree=6),
    wide(VECTOR, k.polynomial, [(128, 4096)], width=512, degree=3),
    wide(VECTOR, k.polynomial, [(100, 6000)], "trn3", width=1000, degree=5),
    wide(VECTOR, k.residual, [(128, 8192), (128, 8192)], width=2048),
    flaw(STREAMS, k.streamed, [(2048, 2048), (2048, 128)], "N", (16, 512)),
    flaw(STREAMS, k.tiled, [(1024, 2048), (1024, 128)], "N", (64, 512)),
    flaw(STREAMS, k.tiled, [(2048, 1024), (2048, 128)], "N", (128, 512)),
    flaw(STREAMS, k.tiled, [(256, 2048), (256, 96)], "N", (32, 512), target="trn3"),
    flaw(ARRAY, k.deep, [(512, 4096), (512, 128)], "rows", (32, 128)),
    flaw(ARRAY, k.deep, [(256, 4096), (256, 64)], "rows", (16, 128)),
    flaw(ARRAY, k.deep, [(512, 4096), (512, 128)], "rows", (32, 128), target="trn1"),
    flaw(ARRAY, k.heads, [(512, 2048), (512, 128)], "columns", (32, 128)),
    flaw(ARRAY, k.heads, [(1024, 1024), (1024, 256)], "columns", (16, 128)),
    shared(k.layers, [(128, 4096), SQUARE], BF16, rounds=6),
    shared(k.layers, [(128, 2048), SQUARE], BF16, "trn3", rounds=10),
    shared(k.affine, [(128, 8192)], width=512, steps=8),
    shared(k.products, [(128, 8192), (128, 8192)], width=256, steps=6),
    shared(k.products, [(128, 8192), (128, 8192)], width=1024, steps=6),
    shared(k.products, [(128, 8192), (128, 8192)], BF16, "trn3", width=1024, steps=9),
    single(k.powers, [(128, 1024), SQUARE], BF16, rounds=8),
    single(k.powers, [(128, 4096), SQUARE], BF16, "trn3", rounds=4, width=512),
    single(k.softmax, [(2048, 1024)]),
    single(k.softmax, [(1024, 256)], target="trn1"),
]
"""Each rule several times; the last value of a parameter is what the advice asks for."""


@cache
def before(place):
    """The run of a kernel before it follows advice."""
    return PROMISES[place].run(PROMISES[place].before, numerics=False)


every = pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("streamed-N=16-trn2")
@every
def test_what_follows_the_advice_saves_what_was_promised(promise):
    flawed = before(PROMISES.index(promise))
    found = {advice.rule: advice for advice in advise(flawed.timeline)}
    assert promise.rule in found, list(found)
    advice = found[promise.rule]
    after = promise.run(promise.followed(advice), numerics=False)
    saved_s = flawed.timeline.device_time_s - after.timeline.device_time_s
    assert 0.8 * advice.gain_s <= saved_s <= 1.2 * advice.gain_s


ONE_OF_EACH_KERNEL = {p.kernel.__name__: p for p in reversed(PROMISES) if p.after}.values()


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("streamed-N=16-trn2", "sums-width=128,piece=128-trn2")
@pytest.mark.parametrize("promise", ONE_OF_EACH_KERNEL, ids=lambda promise: promise.name)
def test_what_follows_the_advice_computes_the_same(promise):
    flawed, after = (
        np.asarray(promise.run(options).outputs, np.float32)
        for options in (promise.before, promise.after)
    )
    assert np.abs(flawed).max() > 0
    np.testing.assert_allclose(flawed, after, atol=0.05 * np.abs(flawed).max())


def test_every_rule_is_followed():
    rules = [promise.rule for promise in PROMISES]
    assert all(rules.count(rule) >= 4 for rule in set(rules))
    assert len(set(rules)) == 7


FASTER = {
    Engine.tensor: {"tensor_clock_hz": 2},
    Engine.vector: {"vector_clock_hz": 2},
    Engine.scalar: {"scalar_clock_hz": 2},
    Engine.gpsimd: {"gpsimd_clock_hz": 2},
    Engine.dma: {
        "dma_bytes_per_s": 2,
        "dma_short_run_bytes_per_s": 2,
        "dma_descriptor_s": 1 / 2,
        "dma_issue_s": 1 / 2,
        "dma_static_issue_s": 1 / 2,
    },
}


@pytest.mark.slow_but_every(3)
@every
def test_an_engine_twice_as_fast_saves_what_a_core_with_its_rates_doubled_does(promise):
    timeline = before(PROMISES.index(promise)).timeline
    core, program = timeline.program.core, timeline.program
    promised_s = {gain.change: gain.gain_s for gain in gains(timeline) if gain.line is None}
    for engine in timeline.busy_s():
        rates = {name: getattr(core, name) * factor for name, factor in FASTER[engine].items()}
        doubled = replace(core, **{name: assumed(rate, "a test") for name, rate in rates.items()})
        (schedule,) = replay([program], doubled, timeline.order)
        saved_s = timeline.device_time_s - schedule.device_time_s
        found_s = promised_s.get(f"{engine.label} twice as fast", 0.0)
        assert 0.8 * saved_s <= found_s <= 1.2 * saved_s


IN_NO_TIME = {
    Engine.tensor: {"tensor_clock_hz": 1e9, "tensor_dependent_s": 0},
    Engine.scalar: {
        "scalar_clock_hz": 1e9,
        "scalar_dependent_s": 0,
        "activation_table_load_s": 0,
    },
}


@pytest.mark.parametrize(
    ("promise", "engine"),
    [
        (wide(MATMUL, k.gram_twice, [(128, 2048), SQUARE], rounds=8), Engine.scalar),
        (wide(MATMUL, k.gram_twice, [(128, 1024), SQUARE], "trn3", rounds=5), Engine.tensor),
        (wide(MATMUL, k.product_of, [(512, 512), (512, 512)]), Engine.tensor),
        (single(k.softmax, [(2048, 1024)]), Engine.scalar),
        (single(k.reused, [(128, 8192)], target="trn1", width=512), Engine.scalar),
        (single(k.powers, [(128, 1024), SQUARE], BF16, rounds=8), Engine.tensor),
    ],
    ids=lambda given: getattr(given, "name", str(given)),
)
def test_a_line_for_nothing_saves_what_an_engine_does_that_takes_no_time(promise, engine):
    timeline = promise.run(promise.before, numerics=False).timeline
    core, program = timeline.program.core, timeline.program
    (line,) = {span.line for span in timeline.spans() if span.engine is engine}
    rates = {name: getattr(core, name) * factor for name, factor in IN_NO_TIME[engine].items()}
    free = replace(core, **{name: assumed(rate, "a test") for name, rate in rates.items()})
    (schedule,) = replay([program], free, timeline.order)
    saved_s = timeline.device_time_s - schedule.device_time_s
    assert saved_s > 0
    found_s = {gain.line: gain.gain_s for gain in gains(timeline) if gain.line}[line]
    assert 0.8 * saved_s <= found_s <= 1.2 * saved_s


@pytest.mark.slow_but_every(3)
@every
def test_no_engine_shortens_a_kernel_more_than_the_one_that_bounds_it(promise):
    run = before(PROMISES.index(promise))
    found = {gain.change: gain.gain_s for gain in gains(run.timeline) if gain.line is None}
    bound_by = {"DMA issue": "DMA"}.get(run.summary.bound_by, run.summary.bound_by)
    if bound_by not in ("launch", "latency"):
        assert found[f"{bound_by} twice as fast"] == max(found.values())


def test_cores_that_meet_save_what_was_promised_to_one():
    x = np.zeros((128, 8192), np.float32)
    flawed, after = (
        trnsim.run(promised.halved[2], x, width, numerics=False).timeline for width in (64, 1024)
    )
    gain_s = {advice.rule: advice.gain_s for advice in advise(flawed)}[TRANSFERS]
    saved_s = flawed.device_time_s - after.device_time_s
    assert 0.8 * gain_s <= saved_s <= 1.2 * gain_s
