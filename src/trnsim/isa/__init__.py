"""The instructions of a NeuronCore and the language in which they are declared.

Every family of instructions is imported here, so that an import of this package fills the registry
`Instruction.registry`.
"""

from trnsim.isa.collectives.collective import Collective
from trnsim.isa.collectives.implicit import (
    CollectivePermuteImplicit,
    CollectivePermuteImplicitReduce,
)
from trnsim.isa.collectives.movement import AllGather, AllToAll, CollectivePermute
from trnsim.isa.collectives.prepared import (
    AllGatherVPrepare,
    AllGatherVTrigger,
    AllToAllVPrepare,
    AllToAllVTrigger,
)
from trnsim.isa.collectives.ranks import CollectivePermuteImplicitCurrentProcessingRankId, RankId
from trnsim.isa.collectives.reduction import AllReduce, ReduceScatter
from trnsim.isa.collectives.setting import Setting
from trnsim.isa.collectives.variable import AllGatherV, AllToAllV
from trnsim.isa.control.cores import CoreBarrier, DmaEngine, Sendrecv
from trnsim.isa.control.register import (
    RegisterAlloc,
    RegisterLoad,
    RegisterMove,
    RegisterStore,
    UnsupportedOperator,
    VirtualRegister,
)
from trnsim.isa.control.scalar import Scalar, ScalarArithmetic, ScalarLoad, ScalarStore
from trnsim.isa.dma.dma_compute import DmaCompute
from trnsim.isa.dma.dma_copy import DmaCopy
from trnsim.isa.dma.dma_transpose import DmaTranspose
from trnsim.isa.gpsimd.gather import LocalGather, NcNGather
from trnsim.isa.gpsimd.partition import TensorPartitionReduce
from trnsim.isa.gpsimd.pattern import AffineSelect, Iota
from trnsim.isa.gpsimd.sorting import NonzeroWithCount, SequenceBounds, Topk
from trnsim.isa.language.declaration import Operand
from trnsim.isa.language.instruction import FREE_DIMENSIONS, Cost, Dims, Instruction
from trnsim.isa.language.modes import DgeMode, Engine, MatmulPerfMode, NcVersion, OobMode, ReduceCmd
from trnsim.isa.language.operator_tables import ACTIVATIONS, ALU
from trnsim.isa.scalar.activate2 import Activate2
from trnsim.isa.scalar.activation import Activation, ActivationReduce
from trnsim.isa.tensor.matmul import NcMatmul
from trnsim.isa.tensor.matmul_mx import NcMatmulMx, QuantizeMx
from trnsim.isa.tensor.matmul_sparse import NcMatmulSparse, nc_matmul_sparse
from trnsim.isa.tensor.transpose import NcTranspose
from trnsim.isa.vector.copy import Memset, TensorCopy
from trnsim.isa.vector.elementwise import Reciprocal, ScalarTensorTensor, TensorScalar, TensorTensor
from trnsim.isa.vector.exponential import Exponential
from trnsim.isa.vector.random import (
    Dropout,
    Rand2,
    RandGetState,
    RandSetState,
    Rng,
    SetRngSeed,
)
from trnsim.isa.vector.reduction import TensorReduce
from trnsim.isa.vector.scalar_reduce import TensorScalarReduce
from trnsim.isa.vector.scan import TensorScalarCumulative, TensorTensorScan
from trnsim.isa.vector.search import Max8, NcFindIndex8, NcMatchReplace8
from trnsim.isa.vector.select import RangeSelect, SelectReduce, TensorCopyPredicated
from trnsim.isa.vector.shuffle import NcStreamShuffle
from trnsim.isa.vector.statistics import BnAggr, BnStats

__all__ = [
    "ACTIVATIONS",
    "ALU",
    "FREE_DIMENSIONS",
    "Activate2",
    "Activation",
    "ActivationReduce",
    "AffineSelect",
    "AllGather",
    "AllGatherV",
    "AllGatherVPrepare",
    "AllGatherVTrigger",
    "AllReduce",
    "AllToAll",
    "AllToAllV",
    "AllToAllVPrepare",
    "AllToAllVTrigger",
    "BnAggr",
    "BnStats",
    "Collective",
    "CollectivePermute",
    "CollectivePermuteImplicit",
    "CollectivePermuteImplicitCurrentProcessingRankId",
    "CollectivePermuteImplicitReduce",
    "CoreBarrier",
    "Cost",
    "DgeMode",
    "Dims",
    "DmaCompute",
    "DmaCopy",
    "DmaEngine",
    "DmaTranspose",
    "Dropout",
    "Engine",
    "Exponential",
    "Instruction",
    "Iota",
    "LocalGather",
    "MatmulPerfMode",
    "Max8",
    "Memset",
    "NcFindIndex8",
    "NcMatchReplace8",
    "NcMatmul",
    "NcMatmulMx",
    "NcMatmulSparse",
    "NcNGather",
    "NcStreamShuffle",
    "NcTranspose",
    "NcVersion",
    "NonzeroWithCount",
    "OobMode",
    "Operand",
    "QuantizeMx",
    "Rand2",
    "RandGetState",
    "RandSetState",
    "RangeSelect",
    "RankId",
    "Reciprocal",
    "ReduceCmd",
    "ReduceScatter",
    "RegisterAlloc",
    "RegisterLoad",
    "RegisterMove",
    "RegisterStore",
    "Rng",
    "Scalar",
    "ScalarArithmetic",
    "ScalarLoad",
    "ScalarStore",
    "ScalarTensorTensor",
    "SelectReduce",
    "Sendrecv",
    "SequenceBounds",
    "SetRngSeed",
    "Setting",
    "TensorCopy",
    "TensorCopyPredicated",
    "TensorPartitionReduce",
    "TensorReduce",
    "TensorScalar",
    "TensorScalarCumulative",
    "TensorScalarReduce",
    "TensorTensor",
    "TensorTensorScan",
    "Topk",
    "UnsupportedOperator",
    "VirtualRegister",
    "nc_matmul_sparse",
]
