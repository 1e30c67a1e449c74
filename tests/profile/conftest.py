"""Small programs on NeuronCore-v3, issued instruction by instruction."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from trnsim import arch
from trnsim.arch import NEURONCORE_V3, NeuronCore
from trnsim.dtypes import BFLOAT16, FLOAT32, Dtype
from trnsim.isa import DmaCopy, Instruction, Memset, NcMatmul, TensorCopy
from trnsim.memory import Memory, Tile
from trnsim.profile import Summary, summarize
from trnsim.program import CoreContext, fit_programs
from trnsim.timing import Timeline, timelines

sys.path.insert(0, str(Path(__file__).parent))  # files beside the tests are imported by name

HBM, SBUF, PSUM = Memory.HBM, Memory.SBUF, Memory.PSUM


class Kernel:
    """A program in the making, in shape-only mode."""

    def __init__(self, core: NeuronCore = NEURONCORE_V3) -> None:
        self.context = CoreContext(core, has_values=False)

    def tile(self, memory: Memory, *shape: int, dtype: Dtype = BFLOAT16, name: str = "") -> Tile:
        storage, layout = self.context.memory.allocate(shape, dtype, memory, name=name)
        return Tile(storage, dtype, layout.pattern)

    def do(self, instruction: Instruction) -> None:
        self.context.issue(instruction)

    def load(self, *shape: int, dtype: Dtype = BFLOAT16) -> Tile:
        tile = self.tile(SBUF, *shape, dtype=dtype)
        self.context.issue(DmaCopy(tile, self.tile(HBM, *shape, dtype=dtype)))
        return tile

    def store(self, tile: Tile) -> None:
        self.context.issue(DmaCopy(self.tile(HBM, *tile.shape, dtype=tile.dtype), tile))

    def matmul(self, stationary: Tile, moving: Tile) -> Tile:
        dst = self.tile(PSUM, stationary.shape[1], moving.shape[1], dtype=FLOAT32)
        self.context.issue(NcMatmul(dst, stationary, moving))
        return dst

    def copy(self, src: Tile, dtype: Dtype = BFLOAT16, **options: Any) -> Tile:
        dst = self.tile(SBUF, *src.shape, dtype=dtype)
        self.context.issue(TensorCopy(dst, src, **options))
        return dst

    def timeline(self) -> Timeline:
        return timelines([self.context.program])[0]


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
def new_kernel() -> Callable[..., Kernel]:
    """Makes a kernel: `new_kernel()`, or on another core."""
    return Kernel


def matmul_tiles(kernel: Kernel, tiles: int = 4) -> Timeline:
    """Load, multiply, evict and store `tiles` tiles."""
    weights = kernel.load(128, 128)
    for _ in range(tiles):
        kernel.store(kernel.copy(kernel.matmul(weights, kernel.load(128, 512))))
    return kernel.timeline()


@pytest.fixture
def timeline(kernel: Kernel) -> Timeline:
    """A tiled matmul of four tiles."""
    return matmul_tiles(kernel)


@dataclass(frozen=True)
class Ran:
    """What `trnsim.run` hands a report, around a timeline."""

    timeline: Timeline
    title: str = "matmul"
    target: arch.Target = arch.TARGETS["trn2"]
    warnings: tuple[str, ...] = ()

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        return (self.timeline,)

    @cached_property
    def summary(self) -> Summary:
        return summarize(self.timeline)


@pytest.fixture
def ran() -> Callable[..., Ran]:
    """Makes a run around a timeline: `ran(timeline, title="...")`."""
    return Ran


@pytest.fixture
def spilling(kernel: Kernel) -> Timeline:
    """Tensors `a` and `b`, one of which fits at a time, are set, and then stored."""
    size = int(NEURONCORE_V3.sbuf_partition_bytes) // 4 + 1
    a, b = (kernel.tile(SBUF, 128, size, name=name) for name in "ab")
    target = kernel.tile(HBM, 128, size, name="target")
    for tile in (a, b):
        kernel.do(Memset(tile, 0))
    for tile in (b, a):
        kernel.do(DmaCopy(target, tile))
    programs, _ = fit_programs([kernel.context.program], "spill")
    return timelines(programs)[0]
