import numpy as np
import pytest
from gate_samples import X, scaled, timed

from trnsim import arch
from trnsim.arch.draws import sample_core
from trnsim.facts import Evidence, Provenance, Rate
from trnsim.gate.kernel_time import (
    DRAWS,
    DrawnConstant,
    constants_id,
    constants_of,
    draws_us,
    model,
    time_on_us,
    with_constants,
)
from trnsim.version import VERSION


@pytest.fixture(scope="module")
def run_and_time():
    return timed(scaled)


def test_a_time_is_that_of_the_run(run_and_time):
    run, time = run_and_time
    assert time.time_us == pytest.approx(run.total_time_s * 1e6, abs=1e-4)
    assert time.chip == "trn2"
    assert time.model == model()
    assert model().startswith(f"{VERSION}+")


def test_a_draw_is_the_time_with_the_constants_of_that_draw(run_and_time):
    run, time = run_and_time
    assert len(time.draws_us) == DRAWS
    core = sample_core(run.program.core, 7)
    (device_s,) = run.timeline.device_times_on_s([core])
    assert time.draws_us[7] == pytest.approx((device_s + float(core.launch_s)) * 1e6, abs=1e-4)
    assert len(set(time.draws_us)) > DRAWS // 2


def test_lines_have_their_parts_of_the_device_time(run_and_time):
    run, time = run_and_time
    assert sum(line.critical_us for line in time.lines) == pytest.approx(
        run.timeline.device_time_s * 1e6, rel=0.01
    )
    assert time.lines[0].file == "gate_samples.py"
    assert time.lines[0].place == f"gate_samples.py:{time.lines[0].line}"
    assert any("tensor_scalar" in line.text for line in time.lines)


def test_a_core_gets_other_constants(run_and_time):
    run, time = run_and_time
    core = run.program.core
    known = constants_of(core)
    assert with_constants(core, known).launch_s == core.launch_s
    assert draws_us(run.timeline, with_constants(core, known)) == time.draws_us
    slower = {**known, "launch_s": DrawnConstant(float(core.launch_s) + 1e-6, 0.1), "x": None}
    former = with_constants(core, slower)
    assert former.launch_s.provenance.spread == 0.1
    assert time_on_us(run.timeline, former) == pytest.approx(time.time_us + 1, abs=1e-3)


def test_the_digest_of_constants_has_names_values_and_spreads():
    core = arch.target("trn2").core
    known = constants_of(core)
    assert constants_id(known) == constants_id(dict(reversed(list(known.items()))))
    for change in (DrawnConstant(1.0, 0.1), DrawnConstant(known["launch_s"].value, 0.11)):
        assert constants_id({**known, "launch_s": change}) != constants_id(known)
    assert constants_id({n: c for n, c in known.items() if n != "launch_s"}) != constants_id(known)
    assert constants_of(arch.paired(arch.target("trn2"))) != known


def test_a_spread_of_nothing_has_equal_draws(run_and_time):
    run, time = run_and_time
    core = run.program.core
    still = {name: DrawnConstant(c.value, 0.0) for name, c in constants_of(core).items()}
    assert set(draws_us(run.timeline, with_constants(core, still))) == {time.time_us}
    assert Rate(1.0, Provenance(Evidence.DERIVED, "", 0.0)).provenance.spread == 0
    assert np.all(X == 1)
