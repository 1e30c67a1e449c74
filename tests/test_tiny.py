"""What a newcomer runs first: one kernel, its values, one refusal, a time. Under ten seconds."""

import inspect

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction


@nki.jit
def matmul(a_transposed, b):
    """a @ b for a.T of [K, M] and b of [K, N], with K and M at most 128."""
    M, N = a_transposed.shape[1], b.shape[1]
    product = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=nl.load(a_transposed), moving=nl.load(b))
    result = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=product)
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out


@pytest.fixture(scope="module")
def operands():
    rng = np.random.default_rng(0)
    return rng.standard_normal((128, 64), np.float32), rng.standard_normal((128, 512), np.float32)


def test_a_kernel_gives_numpys_values(operands):
    a_transposed, b = operands
    run = trnsim.run(matmul, a_transposed, b)
    np.testing.assert_allclose(run.outputs, a_transposed.T @ b, rtol=1e-4, atol=1e-4)


def test_a_mistake_is_refused_at_the_line_that_made_it(operands):
    a_transposed, b = operands
    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(matmul, a_transposed, np.hstack([b, b]))
    lines, first = inspect.getsourcelines(matmul.__wrapped__)
    offset = next(i for i, line in enumerate(lines) if "nisa.nc_matmul" in line)
    message = str(caught.value)
    assert "N <= 512" in message
    assert "tile the matmul" in message
    assert message.endswith(f"at {__file__}:{first + offset}")


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_every_chip_has_its_time(operands, target):
    run = trnsim.run(matmul, *operands, target=target, numerics=False)
    interval = run.timeline.interval()
    assert 0 < interval.p10 < run.total_time_s < interval.p90 < 1e-3


def test_more_work_takes_longer(operands):
    a_transposed, b = operands
    times = [
        trnsim.run(matmul, a_transposed, b[:, :columns], numerics=False).timeline.device_time_s
        for columns in (64, 128, 256, 512)
    ]
    assert times == sorted(times)
    assert times[0] < times[-1]
