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


def test_copies_of_a_result_in_one_layout_are_one_value_and_those_of_data_are_not():
    import torch

    from trnsim.xla.cuts.values import RecordedCall, RecordedValue, Signature

    rows, columns = ((4, 3), (3, 1), 0, torch.float32), ((4, 3), (1, 4), 0, torch.float32)
    node = RecordedCall(Signature("neg", "neg", (), (), (columns,)), (), None, 0)
    result, data = RecordedValue(columns, node), RecordedValue(columns)
    copy = result.copy(rows)
    assert result.copy(((4, 3), (3, 1), 0, torch.float32)) is copy
    assert (copy.geometry, copy.node, copy.source) == (rows, node, result)
    assert copy.copy(columns).source is result
    assert result.copy(columns) is not copy
    assert not result.has_layouts
    first, second = data.copy(rows), data.copy(rows)
    assert first is not second
    assert first.source is second.source is data
    assert data.has_layouts


def test_equal_signatures_are_one_object_until_there_are_too_many():
    import torch

    from trnsim.xla.cuts.values import Signatures

    signatures = Signatures(2)

    def geometry(length):
        return ((length, 3), (3, 1), 0, torch.float32)

    first = signatures.signature("aten::neg", "neg", (), (geometry(400),))
    assert signatures.signature("aten::neg", "neg", (), (geometry(400),)) is first
    other = signatures.signature("aten::exp", "exp", (), (geometry(400),))
    assert other is not first
    assert other.results[0] is first.results[0]
    assert signatures.signature("aten::neg", "neg", (), (geometry(500),)) is not first
    assert signatures.signature("aten::neg", "neg", (), (geometry(400),)) is not first
