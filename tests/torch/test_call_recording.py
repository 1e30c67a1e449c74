import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.device import call_log as recorder
from trnsim.device.call_log import StepPhase
from trnsim.torch.call_recording import recording


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


def test_calls_belong_to_modules_and_phases():
    model = nn.Sequential(Block(), Block()).to("neuron")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording() as found:
        model(torch.ones(4, 8).to("neuron")).sum().backward()
        optimizer.step()
    where = {(e.phase, e.module) for e in found.events if e.call.operation in ("addmm", "mm")}
    for phase in (StepPhase.forward, StepPhase.backward):
        assert {module for p, module in where if p is phase} == {
            f"{block}.{part}" for block in "01" for part in ("up", "down")
        }
    assert any(event.phase is StepPhase.optimizer for event in found.events)
    assert found.from_host_bytes == 4 * 8 * 4


def test_nothing_is_recorded_outside():
    with recording() as found:
        torch.ones(3, device="neuron").add_(1)
    number = len(found.events)
    torch.ones(3, device="neuron").add_(1)
    assert len(found.events) == number
    assert found not in recorder.recordings


def test_a_timing_event_before_does_not_hide_modules():
    torch.neuron.Event(enable_timing=True).record()
    test_calls_belong_to_modules_and_phases()


def test_reading_a_result_counts_bytes_to_the_host():
    x = torch.ones(3, device="neuron")
    with recording() as found:
        x.cpu()
    assert found.to_host_bytes == 12
    assert not found.events


def test_a_copy_on_the_device_is_a_call():
    x = torch.ones(3, 4, device="neuron")
    with recording() as found:
        torch.empty(3, 4, device="neuron").copy_(x)
    assert [event.call.name for event in found.events] == ["aten::_copy_from"]


def test_the_hbm_in_use_is_written_down():
    with recording() as found:
        kept = torch.ones(1 << 18, device="neuron") + 1
        smaller = kept[:10] + 1
    assert found.events[-1].live_bytes >= kept.nbytes + smaller.nbytes
