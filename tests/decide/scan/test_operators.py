"""Which of PyTorch's functions are lowered: a list decides, PyTorch says of what they are made."""

import pytest

from trnsim.decide.scan.lowered import LOWERED
from trnsim.decide.scan.operators import OPERATORS_BY_FUNCTION, Lowering, is_function, lowering

torch = pytest.importorskip("torch")
dispatching = pytest.importorskip("torch.utils._python_dispatch")

SPACES = {"": torch, "linalg_": torch.linalg, "fft_": torch.fft, "special_": torch.special}
SQUARE = torch.eye(4) + 0.1
LINE = torch.arange(4.0)
CALLS = {
    "torch.linalg.svd": lambda f: f(SQUARE),
    "torch.linalg.eigh": lambda f: f(SQUARE),
    "torch.linalg.inv": lambda f: f(SQUARE),
    "torch.linalg.solve": lambda f: f(SQUARE, SQUARE),
    "torch.linalg.qr": lambda f: f(SQUARE),
    "torch.linalg.pinv": lambda f: f(SQUARE),
    "torch.linalg.slogdet": lambda f: f(SQUARE),
    "torch.linalg.cholesky": lambda f: f(SQUARE),
    "torch.fft.rfft": lambda f: f(LINE),
    "torch.fft.fft": lambda f: f(LINE),
    "torch.fft.irfft": lambda f: f(LINE.to(torch.complex64)),
    "torch.nonzero": lambda f: f(LINE),
    "torch.argwhere": lambda f: f(LINE),
    "torch.unique": lambda f: f(LINE),
    "torch.masked_select": lambda f: f(LINE, LINE > 1),
    "torch.multinomial": lambda f: f(LINE, 2),
    "torch.bincount": lambda f: f(LINE.int()),
    "torch.cummax": lambda f: f(LINE, 0),
    "torch.logcumsumexp": lambda f: f(LINE, 0),
    "torch.polygamma": lambda f: f(1, LINE),
    "torch.matmul": lambda f: f(SQUARE, SQUARE),
    "torch.einsum": lambda f: f("ij,jk->ik", SQUARE, SQUARE),
    "torch.nn.functional.cross_entropy": lambda f: f(SQUARE, torch.arange(4)),
    "torch.nn.functional.layer_norm": lambda f: f(SQUARE, (4,)),
    "torch.nn.functional.softmax": lambda f: f(SQUARE, -1),
    "torch.argsort": lambda f: f(LINE),
    "torch.linalg.norm": lambda f: f(SQUARE),
}


class Recording(dispatching.TorchDispatchMode):
    """The plain names of ATen's operators that were called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func._schema.name.partition("::")[2].rstrip("_"))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", CALLS)
def test_a_function_calls_what_it_is_said_to_be_made_of(name):
    function = torch
    for part in name.split(".")[1:]:
        function = getattr(function, part)
    with Recording() as recording:
        CALLS[name](function)
    what, lacking = lowering(name)
    if what is Lowering.MISSING:
        assert set(lacking) <= recording.names
    else:
        assert recording.names <= LOWERED


def test_every_entry_names_functions_and_operators_that_pytorch_has():
    operators = {schema.name.partition("::")[2] for schema in torch._C._jit_get_all_schemas()}
    for name, made_of in OPERATORS_BY_FUNCTION.items():
        prefix = next((p for p in SPACES if p and name.startswith(p)), "")
        plain = name.removeprefix(prefix)
        assert hasattr(SPACES[prefix], plain) or hasattr(torch.nn.functional, plain), name
        assert set(made_of) <= operators | LOWERED, name


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("torch.add", Lowering.LOWERED),
        ("torch.relu_", Lowering.LOWERED),
        ("torch.nn.Linear", Lowering.LOWERED),
        ("torch.nn.LayerNorm", Lowering.LOWERED),
        ("torch.nn.ReLU6", Lowering.LOWERED),
        ("torch.nn.Conv2d", Lowering.LOWERED),
        ("torch.nn.CTCLoss", Lowering.MISSING),
        ("torch.nn.Module", Lowering.UNKNOWN),
        ("torch.nothing_like_it", Lowering.UNKNOWN),
        ("numpy.add", Lowering.UNKNOWN),
        ("torch", Lowering.UNKNOWN),
    ],
)
def test_modules_and_functions_are_told_from_other_names(name, what):
    assert lowering(name)[0] is what


def test_what_a_function_lacks_is_named():
    assert lowering("torch.nonzero") == (Lowering.MISSING, ("nonzero",))


def test_functions_on_tensors_are_told_from_classes_and_settings():
    assert is_function("torch.logspace")
    assert is_function("torch.nn.functional.other")
    for name in ("torch.Tensor", "torch.no_grad", "torch.optim.adamw", "torch.nn.init.zeros_"):
        assert not is_function(name)
