import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.torch.models.int8_weights import Int8Linear, use_int8_weights


@pytest.mark.parametrize("bias", [False, True])
def test_a_row_of_whole_numbers_times_its_scale_is_the_row(bias):
    linear = nn.Linear(3, 2, bias=bias)
    made = Int8Linear(linear)
    made.weight = torch.tensor([[1, -2, 3], [127, 0, -128]], dtype=torch.int8)
    made.scale = torch.tensor([0.5, 0.25])
    linear.weight.data = made.weight * made.scale[:, None]
    x = torch.randn(4, 3)
    torch.testing.assert_close(made(x), linear(x))


def test_layers_of_blocks_alone_are_replaced_and_keep_their_hooks():
    model = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(3, 2)]), "head": nn.Linear(2, 2)})
    model["layers"][0].register_forward_hook(lambda *given: given[-1] + 1)
    use_int8_weights(model)
    assert type(model["layers"][0]) is Int8Linear
    assert len(model["layers"][0]._forward_hooks) == 1
    assert type(model["head"]) is nn.Linear
