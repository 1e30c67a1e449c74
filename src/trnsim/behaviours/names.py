"""Names that a version added or removed, and keywords of instructions.

In the versions without a name or keyword its row refuses it, and says what to write instead. Source
of each row: the release notes of the version, and nki/migration/index.rst.
"""

from __future__ import annotations

from typing import Final

from trnsim.behaviours.behaviour import Behaviour, existence

_GUIDE = "nki/migration/index.rst"


def _removal(version: str, form: str, instead: str, source: str = _GUIDE) -> Behaviour:
    """The existence of a name or keyword before `version`."""
    return Behaviour(
        name=form,
        until=version,
        form=form,
        rule=f"{form} exists",
        otherwise="it does not exist any more",
        instead=instead,
        source=source,
    )


ROWS: Final = (
    # NKI 0.3, Neuron 2.29
    existence("0.3", "nl.load", "use nisa.dma_copy(dst=tile, src=tensor)"),
    existence("0.3", "nl.store", "use nisa.dma_copy(dst=tensor, src=tile)"),
    existence("0.3", "nl.matmul", "use nisa.nc_matmul(dst, stationary, moving)"),
    existence("0.3", "nl.transpose", "use nisa.nc_transpose(dst, data)"),
    existence("0.3", "nl.softmax", "write it with nisa.tensor_reduce and nisa.activation"),
    *(
        existence("0.3", f"nl.{name}", instead)
        for names, instead in {
            ("sum", "max", "min", "mean", "prod", "var", "all"): "use nisa.tensor_reduce",
            ("ones", "full"): "use nl.ndarray, then nisa.memset(tile, value)",
            ("zeros_like", "empty_like"): "use nl.zeros or nl.ndarray with tensor.shape",
            ("rand", "random_seed"): "use nisa.rng and nisa.set_rng_seed",
            ("dropout",): "use nisa.dropout(dst, data, prob)",
            ("where",): "use nisa.tensor_copy_predicated(dst, src, predicate)",
            ("rms_norm",): "write it with nisa.tensor_tensor, tensor_reduce and activation",
            ("gather_flattened",): "use nisa.nc_n_gather",
            ("load_transpose2d",): "use nisa.dma_transpose(dst, src)",
            (
                "broadcast_to",
                "expand_dims",
            ): "use tensor.ap(pattern), with a stride of 0 or reshape",
            ("is_hbm", "is_on_chip", "is_psum", "is_sbuf"): "compare tensor.buffer with nl.sbuf",
        }.items()
        for name in names
    ),
    existence("0.3", "nki.simulate", "call the kernel: kernel(...)"),
    existence("0.3", "nki.typing", "leave the annotations out"),
    existence("0.3", "ncc.all_to_all_v", "use ncc.all_to_all with chunks of one size"),
    existence("0.3", "nisa.nc_matmul(accumulate=)", "leave it out: the first write overwrites"),
    existence("0.3", "nisa.nc_matmul_mx(accumulate=)", "leave it out: the first write overwrites"),
    *(
        existence("0.3", f"nisa.{call}(name=)", "leave it out")
        for call in ("exponential", "nonzero_with_count", "tensor_scalar_cumulative")
    ),
    existence("0.3", "nisa.dma_compute(unique_indices=)", "leave it out: indices must be unique"),
    existence("0.3", "nisa.sendrecv(dma_engine=)", "pass use_gpsimd_dma=True or False"),
    existence("0.3", "nisa.dma_copy(engine=)", "leave it out"),
    existence(
        "0.3", "nisa.register_move(src=)", "write imm=, or the integer as the second operand"
    ),
    _removal(
        "0.3",
        "nisa.nc_matmul(psumAccumulateFlag=)",
        "leave it out: it never had an effect",
        "release notes of NKI 0.2 of Neuron 2.28, Breaking Changes",
    ),
    _removal(
        "0.3",
        "nisa.nc_matmul(is_moving_zero=)",
        "write is_moving_onezero=",
        "release notes of NKI 0.2 of Neuron 2.28, Breaking Changes",
    ),
    _removal("0.3", "nisa.dma_copy(dst_rmw_op=)", "use nisa.dma_compute(dst, [src, dst], op)"),
    _removal("0.3", "nisa.dma_copy(unique_indices=)", "use nisa.dma_compute"),
    _removal("0.3", "nisa.register_move(imm=)", "write src=: an integer or a register"),
    _removal("0.3", "nisa.sendrecv(use_gpsimd_dma=)", "pass dma_engine=nisa.dma_engine.gpsimd_dma"),
    _removal(
        "0.3",
        "ncc.collective_permute_implicit_current_processing_rank_id(num_channels=)",
        "leave it out, and pass channel_ids to ncc.collective_permute_implicit",
    ),
    # NKI 0.4, Neuron 2.30
    existence("0.4", "nisa.activate2", "use nisa.tensor_scalar, then nisa.activation"),
    existence("0.4", "nl.abs_max", "use nl.maximum of nl.abs"),
    existence("0.4", "nl.abs_min", "use nl.minimum of nl.abs"),
    existence("0.4", "nl.prelu", "use nl.maximum and nl.multiply"),
    existence("0.4", "nl.bypass", "leave the operation out"),
    existence("0.4", "nisa.dma_copy(priority=)", "leave it out"),
    existence("0.4", "nisa.dma_transpose(priority=)", "leave it out"),
    existence("0.4", "nisa.dma_compute(oob_mode=)", "keep indices within bounds"),
    existence(
        "0.4", "nisa.tensor_scalar_reduce(reduce_cmd=)", "leave it out: each call starts anew"
    ),
    existence("0.4", "nisa.tensor_scalar_reduce(reduce_init=)", "reduce, then add the first value"),
    _removal(
        "0.4",
        "nisa.tensor_copy_dynamic_src",
        "use nisa.tensor_copy(dst, src.ap(pattern, scalar_offset=...))",
    ),
    _removal(
        "0.4",
        "nisa.tensor_copy_dynamic_dst",
        "use nisa.tensor_copy(dst.ap(pattern, scalar_offset=...), src)",
    ),
    # NKI 0.5, Neuron 2.31
    existence("0.5", "nl.float8_e8m0fnu", "keep the scales in nl.uint8"),
    existence("0.5", "nisa.get_nc_sub_version", "use nisa.get_nc_version"),
    existence("0.5", "nl.average", "use nl.add, then nl.multiply by 1 / count"),
    # NKI 0.6, Neuron 2.32
    existence(
        "0.6", "nisa.tensor_scalar_reduce(reduce_res_negate=)", "negate it by nisa.activation"
    ),
    existence("0.6", "nl.fori_loop", "use for i in nl.dynamic_range(lower, upper)"),
    existence("0.6", "nl.while_loop", "use while register:"),
    existence("0.6", "nisa.NkiInstruction", "order instructions by kernel.with_schedule"),
    existence(
        "0.6", "nisa.topk", "use nisa.max8 and nisa.nc_match_replace8, eight values at a time"
    ),
    existence("0.6", "ncc.all_gather_v", "use ncc.all_gather with tensors of one size"),
    # NKI 0.7, Neuron 2.33
    *(
        existence("0.7", f"nl.{name}", instead)
        for name, instead in {
            "tiles": "slice the tensor: tensor[i * 128 : (i + 1) * 128]",
            "blocks": "slice the tensor: tensor[i * 256 : (i + 1) * 256]",
            "alloc_tiles": "use nl.ndarray((128, tiles * columns), dtype, buffer), and slice it",
            "alloc_blocks": "use nl.ndarray((128, tiles * columns), dtype, buffer), and slice it",
            "NkiGrid": "slice tensors, which are nl.NkiTensor",
            "NkiTileGrid": "slice tensors, which are nl.NkiTensor",
            "NkiBlockGrid": "slice tensors, which are nl.NkiTensor",
        }.items()
    ),
    *(
        existence("0.7", f"nki.compiler.{name}", "leave it out: values do not depend on it")
        for name in ("AddressRotation", "CompileConfig", "SpecializationConfig")
    ),
    existence("0.7", "nisa.NkiScalar", "use registers: nisa.register_alloc"),
    existence("0.7", "nisa.scalar_load", "use nisa.register_load(nisa.register_alloc(), tensor)"),
    existence("0.7", "nisa.scalar_store", "use nisa.register_store(tensor, register)"),
    existence(
        "0.7", "nl.int64", "use nl.int32: cast an argument before the call, x.astype('int32')"
    ),
    existence("0.7", "nisa.dependency", "leave the kind out: depends_on is a semaphore"),
    existence("0.7", "ncc.all_to_all_v_prepare", "use ncc.all_to_all_v, in one step"),
    existence("0.7", "ncc.all_to_all_v_trigger", "use ncc.all_to_all_v, in one step"),
    existence("0.7", "ncc.all_gather_v_prepare", "use ncc.all_gather_v, in one step"),
    existence("0.7", "ncc.all_gather_v_trigger", "use ncc.all_gather_v, in one step"),
    existence("0.7", "ncc.reduce_scatter_v", "use ncc.reduce_scatter with parts of one size"),
    existence("0.7", "ncc.rg_partition_op", "list the ranks: ncc.ReplicaGroup([[0, 1], [2, 3]])"),
    _removal(
        "0.7",
        "nl.dynamic_range",
        "make the body a function of i, and call nl.fori_loop(lower, upper, body)",
        "release notes of NKI 0.7, deprecated and removed APIs",
    ),
)
"""The rows of this family."""

BY_FORM: Final = {row.form: row for row in ROWS}
"""The row of each name and keyword."""
