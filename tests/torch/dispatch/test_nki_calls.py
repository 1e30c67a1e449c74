import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import nki
import nki.isa as nisa
import nki.language as nl

from trnsim.errors import BadInput, NotModelled
from trnsim.runs import collecting
from trnsim.torch.dispatch.nki_calls import call_of_kernel, meta_results


def call(kernel, *tensors):
    return call_of_kernel(kernel, tensors, {})[0]


def test_calls_on_the_same_shapes_are_equal(kernels):
    one, other = torch.zeros(4, 8), torch.ones(4, 8)
    assert call(kernels.cosine, one) == call(kernels.cosine, other)
    assert call(kernels.cosine, one) != call(kernels.cosine, torch.zeros(4, 9))
    assert call(kernels.cosine, one) != call(kernels.both, one)


def test_an_outline_says_what_is_written_and_returned(kernels):
    x = torch.zeros(128, 8, dtype=torch.bfloat16)
    outline = call(kernels.sine_into, x, x).outline("trn2")
    assert (outline.written, outline.results) == ((1,), None)
    sine, cosine = meta_results(call(kernels.both, x).outline("trn2"))
    assert (sine.shape, sine.dtype, cosine.device.type) == ((128, 8), torch.bfloat16, "meta")


def test_an_outline_is_the_same_with_values_and_without(kernels):
    x = torch.randn(128, 24)
    with_values = call(kernels.cosine, x).run([x], "trn1")[1]
    shapes = call(kernels.cosine, torch.empty(128, 24)).outline("trn1")
    assert shapes is with_values
    assert call(kernels.cosine, x).outline("trn2").cost.device_time_s > 0


@pytest.mark.parametrize("way", ["run", "measure"])
def test_a_kernel_that_does_more_than_before_takes_longer(way):
    steps = [1]

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for _ in range(steps[0]):
            tile = nl.multiply(tile, 2.0)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x, times = torch.ones(4, 8), []
    for steps[0] in (1, 1, 1, 9, 9, 1):
        found = call(kernel, x)
        outline = found.run([x], "trn2")[1] if way == "run" else found.measure("trn2")
        times.append(outline.cost.device_time_s)
        assert found.outline("trn2") is outline
    assert times[0] == times[1] == times[2] == times[5] < times[3] == times[4]


def test_an_outline_is_no_run_of_the_users(kernels):
    with collecting() as runs:
        call(kernels.cosine, torch.empty(7, 5)).outline("trn3")
    assert not runs


def test_arguments_take_the_place_of_their_shapes(kernels):
    found, tensors = call_of_kernel(kernels.cosine, ([torch.zeros(2, 2)], 3), {"mode": "x"})
    assert found.arguments(["array"]) == ((["array"], 3), {"mode": "x"})
    assert len(tensors) == 1


def cast(name):
    """A kernel that returns its argument in a dtype of NKI."""

    @nki.jit
    def kernel(source):
        result = nl.ndarray(source.shape, dtype=getattr(nl, name), buffer=nl.shared_hbm)
        nisa.dma_copy(dst=result, src=source)
        return result

    return kernel


def test_a_dtype_without_a_place_in_pytorch_is_named():
    with pytest.raises(NotModelled, match="float8_e4m3, which PyTorch lacks"):
        meta_results(call(cast("float8_e4m3"), torch.zeros(4, 4)).outline("trn2"))


RETURNED = {
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int16": torch.int16,
    "uint16": torch.uint16,
    "int32": torch.int32,
    "uint32": torch.uint32,
    "bool_": torch.bool,
    "bfloat16": torch.bfloat16,
    "float8_e5m2": torch.float8_e5m2,
    "tfloat32": torch.float32,
}


@pytest.mark.parametrize("name", RETURNED)
def test_results_have_the_dtype_of_pytorch_that_they_have_on_the_host(name):
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    kernel, dtype = cast(name), RETURNED[name]
    assert meta_results(call(kernel, x).outline("trn2")).dtype == dtype
    on_device = kernel(x.to("neuron"))
    assert on_device.dtype == nki.simulate(kernel)(x).dtype == dtype
    assert on_device.cpu().tolist() == x.to(dtype).tolist()


def test_equal_arguments_of_other_types_are_other_calls(kernels):
    x = torch.zeros(4, 8)
    found = [call_of_kernel(kernels.cosine, (x, one), {})[0] for one in (1, 1.0, True)]
    assert len(set(found)) == 3
    assert found[0] == call_of_kernel(kernels.cosine, (x, 1), {})[0]


def test_a_setting_that_changes_instructions_makes_another_call(kernels, monkeypatch):
    before = call(kernels.cosine, torch.zeros(4, 8))
    monkeypatch.setenv("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "1")
    assert call(kernels.cosine, torch.zeros(4, 8)) != before


def test_an_argument_by_which_no_call_is_found_again_is_refused(kernels):
    with pytest.raises(BadInput, match="cosine was called with a set, "):
        call_of_kernel(kernels.cosine, (torch.zeros(4, 8), {1}), {})
