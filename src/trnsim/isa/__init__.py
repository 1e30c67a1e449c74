"""The instructions of a NeuronCore and the language in which they are declared.

Every family is imported here, so that the registry is complete once this room is.
"""

from trnsim.isa.activate2 import Activate2
from trnsim.isa.activation import Activation, ActivationReduce
from trnsim.isa.copy import Memset, TensorCopy
from trnsim.isa.cores import CoreBarrier, DmaEngine, Sendrecv
from trnsim.isa.declaration import Operand
from trnsim.isa.dma import DmaCopy
from trnsim.isa.dma_compute import DmaCompute
from trnsim.isa.dma_transpose import DmaTranspose
from trnsim.isa.elementwise import Reciprocal, ScalarTensorTensor, TensorScalar, TensorTensor
from trnsim.isa.exponential import Exponential
from trnsim.isa.gather import LocalGather, NcNGather
from trnsim.isa.instruction import FREE_DIMENSIONS, Cost, Dims, Instruction
from trnsim.isa.matmul import NcMatmul
from trnsim.isa.matmul_mx import NcMatmulMx, QuantizeMx
from trnsim.isa.matmul_sparse import NcMatmulSparse, nc_matmul_sparse
from trnsim.isa.modes import DgeMode, Engine, MatmulPerfMode, NcVersion, OobMode, ReduceCmd
from trnsim.isa.operators import ACTIVATIONS, ALU
from trnsim.isa.partition import TensorPartitionReduce
from trnsim.isa.pattern import AffineSelect, Iota
from trnsim.isa.random import (
    Dropout,
    Rand2,
    RandGetState,
    RandSetState,
    Rng,
    SetRngSeed,
)
from trnsim.isa.reduction import TensorReduce
from trnsim.isa.register import (
    RegisterAlloc,
    RegisterLoad,
    RegisterMove,
    RegisterStore,
    VirtualRegister,
)
from trnsim.isa.scalar_reduce import TensorScalarReduce
from trnsim.isa.scan import TensorScalarCumulative, TensorTensorScan
from trnsim.isa.search import Max8, NcFindIndex8, NcMatchReplace8
from trnsim.isa.select import RangeSelect, SelectReduce, TensorCopyPredicated
from trnsim.isa.shuffle import NcStreamShuffle
from trnsim.isa.sorting import NonzeroWithCount, SequenceBounds, Topk
from trnsim.isa.statistics import BnAggr, BnStats
from trnsim.isa.transpose import NcTranspose

__all__ = [
    "ACTIVATIONS",
    "ALU",
    "FREE_DIMENSIONS",
    "Activate2",
    "Activation",
    "ActivationReduce",
    "AffineSelect",
    "BnAggr",
    "BnStats",
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
    "Reciprocal",
    "ReduceCmd",
    "RegisterAlloc",
    "RegisterLoad",
    "RegisterMove",
    "RegisterStore",
    "Rng",
    "ScalarTensorTensor",
    "SelectReduce",
    "Sendrecv",
    "SequenceBounds",
    "SetRngSeed",
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
    "VirtualRegister",
    "nc_matmul_sparse",
]
