import pytest

from trnsim.arch import NEURONCORE_V3
from trnsim.isa import Engine
from trnsim.profile.analysis.faster import faster_gains_s, with_faster_engine


@pytest.mark.parametrize("engine", [Engine.tensor, Engine.vector, Engine.scalar, Engine.gpsimd])
def test_a_faster_engine_has_twice_the_clock_and_its_source(engine):
    name = f"{engine.name}_clock_hz"
    core = with_faster_engine(NEURONCORE_V3, engine)
    old, new = getattr(NEURONCORE_V3, name), getattr(core, name)
    assert float(new) == 2 * float(old)
    assert new.provenance == old.provenance
    others = {n: v for n, v in core.facts().items() if n != name}
    assert others == {n: v for n, v in NEURONCORE_V3.facts().items() if n != name}


def test_faster_dma_moves_and_issues_in_half_of_the_time(new_kernel):
    core = with_faster_engine(NEURONCORE_V3, Engine.dma)
    times_s = []
    for which in (NEURONCORE_V3, core):
        kernel = new_kernel(which)
        kernel.load(128, 8192)
        times_s.append(kernel.context.program.checked[0].cost)
    assert times_s[1].interval_s == pytest.approx(times_s[0].interval_s / 2)
    assert times_s[1].issue_s == pytest.approx(times_s[0].issue_s / 2)


def test_no_engine_saves_more_than_half_of_the_time(timeline):
    gains_s = faster_gains_s(timeline)
    assert set(gains_s) == set(timeline.busy_s())
    assert all(0 <= gain_s <= timeline.device_time_s / 2 for gain_s in gains_s.values())


def test_an_engine_without_a_rate_stays():
    assert with_faster_engine(NEURONCORE_V3, Engine.sync) == NEURONCORE_V3


def test_an_empty_program_has_no_engines(kernel):
    assert faster_gains_s(kernel.timeline()) == {}
