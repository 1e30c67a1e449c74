import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import NotModelled


def test_a_stream_is_always_idle():
    stream = torch.neuron.Stream()
    event = stream.record_event()
    event.record(stream)
    event.wait(stream)
    event.synchronize()
    stream.wait_event(event)
    stream.wait_stream(torch.neuron.default_stream())
    stream.synchronize()
    torch.neuron.set_stream(stream)
    assert stream.query()
    assert event.query()
    assert stream.record_event(event) is event
    assert torch.neuron.current_stream().device == torch.device("neuron:0")
    with torch.neuron.stream(stream) as current, stream as itself:
        assert current is itself is stream


def test_device_time_is_not_made_up():
    start, end = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
    with pytest.raises(NotModelled, match="not estimated yet"):
        start.elapsed_time(end)
