"""Sums in PSUM over the turns of device loops."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import Unspecified


@nki.jit
def products(a, parts, kind):
    """``a.T @ parts[i]`` in a device loop: added up, started in the body, or one by one."""
    K, N = parts.shape[1:]
    left = nl.load(a)
    sums = nl.ndarray((a.shape[1], N), nl.float32, buffer=nl.psum)
    added = nl.zeros(sums.shape, nl.float32)
    if kind == "before":
        nisa.nc_matmul(sums, left, nl.load(parts[0]), accumulate=False)

    def body(i):
        moving = nl.ndarray((K, N), parts.dtype, buffer=nl.sbuf)
        nisa.dma_copy(moving, parts.ap([[N, K], [1, N]], scalar_offset=i, indirect_dim=0))
        dst, given = sums, {}
        if kind == "inside":
            dst = nl.ndarray(sums.shape, nl.float32, buffer=nl.psum)
        if kind in ("before", "restart"):
            given = {"accumulate": kind == "before"}
        nisa.nc_matmul(dst, left, moving, **given)
        if kind == "halves":
            nisa.nc_matmul(dst, left, moving)
        if kind in ("inside", "restart"):
            nisa.tensor_tensor(added, added, dst, op=nl.add)

    nl.fori_loop(1 if kind == "before" else 0, parts.shape[0], body)
    if kind in ("inside", "restart"):
        result = added
    else:
        result = nl.ndarray(sums.shape, nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(result, sums)
    out = nl.ndarray(sums.shape, nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, result)
    return out


@pytest.mark.parametrize("kind", ["inside", "restart", "before"])
def test_a_sum_over_turns_with_one_flag_is_computed(random, kind):
    a, parts = random((32, 16)), random((3, 32, 8))
    expected = a.astype(np.float64).T @ parts.astype(np.float64).sum(0)
    found = trnsim.run(products, a, parts, kind).outputs
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["outside", "halves"])
def test_a_matmul_that_overwrites_in_one_turn_and_adds_in_another_is_refused(random, kind):
    a, parts = random((32, 16)), random((3, 32, 8))
    with pytest.raises(Unspecified, match="one turn overwrites and another adds") as caught:
        trnsim.run(products, a, parts, kind)
    assert caught.value.line.file == __file__
    assert "accumulate=True in the body" in caught.value.fix
    trnsim.run(products, a, parts[:1], kind)
    trnsim.run(products, a, parts, kind, numerics=False)


def test_loops_of_python_add_up_as_before(random):
    @nki.jit
    def kernel(a, parts):
        sums = nl.ndarray((a.shape[1], parts.shape[2]), nl.float32, buffer=nl.psum)
        for i in nl.affine_range(parts.shape[0]):
            nisa.nc_matmul(sums, nl.load(a), nl.load(parts[i]))
        out = nl.ndarray(sums.shape, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.copy(sums))
        return out

    a, parts = random((32, 16)), random((3, 32, 8))
    found = trnsim.run(kernel, a, parts).outputs
    np.testing.assert_allclose(found, a.T @ parts.sum(0), rtol=1e-4, atol=1e-4)


def test_a_body_in_the_body_of_another_loop_has_one_flag_too(random):
    @nki.jit
    def kernel(a, b, is_outside):
        left, right = nl.load(a), nl.load(b)
        kept = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.psum)
        last = nl.zeros(kept.shape, nl.float32)

        def outer(_):
            sums = kept if is_outside else nl.ndarray(kept.shape, nl.float32, buffer=nl.psum)
            nisa.nc_matmul(sums, left, right, accumulate=False)

            def inner(_):
                nisa.nc_matmul(sums, left, right)

            nl.fori_loop(0, 2, inner)
            nisa.nc_matmul(sums, left, right)
            nisa.tensor_copy(last, sums)

        nl.fori_loop(0, 2, outer)
        out = nl.ndarray(kept.shape, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, last)
        return out

    a, b = random((32, 16)), random((32, 8))
    for is_outside in (True, False):
        found = trnsim.run(kernel, a, b, is_outside).outputs
        np.testing.assert_allclose(found, 4 * (a.T @ b), rtol=1e-4, atol=1e-4)
