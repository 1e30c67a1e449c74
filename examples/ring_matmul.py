"""A matmul whose left matrix is spread over ranks: each computes while the next rows come round.

Rank r has 128 rows of A and some columns of B, and ends with these columns of A @ B. The rows go
round a ring: while the Tensor Engine works on those at hand, an implicit permute brings the next.
With LNC=2 each core has half of the columns, and writes half of what its rank sends round.
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
    own_depth, own = share(depth), share(width)
    own_width = own.stop - own.start
    out = nl.ndarray((ranks, ROWS, width), dtype=nl.float32, buffer=nl.shared_hbm)
    right = nl.load(columns[:, own])
    here = nl.ndarray((depth, ROWS), dtype=rows_t.dtype, buffer=nl.shared_hbm, name="rows0")
    nisa.dma_copy(dst=here[own_depth], src=rows_t[own_depth])
    if nl.num_programs() == 2:
        nisa.core_barrier(here, (0, 1))
    for step in range(ranks):
        whose = ncc.collective_permute_implicit_current_processing_rank_id(step, everyone)
        following = None
        if step + 1 < ranks:
            following = nl.ndarray(
                (depth, ROWS), dtype=rows_t.dtype, buffer=nl.shared_hbm, name=f"rows{step + 1}"
            )
            ncc.collective_permute_implicit([[here]], [[following]], everyone)
        product = nl.ndarray((ROWS, own_width), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=nl.load(here), moving=right)
        place = out.ap(
            pattern=[[width, ROWS], [1, own_width]],
            offset=own.start,
            scalar_offset=whose,
            indirect_dim=0,
        )
        nisa.dma_copy(dst=place, src=nl.copy(product))
        here = following
    return out


def share(length):
    """This core's part of `length`: all of it with LNC=1, a half with LNC=2."""
    size = length // nl.num_programs()
    return slice(nl.program_id(0) * size, (nl.program_id(0) + 1) * size)


def run(ranks=8, lnc=1, depth=128, width=512, instance="trn2.48xlarge"):
    """The world, and what numpy says: A @ B by the columns of each rank."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((ranks * ROWS, depth)).astype(np.float32)
    b = rng.standard_normal((depth, ranks * width)).astype(np.float32)

    def inputs(rank):
        rows = a[rank * ROWS : (rank + 1) * ROWS]
        columns = b[:, rank * width : (rank + 1) * width]
        return np.ascontiguousarray(rows.T), np.ascontiguousarray(columns), ranks

    world = trnsim.run(ring_matmul[lnc], ranks=ranks, inputs=inputs, instance=instance)
    return world, np.split(a @ b, ranks, axis=1)


if __name__ == "__main__":
    world, wanted = run()
    for out, columns in zip(world.outputs, wanted, strict=True):
        np.testing.assert_allclose(out.reshape(columns.shape), columns, rtol=1e-4, atol=1e-4)
    print(f"{world.title}: {world.total_time_s * 1e6:.1f} us, {world.report('ring_matmul.html')}")
