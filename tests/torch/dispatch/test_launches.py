# nki: 0.6
# Kernels of one core, in graphs of two: NKI 0.7 refuses them (tests of check_degree).
import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import nki
import nki.language as nl

from trnsim.device import compiled_graph
from trnsim.device.numerics import numerics
from trnsim.device.step_time import step_time
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.torch.call_recording import recording
from trnsim.torch.device_errors import MixedDevices
from trnsim.torch.dispatch.launches import NoGradient

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(compiled_graph, "_graphs", [])


@pytest.fixture
def x():
    torch.manual_seed(0)
    return (torch.rand(128, 16) - 0.5).to("neuron")  # the chip's sine ends at pi


def test_a_kernel_writes_to_its_argument_and_returns_tensors_of_the_device(kernels, x):
    written = torch.empty_like(x)
    kernels.sine_into(x, written)
    assert torch.allclose(written.cpu(), x.cpu().sin(), atol=1e-4)
    sine, cosine = kernels.both(x)
    assert sine.device == x.device
    assert torch.allclose(cosine.cpu(), x.cpu().cos(), atol=1e-4)


def test_a_kernel_that_returns_its_argument_returns_the_programs_own_tensor(x):
    @nki.jit
    def negated(tensor):
        tile = nl.load(tensor)
        nl.store(tensor, value=nl.negative(tile))
        return tensor, tensor

    before = x.cpu()
    first, second = negated(x)
    assert first is x
    assert second is x
    assert torch.equal(x.cpu(), -before)


def test_a_kernel_takes_what_is_not_contiguous_and_bfloat16(kernels, x):
    half = x.bfloat16()
    assert torch.allclose(kernels.cosine(half).cpu(), half.cpu().cos(), atol=1e-2)
    assert torch.allclose(kernels.cosine(x.t()).cpu(), x.t().cpu().cos(), atol=1e-4)


def test_a_launch_is_one_event_with_a_time_of_its_own(kernels, x):
    with recording() as found:
        kernels.cosine(x)
    assert [event.call.name for event in found.events] == ["nki::cosine"]
    assert found.from_host_bytes == found.to_host_bytes == 0
    times = [step_time(found, target) for target in ("trn1", "trn2", "trn3")]
    assert all(not time.missing and time.device_time_s > 0 for time in times)
    (kernel,) = times[1].times[found.events[0].call].kernels
    assert kernel.hbm_bytes == 2 * x.nbytes


@pytest.mark.parametrize("kind", ["fast", "shapes"])
def test_a_result_that_pytorch_has_no_dtype_for_is_refused_with_values_and_without(kind):
    @nki.jit
    def packed(source):
        result = nl.ndarray(source.shape, dtype=nl.float8_e4m3, buffer=nl.shared_hbm)
        nl.store(result, value=nl.load(source, dtype=nl.float8_e4m3))
        return result

    source = torch.zeros(4, 4, device="neuron")
    refusals = (NotModelled, IllegalInstruction)
    for _ in range(2):
        with numerics(kind), pytest.raises(refusals, match=r"float8_e4m3, wh.*(torch|lacks)"):
            packed(source)


@nki.jit
def scaled(source, factor):
    result = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nl.store(result, value=nl.multiply(nl.load(source), factor))
    return result


@pytest.mark.slow
def test_a_compiled_program_takes_a_kernel_at_other_sizes_and_numbers(x):
    compiled = torch.compile(lambda a, by: scaled(torch.cat([a, a]), by) + by, backend="neuron")
    for rows, by in ((2, 1.5), (3, 1.5), (5, 2.5), (2, 3.5), (5, 1.5), (5, 2), (5, 3), (5, 4)):
        part = x[:rows].cpu()
        expected = torch.cat([part, part]) * by + by
        assert torch.allclose(compiled(x[:rows], by).cpu(), expected, atol=1e-6)


@pytest.mark.parametrize(
    "transform",
    [
        lambda x: torch.vmap(lambda row: scaled(row, 2.0))(x[None]),
        torch.func.grad(lambda x: scaled(x, 2.0).sum()),
    ],
)
def test_a_kernel_in_a_transform_of_functions_is_refused_and_says_what_to_do(transform, x):
    with pytest.raises(NotModelled, match=r"the kernel scaled in torch\.vmap or a grad") as caught:
        transform(x)
    assert "torch.autograd.Function, and call backward()" in caught.value.fix
    assert caught.value.line.file == __file__


def test_without_values_a_kernel_still_has_shapes_and_a_time(kernels, x):
    with numerics("shapes"), recording() as found:
        sine, _ = kernels.both(x)
    assert (sine.shape, sine.dtype) == (x.shape, x.dtype)
    assert step_time(found, "trn2").device_time_s > 0


def test_a_backward_pass_through_a_kernel_without_gradient_is_a_named_error(kernels, x):
    x.requires_grad_()
    with pytest.raises(NoGradient, match="cosine has no gradient") as caught:
        kernels.cosine(x).sum().backward()
    assert caught.value.line.file == __file__
    written = torch.empty_like(x)
    kernels.sine_into(x, written)
    with pytest.raises(NoGradient, match="sine_into has no gradient"):
        written.sum().backward()


def test_tensors_of_two_devices_are_refused(kernels, x):
    with pytest.raises(MixedDevices, match="cpu and neuron:0"):
        kernels.sine_into(x.cpu(), torch.empty_like(x))


def test_a_compiled_graph_has_the_kernels_in_it(kernels, x):
    def sines(x):
        out = torch.empty_like(x)
        kernels.sine_into(x * 2, out)
        sine, cosine = kernels.both(out)
        return sine + cosine + kernels.cosine(x)

    expected = sines(x)
    fast = torch.compile(sines, backend="neuron", fullgraph=True)
    assert torch.allclose(fast(x).cpu(), expected.cpu(), atol=1e-5)
    with recording() as found:
        fast(x)
    (one,) = compiled_graph.compiled_graphs()
    assert not one.missing
    assert sum(name.startswith("nki::") for name in one.operators) == 3
    graph_time = step_time(found, "trn2")
    (event,) = found.events
    names = [kernel.name for kernel in graph_time.times[event.call].kernels]
    assert sorted(name for name in names if name in ("sine_into", "both", "cosine")) == [
        "both",
        "cosine",
        "sine_into",
    ]


def test_a_compiled_graph_has_what_a_kernel_writes_whatever_the_order_of_its_arguments(kernels, x):
    def sines(x):
        out = torch.zeros_like(x)
        kernels.sine_into(result=out, source=x / 2)
        return out + 1

    fast = torch.compile(sines, backend="neuron", fullgraph=True)
    assert torch.allclose(fast(x).cpu(), (x.cpu() / 2).sin() + 1, atol=1e-4)


def test_a_kernel_that_a_chip_refuses_is_refused_in_every_way_of_calling_it(kernels, x):
    for call in (kernels.too_wide, torch.compile(kernels.too_wide, backend="neuron")):
        with pytest.raises(Exception, match="128") as caught:
            call(x)
        assert "conftest.py" in str(caught.value)
    with pytest.raises(IllegalInstruction):
        kernels.too_wide(x)
    assert torch.equal((x + 1).cpu(), x.cpu() + 1)  # the process goes on
