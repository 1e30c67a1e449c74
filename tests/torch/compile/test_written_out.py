import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from trnsim.device import compiled_graph
from trnsim.device.numerics import numerics
from trnsim.torch.compile import written_out
from trnsim.torch.compile.refused import CompilerWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("error::trnsim.torch.compile.refused.CompilerWarning"),
]


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(compiled_graph, "_graphs", [])


def drawn(*shapes):
    torch.manual_seed(0)
    return [torch.randn(shape) for shape in shapes]


def on_device(tensors, *, is_trained=False):
    return [tensor.detach().to("neuron").requires_grad_(is_trained) for tensor in tensors]


def compiled(function):
    return torch.compile(function, backend="neuron", dynamic=False)


def assert_all_timed(count):
    graphs = compiled_graph.compiled_graphs()
    assert len(graphs) == count
    assert [graph.missing for graph in graphs] == [()] * count


@pytest.mark.parametrize("kind", ["fast", "exact"])
def test_attention_with_a_bias_and_a_window_is_dense(kind):
    q, k, v = drawn((2, 4, 24, 16), (2, 2, 40, 16), (2, 2, 40, 8))
    bias = torch.tensor([0.5, -1.0, 0.0, 2.0])
    places, keys = torch.arange(24)[:, None], torch.arange(40)
    seen = (places >= keys) & (places - keys < 7)
    keys_of_heads, values_of_heads = (each.repeat_interleave(2, 1) for each in (k, v))
    scores = q @ keys_of_heads.mT / 4 + bias[:, None, None] * (places - keys)
    wanted = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ values_of_heads

    def visible(_batch, _head, place, key):
        return (place >= key) & (place - key < 7)

    mask = create_block_mask(visible, None, None, 24, 40, device="neuron")
    (slopes,) = on_device([bias])

    def attend(q, k, v):
        def score(score, _batch, head, place, key):
            return score + slopes[head] * (place - key)

        return flex_attention(q, k, v, score_mod=score, block_mask=mask, enable_gqa=True)

    with numerics(kind):
        found = compiled(attend)(*on_device([q, k, v]))
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-5)
    assert_all_timed(1)


def test_a_bias_that_attention_learns_has_the_gradient_of_the_dense_form():
    leaves = [each.requires_grad_() for each in drawn((1, 2, 6, 8), (1, 2, 9, 8), (1, 2, 9, 8))]
    leaves += [each.requires_grad_() for each in drawn((2, 6, 9))]
    q, k, v, bias = leaves
    ((q @ k.mT / 8**0.5 + bias).softmax(-1) @ v).square().sum().backward()

    def attend(q, k, v, bias):
        def score(score, _batch, head, place, key):
            return score + bias[head, place, key]

        return flex_attention(q, k, v, score_mod=score)

    ours = on_device(leaves, is_trained=True)
    compiled(attend)(*ours).square().sum().backward()
    for mine, theirs in zip(ours, leaves, strict=True):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad, rtol=1e-5, atol=1e-5)
    assert_all_timed(2)


def recurrence(x, weight):
    def step(carry, row):
        carry = torch.tanh(carry @ weight + row)
        return carry, carry * row

    return scan(step, x.new_zeros(3, 5), x)


def looped(x, weight):
    carry, results = x.new_zeros(3, 5), []
    for row in x:
        carry = torch.tanh(carry @ weight + row)
        results.append(carry * row)
    return carry, torch.stack(results)


@pytest.mark.parametrize("kind", ["fast", "exact"])
def test_a_scan_is_its_loop(kind):
    x, weight = drawn((4, 3, 5), (5, 5))
    with numerics(kind):
        found = compiled(recurrence)(*on_device([x, weight]))
    for mine, theirs in zip(found, looped(x, weight), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-5, atol=1e-5)
    assert_all_timed(1)


def test_the_gradient_of_a_scan_is_that_of_its_loop():
    leaves = [each.requires_grad_() for each in drawn((4, 3, 5), (5, 5))]
    sum(part.square().sum() for part in looped(*leaves)).backward()
    ours = on_device(leaves, is_trained=True)
    sum(part.square().sum() for part in compiled(recurrence)(*ours)).backward()
    for mine, theirs in zip(ours, leaves, strict=True):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad, rtol=1e-5, atol=1e-5)
    assert_all_timed(2)


def test_a_map_over_rows_is_unrolled():
    x, y = drawn((4, 5), (5,))
    rows = compiled(lambda x, y: map_rows(lambda row, y: (row.sin() * y, row + y), x, y))
    for mine, theirs in zip(rows(*on_device([x, y])), (x.sin() * y, x + y), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=0, atol=0)
    assert_all_timed(1)


def test_a_long_scan_has_values_and_no_time(monkeypatch):
    monkeypatch.setattr(written_out, "MOST_UNROLLED", 3)
    x, weight = drawn((4, 3, 5), (5, 5))
    with pytest.warns(CompilerWarning, match="scan on float32"):
        found = compiled(recurrence)(*on_device([x, weight]))
    for mine, theirs in zip(found, looped(x, weight), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-5, atol=1e-5)
    (graph,) = compiled_graph.compiled_graphs()
    assert graph.missing == ("scan: there is no lowering of it",)
