from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_sizes import LLAMA, layer

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.estimate.gpu import BASES, EAGER_S, LAUNCH_S, SMS, gpu_times, part_of_peak
from trnsim.facts import Evidence
from trnsim.workload.operators import Elementwise, Pass, Phase, Product
from trnsim.workload.summary import PartSummary

ASKED = "a100-80", "h100", "h200", "b200", "gb200", "l4", "l40s", "a10g", "t4"
ENCODE = Pass(Phase.ENCODE, 1, 128)


def times(name, dtype="bf16", **options):
    return gpu_times(catalogue().accelerator(name), dtype, **options)


def whole(*products, elementwise=()):
    return PartSummary("layer", 1, products, elementwise)


@pytest.mark.parametrize("name", ASKED)
def test_each_gpu_has_sms_and_a_base_with_a_source(name):
    dtype = "fp16" if name == "t4" else "bf16"
    found = times(name, dtype).forward(layer(LLAMA, ENCODE), ENCODE)
    assert 0 < found.time_s < 1
    assert SMS[name].provenance.source
    assert 0 < BASES[name] < 1


def test_every_gpu_of_an_instance_is_known():
    rows = catalogue()
    used = {one.accelerator for one in rows.instances.values()} & set(rows.gpus)
    assert used <= set(SMS) == set(BASES)


def test_what_was_fitted_on_another_gpu_is_assumed():
    fitted = {name for name, base in BASES.items() if base.provenance.kind is Evidence.DERIVED}
    assert fitted == {"a100-40", "a100-80", "b200"}
    assert times("h100").spread > times("b200").spread


def test_tiles_of_the_guide_fill_the_guides_gpu():
    """1792 x 1792 is 98 tiles of 256 x 128: one wave of 108; 1793 x 1793 are two."""
    one = part_of_peak(1792, 4096, 1792, 1, 108)
    assert one == pytest.approx(98 / 108)
    more = part_of_peak(1793, 4096, 1793, 1, 108)
    assert more < 0.8


def test_a_product_that_tiles_and_waves_divide_has_its_whole_peak():
    assert part_of_peak(256 * 12, 4096, 128 * 9, 1, 108) == 1.0


def test_a_large_product_takes_its_multiplications_at_the_base():
    chip = catalogue().accelerator("a100-80")
    one = Product("up", 256 * 120, 8192, 128 * 90, 1, 16)
    found = times("a100-80").forward(whole(one), ENCODE)
    assert found.parts_s["products"] == pytest.approx(
        one.flop / (chip.peak_flop_per_s["bf16"] * BASES["a100-80"])
    )
    assert found.parts_s["weights"] == found.parts_s["KV"] == 0
    assert found.time_s == pytest.approx(found.parts_s["products"] + LAUNCH_S)


def test_a_row_by_a_matrix_takes_its_bytes():
    one = Product("up", 1, 8192, 28672, 1, 16)
    found = times("h100").forward(whole(one), Pass(Phase.DECODE, 1, 1, 100))
    moved = one.weight_bytes + 2 * (8192 + 28672)
    reached = 0.8 * catalogue().accelerator("h100").memory_bytes_per_s
    assert found.time_s - found.parts_s["fixed"] == pytest.approx(moved / reached)


def test_elementwise_operators_take_their_bytes():
    block = whole(elementwise=(Elementwise("norm", 1e9, 1e6),))
    reached = 0.8 * catalogue().accelerator("l4").memory_bytes_per_s
    found = times("l4").forward(block, ENCODE)
    assert found.parts_s["elements"] == pytest.approx((2e9 + 1e6) / reached)


def test_one_kernel_of_attention_keeps_scores_and_skips_masked_ones():
    given_pass = Pass(Phase.TRAIN, 1, 4096)
    block = layer(LLAMA, given_pass)
    one, several = times("a100-80"), times("a100-80", is_fused=False)
    fused, apart = (each.forward(block, given_pass).parts_s for each in (one, several))
    assert fused["products"] < apart["products"]
    assert fused["weights"] + fused["elements"] < apart["weights"] + apart["elements"]
    scores = 32 * 4096 * 4096 * 2
    assert apart["elements"] - fused["elements"] >= scores / several.bytes_per_s


def test_gradients_take_twice_the_multiplications():
    given_pass = Pass(Phase.TRAIN, 4, 4096)
    block = layer(LLAMA, given_pass)
    forward, back = (
        times("a100-80").forward(block, given_pass),
        times("a100-80").backward(block, given_pass),
    )
    assert back.parts_s["products"] == pytest.approx(2 * forward.parts_s["products"], rel=0.05)


def test_a_host_launches_operators_of_training_and_a_graph_all_others():
    block = whole(Product("up", 8, 8, 8, 1, 16))
    train = times("b200").forward(block, Pass(Phase.TRAIN, 1, 8)).parts_s["fixed"]
    other = times("b200").forward(block, ENCODE).parts_s["fixed"]
    assert (train, other) == (EAGER_S, LAUNCH_S)


def test_a_cache_is_read_once_while_it_is_multiplied():
    given_pass = Pass(Phase.DECODE, 8, 1, 4095)
    block = layer(LLAMA, given_pass)
    none = replace(block, cache=type(block.cache)(0.0, 0.0))
    one = times("h100")
    more_s = one.forward(block, given_pass).time_s - one.forward(none, given_pass).time_s
    moved = block.cache.read_bytes + block.cache.written_bytes
    met_s = sum(
        one.product_s(each, has_cached=True)[0]
        for each in block.products
        if each.name in ("scores", "values")
    )
    assert 0 < met_s < moved / one.bytes_per_s
    assert more_s == pytest.approx(moved / one.bytes_per_s - met_s)


def test_eight_bits_are_faster_where_a_gpu_multiplies_them():
    one = Product("up", 8192, 8192, 8192, 1, 8, bits=8)
    long = replace(one, bits=16, weight_bits=16)
    for name, factor in (("h100", 2), ("a100-80", 1)):
        found = times(name)
        assert found.product_s(long)[0] == pytest.approx(factor * found.product_s(one)[0])


def test_four_bits_are_faster_and_cast_where_a_gpu_multiplies_them():
    one = Product("up", 8192, 8192, 8192, 1, 4.5, bits=4)
    long = replace(one, bits=16, weight_bits=16)
    for name, factor, kernels in (("b200", 4, 2), ("h100", 1, 1)):
        found = times(name)
        assert found.product_s(long)[0] == pytest.approx(factor * found.product_s(one)[0])
        fixed_s = found.forward(whole(one), ENCODE).parts_s["fixed"]
        assert fixed_s == pytest.approx(kernels * LAUNCH_S)


def test_t4_multiplies_fp16_alone():
    with pytest.raises(BadInput, match="t4 has no published peak in bf16; legal: fp16"):
        times("t4")
    assert times("t4", "fp16").flop_per_s[16] == 65e12


def test_a_gpu_that_multiplies_bf16_multiplies_fp16_as_fast():
    assert times("a10g", "fp16").flop_per_s == times("a10g").flop_per_s


def test_no_tpu_is_a_gpu():
    with pytest.raises(BadInput, match=r"tpu-v5e: no times are known; legal GPUs: t4, a10g"):
        times("tpu-v5e")


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 5000),
    k=st.sampled_from((64, 1000, 4096)),
    n=st.integers(1, 5000),
    count=st.integers(1, 40),
    name=st.sampled_from(ASKED[:-1]),
)
def test_more_work_is_never_faster(m, k, n, count, name):
    made = times(name)
    small = Product("up", m, k, n, count, 16)
    base_s = sum(made.product_s(small))
    assert 0 < part_of_peak(m, k, n, count, made.sms) <= 1
    for larger in (
        replace(small, m=m + 1),
        replace(small, n=n + 1),
        replace(small, times=count + 1),
    ):
        assert sum(made.product_s(larger)) >= base_s * (1 - 1e-9)


@pytest.mark.parametrize("name", ["peak", "memory"])
def test_peak_and_memory_each_move_the_time(name):
    block = layer(LLAMA, ENCODE)
    one = times("h100")
    slow = {
        "peak": replace(one, flop_per_s={bits: rate / 8 for bits, rate in one.flop_per_s.items()}),
        "memory": replace(one, bytes_per_s=one.bytes_per_s / 2),
    }[name]
    assert slow.forward(block, ENCODE).time_s > one.forward(block, ENCODE).time_s


@settings(max_examples=300, deadline=None)
@given(
    sides=st.tuples(*[st.integers(1, 3000)] * 3),
    more=st.integers(1, 200),
    side=st.integers(0, 2),
    times=st.sampled_from((1, 8.5, 12, 96)),
    sms=st.sampled_from((40, 80, 108, 132, 148)),
)
def test_a_longer_side_of_a_product_is_never_faster(sides, more, side, times, sms):
    def time(m, k, n):
        return m * k * n / part_of_peak(m, k, n, times, sms)

    longer = [length + more * (number == side) for number, length in enumerate(sides)]
    assert time(*longer) >= time(*sides) * (1 - 1e-9)


def test_inference_launches_casts_and_routing_and_training_was_fitted_without():
    short = Product("up", 8, 64, 64, 1, 8, bits=8)
    kernels = {
        "one in 16 bits": (replace(short, bits=16), 1),
        "one in 8, with the cast of its input": (short, 2),
        "a factor that was absorbed, whose input is another's": (
            replace(short, name="keys absorbed"),
            1,
        ),
        "scores in 8 bits, which have no weights": (replace(short, weight_bits=0), 1),
        "a router": (replace(short, name="router", bits=16), 5),
    }
    for name, (product, count) in kernels.items():
        fixed_s = times("h100").forward(whole(product), ENCODE).parts_s["fixed"]
        assert fixed_s == pytest.approx(count * LAUNCH_S), name
        train = times("h100").forward(whole(product), Pass(Phase.TRAIN, 1, 8))
        assert train.parts_s["fixed"] == pytest.approx(EAGER_S), name
