"""Attention over windows, shared keys and sequences laid end to end, beside products in float64."""

import math

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

from trnsim.device.numerics import numerics
from trnsim.device.step_time import step_time
from trnsim.errors import BadInput, NotModelled
from trnsim.torch.call_recording import recording
from trnsim.torch.dispatch import flash

ONE = "aten::_scaled_dot_product_fused_attention_overrideable"
FLASH = torch.ops.aten._flash_attention_forward
EFFICIENT = torch.ops.aten._efficient_attention_forward

ROW = torch.zeros(1, 3, 2, 8)


def products(query, key, value, window=(-1, -1), *, from_start=False):
    """One sequence `[length, heads, width]`: its attention, and logarithms `[heads, length]`."""
    q, k, v = (one.transpose(0, 1) for one in (query, key, value))
    k, v = (one.repeat_interleave(len(q) // len(k), 0) for one in (k, v))
    own = torch.arange(q.shape[1])[:, None] + (0 if from_start else k.shape[1] - q.shape[1])
    place = torch.arange(k.shape[1])
    is_seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
    if window[0] >= 0:
        is_seen &= place >= own - window[0]
    if window[1] >= 0:
        is_seen &= place <= own + window[1]
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~is_seen, -math.inf)
    return (scores.softmax(-1).nan_to_num(0) @ v).transpose(0, 1), scores.logsumexp(-1)


def each(query, key, value, queries, keys, window=(-1, -1), **how):
    """Every sequence, one after the other."""
    parts = zip(query.split(queries), key.split(keys), value.split(keys), strict=True)
    return [products(*part, window, **how) for part in parts]


def given(queries, keys, heads=4, shared=2, width=8):
    torch.manual_seed(0)
    sides = (sum(queries), heads), (sum(keys), shared), (sum(keys), shared)
    return [torch.randn(*side, width) for side in sides]


def starts(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int().to("neuron")


def compare(mine, leaves, expected, theirs):
    """Results and gradients of neuron tensors beside those of host tensors."""
    mine.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(mine.detach().cpu(), expected.detach().float())
    for one, other in zip(leaves, theirs, strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad.float(), rtol=1e-4, atol=1e-5)


def both(tensors):
    """Leaves on the device, and the same on the host in float64."""
    leaves = [one.to("neuron").requires_grad_() for one in tensors]
    return leaves, [one.double().requires_grad_() for one in tensors]


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (1, 2)])
@pytest.mark.parametrize(
    ("queries", "keys", "shared"),
    [
        ([5, 9, 3], [5, 9, 3], 4),
        ([4, 4], [4, 4], 2),
        ([5, 0, 3], [2, 4, 7], 2),
        ([6, 6], [3, 3], 4),
        ([3, 2], [0, 4], 1),
    ],
)
def test_sequences_have_their_own_attention_and_gradients(queries, keys, shared, window):
    leaves, theirs = both(given(queries, keys, shared=shared))
    mine = varlen_attn(
        *leaves, starts(queries), starts(keys), max(queries), max(keys),
        window_size=window, enable_gqa=True,
    )  # fmt: skip
    expected = torch.cat([one for one, _ in each(*theirs, queries, keys, window)])
    compare(mine, leaves, expected, theirs)


def test_logarithms_are_those_of_sums_and_infinite_without_a_key():
    queries, keys = [5, 3], [2, 7]
    tensors = given(queries, keys)
    _, logs = varlen_attn(
        *(one.to("neuron") for one in tensors), starts(queries), starts(keys), 5, 7,
        window_size=(-1, 0), enable_gqa=True, return_aux=AuxRequest(lse=True),
    )  # fmt: skip
    found = each(*tensors, queries, keys, (-1, 0))
    expected = torch.cat([one for _, one in found], 1)
    expected[:, :3] = math.inf
    torch.testing.assert_close(logs.cpu(), expected)


def test_defaults_of_a_program_change_neither_dtypes_nor_devices():
    row, window = ROW, {"window_size_left": 1, "window_size_right": 0}
    expected = flash.KERNELS["_flash_attention_forward"](
        row, row, row, None, None, 3, 3, 0.0, False, False, **window
    )
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("neuron"):
            found = flash.KERNELS["_flash_attention_forward"](
                row, row, row, None, None, 3, 3, 0.0, False, False, **window
            )
    finally:
        torch.set_default_dtype(torch.float32)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.device, mine.dtype) == (theirs.device, theirs.dtype)
        torch.testing.assert_close(mine, theirs)


def test_a_batch_has_its_window_and_shares_keys():
    torch.manual_seed(0)
    shapes = (2, 6, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8)
    leaves, theirs = both([torch.randn(shape) for shape in shapes])
    mine, logs, *_ = FLASH(
        *leaves, None, None, 6, 6, 0.0, False, False,
        scale=None, window_size_left=2, window_size_right=0,
    )  # fmt: skip
    found = [products(*one, (2, 0)) for one in zip(*theirs, strict=True)]
    sums = torch.stack([one for _, one in found]).detach().float()
    torch.testing.assert_close(logs.cpu(), sums)
    compare(mine, leaves, torch.stack([one for one, _ in found]), theirs)


def test_a_batch_is_one_kernel_each_way_and_has_a_time():
    leaves = [torch.randn(2, 16, 4, 8, device="neuron", requires_grad=True) for _ in range(3)]
    with recording() as found:
        FLASH(*leaves, None, None, 16, 16, 0.0, True, False)[0].sum().backward()
    names = [event.call.name for event in found.events]
    assert names[0] == ONE
    assert names.count(f"{ONE}_backward") == 1
    assert not step_time(found, "trn2").missing


def test_no_values_are_computed_where_shapes_are_asked_for():
    leaves = [one.to("neuron") for one in given([4, 4], [4, 4], shared=4)]
    with numerics("shapes"), recording() as found:
        out = FLASH(*leaves, starts([4, 4]), starts([4, 4]), 4, 4, 0.0, True, False)[0]
    assert out.shape == (8, 4, 8)
    assert [event.call.name for event in found.events].count(ONE) == 1


def test_a_cache_has_as_many_keys_as_are_used():
    query, key, value = given([1, 1], [4, 4])
    used = [3, 1]
    found = varlen_attn(
        *(one.to("neuron") for one in (query, key, value)), starts([1, 1]), starts([4, 4]), 1, 4,
        enable_gqa=True, seqused_k=torch.tensor(used, dtype=torch.int32, device="neuron"),
    )  # fmt: skip
    parts = [one.split([4, 4]) for one in (key, value)]
    expected = [
        products(query[at : at + 1], parts[0][at][:count], parts[1][at][:count])[0]
        for at, count in enumerate(used)
    ]
    torch.testing.assert_close(found.cpu(), torch.cat(expected))


def test_the_result_is_written_where_it_is_asked_for():
    tensors = given([3, 2], [3, 2], shared=4)
    mine = [one.to("neuron") for one in tensors]
    out = torch.empty_like(mine[0])
    varlen_attn_out(out, *mine, starts([3, 2]), starts([3, 2]), 3, 3)
    expected = torch.cat([one for one, _ in each(*tensors, [3, 2], [3, 2])])
    torch.testing.assert_close(out.cpu(), expected)


@pytest.mark.parametrize(("kind", "window"), [(0, (-1, -1)), (1, (-1, 0)), (2, (-1, 0))])
def test_efficient_attention_of_a_batch_has_its_diagonal(kind, window):
    torch.manual_seed(0)
    leaves, theirs = both([torch.randn(2, length, 4, 8) for length in (4, 6, 6)])
    mine, logs, *_, max_q, max_k = EFFICIENT(*leaves, None, None, None, None, None, 0.0, kind, True)
    assert (logs.shape, max_q, max_k) == ((2, 4, 32), 4, 6)
    found = [products(*one, window, from_start=kind == 1) for one in zip(*theirs, strict=True)]
    sums = torch.stack([one for _, one in found]).detach().float()
    torch.testing.assert_close(logs[..., :4].cpu(), sums)
    compare(mine, leaves, torch.stack([one for one, _ in found]), theirs)


def test_efficient_attention_adds_a_bias():
    torch.manual_seed(0)
    tensors = [torch.randn(1, 4, 2, 8) for _ in range(3)]
    bias = torch.randn(1, 2, 4, 4)
    mine = [one.to("neuron") for one in (*tensors, bias)]
    found = EFFICIENT(*mine, None, None, None, None, 0.0, 0)[0]
    turned = [one.transpose(1, 2) for one in tensors]
    expected = torch.nn.functional.scaled_dot_product_attention(*turned, attn_mask=bias)
    torch.testing.assert_close(found.cpu(), expected.transpose(1, 2))


def test_efficient_attention_of_sequences_has_a_window_that_counts_the_query():
    lengths = [5, 3]
    tensors = given(lengths, lengths, shared=4)
    own = starts(lengths)
    rows = [one[None].to("neuron") for one in tensors]
    mine, logs, *_ = EFFICIENT(*rows, None, own, own, 5, 5, 0.0, 2, True, window_size=3)
    assert logs.shape == (2, 4, 32)
    _, theirs = both(tensors)
    expected = torch.cat([one for one, _ in each(*theirs, lengths, lengths, (2, 0))])
    expected.square().sum().backward()
    torch.testing.assert_close(mine[0].cpu(), expected.detach().float())
    backward = torch.ops.aten._efficient_attention_backward
    number = torch.zeros((), dtype=torch.int64, device="neuron")
    found = backward(
        2 * mine, *rows, None, mine, own, own, 5, 5, logs, 0.0, number, number, 2, False,
        window_size=3,
    )  # fmt: skip
    for one, other in zip(found[:3], theirs, strict=True):
        torch.testing.assert_close(one[0].cpu(), other.grad.float(), rtol=1e-4, atol=1e-5)


def test_a_window_whose_gradient_pytorch_would_leave_out_is_refused():
    row = ROW.to("neuron").requires_grad_()
    with pytest.raises(NotModelled, match="a window_size with a gradient in a fused attention"):
        EFFICIENT(row, row, row, None, None, None, None, None, 0.0, 2, True, window_size=2)


@pytest.mark.slow
def test_a_compiled_graph_has_its_values():
    tensors = given([3, 2], [3, 2], shared=4)
    own = starts([3, 2])
    compiled = torch.compile(
        lambda *args: FLASH(*args, own, own, 3, 3, 0.0, True, False)[0] + 1, backend="neuron"
    )
    with pytest.warns(UserWarning, match="_flash_attention_forward"):
        found = compiled(*(one.to("neuron") for one in tensors))
    expected = torch.cat([one for one, _ in each(*tensors, [3, 2], [3, 2], (-1, 0))])
    torch.testing.assert_close(found.cpu(), expected + 1)


@pytest.mark.parametrize(
    ("dropout", "more", "reason"),
    [
        (0.1, {}, "dropout_p=0.1 in a fused attention"),
        (0.0, {"alibi_slopes": torch.ones(2)}, "alibi_slopes in a fused attention"),
        (0.0, {"block_table": torch.ones(1, 1)}, "block_table in a fused attention"),
    ],
)
def test_what_no_kernel_has_is_refused_by_name(dropout, more, reason):
    row = ROW.to("neuron")
    named = {name: one.to("neuron") for name, one in more.items()}
    with pytest.raises(NotModelled, match=reason):
        FLASH(row, row, row, None, None, 3, 3, dropout, False, False, **named)


def test_values_of_another_width_and_heads_that_share_unevenly_are_refused():
    row = ROW.to("neuron")
    with pytest.raises(NotModelled, match="values 4 wide of keys 8 wide in a fused attention"):
        FLASH(row, row, row[..., :4], None, None, 3, 3, 0.0, False, False)
    three = torch.zeros(1, 3, 3, 8, device="neuron")
    with pytest.raises(BadInput, match="3 heads of queries share 2 of keys; legal: a multiple"):
        FLASH(three, row, row, None, None, 3, 3, 0.0, False, False)


def test_a_mask_of_no_type_of_pytorchs_is_refused():
    row = ROW.to("neuron")
    with pytest.raises(BadInput, match="custom_mask_type=3; legal: 0"):
        EFFICIENT(row, row, row, None, None, None, None, None, 0.0, 3)


def test_a_bias_that_has_a_gradient_is_refused():
    row, bias = ROW.to("neuron").requires_grad_(), torch.zeros(1, 2, 3, 3, device="neuron")
    out = EFFICIENT(
        row, row, row, bias.requires_grad_(), None, None, None, None, 0.0, 0, True
    )[0]  # fmt: skip
    with pytest.raises(NotModelled, match="a bias with a gradient in a fused attention"):
        out.sum().backward()
    with pytest.raises(NotModelled, match="a bias of sequences laid end to end"):
        EFFICIENT(row, row, row, bias, starts([3]), starts([3]), 3, 3, 0.0, 0)
