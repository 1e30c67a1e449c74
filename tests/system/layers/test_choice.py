from dataclasses import dataclass

import pytest
from layer_sizes import LLAMA, layer

from trnsim.arch.catalogue import Accelerator, catalogue
from trnsim.errors import BadInput
from trnsim.system.layers.choice import bytes_per_s, layer_times, peak
from trnsim.system.workload.operators import Pass, Phase


@dataclass(frozen=True)
class Rank:
    """A machine as far as its ranks go."""

    chip: Accelerator
    lnc: int

    @property
    def ranks_per_chip(self):
        return self.chip.cores // self.lnc if self.lnc else 1


def rank(chip, lnc=0):
    return Rank(catalogue().accelerator(chip), lnc)


TRN1, TRN2, H100 = rank("trainium1", 1), rank("trainium2", 2), rank("h100")
GIVEN = Pass(Phase.DECODE, 1, 1, 127)


@pytest.mark.parametrize("machine", [TRN1, TRN2, H100, rank("inferentia1", 1), rank("a100-80")])
@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_a_time_on_every_machine(machine, phase):
    given = Pass(phase, 1, 1 if phase is Phase.DECODE else 128, 127)
    found = layer_times(machine).of(layer(LLAMA, given), given)
    assert found.time_s > 0
    assert 0 < found.spread < 1
    assert phase in found.source


def test_a_step_is_said_to_be_fitted_on_the_first_generation_and_extrapolated_on_the_second():
    block = layer(LLAMA, GIVEN)
    first, second = (layer_times(machine).of(block, GIVEN) for machine in (TRN1, TRN2))
    assert "extrapolated" not in first.source
    assert "extrapolated" in second.source
    assert second.spread > first.spread


def test_a_logical_core_has_the_bandwidth_of_its_cores():
    assert bytes_per_s(TRN1) == 294e9
    assert bytes_per_s(TRN2) == 2 * 350e9
    alone = bytes_per_s(rank("trainium2", 1))
    assert alone == TRN2.chip.memory_bytes_per_s / 8  # a core's DMA engines reach more than that


def test_a_rank_has_its_share_of_the_peak():
    assert peak(TRN1, "bf16") == 95e12
    assert peak(TRN2, "fp8") == pytest.approx(1299e12 / 4)
    assert peak(H100, "bf16") == 989.5e12


def test_a_dtype_without_a_peak_is_refused():
    with pytest.raises(BadInput, match="h100 has no published peak in fp4; legal: bf16, fp8"):
        peak(H100, "fp4")


def test_eight_bits_are_faster_where_the_peak_is():
    given = Pass(Phase.TRAIN, 1, 4096)
    block = layer(LLAMA, given)
    slow, fast = (layer_times(H100, "train", dtype).of(block, given) for dtype in ("bf16", "fp8"))
    assert fast.parts_s["products"] == pytest.approx(slow.parts_s["products"] / 2)
