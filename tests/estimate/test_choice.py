from dataclasses import dataclass

import pytest
from layer_sizes import LLAMA, layer

from trnsim.arch import TARGETS
from trnsim.arch.catalogue import Accelerator, catalogue
from trnsim.errors import BadInput
from trnsim.estimate import choice, constants
from trnsim.estimate.choice import bytes_per_s, graph_times, layer_times, pair_times, peak
from trnsim.estimate.few import halves, unmasked_scores
from trnsim.estimate.measured import read
from trnsim.facts import Evidence
from trnsim.workload.operators import Pass, Phase


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
INF2 = rank("inferentia2", 1)
GIVEN = Pass(Phase.DECODE, 1, 1, 127)


@pytest.mark.parametrize("machine", [TRN1, TRN2, H100, rank("inferentia1", 1), rank("a100-80")])
@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_a_time_on_every_machine(machine, phase):
    given = Pass(phase, 1, 1 if phase is Phase.DECODE else 128, 127)
    found = layer_times(machine).forward(layer(LLAMA, given), given)
    assert found.time_s > 0
    assert 0 < found.spread < 1
    assert phase in found.source


def test_a_step_is_said_to_be_fitted_on_the_first_generation_and_extrapolated_on_the_second():
    block = layer(LLAMA, GIVEN)
    first, second = (layer_times(machine).forward(block, GIVEN) for machine in (TRN1, TRN2))
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
    slow, fast = (
        layer_times(H100, "train", dtype).forward(block, given) for dtype in ("bf16", "fp8")
    )
    assert fast.parts_s["products"] == pytest.approx(slow.parts_s["products"] / 2)


def test_a_measured_table_comes_first(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(
        "phase,batch,tokens,past,time_us,backward_us\ndecode,1,1,127,77,\ntrain,1,128,,50,90\n"
    )
    times = layer_times(TRN1, measured=read(file))
    training = Pass(Phase.TRAIN, 1, 128)
    assert times.forward(layer(LLAMA, GIVEN), GIVEN).time_s == pytest.approx(77e-6)
    assert times.forward(layer(LLAMA, GIVEN), GIVEN).source == f"measured: {file}"
    assert times.backward(layer(LLAMA, training), training).time_s == pytest.approx(90e-6)
    other = Pass(Phase.DECODE, 2, 1, 127)
    assert "few constants" in times.forward(layer(LLAMA, other), other).source


@pytest.mark.parametrize("phase", list(Phase))
def test_inferentia2_is_never_faster_than_trainium1_of_the_same_core(phase):
    given = Pass(phase, 1, 1 if phase is Phase.DECODE else 128, 127 if phase is Phase.DECODE else 0)
    block = layer(LLAMA, given)
    slow, fast = (
        layer_times(one).forward(block, given).time_s for one in (rank("inferentia2", 1), TRN1)
    )
    assert slow >= fast


def test_norms_and_activations_cross_a_gpus_memory():
    given = Pass(Phase.PREFILL, 1, 512)
    block = layer(LLAMA, given)
    others = [one for one in block.elementwise if one.name != "softmax"]
    moved = sum(2 * one.elements + one.weight_bytes for one in others)
    found = layer_times(H100).forward(block, given).parts_s["elements"]
    assert found == pytest.approx(moved / bytes_per_s(H100))


def test_prompts_of_later_chips_take_kernels_of_attention():
    given = Pass(Phase.PREFILL, 1, 2048)
    block = layer(LLAMA, given)
    first, later = (
        layer_times(one).forward(block, given).parts_s["scores"] for one in (TRN1, TRN2)
    )
    assert first == pytest.approx(32 * 2048 * 2048 * 164e-12)
    clock = TARGETS["trn2"].core.vector_clock_hz
    assert later == pytest.approx(unmasked_scores(block) * 2 / (2 * 128 * clock))


def test_a_chip_with_published_halves_of_prompts_errs_less_than_one_without():
    given = Pass(Phase.PREFILL, 1, 2048)
    block = layer(LLAMA, given)
    own, carried = (layer_times(one).forward(block, given) for one in (TRN2, rank("trainium3", 2)))
    assert own.spread == constants.KERNEL_PROMPTS.spread < carried.spread
    assert "fitted to" in own.source
    assert "extrapolated" in carried.source


def test_constants_of_another_chip_are_assumed():
    own, other = (
        choice.facts(rank(*on), Phase.DECODE) for on in (("trainium1", 1), ("trainium2", 2))
    )
    assert own.keys() == other.keys()
    assert not any(fact.provenance.kind is Evidence.ASSUMED for fact in own.values())
    assert all(fact.provenance.kind is Evidence.ASSUMED for fact in other.values())
    assert [float(one) for one in own.values()] == [float(one) for one in other.values()]
    assert "part of the memory's bandwidth" in choice.facts(rank("h200"), Phase.DECODE)


def test_a_half_of_a_prompt_on_trainium2_is_of_its_own_rows():
    own = choice.facts(TRN2, Phase.PREFILL)
    assert float(own[choice.HALF_LAYER]) == float(constants.KERNEL_PROMPTS.half_s)
    assert own[choice.HALF_LAYER].provenance.kind is Evidence.DERIVED
    assert own[choice.PRODUCTS].provenance.kind is Evidence.ASSUMED
    carried = choice.facts(rank("trainium3", 2), Phase.PREFILL)
    assert carried[choice.HALF_LAYER].provenance.kind is Evidence.ASSUMED


@pytest.mark.parametrize("is_denoiser", [False, True])
@pytest.mark.parametrize(("machine", "is_neuron"), [(TRN1, True), (TRN2, True), (H100, False)])
def test_a_call_of_a_network_takes_a_time_on_neuron_alone(machine, is_neuron, is_denoiser):
    given = Pass(Phase.ENCODE, 1, 128)
    block = layer(LLAMA, given)
    times, found_s = graph_times(machine, "bf16", is_denoiser=is_denoiser)
    assert found_s == pytest.approx(0.42e-3 * (is_neuron and not is_denoiser))
    slower = (
        times.forward(block, given).time_s
        > layer_times(machine, "encode").forward(block, given).time_s
    )
    assert slower == is_neuron


def test_an_attention_of_a_denoiser_takes_a_softmax_in_fp32_and_halves_of_prompts():
    given = Pass(Phase.ENCODE, 1, 128)
    block = layer(LLAMA, given)
    network, denoiser = (
        graph_times(INF2, "bf16", is_denoiser=is_denoiser)[0].forward(block, given).parts_s
        for is_denoiser in (False, True)
    )
    once_s = 1 / (128 * 1.12e9)  # an element on the Vector Engine's lanes at its clock
    half_s = constants.NEURON[Phase.PREFILL].inf2_half_s
    assert network["scores"] == network["fixed"] == 0
    assert denoiser["scores"] == pytest.approx(4 * unmasked_scores(block) * once_s)
    assert denoiser["fixed"] == pytest.approx((halves(block) + 1.5) * half_s)


def test_towers_of_a_pair_take_half_as_long_again_on_neuron_alone():
    given = Pass(Phase.ENCODE, 4, 77)
    block = layer(LLAMA, given)
    for machine, factor in ((TRN1, 1.52), (H100, 1.0)):
        alone = layer_times(machine, "encode").forward(block, given)
        pair = pair_times(machine, "bf16").forward(block, given)
        assert pair.time_s == pytest.approx(factor * alone.time_s)
        assert pair.time_s == pytest.approx(sum(pair.parts_s.values()))
    assert "4 rows of CLIP" in pair_times(TRN1, "bf16").forward(block, given).source


@pytest.mark.parametrize("phase", [*Phase, choice.NETWORK, choice.DENOISER])
def test_chips_of_a_side_have_a_spread_in_common(phase):
    accelerators = [catalogue().accelerator(name) for name in ("trainium1", "trainium2", "h100")]
    first, later, gpu = (choice.shared_spread(one, phase) for one in accelerators)
    assert 0 < first == later
    assert 0 < gpu < 1
