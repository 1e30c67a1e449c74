import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput, NotModelled


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


def test_the_time_between_events_is_that_of_the_kernels():
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    x = torch.randn(256, 256, device="neuron")
    start.record()
    y = x @ x
    end.record()
    once = start.elapsed_time(end)
    y = y @ x
    end.record()
    assert 0 < once < 1
    assert start.elapsed_time(end) == pytest.approx(2 * once)
    assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_what_has_no_time_is_named_between_events():
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.special.bessel_j0(torch.randn(4, device="neuron"))
    end.record()
    with pytest.raises(NotModelled, match="aten::special_bessel_j0"):
        start.elapsed_time(end)


def test_an_event_without_timing_has_no_time():
    start, end = torch.neuron.Event(), torch.neuron.Event(enable_timing=True)
    start.record()
    end.record()
    with pytest.raises(BadInput, match="enable_timing=True"):
        start.elapsed_time(end)


@pytest.mark.parametrize("make", [torch.neuron.Event, lambda **o: torch.Event("neuron", **o)])
def test_events_of_both_names_are_recorded_by_streams_and_timed(make):
    x = torch.ones(300, device="neuron")
    for stream in (torch.neuron.Stream(), torch.accelerator.current_stream()):
        start, end = (make(enable_timing=True) for _ in range(2))
        assert stream.record_event(start) is start
        x + 1
        stream.record_event(end)
        end.synchronize()
        assert end.query()
        assert isinstance(end, torch.Event)
        assert 0 < start.elapsed_time(end) < 1


def test_an_accelerators_stream_is_set():
    before = torch.accelerator.current_stream()
    stream = torch.neuron.Stream()
    assert isinstance(stream, torch.Stream)
    try:
        torch.accelerator.set_stream(stream)
        assert torch.accelerator.current_stream() is torch.neuron.current_stream() is stream
        with torch.neuron.stream(before):
            assert torch.neuron.current_stream() is before
            with stream:
                assert torch.neuron.current_stream() is stream
            assert torch.neuron.current_stream() is before
        assert torch.neuron.current_stream() is stream
    finally:
        torch.accelerator.set_stream(before)
    torch.ones(2, device="neuron").record_stream(stream)


def test_no_stream_leaves_the_current_one():
    before = torch.neuron.current_stream()
    torch.neuron.set_stream(None)
    assert torch.neuron.current_stream() is before
