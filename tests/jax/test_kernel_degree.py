"""Kernels in programs of `jax.jit`: both have one number of cores since NKI 0.7."""

import jax
import nki
import nki.language as nl
import pytest

from trnsim.compiler.ncc.refusals import CompilerRefusal

pytestmark = pytest.mark.usefixtures("neuron")


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nl.store(out, nl.load(x))
    return out


def test_a_program_of_jax_refuses_at_the_call():
    x = jax.numpy.ones((4, 4))
    assert copied(x).sum() == 16  # launched by itself
    with pytest.raises(CompilerRefusal, match="the kernel copied has LNC=1") as caught:
        jax.jit(lambda x: copied(x) + 1)(x)
    assert caught.value.line.file == __file__
    assert jax.jit(lambda x: copied[2](x) + 1)(x).sum() == 32
