"""Views by geometry: chains of operators, against PyTorch's own views."""

import random

import torch

GROWN = 2


def geometry(tensor):
    return (tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset(), tensor.dtype)


def base_of(number):
    shape = [number.choice([1, 2, 3, 4, 6]) for _ in range(number.randint(0, 4))]
    order = number.sample(range(len(shape)), len(shape))
    flat = torch.arange(float(torch.Size(shape).numel()))
    if number.random() < 0.7:
        return flat.view(shape)
    return flat.view([shape[dim] for dim in order]).permute(
        [order.index(d) for d in range(len(order))]
    )


def one_view(tensor, number):
    kind, dim = number.randrange(6), number.randrange(max(tensor.dim(), 1))
    if kind == 0 and tensor.dim() > 1:
        return tensor.transpose(*number.sample(range(tensor.dim()), 2))
    if kind == 1 and tensor.dim():
        begin = number.randrange(tensor.shape[dim])
        end = number.randint(begin + 1, tensor.shape[dim])
        return tensor[(slice(None),) * dim + (slice(begin, end, number.choice([1, 1, 2])),)]
    if kind == 2 and tensor.dim():
        return tensor.select(dim, number.randrange(tensor.shape[dim]))
    if kind == 3:
        return tensor.expand([GROWN, *tensor.shape])
    if kind == 4:
        return tensor.unsqueeze(dim)
    return tensor.view(-1) if tensor.is_contiguous() else tensor


def computed(tensor, calls):
    from trnsim.torch import pytorch

    for call in calls:
        reshape = torch.ops.aten.reshape.default
        operator = reshape if call.operator == "aten::view" else pytorch.overload(call.operator)
        tensor = operator(tensor, *call.arguments)
    return tensor


def test_a_chain_of_calls_gives_the_view_of_any_geometry():
    from trnsim.xla.cuts.views import view_calls

    number, without = random.Random(0), 0  # noqa: S311  shapes
    for _ in range(600):
        base = view = base_of(number)
        for _ in range(number.randint(0, 4)):
            view = one_view(view, number)
        calls = view_calls(geometry(base), geometry(view))
        if calls is None:
            without += 1
        else:
            assert torch.equal(computed(base, calls), view), (geometry(base), geometry(view))
    assert without <= 6


def test_geometries_that_no_chain_makes_have_none():
    from trnsim.xla.cuts.views import view_calls

    row = ((5,), (1,), 0, torch.float32)
    assert view_calls(row, ((2, 3), (1, 1), 0, torch.float32)) is None  # elements twice
    assert view_calls(row, ((5,), (1,), 0, torch.int32)) is None
    assert view_calls(row, ((0,), (1,), 0, torch.float32)) is None
    assert view_calls(((5,), (1,), 2, torch.float32), row) is None  # before its base
