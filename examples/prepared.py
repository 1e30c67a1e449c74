"""An exchange that is prepared while its tokens are computed: all_to_all_v in two steps.

The counts are known before the data, so all_to_all_v_prepare reads them at once, and
all_to_all_v_trigger sends the tokens when they are there. In one step both wait for the tokens.

Run it: python examples/prepared.py
"""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim

TOKENS, HIDDEN = 128, 512


@nki.jit
def dispatched(x, metadata, is_prepared):
    """The sum over all ranks of the rows of gelu(x) that each has for this rank.

    Args:
        x: this rank's tokens, [tokens, hidden].
        metadata: how many elements each rank gets and where they begin, [3, ranks].
        is_prepared: whether the exchange has two steps.
    """
    (tokens, hidden), ranks = x.shape, metadata.shape[1]
    everyone = ncc.ReplicaGroup.from_partition_op(ranks, ncc.rg_partition_op.bitwise_and, 0)
    sent = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="sent")
    received = nl.ndarray((ranks * tokens, hidden), x.dtype, buffer=nl.shared_hbm, name="received")
    counts = nl.load(metadata.reshape((1, 3, ranks)))
    exchange = [flat(sent)], [flat(received)], everyone, counts

    prepared = ncc.all_to_all_v_prepare(*exchange) if is_prepared else None
    nisa.dma_copy(dst=sent, src=nl.gelu(nl.load(x)))
    if is_prepared:
        ncc.all_to_all_v_trigger(prepared)
    else:
        ncc.all_to_all_v(*exchange)

    rows = tokens // ranks  # the chunk of rank r begins at row r * tokens
    total = nl.zeros((rows, hidden), x.dtype)
    for first in range(0, ranks * tokens, tokens):
        total = nl.add(total, nl.load(received[first : first + rows]))
    out = nl.ndarray((rows, hidden), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


def flat(tensor):
    """The elements in one row, as all_to_all_v counts them."""
    return tensor.reshape((tensor.shape[0] * tensor.shape[1],))


def run(is_prepared, ranks=8):
    """The world, in which each rank has as many tokens for every rank."""
    part = TOKENS // ranks * HIDDEN
    metadata = np.array([[part] * ranks, range(0, ranks * part, part), [0] * ranks], np.uint32)

    def inputs(rank):
        x = np.random.default_rng(rank).standard_normal((TOKENS, HIDDEN), dtype=np.float32)
        return x, metadata, is_prepared

    return trnsim.run(dispatched, ranks=ranks, inputs=inputs, instance="trn2.48xlarge")


if __name__ == "__main__":
    for is_prepared in (False, True):
        world = run(is_prepared)
        steps = "two steps" if is_prepared else "one step"
        print(f"all_to_all_v in {steps}: {world.total_time_s * 1e6:.1f} us")
