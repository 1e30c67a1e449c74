"""The recording: what it keeps, and its bound."""

import gc

import pytest


def test_a_recording_keeps_no_tensor_and_is_bounded(monkeypatch):
    import torch
    import torch_xla

    from trnsim.xla.cuts import recorder as module
    from trnsim.xla.cuts.cutting import cuts
    from trnsim.xla.cuts.values import RecordedCall

    device = torch_xla.device()
    before = torch.neuron.memory_allocated()
    tensor = torch.ones(256, device=device)
    for _ in range(2_000):
        tensor = tensor + 2.5
    assert torch.neuron.memory_allocated() - before == 1024
    assert len(cuts.recorder.live_values()) == 1
    torch_xla.sync()
    gc.collect()
    kept = sum(isinstance(each, RecordedCall) for each in gc.get_objects())
    assert kept <= 2_002  # the calls of the step, to compare later ones with
    del tensor
    assert cuts.recorder.live_values() == []

    monkeypatch.setattr(module, "MOST_CALLS", 100)
    kept = [torch.ones(2, device=device) for _ in range(50)]  # two calls each
    with pytest.warns(module.UncutWarning, match=r"100 operators .* no step has ended"):
        kept.append(torch.ones(2, device=device))
    assert len(cuts.recorder.live_values()) == 1


def test_values_of_memory_follow_writes_views_and_copies():
    import torch
    import torch_xla

    from trnsim.xla.cuts.cutting import cuts
    from trnsim.xla.cuts.values import SCATTER, VIEW

    value_of = cuts.recorder.value_of
    data = torch.ones(4, 4).to(torch_xla.device())
    assert value_of(data).node is None
    assert value_of(data.detach()) is value_of(data)
    row = data[1]
    assert value_of(row).node.signature.name == VIEW
    row.mul_(3.0)
    assert value_of(data).node.signature.name == SCATTER
    assert value_of(row).node.signature.name == "mul"
    assert sorted(value.geometry[0] for value in cuts.recorder.live_values()) == [(4,), (4, 4)]
    torch_xla.sync()
    assert value_of(row).node is None
    assert value_of(data[1]).node is not None  # a tensor of its own
    transposed = data.t()
    whole = transposed.contiguous()
    assert value_of(whole).node is value_of(transposed).node
    assert value_of(torch.ones(0, device=data.device)).node is None
    data.copy_(torch.zeros(4, 4))
    assert value_of(data).node is None


def test_a_view_is_a_result_while_one_of_its_tensors_lives():
    import torch
    import torch_xla

    from trnsim.xla.cuts.cutting import cuts

    device = torch_xla.device()
    shapes = []
    for lives in (True, True, True, False, True):
        whole = torch.ones(4, 3, device=device).mul_(2.5)
        first, second = whole.t(), whole.t()
        del first
        if not lives:
            del second
        shapes.append(sorted(tuple(value.geometry[0]) for value in cuts.recorder.live_values()))
        torch_xla.sync()
    assert shapes == [[(3, 4), (4, 3)]] * 3 + [[(4, 3)], [(3, 4), (4, 3)]]
