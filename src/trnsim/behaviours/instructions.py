"""The instructions of `nki.isa`: operands, legality, values."""

from __future__ import annotations

from typing import Final

from trnsim.behaviours.behaviour import Behaviour, Effect

_GUIDE = "nki/migration/index.rst"

DMA_READS_PSUM: Final = Behaviour(
    name="dma-copy-reads-psum",
    until="0.3",
    rule="nisa.dma_copy reads PSUM",
    otherwise="nisa.dma_copy does not read PSUM",
    instead="copy to SBUF first: nisa.tensor_copy(dst=tile, src=psum)",
    source=f"{_GUIDE}, nisa.dma_copy, reading from PSUM",
)
HWDGE_OF_TWO_DTYPES: Final = Behaviour(
    name="hwdge-of-two-dtypes",
    until="0.3",
    rule="nisa.dma_copy(dge_mode=hwdge) does not compare the dtypes, and moves bytes",
    otherwise="nisa.dma_copy(dge_mode=hwdge) wants one dtype",
    instead="view the source as the dtype of dst: src.view(dtype)",
    source=f"{_GUIDE}, nisa.dma_copy, dge_mode type matching",
)
DMA_COPY_MODIFIES: Final = Behaviour(
    name="dma-copy-modifies",
    until="0.3",
    rule="nisa.dma_copy(dst, src, dst_rmw_op) adds to dst, by name or as the third operand",
    otherwise="nisa.dma_copy has no dst_rmw_op and no unique_indices",
    instead="use nisa.dma_compute(dst, [src, dst], reduce_op=nl.add)",
    source=f"{_GUIDE}, nisa.dma_copy, dst_rmw_op and unique_indices removed",
)
MATMUL_WITHOUT_ACCUMULATE: Final = Behaviour(
    name="nc-matmul-without-accumulate",
    until="0.3",
    rule="tile_position is the seventh operand of nisa.nc_matmul",
    otherwise="accumulate is the seventh operand of nisa.nc_matmul",
    instead="write tile_position=, tile_size= and perf_mode= by name",
    source="the stubs of nki.isa of v2.28 and v2.29",
)
DMA_WITHOUT_PRIORITY: Final = Behaviour(
    name="dma-without-priority",
    until="0.4",
    rule="nisa.dma_copy and nisa.dma_transpose have no priority among their operands",
    otherwise="priority is the third operand of nisa.dma_copy, the fourth of nisa.dma_transpose",
    instead="write oob_mode= and dge_mode= by name",
    source="the stubs of nki.isa of v2.29 and v2.30",
)
MEMSET_CASTS: Final = Behaviour(
    name="memset-casts",
    until="0.3",
    rule="nisa.memset casts its value to the dtype of dst",
    otherwise="the value of nisa.memset must be of the kind of dst's dtype",
    instead="write an integer for an integer tensor: value=2, not 2.0",
    source=f"{_GUIDE}, nisa.memset, strict type matching",
)
MEMSET_PACKED: Final = Behaviour(
    name="memset-of-packed",
    until="0.3",
    rule="nisa.memset does not check the value for a packed x4 dtype, nor do the documents say "
    "which bits it writes",
    otherwise="nisa.memset of a packed x4 dtype takes only 0",
    instead="load the values by nisa.dma_copy from an argument of the kernel",
    source=f"{_GUIDE}, nisa.memset, x4 packed type restriction",
)
DMA_COMPUTE_SCALES_FIRST: Final = Behaviour(
    name="dma-compute-scales-first",
    until="0.3",
    form="nisa.dma_compute(dst, srcs, scales, reduce_op)",
    rule="nisa.dma_compute takes (dst, srcs, scales, reduce_op)",
    otherwise="nisa.dma_compute takes (dst, srcs, reduce_op, scales=None)",
    instead="write both by name: reduce_op= and scales=",
    source=f"{_GUIDE}, nisa.dma_compute, parameter reorder",
)
DMA_COMPUTE_SCALES_OPTIONAL: Final = Behaviour(
    name="dma-compute-scales-optional",
    since="0.3",
    rule="scales of nisa.dma_compute may be left out",
    otherwise="nisa.dma_compute needs scales",
    instead="pass scales=[1.0, 1.0], a number for each source",
    source=f"{_GUIDE}, nisa.dma_compute, parameter reorder",
)
AFFINE_SELECT_OFFSET_THIRD: Final = Behaviour(
    name="affine-select-offset-third",
    until="0.3",
    form="nisa.affine_select(dst, pattern, offset, ...)",
    rule="nisa.affine_select takes `offset` third",
    otherwise="nisa.affine_select takes `offset` by name",
    instead="write offset= at the end",
    source=f"{_GUIDE}, nisa.affine_select, offset parameter moved",
)
REDUCE_AXIS_1_IS_LAST: Final = Behaviour(
    name="tensor-reduce-axis-1-is-last",
    until="0.3",
    rule="axis=1 of nisa.tensor_reduce is the last axis, of any rank",
    otherwise="axis of nisa.tensor_reduce is a dimension of the tensor",
    instead="name the last axis: axis=2 or axis=3",
    source=f"{_GUIDE}, nisa.tensor_reduce, axis handling fix",
)
RANGE_SELECT_OVERRIDES: Final = Behaviour(
    name="range-select-overrides",
    until="0.3",
    rule="nisa.range_select ignores on_false_value and reduce_cmd: FP32_MIN and reset_reduce "
    "(as in SDK 2.28, which is emulated as NKI 0.2; in 2.27 they default to 0.0 and idle)",
    otherwise="nisa.range_select follows reduce_cmd, and on_false_value must be FP32_MIN",
    instead="pass reduce_cmd=nisa.reduce_cmd.reset_reduce and on_false_value=FP32_MIN",
    source=f"{_GUIDE}, nisa.range_select, parameter fixes",
    effect=Effect.values,
)
INTEGER_ENUMS: Final = Behaviour(
    name="integer-enums",
    until="0.3",
    rule="members of enumerations may be written as integers: dge_mode=2",
    otherwise="the documents want members by name, while AWS's own library still passes integers, "
    "so that they warn where the user has chosen the version",
    instead="name the member: nisa.dge_mode.hwdge",
    source=f"{_GUIDE}, Integer enum constants no longer supported",
    effect=Effect.warned,
)
TRANSPOSE_PADS_RANK: Final = Behaviour(
    name="dma-transpose-pads-rank",
    until="0.4",
    rule="nisa.dma_transpose pads a dst of lower rank",
    otherwise="nisa.dma_transpose wants the exact shape and rank of dst",
    instead="give dst the rank of src, or slice src to the rank of dst",
    source=f"{_GUIDE}, nisa.dma_transpose, dst shape and rank now enforced exactly",
)
MATMUL_MIXES_E4M3: Final = Behaviour(
    name="matmul-mixes-e4m3",
    until="0.4",
    rule="nisa.nc_matmul may mix float8_e4m3 and float8_e4m3fn",
    otherwise="nisa.nc_matmul refuses a mix of float8_e4m3 and float8_e4m3fn",
    instead="use one of the two for both operands",
    source="release notes of NKI 0.4, nc_matmul float8_e4m3fn input dtype",
)
TENSOR_SCALAR_SQUARE_RELU: Final = Behaviour(
    name="tensor-scalar-square-relu",
    since="0.4",
    rule="nisa.tensor_scalar and nisa.tensor_scalar_reduce take square, relu, abs_max and abs_min",
    otherwise="instructions of the Vector Engine do not take square, relu, abs_max and abs_min",
    instead="use nisa.activation for square and relu; nl.maximum or nl.minimum of nl.abs",
    source="release notes of NKI 0.4, New opcodes for nki.isa.tensor_scalar",
)
BYPASS_AND_PRELU: Final = Behaviour(
    name="bypass-and-prelu",
    since="0.4",
    rule="nl.bypass and nl.prelu are operators",
    otherwise="nl.bypass and nl.prelu do not exist yet",
    instead="leave the operator out; write prelu with nl.maximum and nl.multiply",
    source="release notes of NKI 0.4, New activation and arithmetic opcodes",
)
NC_TRANSPOSE_ON_GIVEN_ENGINE: Final = Behaviour(
    name="nc-transpose-on-given-engine",
    since="0.4",
    rule="nisa.nc_transpose runs on the engine that engine= names",
    otherwise="nisa.nc_transpose ignores engine=, and chooses by the memory of dst",
    instead="leave engine out",
    source="release notes of NKI 0.4, Bug Fixes, nki.isa.nc_transpose",
    effect=Effect.time,
)
SENDRECV_OF_ANY_PARTITIONS: Final = Behaviour(
    name="sendrecv-of-any-partitions",
    since="0.4",
    rule="nisa.sendrecv takes any number of partitions",
    otherwise="nisa.sendrecv takes a multiple of 16 partitions",
    instead="pad both tiles to a multiple of 16 partitions",
    source="release notes of NKI 0.4, nki.isa.sendrecv",
)
GATHER_TRANSPOSE_OF_FEW_COLUMNS: Final = Behaviour(
    name="gather-transpose-of-few-columns",
    since="0.4",
    rule="nisa.dma_transpose with a vector_offset takes up to 128 columns",
    otherwise="nisa.dma_transpose with a vector_offset takes 128 columns",
    instead="pad the last dimension of src to 128",
    source="release notes of NKI 0.4, nki.isa.dma_transpose with indirect indexing",
)
SCALAR_TRANSPOSE_SKIPS: Final = Behaviour(
    name="scalar-transpose-skips",
    since="0.5",
    rule="nisa.dma_transpose with a scalar_offset takes oob_mode.skip",
    otherwise="nisa.dma_transpose takes oob_mode.skip with a vector_offset alone",
    instead="keep the scalar_offset within bounds, and leave oob_mode out",
    source="release notes of NKI 0.5, nki.isa.dma_transpose",
)
MX_SCALE_TWICE_OCP: Final = Behaviour(
    name="mx-scale-twice-ocp",
    since="0.5",
    rule="the block scale of nisa.quantize_mx is twice that of the OCP spec",
    otherwise="the block scale of nisa.quantize_mx is that of the OCP spec",
    instead="compare dequantized values, not the packed ones",
    source="release notes of NKI 0.5, nisa.quantize_mx",
    effect=Effect.values,
)
MX_SCALES_E8M0: Final = Behaviour(
    name="mx-scales-e8m0",
    since="0.5",
    rule="scales of MX instructions may be float8_e8m0fnu or uint8",
    otherwise="scales of MX instructions are uint8",
    instead="allocate the scales as nl.uint8",
    source="release notes of NKI 0.5, float8_e8m0fnu dtype",
)
MATMUL_BF16_8192: Final = Behaviour(
    name="matmul-bf16-8192",
    since="0.5",
    rule="a bfloat16 dst of nisa.nc_matmul has up to 8192 elements a partition",
    otherwise="dst of nisa.nc_matmul has up to 4096 elements a partition",
    instead="write halves with two instructions",
    source="release notes of NKI 0.5, nisa.nc_matmul",
)
COMPUTE_INDIRECTION: Final = Behaviour(
    name="compute-indirection",
    since="0.5",
    form=".indirect()",
    rule="compute instructions take .indirect() views",
    otherwise=".indirect() does not exist yet",
    instead="gather with nisa.dma_copy and vector_offset",
    source="release notes of NKI 0.5, Tensor indirection on compute APIs",
)
TRANSPOSE_RELAXED: Final = Behaviour(
    name="dma-transpose-relaxed",
    since="0.6",
    rule="nisa.dma_transpose with hwdge takes 1, 2, 4, 8 or 16 rows and up to 128 columns",
    otherwise="nisa.dma_transpose with hwdge takes 16 rows and 128 columns",
    instead="pad src to 16 rows of 128",
    source="release notes of NKI 0.6, DmaTranspose relaxations",
)
REDUCE_RES_OPTIONAL: Final = Behaviour(
    name="reduce-res-optional",
    since="0.6",
    rule="nisa.tensor_scalar_reduce(reduce_res=None) keeps the sum in the accumulator",
    otherwise="nisa.tensor_scalar_reduce needs reduce_res",
    instead="give a tile for the partial result",
    source="release notes of NKI 0.6, tensor_scalar_reduce with optional reduce_res",
)
