"""A matmul whose left matrix is spread over ranks: each computes while the next rows come round.

Rank r has 128 rows of A and some columns of B, and ends with these columns of A @ B. The rows go
round a ring: while the Tensor Engine works on those at hand, an implicit permute brings the next.
Run it: python examples/ring_matmul.py
"""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim

ROWS = 128


@nki.jit
def ring_matmul(rows_t, columns, ranks):
    """[ranks, 128, N] = A @ columns, with the own rows of A transposed, [K, 128], K up to 128."""
    everyone = ncc.ReplicaGroup([list(range(ranks))])
    depth, width = columns.shape
    out = nl.ndarray((ranks, ROWS, width), dtype=nl.float32, buffer=nl.shared_hbm)
    right = nl.ndarray((depth, width), dtype=columns.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=right, src=columns)
    here = nl.ndarray((depth, ROWS), dtype=rows_t.dtype, buffer=nl.shared_hbm, name="rows0")
    nisa.dma_copy(dst=here, src=rows_t)
    for step in range(ranks):
        whose = ncc.collective_permute_implicit_current_processing_rank_id(step, everyone)
        following = None
        if step + 1 < ranks:
            following = nl.ndarray(
                (depth, ROWS), dtype=rows_t.dtype, buffer=nl.shared_hbm, name=f"rows{step + 1}"
            )
            ncc.collective_permute_implicit([[here]], [[following]], everyone)
        left = nl.ndarray((depth, ROWS), dtype=rows_t.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=here)
        product = nl.ndarray((ROWS, width), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=left, moving=right)
        result = nl.ndarray((ROWS, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=product)
        nisa.dma_copy(
            dst=out.ap(pattern=[[width, ROWS], [1, width]], scalar_offset=whose, indirect_dim=0),
            src=result,
        )
        here = following
    return out


def run(ranks=8, depth=128, width=512, instance="trn2.48xlarge"):
    """The world, and what numpy says: A @ B by the columns of each rank."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((ranks * ROWS, depth)).astype(np.float32)
    b = rng.standard_normal((depth, ranks * width)).astype(np.float32)

    def inputs(rank):
        rows = a[rank * ROWS : (rank + 1) * ROWS]
        columns = b[:, rank * width : (rank + 1) * width]
        return np.ascontiguousarray(rows.T), np.ascontiguousarray(columns), ranks

    world = trnsim.run(ring_matmul, ranks=ranks, inputs=inputs, instance=instance)
    return world, np.split(a @ b, ranks, axis=1)


if __name__ == "__main__":
    world, wanted = run()
    for out, columns in zip(world.outputs, wanted, strict=True):
        np.testing.assert_allclose(out.reshape(columns.shape), columns, rtol=1e-4, atol=1e-4)
    print(f"{world.title}: {world.total_time_s * 1e6:.1f} us, {world.report('ring_matmul.html')}")
