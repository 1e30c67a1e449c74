"""Packages that need CUDA, and functions that create CUDA or Triton kernels, with remedies.

A remedy is a replacement on AWS's chips and its effort, which is judged, not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from trnsim.decide.scan.findings import Effort, Kind


class Remedy(NamedTuple):
    """Replacement of a package or function on AWS's chips.

    Attributes:
        effort: S for some lines to change, M for a part to replace, L for a kernel to rewrite.
        advice: the replacement, in words.
    """

    kind: Kind
    effort: Effort
    advice: str


_WRITE_IN_NKI: Final = "write the kernel again in NKI, or the operation in plain PyTorch or JAX"
_CALL_SDPA: Final = "call torch.nn.functional.scaled_dot_product_attention, which is lowered"
_CUDA_REMEDY: Final = Remedy("cuda", "L", _WRITE_IN_NKI)
_TRITON_REMEDY: Final = Remedy("triton", "L", _WRITE_IN_NKI)
_KERNELS_REMEDY: Final = Remedy("package", "L", f"it is made of CUDA kernels: {_WRITE_IN_NKI}")
_SERVER_REMEDY: Final = Remedy("package", "M", "serve the model with vLLM's Neuron plugin instead")
_QUANTIZER_REMEDY: Final = Remedy("package", "M", "quantize for the chip's own FP8 or INT8 instead")
_SPARSE_REMEDY: Final = Remedy(
    "package", "M", "gather and scatter in plain PyTorch, which are lowered"
)

PACKAGES: Final[dict[str, Remedy]] = {
    "apex": Remedy("package", "S", "take torch.optim, torch.autocast and torch.nn's norms"),
    "auto_gptq": _QUANTIZER_REMEDY,
    "awq": _QUANTIZER_REMEDY,
    "bitsandbytes": Remedy(
        "package", "M", "keep weights in BF16 or FP8, and optimizers in torch's"
    ),
    "causal_conv1d": _KERNELS_REMEDY,
    "cudf": Remedy("package", "S", "prepare data on the host, with pandas or Arrow"),
    "cuml": Remedy("package", "S", "prepare data on the host"),
    "cupy": _CUDA_REMEDY,
    "cutlass": _CUDA_REMEDY,
    "deep_ep": _KERNELS_REMEDY,
    "deep_gemm": _KERNELS_REMEDY,
    "deepspeed": Remedy("package", "M", "shard with FSDP or NeuronX Distributed instead"),
    "detectron2": _KERNELS_REMEDY,
    "exllamav2": _SERVER_REMEDY,
    "fbgemm_gpu": Remedy("package", "M", "take torch.nn.EmbeddingBag, which is lowered"),
    "flash_attn": Remedy("package", "S", _CALL_SDPA),
    "flash_attn_interface": Remedy("package", "S", _CALL_SDPA),
    "flashinfer": Remedy("package", "M", _CALL_SDPA),
    "gptqmodel": _QUANTIZER_REMEDY,
    "liger_kernel": Remedy("package", "S", "leave its patches out: the plain modules are lowered"),
    "lmdeploy": _SERVER_REMEDY,
    "mamba_ssm": _KERNELS_REMEDY,
    "MinkowskiEngine": _KERNELS_REMEDY,
    "numba.cuda": _CUDA_REMEDY,
    "nvidia.dali": Remedy("package", "S", "read and prepare data on the host"),
    "pycuda": _CUDA_REMEDY,
    "sgl_kernel": _KERNELS_REMEDY,
    "spconv": _KERNELS_REMEDY,
    "tensorrt": Remedy("package", "M", "compile the model itself instead of TensorRT's engine"),
    "tensorrt_llm": _SERVER_REMEDY,
    "tilelang": _TRITON_REMEDY,
    "torch_cluster": _SPARSE_REMEDY,
    "torch_scatter": _SPARSE_REMEDY,
    "torch_sparse": _SPARSE_REMEDY,
    "torch_tensorrt": Remedy("package", "M", "torch.compile(backend='neuron') instead"),
    "torchsparse": _KERNELS_REMEDY,
    "transformer_engine": Remedy("package", "M", "take torch.nn's modules, and FP8 of NxD"),
    "unsloth": Remedy("package", "M", "tune with transformers and peft instead"),
    "vllm_flash_attn": Remedy("package", "M", _CALL_SDPA),
    "xformers": Remedy("package", "S", _CALL_SDPA),
}
"""Remedies, by the name under which a package is imported."""

KERNEL_NAMES: Final[dict[str, Remedy]] = {
    "jax.experimental.pallas": Remedy("triton", "L", _WRITE_IN_NKI),
    "cupy.ElementwiseKernel": _CUDA_REMEDY,
    "cupy.RawKernel": _CUDA_REMEDY,
    "cupy.RawModule": _CUDA_REMEDY,
    "numba.cuda.jit": _CUDA_REMEDY,
    "torch.utils.cpp_extension.CUDAExtension": _CUDA_REMEDY,
    "torch.utils.cpp_extension.CppExtension": _CUDA_REMEDY,
    "torch.utils.cpp_extension.load": _CUDA_REMEDY,
    "torch.utils.cpp_extension.load_inline": _CUDA_REMEDY,
    "torch.ops.load_library": _CUDA_REMEDY,
    "torch.cuda._compile_kernel": _CUDA_REMEDY,
    "triton.jit": _TRITON_REMEDY,
    "triton.heuristics": _TRITON_REMEDY,
    "triton.experimental.gluon.jit": _TRITON_REMEDY,
}
"""Remedies, by full name, for functions and decorators that create a kernel where they are used."""


def longest_entry(name: str, table: Mapping[str, Remedy]) -> tuple[str, Remedy] | None:
    """Longest dotted prefix of `name` in `table`, with its remedy; None without one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if prefix in table:
            return prefix, table[prefix]
    return None
