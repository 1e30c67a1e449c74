"""Narrowed dtypes: what is rounded, what is not, and how many bytes the device has."""

import pytest
import torch

from trnsim.torch import narrowing
from trnsim.torch.narrowing import narrowed_dtypes

FINE = 1 + 2**-12


@pytest.fixture(autouse=True)
def narrowed():
    narrowed_dtypes[torch.float32] = torch.bfloat16
    yield
    narrowed_dtypes.clear()


def test_results_in_place_forms_and_outs_are_rounded():
    two = torch.full((2,), 2.0, device="neuron")
    assert (two + FINE).tolist() == [3.0, 3.0]
    base = torch.zeros(2, 2, device="neuron")
    base[1].add_(FINE)
    assert base.tolist() == [[0.0, 0.0], [1.0, 1.0]]
    out = torch.empty(2, device="neuron")
    torch.mul(two, 1 / 3, out=out)
    assert out.tolist() == [0.66796875, 0.66796875]
    assert [part.tolist() for part in torch.full((2,), FINE, device="neuron").split(1)] == [
        [1],
        [1],
    ]


def test_a_copy_to_the_device_is_rounded_and_a_copy_of_the_host_is_not():
    host = torch.tensor([FINE])
    assert host.to("neuron").cpu().item() == 1
    assert (host + 0).item() == FINE
    assert host.double().to("neuron").item() == FINE
    assert torch.tensor([3], device="neuron").item() == 3


def test_numbers_are_rounded_as_the_tensors_beside_them():
    three = torch.full((1,), 768.0, device="neuron")
    assert (three * (1 / 3)).item() == 256  # 768 * 0.333984375 = 256.5, and even
    double = torch.full((1,), 768.0, dtype=torch.float64, device="neuron")
    assert (double * (1 / 3)).item() == 768 * (1 / 3)
    whole = torch.full((1,), 400, device="neuron")
    assert (whole * (1 / 3)).item() == 134  # 400 * 0.333984375 = 133.59; 400 / 3 = 133.33


def test_a_zero_keeps_its_sign_whichever_came_first():
    zeros = [torch.full((1,), zero, device="neuron").item() for zero in (0.0, -0.0, 0.0)]
    assert str(zeros) == "[0.0, -0.0, 0.0]"


def test_bytes_are_those_of_the_narrower_dtype():
    assert narrowing.bytes_on_device(8, torch.float32) == 4
    assert narrowing.bytes_on_device(8, torch.int32) == 8
    assert narrowing.dtype_on_device(torch.float32) is torch.bfloat16
    assert narrowing.dtype_on_device(torch.float16) is torch.float16


def test_numbers_that_have_no_value_stay():
    nothing = torch.tensor([float("nan"), float("inf"), -0.0]).to("neuron").tolist()
    assert str(nothing) == "[nan, inf, -0.0]"
