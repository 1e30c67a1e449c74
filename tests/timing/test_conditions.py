"""The conditions that an estimate assumes."""

import numpy as np
import pytest

from trnsim.arch import NEURONCORE_V3
from trnsim.isa import DgeMode, DmaCopy, Memset
from trnsim.memory import Memory
from trnsim.timing import policy_of, timelines
from trnsim.timing.conditions import conditions


def loaded(work, *modes):
    for mode in modes:
        source = work.tile(np.ones((128, 8), np.float32), memory=Memory.HBM)
        work.issue(DmaCopy(work.empty((128, 8)), source, dge_mode=mode))
    return work.timeline


def test_a_kernel_that_names_no_mode_is_timed_with_a_hardware_dge(bench):
    found = conditions(loaded(bench(), DgeMode.unknown, DgeMode.unknown))
    assert found.transfers == {"hardware": 2}
    assert found.is_dge_assumed
    assert found.text() == (
        "hardware DGE for 2 transfers (assumed: the kernel leaves dge_mode to the compiler); "
        "the compiler's order: an engine takes the first of its next instructions that is ready; "
        "LNC=1; a launch of 13 us (P10 to P90: 5.3 to 31.9 us; none in a device profile)"
    )
    assert found.brief() == "launch 13 us, hardware DGE, LNC=1"


def test_named_modes_are_counted_each(bench):
    modes = (DgeMode.none, DgeMode.hwdge, DgeMode.swdge, DgeMode.none)
    found = conditions(loaded(bench(), *modes))
    assert found.transfers == {"none": 2, "hardware": 1, "software": 1}
    assert not found.is_dge_assumed
    assert found.brief() == ("launch 13 us, no DGE and hardware DGE and software DGE, LNC=1")


def test_only_the_hardware_dge_is_assumed_beside_other_modes(bench):
    found = conditions(loaded(bench(), DgeMode.none, DgeMode.swdge, DgeMode.unknown))
    assert found.text().startswith(
        "no DGE (descriptors wait in HBM) for 1 transfers; software DGE (timed as hardware) for 1 "
        "transfers; hardware DGE for 1 transfers (assumed: the kernel leaves dge_mode to the "
        "compiler); "
    )


def test_before_v3_there_is_no_dge_to_assume(bench, core_v2):
    found = conditions(loaded(bench(core_v2), DgeMode.unknown))
    assert found.transfers == {"none": 1}
    assert not found.is_dge_assumed
    assert "no DGE (descriptors wait in HBM) for 1 transfers" in found.text()


@pytest.mark.parametrize(("core", "lnc"), [(NEURONCORE_V3, 1), (NEURONCORE_V3.paired(), 2)])
def test_order_logical_core_and_launch_are_those_of_the_timeline(bench, core, lnc):
    work = bench(core)
    work.issue(Memset(work.empty((4, 4)), 0.0))
    found = conditions(timelines([work.program], policy_of("issued"))[0])
    assert (found.order, found.lnc, found.transfers) == ("issued", lnc, {})
    assert found.launch_s == core.launch_s
    assert found.launch_p10_s < found.launch_s < found.launch_p90_s
    assert found.brief() == f"launch {core.launch_s * 1e6:.3g} us, LNC={lnc}, order of issue"
    assert found.text().startswith("order of issue; LNC=")
