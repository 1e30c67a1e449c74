import numpy as np

import trnsim
from trnsim import nki
from trnsim.nki import language as nl
from trnsim.profile.measures.busy import busy_s
from trnsim.profile.measures.metrics import measure


@nki.jit
def doubled(a):
    """``exp(a) + a``."""
    result = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(result, nl.add(nl.exp(tile), tile))
    return result


def test_busy_times_are_those_of_the_summary_table():
    run = trnsim.run(doubled, np.ones((128, 512), np.float32))
    found, summary = busy_s(run.timeline), measure(run.timeline).values
    assert set(found) >= {"dma", "vector", "scalar"}
    for name, time_s in found.items():
        shown = summary.get(f"{name}_engine_active_time", summary["dma_active_time"])
        if name != "dma":  # of which the table has the transfers' time
            assert time_s == shown
        assert 0 < time_s <= run.timeline.device_time_s


def test_a_program_without_instructions_is_busy_nowhere():
    @nki.jit
    def nothing(a):
        return a

    assert busy_s(trnsim.run(nothing, np.ones((4, 4), np.float32)).timeline) == {}
