"""`nl.tile_size`: the limits of the core that the kernel runs on.

Source: nki.language.tile_size.
"""

from __future__ import annotations

from trnsim.arch import NeuronCore, target
from trnsim.dtypes import FLOAT32
from trnsim.nki.environment import default_target, transposes_on_tensor_engine
from trnsim.program import current_core, has_current_core

# AWS gives no number; engines address bytes.
_SBUF_ALIGNMENT_BYTES = 1


class TileSize:
    """The limits of the running core, or outside a kernel of the default target's core."""

    @property
    def _core(self) -> NeuronCore:
        return current_core().core if has_current_core() else target(default_target()).core

    @property
    def pmax(self) -> int:
        """Partitions of a tile."""
        return int(self._core.partitions)

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks, less those of the compiler's transposes if it uses the Tensor Engine."""
        core = self._core
        reserved = core.features.pe_transpose_psum_banks if transposes_on_tensor_engine() else 0
        return int(core.psum_banks) - reserved

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes of a PSUM bank in a partition."""
        return int(self._core.psum_bank_bytes)

    @property
    def psum_bank_fmax(self) -> int:
        """float32 elements of a PSUM bank in a partition."""
        return self.psum_bank_fmax_bytes // FLOAT32.itemsize

    psum_fmax = psum_bank_fmax

    @property
    def gemm_stationary_fmax(self) -> int:
        """Largest free size of a matmul's stationary tile."""
        return int(self._core.pe_columns)

    @property
    def gemm_moving_fmax(self) -> int:
        """Largest free size of a matmul's moving tile that fits a PSUM bank."""
        return self.psum_bank_fmax

    @property
    def bn_stats_fmax(self) -> int:
        """Largest free size of `nisa.bn_stats`."""
        return int(self._core.bn_stats_free_max)

    @property
    def psum_min_align(self) -> int:
        """Alignment of a PSUM address in its partition, in bytes: a bank (migration/index.rst)."""
        return self.psum_bank_fmax_bytes

    @property
    def sbuf_min_align(self) -> int:
        """Alignment of an SBUF address in its partition, in bytes."""
        return _SBUF_ALIGNMENT_BYTES

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Bytes of an SBUF partition."""
        return int(self._core.sbuf_partition_bytes)

    @property
    def sbuf_fmax(self) -> int:
        """float32 elements of an SBUF partition."""
        return self.sbuf_fmax_bytes // FLOAT32.itemsize

    @property
    def sbuf_size_bytes(self) -> int:
        """Bytes of the entire SBUF."""
        return self.sbuf_fmax_bytes * self.pmax

    total_available_sbuf_size = sbuf_fmax_bytes  # AWS's name; bytes of one partition


tile_size = TileSize()
