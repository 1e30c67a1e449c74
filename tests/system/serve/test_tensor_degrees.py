import pytest
from serve_cases import LLAMA

from trnsim.place.machine import machine
from trnsim.system.serve.tensor_degrees import legal_tensor_sizes, tensor_degrees


# aws-neuron-sdk, libraries/nxd-inference/developer_guides/feature-guide.rst: "The Neuron runtime
# supports the following tensor-parallelism degrees"; 12 as in neuron-calculator.rst.
@pytest.mark.parametrize(
    ("name", "lnc", "degrees"),
    [
        ("trn1", None, [1, 2, 8, 16, 32]),
        ("trn1.2xlarge", None, [1, 2]),
        ("trn2", None, [1, 2, 4, 8, 16, 32, 64]),
        ("trn2.3xlarge", None, [1, 2, 4]),
        ("inf2", None, [1, 2, 4, 8, 12, 24]),
        ("inf2.24xlarge", None, [1, 2, 4, 8, 12]),
        ("inf2.xlarge", None, [1, 2]),
        ("trn2", 1, [1, 2, 4, 8, 16, 32, 64, 128]),
        ("trn3", None, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]),
    ],
)
def test_degrees_are_those_that_the_documents_state_or_powers_of_two(name, lnc, degrees):
    assert tensor_degrees(machine(name, lnc=lnc)) == degrees


def test_a_search_tries_degrees_of_the_runtime_or_what_divides_a_gpus_instance():
    assert legal_tensor_sizes(LLAMA, machine("inf2")) == [1, 2, 4, 8, 12, 24]
    assert legal_tensor_sizes(LLAMA, machine("p5en")) == [1, 2, 4, 8]
    assert legal_tensor_sizes(LLAMA, machine("trn2")) == [1, 2, 4, 8, 16, 32]  # it has 32 heads
