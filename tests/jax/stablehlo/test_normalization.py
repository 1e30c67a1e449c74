"""Batch normalization with its gradient, and systems with a triangular matrix."""

import jax
import numpy as np
import pytest
from agreeing import BLOCK, agree, agree_text

FEATURES = np.arange(1, 6, dtype=np.float32)
TYPE, ROW = "tensor<6x5x4xf32>", "tensor<5xf32>"


def text(name, rows, results):
    """A module with one operation on a tensor, some numbers for each feature, and more."""
    inputs = ", ".join(f"%r{at}: {kind}" for at, kind in enumerate(rows))
    names = ", ".join(f"%r{at}" for at in range(len(rows)))
    types, count = ", ".join(rows), len(results)
    found = ", ".join(results)
    returned = ", ".join(f"%0#{at}" for at in range(count)) if count > 1 else "%0"
    made = f"%0:{count}" if count > 1 else "%0"
    return f"""func.func public @main({inputs}) -> ({found}) {{
      {made} = "stablehlo.{name}"({names})
        {{epsilon = 1.0e-5 : f32, feature_index = 1 : i64}} : ({types}) -> ({found})
      return {returned} : {found} }}"""


def test_batch_normalization():
    row = [FEATURES, FEATURES * 0.5, FEATURES * 0.1, FEATURES * 2]
    agree_text(text("batch_norm_inference", [TYPE, *[ROW] * 4], [TYPE]), BLOCK, *row)
    agree_text(
        text("batch_norm_training", [TYPE, ROW, ROW], [TYPE, ROW, ROW]),
        BLOCK,
        *row[:2],
        tolerance=1e-4,
    )


def test_a_batch_without_elements_has_no_mean():
    types = ["tensor<0x5x4xf32>", ROW, ROW]
    made = text("batch_norm_training", types, [types[0], ROW, ROW])
    agree_text(made, BLOCK[:0], FEATURES, FEATURES)


def test_the_gradient_of_batch_normalization():
    mean, variance = BLOCK.mean((0, 2)), BLOCK.var((0, 2))
    made = text("batch_norm_grad", [TYPE, ROW, ROW, ROW, TYPE], [TYPE, ROW, ROW])
    agree_text(made, BLOCK, FEATURES, mean, variance, BLOCK[::-1].copy(), tolerance=1e-4)


@pytest.mark.slow_but("True-0-True", "False-1-False")
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems(lower, trans, unit):
    matrix = np.eye(5, dtype=np.float32) * 3 + BLOCK.ravel()[:25].reshape(5, 5)

    def solved(a, b):
        return jax.scipy.linalg.solve_triangular(a, b, lower=lower, trans=trans, unit_diagonal=unit)

    agree(solved, matrix, BLOCK[0, :, :3].copy(), tolerance=2e-3, platform="tpu")


def test_a_triangular_matrix_on_the_right():
    matrix = np.eye(4, dtype=np.float32) * 3 + BLOCK[0, :4]
    agree(
        lambda a, b: jax.lax.linalg.triangular_solve(a, b, lower=True),
        matrix,
        BLOCK[1],
        tolerance=1e-4,
        platform="tpu",
    )
