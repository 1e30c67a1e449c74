"""A layer of experts, one on each rank: tokens travel to the experts chosen for them, and back.

How many go where is data: all_to_all_v takes the counts from a tensor, and tells each rank what it
got, which is what it has to send back. Meanwhile each rank does what needs no other: an expert that
all ranks have, the shared one, on its own tokens. With LNC=2 the two cores of a rank share its
rows, and core_barrier stands before each exchange of what both of them wrote.

Run it: python examples/experts.py
"""

# nki: 0.6
# Since 0.7 all_to_all_v inside an instance wants room for every source of the group.

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim

TOKENS, CHOICES, HIDDEN, INNER = 64, 2, 512, 1024
ROWS, COLUMNS = 128, 512  # of the weights that one nc_matmul reads


@nki.jit
def experts(x, order, places, shares, metadata, w_in, w_out, shared_in, shared_out, ranks):
    """The shared expert and the chosen ones by their shares, added up: [tokens, hidden].

    Args:
        x: this rank's tokens, [tokens, hidden].
        order: the token in each row that is sent, those for one expert together, [rows, 1].
        places: the row in which each choice comes back, [choices, tokens, 1].
        shares: the weight of each choice, [choices, tokens, 1].
        metadata: how many elements each expert gets and where they begin, [3, ranks]; the third
            row is for what this rank's expert gets.
        w_in, w_out: the expert of this rank, [hidden, inner] and [inner, hidden].
        shared_in, shared_out: the one that all ranks have; None for the token itself in its place.
        ranks: how many there are, and so experts.
    """
    everyone = ncc.ReplicaGroup([list(range(ranks))])
    tokens, hidden = x.shape
    room = (ranks * tokens, hidden)  # a rank has no more tokens than that for one expert
    received, returned = zeros(room, "received"), zeros(room, "returned")

    sent = nl.ndarray((order.shape[0], hidden), x.dtype, buffer=nl.shared_hbm, name="sent")
    for rows in own_rows(order.shape[0]):
        nisa.dma_copy(dst=sent[rows], src=nl.load(x.vector_select(0, nl.load(order[rows]))))
    counts = nl.load(metadata.reshape((1, 3, ranks)))
    of_both_cores(sent)
    ncc.all_to_all_v([flat(sent)], [flat(received)], everyone, counts)

    sums = {}
    for rows in own_rows(tokens):  # needs nothing from others: it runs while the tokens travel
        mine = nl.load(x[rows])
        sums[rows.start] = mine if shared_in is None else expert(mine, shared_in, shared_out)

    results = nl.ndarray(room, x.dtype, buffer=nl.shared_hbm, name="results")
    for rows in own_rows(room[0]):
        nisa.dma_copy(dst=results[rows], src=expert(nl.load(received[rows]), w_in, w_out))
    back = nl.ndarray(counts.shape, dtype=nl.uint32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=back[:, 0], src=counts[:, 2])  # what came from a rank goes back to it
    nisa.iota(dst=back[:, 1], pattern=[[tokens * hidden, ranks]])
    nisa.tensor_copy(dst=back[:, 2], src=counts[:, 0])
    of_both_cores(results)
    ncc.all_to_all_v([flat(results)], [flat(returned)], everyone, back, recv_counts_known=True)

    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for rows in own_rows(tokens):
        total = sums[rows.start]
        for choice in range(places.shape[0]):
            found = nl.load(returned.vector_select(0, nl.load(places[choice, rows])))
            nisa.scalar_tensor_tensor(
                dst=total,
                data=found,
                op0=nl.multiply,
                operand0=nl.load(shares[choice, rows]),
                op1=nl.add,
                operand1=total,
            )
        nisa.dma_copy(dst=out[rows], src=total)
    return out


def own_rows(count):
    """This core's part of `count` rows, by tiles: all with LNC=1, a half with LNC=2."""
    size = count // nl.num_programs()
    first, last = nl.program_id(0) * size, (nl.program_id(0) + 1) * size
    return [slice(at, min(at + ROWS, last)) for at in range(first, last, ROWS)]


def zeros(shape, name):
    """A tensor of zeros in HBM, for rows that nobody sends."""
    cleared = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm, name=name)
    for rows in own_rows(shape[0]):
        nisa.dma_copy(
            dst=cleared[rows], src=nl.zeros((ROWS, shape[1]), nl.float32)[: rows.stop - rows.start]
        )
    of_both_cores(cleared)
    return cleared


def of_both_cores(tensor):
    """Wait until both cores have written their rows."""
    if nl.num_programs() == 2:
        nisa.core_barrier(tensor, (0, 1))


def flat(tensor):
    """The elements in one row, as all_to_all_v counts them."""
    return tensor.reshape((tensor.shape[0] * tensor.shape[1],))


def expert(rows, w_in, w_out):
    """silu(rows @ w_in) @ w_out."""
    return product(nl.silu(product(rows, w_in)), w_out)


def product(left, right):
    """left @ right, where right is in HBM."""
    tiles = range(0, left.shape[1], ROWS)
    left_t = [nl.copy(nl.transpose(left[:, at : at + ROWS])) for at in tiles]
    result = nl.ndarray((left.shape[0], right.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    for first in range(0, right.shape[1], COLUMNS):
        columns = slice(first, first + COLUMNS)
        total = nl.ndarray((left.shape[0], COLUMNS), dtype=nl.float32, buffer=nl.psum)
        for at, tile in zip(tiles, left_t, strict=True):
            nisa.nc_matmul(
                dst=total, stationary=tile, moving=nl.load(right[at : at + ROWS, columns])
            )
        nisa.tensor_copy(dst=result[:, columns], src=total)
    return result


def routed(chosen, ranks):
    """`order`, `places` and `metadata` of a rank, by token the experts chosen for it."""
    by_expert = np.argsort(chosen, axis=None, kind="stable")
    wanted = chosen.reshape(-1)[by_expert]
    counts = np.bincount(wanted, minlength=ranks)
    begins = np.cumsum(counts) - counts
    order = np.zeros((TOKENS * CHOICES, 1), np.int32)
    order[: len(wanted), 0] = by_expert // CHOICES
    places = np.zeros(TOKENS * CHOICES, np.int32)
    places[by_expert] = wanted * TOKENS + np.arange(len(wanted)) - begins[wanted]
    metadata = np.array([counts, begins, 0 * counts], np.uint32) * HIDDEN
    return order, places.reshape(TOKENS, CHOICES).T[..., None], metadata


def run(ranks=8, lnc=1, has_shared=True, instance="trn2.48xlarge"):
    """The world, and what numpy says of each rank's tokens.

    Rank 2 has no tokens, and rank 3 has half of them; nobody chooses expert 1.
    """
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32) / np.float32(shape[-2]) ** 0.5

    w_in, w_out = normal(ranks + 1, HIDDEN, INNER), normal(ranks + 1, INNER, HIDDEN)
    x, scores = normal(ranks, TOKENS, HIDDEN), normal(ranks, TOKENS, ranks)
    scores[..., 1] = -np.inf
    chosen = np.argsort(-scores, axis=-1)[..., :CHOICES]
    shares = np.exp(np.take_along_axis(scores, chosen, -1))
    shares /= shares.sum(-1, keepdims=True)
    held = [{2: 0, 3: TOKENS // 2}.get(rank, TOKENS) for rank in range(ranks)]
    for rank in range(ranks):
        shares[rank, held[rank] :] = 0

    def inputs(rank):
        order, places, metadata = routed(chosen[rank, : held[rank]], ranks)
        own = x[rank], order, places, shares[rank].T[..., None], metadata, w_in[rank], w_out[rank]
        return *own, *((w_in[ranks], w_out[ranks]) if has_shared else (None, None)), ranks

    def expert_of(number, rows):
        inner = rows @ w_in[number]
        return inner / (1 + np.exp(-inner)) @ w_out[number]

    tokens = x.reshape(-1, HIDDEN).astype(np.float64)
    wanted = expert_of(ranks, tokens) if has_shared else tokens.copy()
    for number in range(ranks):
        rows, choice = np.nonzero(chosen.reshape(-1, CHOICES) == number)
        given = shares.reshape(-1, CHOICES)[rows, choice, None]
        wanted[rows] += given * expert_of(number, tokens[rows])
    world = trnsim.run(experts[lnc], ranks=ranks, inputs=inputs, instance=instance)
    return world, np.split(wanted, ranks)


if __name__ == "__main__":
    for has_shared in (False, True):
        world, wanted = run(has_shared=has_shared)
        for out, rows in zip(world.outputs, wanted, strict=True):
            np.testing.assert_allclose(out, rows, rtol=1e-4, atol=1e-5)
        kind = "with" if has_shared else "without"
        print(f"{world.title}, {kind} a shared expert: {world.total_time_s * 1e6:.1f} us")
    print(world.report("experts.html"))
