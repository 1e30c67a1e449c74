import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch_neuronx.proto import metaneff_pb2
from torch_neuronx.pyhlo import hlo_pb2, xla_data_pb2
from torch_neuronx.xla_impl import structure

from trnsim.torch.traces import metaneff
from trnsim.xla.neuronx import program_modules
from trnsim.xla.neuronx.protobufs import ProtobufAbsent


@pytest.mark.parametrize(
    "name",
    [
        hlo_pb2.HloInstructionProto,
        lambda: hlo_pb2.HloComputationProto.FromString(b""),
        metaneff_pb2.NeuronCore,
        lambda: xla_data_pb2.PrimitiveType.Name(1),
        structure.Other,
    ],
)
def test_a_name_stands_in_annotations_and_is_refused_where_it_is_called(name):
    with pytest.raises(ProtobufAbsent, match=r"torch_neuronx\.\w+.*no protobufs of HLO"):
        name()


def test_classes_that_programs_are_passed_in_are_here():
    assert hlo_pb2.HloModuleProto is program_modules.HloModuleProto
    assert metaneff_pb2.MetaNeff is metaneff.MetaNeff
    assert metaneff_pb2.MetaTensor.Type.INPUT_STATE == 2


def test_private_names_are_absent():
    assert not hasattr(hlo_pb2, "_private")
    assert isinstance(hlo_pb2.HloModuleProto, type)
