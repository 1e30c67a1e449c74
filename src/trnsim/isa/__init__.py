"""The instructions of a NeuronCore and the language in which they are declared.

Every family is imported here, so that the registry is complete once this room is.
"""

from trnsim.isa.activation import Activation, ActivationReduce
from trnsim.isa.copy import Memset, TensorCopy
from trnsim.isa.dma import DmaCopy
from trnsim.isa.elementwise import Reciprocal, ScalarTensorTensor, TensorScalar, TensorTensor
from trnsim.isa.instruction import Cost, Dims, Instruction, Operand
from trnsim.isa.matmul import NcMatmul, NcTranspose
from trnsim.isa.modes import DgeMode, Engine, MatmulPerfMode, NcVersion, OobMode, ReduceCmd
from trnsim.isa.operators import ACTIVATIONS, ALU
from trnsim.isa.reduction import TensorReduce

__all__ = [
    "ACTIVATIONS",
    "ALU",
    "Activation",
    "ActivationReduce",
    "Cost",
    "DgeMode",
    "Dims",
    "DmaCopy",
    "Engine",
    "Instruction",
    "MatmulPerfMode",
    "Memset",
    "NcMatmul",
    "NcTranspose",
    "NcVersion",
    "OobMode",
    "Operand",
    "Reciprocal",
    "ReduceCmd",
    "ScalarTensorTensor",
    "TensorCopy",
    "TensorReduce",
    "TensorScalar",
    "TensorTensor",
]
