"""The time of a layer on a GPU, by the shape of each of its products.

product  = max(2 m k n / (peak base part), bytes / (HBM reach)) + fixed
part     = results / (waves SMs tile) x (reuse of the tile / reuse of the largest)^1/2
operator = bytes / (HBM reach) + fixed

Names side by side are multiplied. base: fraction of the peak that a large product reaches
(`BASES`); reach: fraction of HBM's bandwidth that kernels reach (`GPU_MEMORY`); fixed: seconds of a
kernel (`LAUNCH_S`, or `EAGER_S` in training); tile: number of its results.

A product's results are tiles, of which each multiprocessor (SM) computes one at a time: tiles that
the results do not fill and a last wave that the tiles do not fill are lost. Small tiles lose less,
but read more for each result. The library is taken to choose the best tile, and to cut sums in
parts where there are fewer tiles than SMs. Attention is one kernel, which skips masked scores and
keeps scores on the chip, unless `is_fused` is false.

Inputs of products in 8 bits or 4 are cast by a kernel of their own in inference, and a router has
four kernels beside its product; each has the fixed time of an operator.

Source: NVIDIA, Matrix Multiplication Background User's Guide (DU-09799-001), sections 2.3, 3.1 and
3.2; tiles: cuBLASLt's cublasLtMatmulTile_t; attention: FlashAttention (arXiv:2205.14135); casts:
DeepGEMM's README, which leaves them to other kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from trnsim.arch.catalogue import Accelerator
from trnsim.errors import BadInput
from trnsim.estimate.constants import GPU_MEMORY
from trnsim.estimate.times import LayerTime
from trnsim.facts import Evidence, assumed, count, derived
from trnsim.workload.gradients import backward
from trnsim.workload.operators import Elementwise, Pass, Phase, Product, bytes_of
from trnsim.workload.summary import PartSummary

_TILES: Final = (
    (256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128),
    (64, 64), (32, 128), (128, 32), (32, 64), (64, 32), (16, 64), (64, 16),
)  # fmt: skip
"""Rows and columns of cuBLAS's tiles, in descending order of efficiency."""
_MOST_PARTS: Final = 16
"""Maximum number of parts that a sum is cut in."""
_FLOAT_BITS: Final = 32
_HALF_BITS: Final = 16
_BYTE_BITS: Final = 8
_FP4_BITS: Final = 4
_ROUTER: Final = "router"
_ROUTING_KERNELS: Final = 4
"""Kernels of routing: the choice of experts, the order of rows by expert, the permutation into that
order, and the weighted sum of results. Source: vLLM, Fused MoE Modular Kernel."""
_EIGHT_BIT_PEAKS: Final = ("fp8", "fp8_e4", "mxfp8")
"""Names of 8-bit floating-point peaks in the catalogue."""


SMS: Final = {
    "t4": count(40, "NVIDIA Turing Architecture Whitepaper, appendix: T4"),
    "a10g": count(80, "80 x 128 CUDA cores of GA102; AWS states none", Evidence.ASSUMED),
    "a100-40": count(108, "NVIDIA A100 Architecture Whitepaper, table 1"),
    "a100-80": count(108, "NVIDIA A100 Architecture Whitepaper, table 1"),
    "l4": count(58, "NVIDIA Ada GPU Architecture Whitepaper: 7,424 CUDA cores, 128 each"),
    "l40s": count(142, "NVIDIA L40S datasheet: 18,176 CUDA cores, 128 each"),
    "h100": count(132, "NVIDIA H100 Architecture Whitepaper, table 3: SXM5"),
    "h200": count(132, "NVIDIA H200 datasheet: H100's GPU with other memory"),
    **dict.fromkeys(
        ("b200", "gb200", "b300", "gb300"),
        count(148, "as drivers report of B200; no whitepaper states it", Evidence.ASSUMED),
    ),
}
"""Multiprocessors of each GPU."""

_AMPERE: Final = derived(0.76, "fitted to eight steps of GPTs (Korthikanti et al., table 5)")
_BLACKWELL: Final = derived(0.46, "fitted to twelve steps of Llama-3-70B's layers (SimuMax 1.2)")
_HOPPER: Final = assumed(
    0.61, "the mean of A100's and B200's: peaks have grown faster than what feeds them"
)
"""Part of the peak that products reach on H100 and H200."""
_CARRIED_OVER: Final = assumed(_AMPERE, "carried over from A100, as an older or smaller chip")
BASES: Final = {
    "t4": _CARRIED_OVER,
    "a10g": _CARRIED_OVER,
    "a100-40": _AMPERE,
    "a100-80": _AMPERE,
    "l4": _CARRIED_OVER,
    "l40s": _CARRIED_OVER,
    "h100": _HOPPER,
    "h200": _HOPPER,
    "b200": _BLACKWELL,
    **dict.fromkeys(("gb200", "b300", "gb300"), assumed(_BLACKWELL, "carried over from B200")),
}
"""Part of its peak that a large product reaches on each GPU, power and clocks included."""
LAUNCH_S: Final = assumed(3e-6, "from one kernel's end to the next one's work in a CUDA graph")
EAGER_S: Final = derived(
    40e-6, "of an operator of training, which is several kernels: fitted to the same twenty steps"
)
FITTED_SPREAD: Final = 0.08
"""One sigma of the logarithm of (true / estimate) of steps whose model was left out of the fit."""
OTHER_SPREAD: Final = 0.30
"""One sigma of the logarithm of (true / estimate) on other GPUs, and of other passes."""
_TF32_TIME_RATIO: Final = 2
"""Time of a product in FP32, as TF32, over that in 16 bits (datasheets of A100 to B200)."""
_TURING_FP32_TIME_RATIO: Final = 8
"""Time of a product in FP32 over that in 16 bits on T4, which has no TF32: 8.1 of 65 TFLOPS (its
datasheet)."""


@dataclass(frozen=True)
class GpuTimes:
    """Times of a model's layers, embedding and head on one GPU.

    Attributes:
        flop_per_s: published dense FLOP per second, by bits of the factors.
        base: part of it that a large product reaches.
        bytes_per_s: bytes per second that are reached with memory.
        sms: multiprocessors.
        launch_s: fixed seconds of an operator.
        eager_s: fixed seconds of an operator of training; a host launches these one by one.
        spread: one sigma of the logarithm of (true / estimate) in training.
        is_fused: whether attention is one kernel.
    """

    flop_per_s: Mapping[int, float]
    base: float
    bytes_per_s: float
    sms: int
    launch_s: float
    eager_s: float
    spread: float
    source: str
    is_fused: bool = True

    def forward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The forward time of one layer of a summary."""
        cache_bytes = summary.cache.read_bytes + summary.cache.written_bytes
        return self._time(summary, cache_bytes, model_pass.phase)

    def backward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The time of both gradients of one layer of a summary."""
        return self._time(backward(summary), 0.0, model_pass.phase)

    def product_s(self, product: Product, *, has_cached: bool = False) -> tuple[float, float]:
        """Seconds of a product's multiplications, and further seconds of its bytes.

        Args:
            product: the product.
            has_cached: whether keys and values count as traffic of the cache.
        """
        is_of_attention = is_attention(product)
        flop = product.useful_flop if is_of_attention and self.is_fused else product.flop
        rate = self.flop_per_s.get(int(product.bits), self.flop_per_s[_HALF_BITS])
        part = part_of_peak(
            math.ceil(product.m), product.k, math.ceil(product.n), product.times, self.sms
        )
        compute_s = flop / (rate * self.base * part)
        nbytes = bytes_of(
            self._elements(product, has_cached=has_cached and is_of_attention), product.bits
        )
        bytes_s = (nbytes + product.weight_bytes) / self.bytes_per_s
        return compute_s, max(bytes_s - compute_s, 0.0)

    def _elements(self, product: Product, *, has_cached: bool) -> float:
        """Elements that cross memory, without weights; scores within one kernel do not cross it."""
        if not is_attention(product):
            return product.activation_elements
        computed = 0.0 if has_cached else product.k * product.n
        rows = product.m * (product.k + product.n)
        if self.is_fused:  # scores read queries, values write results
            rows = product.m * min(product.k, product.n)
        return (rows + computed) * product.times

    def _time(self, summary: PartSummary, cache_bytes: float, phase: Phase) -> LayerTime:
        has_cached, is_training = phase is Phase.DECODE, phase is Phase.TRAIN
        times = [self.product_s(product, has_cached=has_cached) for product in summary.products]
        attention_s = sum(
            compute_s
            for product, (compute_s, _) in zip(summary.products, times, strict=True)
            if has_cached and is_attention(product)
        )
        cache_s = max(
            cache_bytes / self.bytes_per_s - attention_s, 0.0
        )  # read while it is multiplied
        operators = [op for op in summary.elementwise if self._is_kernel(op)]
        nbytes = sum(bytes_of(op.elements, _HALF_BITS) + op.weight_bytes for op in operators)
        kernels = len(summary.products) + len(operators)
        if not is_training:
            kernels += sum(self._added_kernels(product) for product in summary.products)
        parts = {
            "products": sum(compute_s for compute_s, _ in times),
            "weights": sum(more_s for _, more_s in times),
            "KV": cache_s,
            "elements": nbytes / self.bytes_per_s,
            "fixed": kernels * (self.eager_s if is_training else self.launch_s),
        }
        spread = self.spread if is_training else OTHER_SPREAD
        source = f"few constants ({phase}): {self.source}"
        return LayerTime(sum(parts.values()), parts, spread, source)

    def _is_kernel(self, op: Elementwise) -> bool:
        return not (self.is_fused and op.name.startswith("softmax"))

    def _added_kernels(self, product: Product) -> int:
        """Kernels of a product in inference beside its own: a cast of its input, or a router's.

        Products of absorbed matrices (of latent attention, in decoding) have no cast.
        """
        if product.name == _ROUTER:
            return _ROUTING_KERNELS
        is_short = product.bits < _HALF_BITS and int(product.bits) in self.flop_per_s
        is_cast = product.weight_bits > 0 and is_short
        return int(is_cast and not product.name.endswith("absorbed"))


def is_attention(product: Product) -> bool:
    """True for products of queries and keys or scores and values, and for their gradients."""
    return not product.weight_bits and product.name.startswith(("scores", "values"))


@lru_cache(1 << 16)
def part_of_peak(m: int, k: float, n: int, times: float, sms: int) -> float:
    """The part of the peak that the best tile of (m, n) leaves on `sms` multiprocessors."""
    return max(_tile_efficiency(m, k, n, times, sms, tile) for tile in _TILES)


def _tile_efficiency(
    m: int, k: float, n: int, times: float, sms: int, tile: tuple[int, int]
) -> float:
    rows, columns = tile
    tiles = math.ceil(times * math.ceil(m / rows) * math.ceil(n / columns))
    # The number of parts need not be whole, and no part of k is shorter than a tile's side: with
    # shorter or whole parts a longer k could be faster.
    parts = max(1.0, min(sms // tiles, k / rows, _MOST_PARTS))
    waves = math.ceil(tiles * parts / sms)
    filled_share = m * n * times / (tiles * rows * columns)
    reuse = rows * columns / (rows + columns)
    largest_reuse = _TILES[0][0] * _TILES[0][1] / sum(_TILES[0])
    return filled_share * tiles * parts / (waves * sms) * math.sqrt(reuse / largest_reuse)


def gpu_times(chip: Accelerator, dtype: str = "bf16", *, is_fused: bool = True) -> GpuTimes:
    """Times of a model's layers, embedding and head on a GPU.

    Args:
        chip: the GPU.
        dtype: the dtype of products: "bf16" or "fp16", or "fp8" where it multiplies that.
        is_fused: whether attention is one kernel.

    Raises:
        BadInput: the GPU is not known, or has no published peak in the dtype.
    """
    if chip.name not in SMS:
        raise BadInput(f"{chip.name}: no times are known; legal GPUs: {', '.join(SMS)}")
    base = BASES[chip.name]
    is_fitted = base.provenance.kind is not Evidence.ASSUMED
    evidence = f"{base.provenance.kind.value}: {base.provenance.source}"
    return GpuTimes(
        flop_per_s=_peaks(chip, dtype),
        base=float(base),
        bytes_per_s=float(GPU_MEMORY * chip.memory_bytes_per_s),
        sms=int(SMS[chip.name]),
        launch_s=float(LAUNCH_S),
        eager_s=float(EAGER_S),
        spread=FITTED_SPREAD if is_fitted else OTHER_SPREAD,
        source=f"tiles on {SMS[chip.name]} SMs, {base:.0%} of the peak, {evidence}",
        is_fused=is_fused,
    )


def _peaks(chip: Accelerator, dtype: str) -> dict[int, float]:
    """Published dense FLOP per second by bits of the factors.

    If only the weights have fewer bits, they are widened first: factors have the bits of `dtype`.
    So are factors of 4 bits on a GPU that does not multiply these.
    """
    peaks = dict(chip.peak_flop_per_s)
    if "bf16" in peaks:  # tensor cores that multiply BF16 multiply FP16 as fast
        peaks.setdefault("fp16", peaks["bf16"])
    byte_peak = next((float(peaks[name]) for name in _EIGHT_BIT_PEAKS if name in peaks), 0.0)
    if dtype == "fp8" and byte_peak:
        return dict.fromkeys((_FLOAT_BITS, _HALF_BITS, _BYTE_BITS), byte_peak)
    if dtype not in peaks:
        raise BadInput(
            f"{chip.name} has no published peak in {dtype}; legal: {', '.join(peaks)}",
            fix=f"for example --dtype {next(iter(peaks))}",
        )
    half_peak = float(peaks[dtype])
    fp32_time_ratio = _TF32_TIME_RATIO if "bf16" in peaks else _TURING_FP32_TIME_RATIO
    return {
        _FLOAT_BITS: half_peak / fp32_time_ratio,
        _HALF_BITS: half_peak,
        _BYTE_BITS: byte_peak or half_peak,
        **({_FP4_BITS: float(peaks["fp4"])} if "fp4" in peaks else {}),
    }
