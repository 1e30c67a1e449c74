"""The kernels behind the rows: what builds each one with its arguments."""

from __future__ import annotations

import nkibench
import nkilib
import tutorials
from published import kernel_of

BUILDERS = {
    "attention_cte": nkilib.attention_cte,
    "mlp_tkg": nkilib.mlp_tkg,
    "mlp_cte": nkilib.mlp_cte,
    "qkv_tkg": nkilib.qkv_tkg,
    "rmsnorm_quant": nkilib.rmsnorm_quant,
    "matmul tutorial (Trn1)": tutorials.matmul,
    "matmul guide (Trn2)": tutorials.guide_matmul,
    "mamba": tutorials.mamba,
    **{f"nkibench {name}": nkibench.launch for name in nkibench.KERNELS},
}
"""Kernel -> function of a row and the folder of clones that returns a `Launch`."""


def is_run(row):
    """Whether a row's kernel is built here."""
    return kernel_of(row) in BUILDERS


def launch(row, folder):
    """A row's kernel with its arguments."""
    return BUILDERS[kernel_of(row)](row, folder)
