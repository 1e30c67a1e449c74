"""Archives that would run code in PyTorch's own reader: each is refused, and nothing runs."""

import io
import json
import pickle
import sys
import zipfile

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.models.archive import _EXPRESSION
from trnsim.torch.models.exported import exported_graph

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec")

MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
CONSTANTS, INPUTS = "data/constants/model_constants_config.json", "data/sample_inputs/model.pt"
RAN = "ran_by_a_model_file"
EXEC = f"import sys; sys.modules['{RAN}'] = sys"


class Evil:
    """Unpickling it runs code."""

    def __reduce__(self):
        return exec, (EXEC,)


@pytest.fixture(scope="module")
def members():
    """The members of a small program's archive."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 8)
            self.register_buffer("scale", torch.ones(8))

        def forward(self, x):
            return {"result": self.linear(x) * self.scale + torch.tensor(range(8))}

    stream = io.BytesIO()
    torch.export.save(torch.export.export(Model(), (torch.ones(2, 4),)), stream)
    with zipfile.ZipFile(stream) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def written(members, tmp_path):
    """Writes the archive with some members replaced by bytes, or changed by a function."""

    def write(**changes):
        path = tmp_path / "model.pt2"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                change = changes.get(name.partition("/")[2])
                if callable(change):
                    program = json.loads(content)
                    change(program)
                    content = json.dumps(program).encode()  # noqa: PLW2901
                archive.writestr(name, change if isinstance(change, bytes) else content)
            for name in changes.keys() - {known.partition("/")[2] for known in members}:
                archive.writestr(f"model/{name}", changes[name])
        return path

    yield write
    assert RAN not in sys.modules


def pickled():
    stream = io.BytesIO()
    torch.save(Evil(), stream)
    return stream.getvalue()


def test_a_program_has_its_graph_without_its_weights(written):
    graph = exported_graph(written(**{"data/weights/weight_0": b""}))
    assert graph.operators[0] == "aten::linear"
    assert sorted(graph.names.values()) == [
        *("b_scale", "c_lifted_tensor_0", "p_linear_bias", "p_linear_weight", "x"),
    ]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("make", [pickled, lambda: pickle.dumps(Evil())])
@pytest.mark.parametrize("member", [INPUTS, "data/weights/weight_0", "data/constants/tensor_0"])
def test_pickles_are_not_read(written, member, make):
    assert exported_graph(written(**{member: make()})).operators


def test_a_pickled_weight_is_a_shape_or_refused(written):
    def pickled_with_a_shape(weights):
        weights["config"]["linear.weight"]["use_pickle"] = True

    def pickled_without(weights):
        weights["config"]["linear.weight"] |= {"use_pickle": True, "tensor_meta": None}

    content = {"data/weights/weight_0": pickled()}
    assert exported_graph(written(**content, **{WEIGHTS: pickled_with_a_shape})).operators
    with pytest.raises(BadInput, match=r"linear\.weight is no tensor"):
        exported_graph(written(**content, **{WEIGHTS: pickled_without}))


def node(program):
    return program["graph_module"]["graph"]["nodes"][0]


def with_target(target):
    return lambda program: node(program).update(target=target)


def with_name(program):
    name = f"x; {EXEC} #"
    text = json.dumps(program).replace('"linear"', json.dumps(name))
    program.update(json.loads(text))


def with_size(program):
    values = program["graph_module"]["graph"]["tensor_values"]
    size = {"as_expr": {"expr_str": f"exec({EXEC!r})", "hint": {"as_int": 2}}}
    next(iter(values.values()))["sizes"][0] = size


def with_structure(context):
    structure = {"type": "builtins.dict", "context": context, "children_spec": []}

    def change(program):
        for call in program["graph_module"]["module_call_graph"]:
            if call["signature"]:
                call["signature"]["out_spec"] = json.dumps([1, structure])

    return change


def with_operator_argument(program):
    node(program)["inputs"][0]["arg"] = {"as_operator": "torch.serialization.os.system"}


def with_object(program):
    node(program)["inputs"][0]["arg"] = {"as_custom_obj": {"name": "o", "class_fqn": "os.system"}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (with_target("torch.serialization.os.system"), r"a call of 'torch\.serialization"),
        (with_target("torch.hub.load"), "a call of"),
        (with_target("torch.ops.load_library.any"), "a call of"),
        (with_target("torch.ops.aten.__class__.mro"), "a call of"),
        (with_target("math.__loader__.load_module"), "a call of"),
        (with_target("_operator.__spec__"), "a call of"),
        (with_target("#triton.kernel"), "a call of"),
        (with_target(["list"]), "a call of"),
        (with_target("torch.ops.aten.save.default"), "a call of"),
        (with_target("torch.ops.aten.from_file.default"), "a call of"),
        (with_target("torch.ops.prim.Print.default"), "a call of"),
        (with_target("torch.ops.higher_order.print"), "a call of"),
        (with_target("torch.ops.c10d.barrier.default"), "a call of"),
        (with_target("torch.ops.neuron.ranks_write.default"), "a call of"),
        (with_target("torch.ops.inductor._reinterpret_tensor.default"), "a call of"),
        (with_target("_operator.pow"), "a call of"),
        (with_target("_operator.lshift"), "a call of"),
        (with_target("math.factorial"), "a call of"),
        (with_operator_argument, "a call of"),
        (with_name, "a value called"),
        (with_size, "a size"),
        (with_structure(f'[{{"__enum__": true, "fqn": "{RAN}:A", "name": "B"}}]'), "enumeration"),
        (
            with_structure({"default_factory_module": RAN, "default_factory_name": "f"}),
            f"a default made by '{RAN}.f'",
        ),
        (with_object, "an object of Python"),
    ],
)
def test_what_could_run_code_is_refused_by_name(written, change, told):
    with pytest.raises(BadInput, match=f"holds .*{told}.*could run code") as caught:
        exported_graph(written(**{MODEL: change}))
    assert caught.value.fix.startswith("do not trust the file")


@pytest.mark.parametrize("target", ["_operator.neg", "_operator.and_", "torch.sym_not"])
def test_a_function_of_numbers_of_a_tensor_is_no_program(written, target):
    with pytest.raises(BadInput, match=r"model\.pt2 is no exported program: "):
        exported_graph(written(**{MODEL: with_target(target)}))


def test_a_program_without_its_modules_is_no_program(written):
    def change(program):
        program["graph_module"]["module_call_graph"] = []

    with pytest.raises(BadInput, match=r"model\.pt2 is no exported program: "):
        exported_graph(written(**{MODEL: change}))


def test_code_beside_a_program_is_not_run(written):
    def change(program):
        program["guards_code"] = [EXEC]
        node(program)["metadata"]["source_fn_stack"] = "x,torch.serialization.os.system"

    library = {"data/aotinductor/model/model.so": b"\x7fELF", "extra/note": b"text"}
    assert exported_graph(written(**{MODEL: change}, **library)).operators


@pytest.mark.parametrize("member", [MODEL, WEIGHTS, CONSTANTS])
@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"3", b"{}", b"[" * 100_000, b'{"config": [1]}', b'{"config": {"a": 3}}'],
)
def test_json_of_another_shape_is_no_program(written, member, content):
    with pytest.raises(BadInput, match=r"model\.pt2"):
        exported_graph(written(**{member: content}))


def test_a_weight_that_no_machine_can_hold_is_refused(written):
    def change(weights):
        weights["config"]["linear.weight"]["tensor_meta"]["sizes"] = [{"as_int": 1 << 60}]

    with pytest.raises(BadInput, match=r"no exported program"):
        exported_graph(written(**{WEIGHTS: change}))


def test_a_member_of_names_that_leave_the_archive_is_not_read(written, tmp_path):
    path = written(**{"../../evil.py": b"x", "/absolute": b"y"})
    assert exported_graph(path).operators
    assert [found.name for found in tmp_path.iterdir()] == ["model.pt2"]


def test_a_longer_json_than_any_program_has_is_not_read_to_its_end(written, monkeypatch):
    monkeypatch.setattr("trnsim.torch.models.archive._JSON_BYTES_MAX", 1000)
    with pytest.raises(BadInput, match="longer than 1,000 bytes"):
        exported_graph(written(**{MODEL: b'{"a": "' + bytes(2000) + b'"}'}))


@pytest.mark.parametrize(
    "text",
    [
        "s77 + 1",
        "Symbol('u0', integer=True)",
        "LessThan(Symbol('u0', positive=True, integer=True), Integer(4))",
        "Max(1, FloorDiv(s0, 2))",
        "Pow(Symbol('s0', integer=True), Integer(-1))",
        "Float('0.5', precision=53)",
        "2.0*s3",
    ],
)
def test_sizes_as_pytorch_writes_them_are_read(text):
    assert _EXPRESSION.fullmatch(text)


@pytest.mark.parametrize(
    "text",
    [
        *("().__class__", "__import__('os')", "s0.args", "x", "open", "s0[0]", "lambda: 1", "'a'"),
        *("Pow(Integer(9), Integer(999))", "Symbol('s0); exec('x')", "f'{s0}'", "1_0", "s0;s1"),
    ],
)
def test_other_expressions_are_not(text):
    assert not _EXPRESSION.fullmatch(text)
