"""Packages that need CUDA, and names within packages that create or call kernels of CUDA.

Each has its replacement on AWS's chips, and the effort of that: judged, not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from trnsim.decide.scan.findings import Effort, Kind

__all__ = ["NAMES", "PACKAGES", "Remedy", "longest_entry"]


class Remedy(NamedTuple):
    """Kind of a package or name, with its replacement as advice and the effort of that."""

    kind: Kind
    effort: Effort
    advice: str


_NKI: Final = "write the kernel again in NKI, or the operation in plain PyTorch or JAX"
_SDPA: Final = "call torch.nn.functional.scaled_dot_product_attention, which is lowered"
_OWN: Final = Remedy("cuda", "L", _NKI)
_TRITON: Final = Remedy("triton", "L", _NKI)
_KERNELS: Final = Remedy("package", "L", f"it is made of CUDA kernels: {_NKI}")
_SERVED: Final = Remedy("package", "M", "serve the model with vLLM's Neuron plugin instead")
_QUANTIZED: Final = Remedy("package", "M", "quantize for the chip's own FP8 or INT8 instead")
_SPARSE: Final = Remedy("package", "M", "gather and scatter in plain PyTorch, which are lowered")

PACKAGES: Final[dict[str, Remedy]] = {
    "apex": Remedy("package", "S", "take torch.optim, torch.autocast and torch.nn's norms"),
    "auto_gptq": _QUANTIZED,
    "awq": _QUANTIZED,
    "bitsandbytes": Remedy(
        "package", "M", "keep weights in BF16 or FP8, and optimizers in torch's"
    ),
    "causal_conv1d": _KERNELS,
    "cudf": Remedy("package", "S", "prepare data on the host, with pandas or Arrow"),
    "cuml": Remedy("package", "S", "prepare data on the host"),
    "cupy": _OWN,
    "cutlass": _OWN,
    "deep_ep": _KERNELS,
    "deep_gemm": _KERNELS,
    "deepspeed": Remedy("package", "M", "shard with FSDP or NeuronX Distributed instead"),
    "detectron2": _KERNELS,
    "exllamav2": _SERVED,
    "fbgemm_gpu": Remedy("package", "M", "take torch.nn.EmbeddingBag, which is lowered"),
    "flash_attn": Remedy("package", "S", _SDPA),
    "flash_attn_interface": Remedy("package", "S", _SDPA),
    "flashinfer": Remedy("package", "M", _SDPA),
    "gptqmodel": _QUANTIZED,
    "liger_kernel": Remedy("package", "S", "leave its patches out: the plain modules are lowered"),
    "lmdeploy": _SERVED,
    "mamba_ssm": _KERNELS,
    "MinkowskiEngine": _KERNELS,
    "numba.cuda": _OWN,
    "nvidia.dali": Remedy("package", "S", "read and prepare data on the host"),
    "pycuda": _OWN,
    "sgl_kernel": _KERNELS,
    "spconv": _KERNELS,
    "tensorrt": Remedy("package", "M", "compile the model itself instead of TensorRT's engine"),
    "tensorrt_llm": _SERVED,
    "tilelang": _TRITON,
    "torch_cluster": _SPARSE,
    "torch_scatter": _SPARSE,
    "torch_sparse": _SPARSE,
    "torch_tensorrt": Remedy("package", "M", "torch.compile(backend='neuron') instead"),
    "torchsparse": _KERNELS,
    "transformer_engine": Remedy("package", "M", "take torch.nn's modules, and FP8 of NxD"),
    "unsloth": Remedy("package", "M", "tune with transformers and peft instead"),
    "vllm_flash_attn": Remedy("package", "M", _SDPA),
    "xformers": Remedy("package", "S", _SDPA),
}
"""Replacements by the name under which a package is imported."""

NAMES: Final[dict[str, Remedy]] = {
    "jax.experimental.pallas": Remedy("triton", "L", _NKI),
    "cupy.ElementwiseKernel": _OWN,
    "cupy.RawKernel": _OWN,
    "cupy.RawModule": _OWN,
    "numba.cuda.jit": _OWN,
    "torch.utils.cpp_extension.CUDAExtension": _OWN,
    "torch.utils.cpp_extension.CppExtension": _OWN,
    "torch.utils.cpp_extension.load": _OWN,
    "torch.utils.cpp_extension.load_inline": _OWN,
    "torch.ops.load_library": _OWN,
    "torch.cuda._compile_kernel": _OWN,
    "triton.jit": _TRITON,
    "triton.heuristics": _TRITON,
    "triton.experimental.gluon.jit": _TRITON,
}
"""Replacements by full name, of functions that create a kernel at the place of their call."""


def longest_entry(name: str, table: Mapping[str, Remedy]) -> tuple[str, Remedy] | None:
    """The longest prefix of `name` in `table`, with its entry."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        short = ".".join(parts[:length])
        if short in table:
            return short, table[short]
    return None
