import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("number", [5, 2.5])
@pytest.mark.parametrize(
    "compute",
    [torch.remainder, torch.fmod, torch.floor_divide, torch.add, torch.sub, torch.float_power],
)
def test_a_number_promotes_as_on_the_cpu(compute, number, shape, dtype):
    tensor = torch.full(shape, 7, dtype=dtype)
    expected, result = compute(tensor, number), compute(tensor.to("neuron"), number)
    assert result.dtype == expected.dtype
    assert torch.equal(result.cpu(), expected)


def test_in_place_reversed_and_out():
    tensor = torch.tensor([7, 8], device="neuron")
    assert (tensor % 5).tolist() == [2, 3]
    assert (15 % tensor).tolist() == [1, 7]
    assert tensor.remainder_(5).tolist() == [2, 3]
    assert torch.remainder(tensor, 2, out=torch.empty_like(tensor)).tolist() == [0, 1]
    assert torch.bitwise_and(tensor, 1).tolist() == [0, 1]


def test_a_real_error_is_passed_on():
    tensor = torch.ones(2, device="neuron")
    with pytest.raises(RuntimeError, match="must match the size"):
        tensor + torch.ones(3, device="neuron")
