"""Structured sparsity on the Tensor Engine: the sparse matmul of the Trainium2 guide.

`nki.isa` has no such instruction and the section of the guide is commented out; our choices where
it is silent are listed in the class.

Source: trainium2_arch.rst, M:N Structured Sparsity.
"""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    SPARSITY_PATTERNS,
    TFLOAT32,
    UINT16,
    Array,
    expand,
)
from trnsim.isa.language.declaration import State, StateUse, reads, writes
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.support import check_support
from trnsim.isa.tensor.tensor_engine import (
    array_cost,
    check_dtypes,
    check_limits,
    dst_dtypes,
    multiply_into,
    streaming_cycles,
)
from trnsim.memory import Tile

_SOURCE = "nki.isa.sparse_matmul (trainium2_arch.rst, M:N Structured Sparsity)"
_INPUTS = (BFLOAT16, FLOAT16, TFLOAT32, FLOAT8_E4M3, FLOAT8_E5M2, FLOAT8_E4M3FN)
_TAGS = 4  # per element of uint16
_TAG_BITS = 4
_TAG_MASK = 0xF
_MOVING_AXES = 3


class NcMatmulSparse(Instruction, engines=(Engine.tensor,), source=_SOURCE, is_in_nki_isa=False):
    """``dst (+)= expand(stationary, tag).T @ moving``, with a stationary tile of M:N sparsity.

    Stationary [K, M] holds `kept` of each block of R * `kept` values along the contraction, where R
    is `compress_ratio`. Moving is [K, R, N]; its element (k, r) is number ``k * R + r`` of the
    contraction. Tag [K, M / 4] of uint16 holds the index of each value within its block, 4 bits
    each, four per element, the first in the lowest bits.

    Note:
        AWS documents shapes and sizes. The order of a block's elements and of the tags is our
        choice: AWS's sample packs tags by a function (`squeeze_tags`) that it does not show.
    """

    state = (StateUse(State.accumulation, "update"),)

    dst: Tile = writes("M N", PSUM)
    moving: Tile = reads("", SBUF, dtypes=_INPUTS)
    stationary: Tile = reads("K M", SBUF, dtypes=_INPUTS)
    tag: Tile = reads("K T", SBUF, dtypes=(UINT16,))
    compress_ratio: int
    kept: int = 4
    accumulate: bool | None = None

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v3 on.

        - `kept`:`kept * compress_ratio` is a pattern of the array, and K a multiple of kept.
        - moving is [K, compress_ratio, N]; tag has a quarter of the free size of stationary.
        - K and M up to 128, N up to 512, within one PSUM bank before v4.
        - dst is float32, from v4 on also bfloat16; both inputs are tfloat32, or neither.
        """
        check_support(
            self,
            core,
            lambda core: core.features.sparse_matmul,
            "use nisa.nc_matmul, or run with target='{target}'",
        )
        check_dtypes(self, core, self.stationary.dtype, self.moving.dtype)
        self._check_pattern(n)
        if _TAGS * n["T"] != n.M:
            self.refuse(
                f"tag is {self.tag} for stationary {self.stationary}; legal: a quarter of its free "
                "size",
                "pack four tags of 4 bits in each uint16",
            )
        self._check_dtypes(core)
        check_limits(self, core, n, self.dst)

    def execute(self, machine: Machine) -> None:
        """Product in float32; each element of dst is overwritten or added to."""
        rows = self.stationary.partitions
        stationary = self.stationary.load().reshape(rows, -1)
        dense = expand(stationary.T, self._tags().T, self._pattern)
        moving = self.moving.load().reshape(rows * self.compress_ratio, -1)
        multiply_into(self, machine.core, self.dst, dense, moving, self.accumulate)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(N, min(64, M)), as a dense matmul of [K, M]; the zeros take no time.

        A stationary tile that the array does not hold is loaded first in M / 2 cycles.
        """
        cycles = streaming_cycles(core, n.N, n.M)
        flops = 2.0 * n.K * n.M * n.N
        return array_cost(core, cycles, flops, loaded_columns=n.M, held_read=1)

    @property
    def _pattern(self) -> str:
        """The sparsity pattern, such as "4:8": 4 of each 8 values are stored."""
        return f"{self.kept}:{self.kept * self.compress_ratio}"

    def _tags(self) -> Array:
        """The index of each stationary value within its block, [K, M]."""
        words = self.tag.bits().reshape(self.tag.partitions, -1, 1)
        shifts = np.arange(0, _TAGS * _TAG_BITS, _TAG_BITS, dtype=np.uint16)
        return ((words >> shifts) & np.uint16(_TAG_MASK)).reshape(len(words), -1)

    def _check_pattern(self, n: Dims) -> None:
        """Refuse a sparsity pattern that the array lacks, and a moving tile of another shape."""
        if self._pattern not in SPARSITY_PATTERNS:
            self.refuse(
                f"compress_ratio={self.compress_ratio}, kept={self.kept}, which is "
                f"{self._pattern}; legal: {', '.join(SPARSITY_PATTERNS)}",
                "pass compress_ratio 2, 3 or 4",
                "neuron-core-v3.rst, Tensor Engine; trainium2_arch.rst, M:N Structured Sparsity",
            )
        shape = self.moving.shape
        if len(shape) < _MOVING_AXES or shape[:2] != (n.K, self.compress_ratio):
            self.refuse(
                f"`moving` is {self.moving}; legal: [{n.K}, {self.compress_ratio}, N]",
                "put the compressed axis second",
            )
        if self.moving.pattern.elements != n.K * self.compress_ratio * n.N:
            self.refuse(
                f"`moving` is {self.moving} for dst {self.dst}; legal: N = {n.N}",
                "give the operands matching shapes",
            )
        if n.K % self.kept:
            self.refuse(
                f"K={n.K} with {self._pattern}; legal: multiples of {self.kept}",
                "pad the contraction with zeros",
            )

    def _check_dtypes(self, core: NeuronCore) -> None:
        stationary, moving = self.stationary.dtype, self.moving.dtype
        if (stationary == TFLOAT32) != (moving == TFLOAT32):
            self.refuse(
                f"stationary {stationary} with moving {moving}; legal: both tfloat32, or neither",
                "cast one of them with nisa.tensor_copy into a tile of the other's dtype",
                "nki.isa.nc_matmul, Data types",
            )
        legal = dst_dtypes(core)
        if self.dst.dtype not in legal:
            self.refuse(
                f"`dst` is {self.dst}; legal on {core.name}: {' or '.join(map(str, legal))}",
                "accumulate in a float32 PSUM tile and cast when copying to SBUF",
                "nki.isa.nc_matmul, Data types",
            )


nc_matmul_sparse = NcMatmulSparse
"""The instruction under the guide's name."""
