import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import importlib

import forked

from trnsim.torch.api import device


def test_the_module_is_torch_neuron():
    assert torch.neuron is device
    assert importlib.import_module("torch.neuron") is device
    for name in device.__all__:
        assert getattr(torch.neuron, name).__doc__, name


def test_what_programs_ask_first():
    assert torch.neuron.is_available()
    assert torch.neuron.is_initialized()
    assert torch.neuron.is_bf16_supported()
    assert (torch.neuron.device_count(), torch.neuron.current_device()) == (4, 0)
    torch.neuron.init()
    torch.neuron._lazy_init()
    torch.neuron.set_device(0)
    torch.neuron.synchronize()
    assert not torch.neuron._is_in_bad_fork()
    assert torch.bfloat16 in torch.neuron.get_amp_supported_dtype()


def test_the_properties_are_those_of_a_logical_core_of_trn2():
    properties = torch.neuron.get_device_properties("neuron:0")
    assert properties.name == "trn2"
    assert properties.total_memory == 24 * 1024**3
    assert torch.neuron.get_device_capability() == (3, 0)


def test_the_name_is_the_devices_and_the_properties_name_the_chip():
    assert torch.neuron.get_device_name() == torch.neuron.get_device_name("neuron:0") == "neuron:0"


def test_the_current_device_in_a_context():
    with torch.neuron.device(0), torch.neuron.device_of(torch.ones(1)):
        assert torch.neuron.current_device() == 0


def test_tensors_and_modules_have_the_devices_methods():
    tensor = torch.ones(2).neuron()
    assert tensor.is_neuron
    assert tensor.type() == "torch.neuron.FloatTensor"
    assert torch.nn.Linear(2, 2).neuron().weight.is_neuron


def test_no_numpy_array_shares_device_memory():
    with pytest.raises(TypeError, match="copy the tensor to host memory"):
        torch.ones(2, device="neuron").numpy()


LOADING = """
import io, sys, torch, warnings
warnings.simplefilter("ignore")
FORMS = {
    "string": "neuron:INDEX",
    "device": torch.device("neuron:INDEX"),
    "dict": {"cpu": "neuron:INDEX"},
    "callable": lambda storage, location: storage.to(device="neuron:INDEX"),
    "callable that leaves it": lambda storage, location: None,
    "none": None,
}
def load(tensor, form, **options):
    file = io.BytesIO()
    torch.save(tensor, file, **options)
    file.seek(0)
    return torch.load(file, map_location=FORMS[form])
"""


def loading(program, index, **environment):
    """What a program prints that loads tensors to neuron:`index`."""
    program = LOADING.replace("INDEX", str(index)) + program
    return forked.python(program, check=True, **environment).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "index", "found"),
    [
        ({"LOCAL_RANK": "1"}, 1, 0),  # the rank of a process with one core
        ({"LOCAL_RANK": "1"}, 0, 0),
        ({"NEURON_RT_VISIBLE_CORES": "2-3", "LOCAL_RANK": "1"}, 1, 1),
    ],
)
def test_a_file_is_loaded_to_the_core_that_tensors_are_made_on(environment, index, found):
    program = (
        "for form in ('string', 'device', 'dict', 'callable'):\n"
        "    for options in ({}, {'_use_new_zipfile_serialization': False}):\n"
        "        x = load(torch.arange(3.0), form, **options)\n"
        "        print(x.device, x.tolist())\n"
        "made = torch.ones(2, device='neuron:INDEX')\n"
        "left = load(made, 'callable that leaves it')\n"
        "print(made.device, load(made, 'none').device, left.device)"
    ).replace("INDEX", str(index))
    expected = [f"neuron:{found} [0.0, 1.0, 2.0]"] * 8 + [" ".join([f"neuron:{found}"] * 3)]
    assert loading(program, index, **environment).splitlines() == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "index"),
    [({"LOCAL_RANK": "1"}, 2), ({"LOCAL_RANK": "0"}, 1), ({}, 4), ({"LOCAL_RANK": "3"}, 1)],
)
def test_a_file_is_not_loaded_to_a_core_that_does_not_exist(environment, index):
    program = (
        "for form in ('string', 'device', 'dict', 'callable'):\n"
        "    try:\n        load(torch.ones(2), form)\n"
        "    except RuntimeError as error:\n"
        "        print(type(error).__name__, str(error).splitlines()[0])"
    )
    cores = 1 if environment else 4
    absent = (
        f"NoSuchCore neuron:{index} does not exist: this process has {cores} NeuronCore(s), "
        f"neuron:0 to neuron:{cores - 1}"
    )
    assert loading(program, index, **environment).splitlines() == [absent] * 4


def test_a_file_of_the_host_stays_there():
    assert loading("print(load(torch.ones(2), 'none').device)", 1, LOCAL_RANK="1") == "cpu\n"
