import json
import math

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.traces.metaneff import MetaNeff, get_torch_dtype
from trnsim.xla.neuronx.trace import traced_program


class Counting(torch.nn.Module):
    """A weight, a constant that no state_dict has, and a buffer that is written."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        self.calls = torch.nn.Buffer(torch.zeros(2, dtype=torch.int64))
        self.shift = torch.nn.Buffer(torch.tensor([0.5, -2.0, 0.0]).bfloat16(), persistent=False)

    def forward(self, x, y):
        self.calls.add_(1)
        return x * self.scale + self.shift, y + self.calls


@pytest.fixture(scope="module")
def described():
    inputs = {"x": torch.ones(2, 3).bfloat16(), "y": torch.zeros(2, dtype=torch.int64)}
    function, program = traced_program(Counting(), inputs, {})
    return program, MetaNeff.of(program, {"shift": function.weights["shift"]})


def test_tensors_are_inputs_then_weights_and_states(described):
    program, meta = described
    kinds = [(tensor.name, tensor.type.name, tensor.shape) for tensor in meta.input_tensors]
    assert kinds == [
        ("x", "USER_INPUT", [2, 3]),
        ("y", "USER_INPUT", [2]),
        ("scale", "INPUT_WEIGHT", [3]),
        ("calls", "INPUT_STATE", [2]),
    ]
    assert list(program.weights) == ["scale", "calls", "shift"]
    assert meta.input_tensors[3].checkpoint_key == b"calls"
    assert [get_torch_dtype(tensor.data_type) for tensor in meta.output_tensors] == [
        torch.bfloat16,
        torch.int64,
        torch.int64,
    ]
    assert meta.output_aliases_to == {2: 3}


def test_bytes_hold_all_of_it(described):
    meta = described[1]
    meta.input_tensors[0].user_input_key = b"x"
    read = MetaNeff()
    read.ParseFromString(meta.SerializeToString())
    assert read.input_tensors == meta.input_tensors
    assert read.output_tensors == meta.output_tensors
    assert read.output_aliases_to == {2: 3}
    assert read.name == b"Counting"
    assert read.serialized_graph_def == described[0].to_bytes()
    assert torch.equal(read.constants["shift"], torch.tensor([0.5, -2.0, 0.0]).bfloat16())


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float8_e4m3fn, torch.float64])
def test_constants_of_any_form_keep_their_bits(shape, dtype):
    meta, read = MetaNeff(), MetaNeff()
    meta.constants = {"c": torch.ones(shape).to(dtype)}
    read.ParseFromString(meta.SerializeToString())
    kept = read.constants["c"]
    assert (kept.dtype, kept.shape) == (dtype, torch.Size(shape))
    assert torch.equal(kept.double(), torch.ones(shape).double())


def test_other_bytes_are_refused(described):
    content = described[1].SerializeToString()
    head, _, body = content.partition(b"\n")
    members = json.loads(body)
    for changed in (
        b"",
        b"\x1f\x8b",
        head + b"\n{",
        head + b"\n[]",
        head + b"\n" + json.dumps({**members, "constants": {"c": {}}}).encode(),
        head + b"\n" + json.dumps({**members, "input_tensors": [{"type": 9}]}).encode(),
        head + b"\n" + json.dumps({**members, "output_aliases_to": [[math.inf, 0]]}).encode(),
    ):
        with pytest.raises(BadInput, match="which trnsim never writes"):
            MetaNeff().ParseFromString(changed)


@pytest.mark.parametrize("number", [-1, 99, "float32"])
def test_a_number_of_no_dtype_is_refused(number):
    with pytest.raises(BadInput, match=r"data_type .* legal: 0 to"):
        get_torch_dtype(number)
