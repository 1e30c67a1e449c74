"""Tensors of PyTorch as arrays."""

import numpy as np
import pytest
import torch

import trnsim
from trnsim.errors import BadInput, IllegalInstruction
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.nki.torch_tensors import array_of, is_torch_tensor

VALUES = [[1.0, -0.5], [2.0, 240.0]]


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_a_constant_may_be_a_tensor_of_each_dtype(name):
    constant = torch.tensor(VALUES).to(getattr(torch, name)).requires_grad_(name == "float32")

    @jit
    def kernel(x):
        del x
        return nl.shared_constant(constant)

    (out,) = (trnsim.run(kernel, np.zeros(1, np.float32), target="trn3").outputs,)
    assert out.dtype.name == name
    np.testing.assert_array_equal(np.float32(out), constant.detach().float().numpy())


@pytest.mark.parametrize(
    ("constant", "error", "words"),
    [
        (torch.eye(2).to_sparse(), BadInput, "a tensor of torch.sparse_coo"),
        (
            torch.eye(2, dtype=torch.float8_e4m3fnuz),
            IllegalInstruction,
            "float8_e4m3fnuz, which",
        ),
    ],
    ids=["sparse", "another dtype"],
)
def test_a_constant_that_is_no_array_is_refused_by_name(constant, error, words):
    @jit
    def kernel(x):
        del x
        return nl.shared_constant(constant)

    with pytest.raises(error, match=r"the constant of .* is a tensor of torch") as caught:
        trnsim.run(kernel, np.zeros(1, np.float32))
    assert words in caught.value.reason
    assert caught.value.fix


def test_other_values_are_no_tensors():
    assert is_torch_tensor(torch.eye(1))
    assert not any(map(is_torch_tensor, (np.eye(1), None, torch.float32, [1])))
    tensor = torch.zeros(2)
    array_of(tensor, "it")[:] = 1
    assert tensor.sum() == 2


def test_a_tensor_without_elements_is_refused_by_name():
    with pytest.raises(
        BadInput, match="it is a tensor of the meta device, which holds no"
    ) as caught:
        array_of(torch.eye(2, device="meta"), "it")
    assert caught.value.fix.startswith("make it on the CPU")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_is_refused_by_name():
    with pytest.raises(BadInput, match="it is a nested tensor") as caught:
        array_of(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "it")
    assert "to_padded_tensor" in caught.value.fix


def test_a_view_that_changes_the_sign_is_an_array():
    imaginary = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert imaginary.is_neg()
    assert array_of(imaginary, "it").tolist() == [-2, 4]
