"""`nl.tile_size`: the limits of the core that the kernel runs on.

Source: nki.language.tile_size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from trnsim.absence import AbsentAttribute, refuse_attribute
from trnsim.arch import NeuronCore, target
from trnsim.arch.environment import default_target, transposes_on_tensor_engine
from trnsim.behaviours.tensors import LIMITS
from trnsim.dtypes import FLOAT32
from trnsim.nki.dialect import is_refused, running_version
from trnsim.program import current_core, has_current_core

# Assumed, as engines address bytes; AWS gives no number.
_SBUF_ALIGNMENT_BYTES = 1


def _limit(getter: Callable[[TileSize], int]) -> property:
    """A limit that only some versions of NKI have; in others it is absent, also for `hasattr`."""
    row = LIMITS[getter.__name__]

    def limit(self: TileSize) -> int:
        if is_refused(row):
            error = row.refusal(running_version(), row.form)
            raise AbsentAttribute(error.reason, fix=row.instead, source=row.source)
        return getter(self)

    return property(limit, doc=getter.__doc__)


class TileSize:
    """The limits of the running core, or outside a kernel of the default target's core."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse a limit that no version has; raise the error of one that another has again."""
            if hasattr(type(self), name):
                object.__getattribute__(self, name)
            legal = [public for public in dir(type(self)) if not public.startswith("_")]
            refuse_attribute(lambda: "nl.tile_size", name, legal)

    @property
    def _core(self) -> NeuronCore:
        return current_core().core if has_current_core() else target(default_target()).core

    @property
    def pmax(self) -> int:
        """Partitions of a tile."""
        return int(self._core.partitions)

    @_limit
    def psum_num_banks(self) -> int:
        """PSUM banks without the ones that the compiler reserves for Tensor Engine transposes."""
        core = self._core
        reserved_banks = (
            core.features.pe_transpose_psum_banks if transposes_on_tensor_engine() else 0
        )
        return int(core.psum_banks) - reserved_banks

    @_limit
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes of a PSUM bank in a partition."""
        return int(self._core.psum_bank_bytes)

    @_limit
    def psum_bank_fmax(self) -> int:
        """float32 elements of a PSUM bank in a partition."""
        return self.psum_fmax

    @property
    def psum_fmax(self) -> int:
        """float32 elements of a PSUM bank in a partition."""
        return self.psum_min_align // FLOAT32.itemsize

    @property
    def gemm_stationary_fmax(self) -> int:
        """Largest free size of a matmul's stationary tile."""
        return int(self._core.pe_columns)

    @property
    def gemm_moving_fmax(self) -> int:
        """Largest free size of a matmul's moving tile that fits a PSUM bank."""
        return self.psum_fmax

    @property
    def bn_stats_fmax(self) -> int:
        """Largest free size of `nisa.bn_stats`."""
        return int(self._core.bn_stats_free_max)

    @property
    def psum_min_align(self) -> int:
        """Alignment of a PSUM address in its partition, in bytes: a bank (migration/index.rst)."""
        return int(self._core.psum_bank_bytes)

    @property
    def sbuf_min_align(self) -> int:
        """Alignment of an SBUF address in its partition, in bytes."""
        return _SBUF_ALIGNMENT_BYTES

    @_limit
    def sbuf_fmax_bytes(self) -> int:
        """Bytes of an SBUF partition."""
        return self.total_available_sbuf_size

    @_limit
    def sbuf_fmax(self) -> int:
        """float32 elements of an SBUF partition."""
        return self.total_available_sbuf_size // FLOAT32.itemsize

    @_limit
    def sbuf_size_bytes(self) -> int:
        """Bytes of the entire SBUF."""
        return self.total_available_sbuf_size * self.pmax

    @property
    def total_available_sbuf_size(self) -> int:
        """Bytes of an SBUF partition, under AWS's older name."""
        return int(self._core.sbuf_partition_bytes)


tile_size = TileSize()
