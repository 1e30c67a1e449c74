import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

torch.manual_seed(0)
ROWS, WIDTH = 3, 8


def cell_with_gradients(kind, has_bias):
    """What a cell gives, and the gradients of its weights and states, on the arguments' device."""
    cell = getattr(torch.nn, kind)(5, WIDTH, bias=has_bias)

    def call(x, *states):
        own = {name: p.detach().to(x.device) for name, p in cell.named_parameters()}
        leaves = [t.detach().requires_grad_() for t in (*own.values(), *states)]
        named = dict(zip(own, leaves, strict=False))
        before = leaves[len(own) :]
        given = (before[0],) if len(before) == 1 else (tuple(before),)
        found = torch.func.functional_call(cell, named, (x, *given))
        found = [found] if len(states) == 1 else list(found)
        total = sum((i + 1) * part.square().sum() for i, part in enumerate(found))
        return [*(part.detach() for part in found), *torch.autograd.grad(total, leaves)]

    return call


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("kind", "states"), [("LSTMCell", 2), ("GRUCell", 1)])
def test_cells_and_their_gradients(agree, kind, states, has_bias):
    given = [torch.randn(ROWS, WIDTH) for _ in range(states)]
    agree(cell_with_gradients(kind, has_bias), torch.randn(ROWS, 5), *given, tolerance=2.0**-16)
