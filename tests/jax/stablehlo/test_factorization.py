"""Cholesky's factorization."""

import jax
import numpy as np
import pytest
from agreeing import BFLOAT16, BLOCK, agree, module_of, parsed, same

from trnsim.jax.stablehlo import graph_of


def positive(n, *batch, dtype=np.float32):
    """Positive definite matrices."""
    given = np.random.default_rng(n).standard_normal((*batch, n, n))
    return (given @ np.swapaxes(given, -1, -2) + n * np.eye(n)).astype(dtype)


def factor(matrix):
    return jax.lax.linalg.cholesky(matrix, symmetrize_input=False)


@pytest.mark.parametrize(("n", "batch"), [(1, ()), (2, (1,)), (5, ()), (4, (3, 2)), (33, ())])
def test_a_lower_triangle(n, batch):
    agree(factor, positive(n, *batch), tolerance=1e-4, platform="neuron")


def test_in_bfloat16():
    found = graph_of(module_of(factor, positive(5, dtype=BFLOAT16), platform="neuron"))
    (lower,) = found.reference([positive(5, dtype=BFLOAT16)])
    same(lower, np.linalg.cholesky(positive(5)).astype(BFLOAT16), 2.0**-5)


@pytest.mark.parametrize("is_lower", [True, False])
def test_it_reads_one_triangle(is_lower):
    matrix = positive(6)
    spoilt = np.tril(matrix) if is_lower else np.triu(matrix)
    text = f"""func.func public @main(%a: tensor<6x6xf32>) -> tensor<6x6xf32> {{
      %0 = "stablehlo.cholesky"(%a) {{lower = {str(is_lower).lower()}}}
        : (tensor<6x6xf32>) -> tensor<6x6xf32>
      return %0 : tensor<6x6xf32> }}"""
    (found,) = graph_of(parsed(text)).reference([spoilt])
    wanted = np.linalg.cholesky(matrix)
    same(found, wanted if is_lower else wanted.T, 1e-4)


def test_a_matrix_that_is_not_positive_has_no_number_from_there_on():
    matrix = np.diag(np.float32([4, -1, 9]))
    with np.errstate(all="ignore"):
        (found,) = graph_of(module_of(factor, matrix, platform="neuron")).reference([matrix])
    assert found[0].tolist() == [2, 0, 0]
    assert np.isnan(found[1:, 1]).all()


def test_matrices_without_elements():
    given = BLOCK[:0, :4, :4]
    assert agree(factor, given, platform="neuron").outputs[0].shape == (0, 4, 4)
