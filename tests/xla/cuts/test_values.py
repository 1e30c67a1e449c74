"""Values: which views are held."""


def test_a_view_is_held_while_a_tensor_of_it_lives_and_settling_forgets_the_others():
    import torch

    from trnsim.xla.cuts.values import RecordedCall, RecordedValue, Signature, TensorStorage

    whole, part = ((4,), (1,), 0, torch.float32), ((2,), (1,), 1, torch.float32)
    node = RecordedCall(Signature("view", "view", (), (), (part,)), (), None, 0)
    storage, tensor = TensorStorage(RecordedValue(whole)), torch.ones(2)
    assert not storage.has_work
    storage.views[part] = RecordedValue(part, node)
    assert storage.has_work
    assert not storage.is_held(part)
    storage.hold(part, tensor)
    assert storage.is_held(part)
    storage.settle()
    assert not storage.has_work
    assert storage.views[part].node is None
    del tensor
    assert not storage.is_held(part)
    storage.settle()
    assert (storage.views, storage.holders) == ({}, {})
