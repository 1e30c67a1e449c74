from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from gate_samples import X, scaled, scaled_twice, timed

from trnsim import arch
from trnsim.errors import SourceLine
from trnsim.gate.baselines import Baselines, Key
from trnsim.gate.checking import (
    CheckLimits,
    KernelCheck,
    _line_of,
    check_case,
    difference_words,
    judge,
    line_words,
    signed_us,
    upgrade_words,
)
from trnsim.gate.difference import difference
from trnsim.gate.kernel_file import Arguments, KernelCase
from trnsim.gate.kernel_time import DrawnConstant, KernelLineTime

TRN2 = arch.target("trn2")
NO_LIMITS = CheckLimits()


@nki.jit
def refused(x):
    assert x.shape[0] < 2, "x is large"
    return x


@nki.jit
def raced(x):
    """The first core fills a shared tensor, which the second reads; nothing orders the two."""
    box, out = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=box, src=tile)
    for _ in range(20):
        nisa.tensor_copy(dst=tile, src=tile)
    if nl.program_id(0) == 1:
        nisa.dma_copy(dst=tile, src=box)
        nisa.dma_copy(dst=out, src=tile)
    return out


def case(kernel, reference=None, tolerance=None, x=X):
    return KernelCase(
        Path("k.py"), kernel.title, kernel, Arguments((x,), {}), reference, tolerance, {}
    )


def check(kernel, *args, limits=NO_LIMITS, **kwargs):
    return check_case(case(kernel, *args, **kwargs), "k.py", TRN2, limits)


def test_a_kernel_that_is_right_passes_with_the_figures_of_a_run():
    found = check(scaled, lambda x: 2 * x)
    assert found.is_passed
    assert found.findings == []
    run, _ = timed(scaled)
    assert found.run.summary.total_time_p50_s == run.summary.total_time_p50_s
    assert found.values[0].error == 0


def test_a_line_is_that_of_its_own_file():
    lines = [SourceLine("/a/helper.py", 12), SourceLine("/b/k.py", 12)]
    run = SimpleNamespace(program=SimpleNamespace(lines=lines))
    assert _line_of(run, KernelLineTime("k.py", 12, "", 1.0, 1.0)) == lines[1]
    assert _line_of(run, KernelLineTime("other.py", 12, "", 1.0, 1.0)) is None


def test_wrong_values_fail():
    (finding,) = check(scaled, lambda x: 3 * x).findings
    assert finding.is_failure
    assert finding.text == (
        "off by 0.33 of the largest value of the reference, at [0, 0]; legal: up to 0.01"
    )
    assert check(scaled, lambda x: 3 * x, 0.4).is_passed
    (finding,) = check(scaled, lambda x: x[0]).findings
    assert finding.text == "it is [256, 512] and the reference [512]"


def test_without_a_reference_that_is_said_and_nothing_fails():
    found = check(scaled)
    assert found.is_passed
    assert [each.text for each in found.findings] == [
        "no reference: define scaled_reference(...) to compare values"
    ]


def test_a_kernel_that_refuses_its_inputs_fails_at_its_line():
    (finding,) = check(refused).findings
    assert (finding.kind, finding.is_failure) == ("inputs", True)
    assert finding.text.startswith("the kernel refused its inputs: x is large")
    assert Path(finding.line.file).name == "test_checking.py"


@nki.jit
def unworded(_x):
    raise AssertionError


@nki.jit
def ended(_x):
    raise SystemExit(0)


def test_an_assertion_without_words_shows_its_line():
    (finding,) = check(unworded).findings
    assert finding.text == "the kernel refused its inputs: raise AssertionError"


def test_a_kernel_that_ends_the_program_fails():
    (finding,) = check(ended).findings
    assert (finding.kind, finding.is_failure) == ("illegal", True)
    assert finding.text == "the kernel does not run to its end: SystemExit: 0"
    assert Path(finding.line.file).name == "test_checking.py"


def test_a_reference_with_an_error_of_its_own_fails_at_its_line(monkeypatch):
    found = check(scaled, lambda x: x.absent)
    (finding,) = found.findings
    assert (finding.kind, finding.is_failure) == ("values", True)
    assert finding.text == (
        "the reference does not run to its end: AttributeError: 'numpy.ndarray' object has no "
        "attribute 'absent'"
    )
    assert finding.fix == "TRNSIM_FULL_TRACEBACK=1 shows its traceback"
    assert Path(finding.line.file).name == "test_checking.py"
    assert found.time is not None
    (finding,) = check(scaled, lambda: 1).findings
    assert "takes 0 positional arguments" in finding.text
    assert finding.line is None
    monkeypatch.setenv("TRNSIM_FULL_TRACEBACK", "1")
    with pytest.raises(AttributeError):
        check(scaled, lambda x: x.absent)


def test_an_error_of_legality_is_a_finding():
    (finding,) = check(scaled, x=np.ones((129, 4), np.float32), reference=np.array).findings
    assert finding.is_failure
    assert finding.kind in ("illegal", "inputs")


def test_a_race_fails():
    found = check(raced[2], np.array, x=X[:4])
    assert not found.is_passed
    assert found.findings[-1].kind == "race"
    assert found.run is not None


def test_warnings_of_a_run_are_told_and_fail_nothing():
    run, time = timed(scaled)
    found = KernelCheck(Key("k.py", "scaled", "trn2"))
    warned = replace(run, doubtful=("equal bytes",), overfull=("spilled",), carried=("carries",))
    judge(found, warned, time, NO_LIMITS)
    assert found.is_passed
    assert [(each.kind, each.text) for each in found.findings] == [
        ("race", "equal bytes"),
        ("memory", "spilled"),
        ("race", "carries"),
    ]


def limits_with(time, kernel="scaled", **settings):
    baselines = Baselines(Path("b.toml"), {Key("k.py", kernel, "trn2"): time})
    return CheckLimits(baselines=baselines, **settings)


def test_a_slower_kernel_fails_unless_it_is_accepted():
    _, time = timed(scaled)
    limits = limits_with(time, "scaled_twice")
    found = check(scaled_twice, limits=limits)
    slower = found.findings[-1]
    assert (slower.kind, slower.is_failure) == ("slower", True)
    assert "nisa.reciprocal" in slower.text
    assert slower.line.file.endswith("gate_samples.py")
    assert check(scaled_twice, limits=replace(limits, is_updating=True)).is_passed


def test_new_kernels_are_accepted_where_no_baseline_can_be():
    limits = CheckLimits(baselines=Baselines(Path("revision main")), accepts_new=True)
    found = check(scaled, limits=limits)
    assert found.is_passed
    assert found.findings[-1].text == "revision main has no time of this kernel"
    assert not check(scaled, limits=replace(limits, accepts_new=False)).is_passed
    assert check(scaled, limits=replace(limits, accepts_new=False, is_updating=True)).is_passed


def test_other_inputs_are_named():
    _, time = timed(scaled)
    run, wide = timed(scaled, np.ones((512, 512), np.float32))
    shift = difference(time, replace(wide, inputs="wide"), run.timeline)
    assert difference_words(shift).endswith("; its inputs were x, and are wide")


def test_an_upgrade_is_told_with_its_constants_and_fails_nothing():
    _, time = timed(scaled)
    constants = dict(time.constants)
    for name in list(constants)[:4]:
        constants[name] = DrawnConstant(1.0, 0.0)
    old = replace(
        time,
        model="0.0.9+0",
        constants=constants,
        time_us=time.time_us / 2,
        draws_us=tuple(draw / 2 for draw in time.draws_us),
    )
    found = check(scaled, limits=limits_with(old))
    upgrade = found.findings[-1]
    assert (upgrade.kind, upgrade.is_failure) == ("upgrade", False)
    assert upgrade.text.startswith("another trnsim, not the kernel: +")
    assert "(100 %; P10 to P90 +" in upgrade.text
    assert upgrade.text.endswith(" and 1 more")
    assert "the kernel is the same" in upgrade_words(found.difference)
    late = check(scaled, limits=limits_with(old, max_s=time.time_us * 0.6e-6)).findings[-1]
    assert late.is_failure
    assert "with its baseline's trnsim it was" in late.text


def test_lines_that_wait_are_named_where_no_work_explains_the_time():
    run, time = timed(scaled)
    lines = tuple(replace(line, critical_us=0.0) for line in time.lines)
    draws = tuple(draw - 1 for draw in time.draws_us)
    before = replace(time, source="x", lines=lines, time_us=time.time_us - 1, draws_us=draws)
    shift = difference(before, time, run.timeline)
    assert shift.lines[0].cost_us == 0
    assert " us of waiting  nisa.dma_copy" in line_words(shift.lines[0])
    found = KernelCheck(Key("k.py", "scaled", "trn2"))
    judge(found, run, time, limits_with(before))
    assert "of waiting" in found.findings[-1].text


@pytest.mark.parametrize(("value", "words"), [(1.5, "+1.5 us"), (-0.25, "-250 ns"), (0, "+0 ns")])
def test_signed_times(value, words):
    assert signed_us(value) == words
