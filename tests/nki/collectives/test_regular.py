"""Collectives of parts of one size, on two ranks."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction

PAIR = ncc.ReplicaGroup([[0, 1]])
CALLS = {
    "all_reduce": (lambda s, d: ncc.all_reduce([s], [d], PAIR, nl.add), 4, [0, 10, 20, 30]),
    "all_gather": (lambda s, d: ncc.all_gather([s], [d], PAIR, 0), 8, [0, 1, 2, 3, 0, 9, 18, 27]),
    "reduce_scatter": (lambda s, d: ncc.reduce_scatter([s], [d], PAIR, 0, nl.add), 2, [0, 10]),
    "all_to_all": (lambda s, d: ncc.all_to_all([s], [d], PAIR, 0), 4, [0, 1, 0, 9]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_collective_has_its_values_on_the_first_rank(name):
    call, length, expected = CALLS[name]

    @nki.jit
    def kernel(x):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray((length,), dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        out = nl.ndarray((length,), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=src, src=x)
        call(src, dst)
        nisa.dma_copy(dst=out, src=dst)
        return out

    def inputs(rank):
        return (np.arange(4, dtype=np.float32) * (9 if rank else 1),)

    world = trnsim.run(kernel, ranks=2, inputs=inputs)
    np.testing.assert_array_equal(world.outputs[0], expected)


@pytest.mark.parametrize("op", ["add", np.add, max])
@pytest.mark.parametrize(
    ("call", "reduce"),
    [
        ("all_reduce", lambda t, op: ncc.all_reduce([t], [t], PAIR, op)),
        ("reduce_scatter", lambda t, op: ncc.reduce_scatter([t], [t], PAIR, 0, op)),
        (
            "collective_permute_implicit_reduce",
            lambda t, op: ncc.collective_permute_implicit_reduce([[t]], [[t]], [[t]], PAIR, op),
        ),
    ],
)
def test_the_operator_of_a_collective_is_nkis(call, reduce, op):
    @nki.jit
    def kernel(x):
        reduce(nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="t"), op)

    with pytest.raises(IllegalInstruction, match=f"{call}: `op` is .*; legal: operators") as caught:
        trnsim.run(kernel, np.zeros(4, np.float32), ranks=2)
    assert caught.value.fix == ("pass nl.maximum" if op is max else "pass nl.add")


@pytest.mark.parametrize("name", [name for name in ncc.__all__ if name.islower()])
def test_a_call_that_does_not_fit_has_the_signature_in_its_error(name):
    if name in {"rank_id", "rg_partition_op", "reduce_scatter_v"}:  # no operands, an enumeration
        return
    with pytest.raises(IllegalInstruction, match=f"ncc.{name}: missing a required arg") as caught:
        getattr(ncc, name)()
    assert caught.value.fix.startswith(f"call it as ncc.{name}(")
    assert caught.value.source == f"nki.collectives.{name}"
