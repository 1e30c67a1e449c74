"""The example of a matmul by grids: any shape, and the same instructions as slices give."""

import numpy as np
import pytest

import trnsim


@pytest.fixture(scope="module")
def matmul(example):
    return example("matmul_grids").matmul


@pytest.mark.parametrize(
    ("k", "m", "n"), [(128, 128, 512), (1, 1, 1), (129, 127, 513), (300, 200, 1100), (40, 260, 8)]
)
def test_edges_need_no_code_of_their_own(matmul, k, m, n):
    rng = np.random.default_rng(0)
    a_t, b = (rng.standard_normal((k, columns)).astype(np.float32) for columns in (m, n))
    run = trnsim.run(matmul, a_t, b)
    np.testing.assert_allclose(run.outputs, a_t.T @ b, rtol=1e-4, atol=1e-4)
    assert not run.warnings


def test_a_row_of_tiles_is_one_transfer(matmul):
    run = trnsim.run(matmul, np.ones((300, 200), np.float32), np.ones((300, 1100), np.float32))
    opcodes = [span.opcode for span in run.timeline.spans()]
    tiles = 2 * 3
    assert opcodes.count("dma_copy") == 3 + 3 + tiles
    assert opcodes.count("nc_matmul") == 3 * tiles


def test_the_example_says_that_it_equals_numpy(example, capsys):
    example("matmul_grids").main()
    assert capsys.readouterr().out.endswith("within 1e-5: True\n")
