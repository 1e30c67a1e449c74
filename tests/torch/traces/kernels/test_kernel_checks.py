import pytest

from trnsim.torch.traces.encoding import MalformedProgram
from trnsim.torch.traces.kernels.kernel_checks import checked_kernel

TILE = "cores.0.instructions.0.operands.dst"
REGISTER = {"value": 1, "origins": [], "dtype": None, "is_comparison": False}
INDEX = {"source": REGISTER, "stride_bytes": 4, "limit": 8, "limit_reason": ""}
CONSTANT = {
    "place": "constant",
    "shape": [2],
    "dtype": "int32",
    "name": "",
    "address": None,
    "content": "AAAAAAAAAAA=",
    "line": None,
}


def with_value(form, path, value):
    """A form with another value at a path."""
    *parts, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
    place = form
    for part in parts:
        place = place[part]
    place[last] = value
    return form


def test_a_kernel_that_trnsim_wrote_is_read(form):
    assert checked_kernel(form, "kernels[0]").title == "doubled"
    form["cores"][0]["tensors"].append(CONSTANT)
    assert checked_kernel(form, "kernels[0]").cores[0].tensors[-1].content


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("title", "doubled(); import os", "title: .*; legal: a name of Python"),
        ("title", None, "title: None; legal: a text"),
        ("version", "0.1", "version: '0.1'; legal: 0.2"),
        ("may_spill", 1, "may_spill: 1; legal: true or false"),
        ("line", 99, "line 99, of"),
        ("lines.0.line", 0, r"lines\[0\].line: 0; legal: 1 to"),
        ("lines.0.line", 10**9, r"lines\[0\].line: 1000000000; legal: 1 to"),
        ("cores", [], "cores: '0 cores'; legal: 1 to 2"),
        ("arguments.0.place", "sbuf", r"arguments\[0\].place: 'sbuf'; legal: argument"),
        ("cores.0.tensors.0.place", "argument", r"tensors\[0\].place: 'argument'"),
        ("cores.0.tensors.0.dtype", "object", r"tensors\[0\].dtype: 'object'; legal: float32"),
        ("cores.0.tensors.0.shape", [], r"tensors\[0\].shape: \(\); legal: lengths of at least 1"),
        ("cores.0.tensors.0.shape", [4, 0], r"tensors\[0\].shape: \(4, 0\)"),
        ("cores.0.tensors.0.shape", [4, -8], r"tensors\[0\].shape: \(4, -8\)"),
        ("cores.0.tensors.0.shape", [1 << 40, 1 << 40], r"tensors\[0\].shape"),
        ("cores.0.tensors.0.shape", [1] * 99, r"tensors\[0\].shape"),
        ("cores.0.tensors.0.address", [0], r"tensors\[0\].address: 1 values; legal: 2"),
        ("cores.0.tensors.0.content", "AAAA", r"tensors\[0\].content: 'AAAA'; legal: 0 bytes"),
        ("cores.0.tensors.0", CONSTANT | {"content": "AAAA"}, "content: 'AAAA'; legal: 8 bytes"),
        ("cores.0.tensors.0", CONSTANT | {"content": "?"}, "content: '\\?'; legal: 8 bytes"),
        ("cores.0.blocks", [[0, 2], [1, 3]], r"blocks\[1\]: \(1, 3\); legal: parts"),
        ("cores.0.blocks", [[0, 10**9]], r"blocks\[0\]: \(0, 1000000000\)"),
        ("cores.0.instructions.0.line", 10**9, r"instructions\[0\].line 1000000000, of"),
        (f"{TILE}.tensor", 10**9, r"operands.dst.tensor 1000000000, of 3"),
        (f"{TILE}.tensor", -1, r"operands.dst.tensor -1, of 3"),
        (f"{TILE}.dtype", "", r"operands.dst.dtype: ''"),
        (f"{TILE}.shape", [4], r"operands.dst.shape: \(4,\); legal: as many lengths"),
        (f"{TILE}.shape", [-4, 8], r"operands.dst.shape -4"),
        (f"{TILE}.shape", [1 << 24, 1 << 23], r"operands.dst.shape: .*; legal: at most 33,554,432"),
        (f"{TILE}.strides_bytes", [-32, 4], r"operands.dst.strides_bytes -32"),
        (f"{TILE}.offset_bytes", -1, r"operands.dst.offset_bytes -1"),
        (f"{TILE}.index", INDEX | {"limit": -1}, r"operands.dst.index.limit -1"),
        (
            f"{TILE}.index",
            INDEX | {"source": REGISTER | {"origins": [0]}},
            r"operands.dst.index.source.origins 0, of 0",
        ),
        (f"{TILE}.index", INDEX | {"source": REGISTER | {"dtype": "x"}}, "source.dtype: 'x'"),
        ("results.0.tile.tensor", 7, r"results\[0\].tile.tensor 7"),
        ("results.0.tile.index", INDEX, r"results\[0\].tile.index: .*; legal: null"),
        ("results.0.region", "hbm2", r"results\[0\].region: 'hbm2'; legal: sbuf"),
    ],
)
def test_a_value_that_is_not_legal_is_refused_with_its_field(form, path, value, text):
    with pytest.raises(MalformedProgram, match=rf"kernels\[0\]\.(.*\.)?{text}"):
        checked_kernel(with_value(form, path, value), "kernels[0]")


def test_a_tile_may_have_as_many_elements_as_the_largest_tensor(form):
    with_value(form, "arguments.0.shape", [128, 1 << 20])
    with_value(form, f"{TILE}.strides_bytes", [0, 0])
    with_value(form, f"{TILE}.shape", [128, 1 << 20])
    assert checked_kernel(form, "kernels[0]")
    with_value(form, f"{TILE}.shape", [129, 1 << 20])
    with pytest.raises(MalformedProgram, match=r"shape: .*; legal: at most 134,217,728 elements"):
        checked_kernel(form, "kernels[0]")


def test_an_edge_of_instructions_that_are_not_there_is_refused(form):
    edge = {"consumer": 1, "producer": 10**9, "waits": True, "form": "", "text": "", "line": None}
    form["cores"][0]["edges"] = [edge]
    with pytest.raises(MalformedProgram, match=r"edges\[0\].producer 1000000000, of 3"):
        checked_kernel(form, "kernels[0]")


def test_an_index_of_an_index_is_refused(form):
    tile = form["cores"][0]["instructions"][0]["operands"]["src"]
    index = {"stride_bytes": 4, "limit": 8}
    inner = tile | {"index": index | {"source": dict(tile)}}
    form["cores"][0]["instructions"][0]["operands"]["src"] = tile | {
        "index": index | {"source": inner}
    }
    with pytest.raises(MalformedProgram, match=r"operands.src.index: 'an index'; legal: null"):
        checked_kernel(form, "kernels[0]")
