"""What goes wrong in programs: one clear error each, at the program's line, and life goes on."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.fallback_policy import set_policy
from trnsim.device.numerics import numerics
from trnsim.device.step_document import step_document
from trnsim.device.step_time import step_time
from trnsim.document.text import text as text_of
from trnsim.errors import EmulatorError
from trnsim.torch.call_recording import recording
from trnsim.torch.device_errors import (
    DtypeRefused,
    MixedDevices,
    OperatorNotModelled,
    OutOfDeviceMemory,
)


@pytest.fixture(autouse=True)
def the_process_goes_on():
    yield
    x = torch.arange(4.0, device="neuron", requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [0, 2, 4, 6]


def refused(error, action, *words):
    """The message of the error that `action` raises, which has `words` and a line of this file."""
    with pytest.raises(error) as caught:
        action()
    message = str(caught.value)
    assert isinstance(caught.value, EmulatorError)
    assert caught.value.line.file == __file__
    assert caught.value.fix
    for word in words:
        assert word in message
    return message


def test_mixed_devices():
    x = torch.ones(4, device="neuron")
    refused(MixedDevices, lambda: x + torch.ones(4), "neuron:0 and cpu", ".to('neuron:0')")
    refused(MixedDevices, lambda: torch.ones(4) @ x, "neuron:0 and cpu")


def test_targets_left_on_the_cpu_give_the_device_error():
    scores, targets = torch.randn(4, 3, device="neuron"), torch.zeros(4, dtype=torch.long)
    refused(
        RuntimeError,
        lambda: torch.nn.functional.cross_entropy(scores, targets),
        "Expected all tensors to be on the same device",
    )


def test_no_room_in_hbm():
    refused(
        OutOfDeviceMemory,
        lambda: torch.empty(10 << 30, device="neuron"),
        "ran out of memory: 40.00 GiB asked for",
        "of 24.00 GiB in use",
    )


def test_no_room_in_hbm_in_the_middle_of_a_backward_pass(monkeypatch):
    from trnsim.device.hbm import device_memory  # noqa: PLC0415  of this test alone

    memory = device_memory(0)
    x = torch.ones(1 << 20, device="neuron", requires_grad=True)
    loss = (x * 2).exp().sum()
    monkeypatch.setattr(memory, "capacity_bytes", memory.live_bytes + (1 << 20))
    with pytest.raises(torch.OutOfMemoryError, match=r"4\.00 MiB asked for"):
        loss.backward()
    monkeypatch.undo()


def test_a_dtype_that_the_chip_lacks():
    set_policy("chip")
    try:
        refused(DtypeRefused, lambda: torch.ones(3, device="neuron").double(), "torch.float64")
        refused(DtypeRefused, lambda: torch.ones(3, device="neuron") * 1j, "torch.complex64")
    finally:
        set_policy("host")


def test_an_operator_without_a_lowering_is_counted_in_exact_mode_and_has_no_time():
    x = torch.eye(4, device="neuron")
    with numerics("exact") as on_host, recording() as found:
        torch.linalg.cholesky(x)
    assert sum(on_host.values()) == 1
    assert "linalg_cholesky" in next(iter(on_host))
    text = text_of(step_document([step_time(found, "trn2")]))
    assert "without a time, so missing above: 1 call" in text
    assert "linalg_cholesky" in text


def test_an_operator_without_a_lowering_is_refused_where_only_the_chip_may_compute():
    x = torch.eye(4, device="neuron")
    set_policy("chip")
    try:
        with numerics("exact"):
            refused(
                OperatorNotModelled,
                lambda: torch.linalg.cholesky(x),
                "aten::linalg_cholesky_ex has no lowering",
                "called on float32[4, 4] in exact numerics",
                "TRNSIM_POLICY=host",
            )
    finally:
        set_policy("host")


def test_an_operator_without_a_lowering_is_refused_in_the_middle_of_a_backward_pass():
    x = torch.eye(4, device="neuron", requires_grad=True)
    loss = torch.special.i0e(x).sum()
    set_policy("chip")
    try:
        with numerics("exact"), pytest.raises(OperatorNotModelled, match="has no lowering"):
            loss.backward()
    finally:
        set_policy("host")


def test_an_operator_that_the_host_lacks_too():
    x = torch.ones(4, 4, device="neuron")
    with pytest.raises((EmulatorError, NotImplementedError)):
        x.to_sparse()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_is_jagged_or_refused():
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    jagged = torch.nested.nested_tensor(parts, layout=torch.jagged, device="neuron")
    assert (jagged * 2).values().sum().item() == 36
    strided = torch.nested.nested_tensor(parts, device="neuron")
    with pytest.raises(OperatorNotModelled, match=r"aten::mul\.Tensor of a nested") as caught:
        strided * 2
    assert "layout=torch.jagged" in caught.value.fix
    assert caught.value.line.file == __file__
