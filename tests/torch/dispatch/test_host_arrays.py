import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.dispatch.host_arrays import array_of, tensor_of


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int32],
    ids=str,
)  # fmt: skip
def test_a_tensor_becomes_an_array_and_comes_back(dtype):
    x = torch.arange(-4, 4).to(dtype)
    back = tensor_of(array_of(x))
    assert back.dtype is dtype
    assert torch.equal(back.float(), x.float())


def test_long_integers_and_truth_values_are_stored_as_the_device_does():
    assert array_of(torch.tensor([1, 2])).dtype == "int32"
    assert array_of(torch.tensor([True])).dtype == "uint8"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_scalar_stays_one(dtype):
    assert tensor_of(array_of(torch.tensor(3).to(dtype))).shape == ()
