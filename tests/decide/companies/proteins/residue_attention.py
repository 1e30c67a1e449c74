"""Attention between residues that are near in space."""

import triton
import triton.language as tl


@triton.jit
def attend(q, k, near, out, n: tl.constexpr):
    i = tl.program_id(0)
    places = tl.load(near + i * n + tl.arange(0, n))
    scores = tl.load(q + i) * tl.load(k + places)
    tl.store(out + i, tl.sum(tl.softmax(scores)))
