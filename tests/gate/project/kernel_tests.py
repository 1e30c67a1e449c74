"""The tests of the sample project, which a test copies beside its kernels as test_kernels.py."""

import numpy as np
import pytest

from kernels import add, matmul, softmax, transpose


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


@pytest.mark.trn(max_us=80, on="trn2")
def test_softmax(trn):
    x = random(1024, 2048)
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    run = trn(softmax, x)
    np.testing.assert_allclose(run.outputs, weights / weights.sum(axis=1, keepdims=True), rtol=1e-4)


def test_add(trn):
    trn(add, random(512, 512), random(512, 512), reference=lambda a, b: a + b)


@pytest.mark.trn(max_us=40)
def test_matmul(trn):
    trn(matmul, random(512, 128), random(512, 512), reference=lambda a, b: a.T @ b)


@pytest.mark.trn(on="trn1, trn2")
def test_transpose(trn):
    trn(transpose, random(128, 128), reference=np.transpose)
