"""Small programs, one a row of the table of behaviours: where each relies on its row."""

import pytest

from trnsim.behaviours import VERSIONS
from trnsim.behaviours.names import BY_FORM
from trnsim.behaviours.table import TABLE
from trnsim.nki.migrate.file import SourceFile
from trnsim.nki.migrate.report import report_of
from trnsim.nki.migrate.traces import traces_of

HEAD = """import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl

"""
KERNEL = """@nki.jit
def kernel(x, y):
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
    other = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
    whole = nl.ndarray((128, 512), nl.int32, buffer=nl.sbuf)
    psum = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
    cube = nl.ndarray((128, 4, 8), nl.float32, buffer=nl.sbuf)
    packed = nl.ndarray((128, 8), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    e4m3 = nl.ndarray((128, 64), nl.float8_e4m3, buffer=nl.sbuf)
    e4m3fn = nl.ndarray((128, 64), nl.float8_e4m3fn, buffer=nl.sbuf)
    register = nisa.register_alloc(2)
    LINE
    return out
"""
LINES = {
    "nisa.dma_copy(dst_rmw_op=)": "nisa.dma_copy(out, tile, dst_rmw_op=nl.add)",
    "nisa.dma_copy(unique_indices=)": "nisa.dma_copy(out, tile, unique_indices=True)",
    "nisa.register_move(imm=)": "nisa.register_move(register, imm=3)",
    "nisa.sendrecv(use_gpsimd_dma=)": "nisa.sendrecv(tile, other, 0, 0, 0, use_gpsimd_dma=True)",
    "ncc.collective_permute_implicit_current_processing_rank_id(num_channels=)": (
        "ncc.collective_permute_implicit_current_processing_rank_id(0, channel_id=0,"
        " num_channels=2, replica_group=y)"
    ),
    "nisa.tensor_copy_dynamic_src": "nisa.tensor_copy_dynamic_src(tile, other[:, register])",
    "nisa.tensor_copy_dynamic_dst": "nisa.tensor_copy_dynamic_dst(tile[:, register], other)",
    "nl.dynamic_range": "for i in nl.dynamic_range(register): nisa.memset(tile, 0.0)",
    "while-register": "while register: nisa.register_move(register, 0)",
    "register-has-value": "for i in range(register): nisa.memset(tile, 0.0)",
    "builtin-buffers": "a = sbuf.view(nl.float32, (128, 2))",
    "string-buffers": "a = nl.ndarray((128, 2), nl.float32, buffer='sbuf')",
    "neuronxcc-in-kernels": "import neuronxcc.nki.language as old; old.arange(3)",
    "dynamic-loops-warn": "for i in nl.dynamic_range(4): nisa.memset(tile, 0.0)",
    "dma-copy-reads-psum": "nisa.dma_copy(out, psum[0:64, 0:8])",
    "hwdge-of-two-dtypes": "nisa.dma_copy(dst=whole, src=tile, dge_mode=nisa.dge_mode.hwdge)",
    "memset-casts": "nisa.memset(whole, -2.5)",
    "memset-of-packed": "nisa.memset(packed, value=1)",
    "dma-compute-scales-first": "nisa.dma_compute(out, [tile, other], [1.0, 1.0], nl.add)",
    "affine-select-offset-third": "nisa.affine_select(tile, [[1, 512]], 3, 1, other, 0.0)",
    "tensor-reduce-axis-1-is-last": "nisa.tensor_reduce(tile, nl.add, cube, axis=1)",
    "range-select-overrides": (
        "nisa.range_select(tile, other, nl.less, nl.less, y, y, on_false_value=0.0)"
    ),
    "integer-enums": "nisa.dma_copy(out, tile, dge_mode=2)",
    "dma-transpose-pads-rank": "nisa.dma_transpose(tile, cube)",
    "matmul-mixes-e4m3": "nisa.nc_matmul(psum, e4m3, e4m3fn)",
    "dma-copy-modifies": "nisa.dma_copy(out, tile, nl.add)",
    "dma-without-priority": "nisa.dma_copy(out, tile, nisa.oob_mode.error)",
    "nc-matmul-without-accumulate": "nisa.nc_matmul(psum, e4m3, e4m3, False, False, False, (0, 0))",
    "nisa.nc_matmul(psumAccumulateFlag=)": "nisa.nc_matmul(psum, y, y, psumAccumulateFlag=3)",
    "nisa.nc_matmul(is_moving_zero=)": "nisa.nc_matmul(psum, y, y, is_moving_zero=True)",
    "ranges-are-pythons": "for i in nl.affine_range(3): nisa.memset(tile, 0.0)",
    "mx-scale-twice-ocp": "nisa.quantize_mx(packed, tile, e4m3)",
    "ap-offset-adds": "nisa.dma_copy(out, tile[0:64, 8:16].ap([[512, 64], [1, 8]], offset=8))",
    "reshape-unchecked": "tile.reshape((128, 500))",
    "copy-is-exact": "nl.copy(whole)",
    "rsqrt-reads-psum": "nl.rsqrt(psum)",
    "simulator-find-all-ones": "nisa.nc_find_index8(tile, other, y); nki.simulate(y)",
    "simulator-replace-from-end": "nisa.nc_match_replace8(tile, other, y, 0.0); nki.simulate(y)",
    "simulator-reduce-res-may-alias": (
        "nisa.activation(tile, nl.exp, other, reduce_res=tile[:, 0:1]); nki.simulate(y)"
    ),
    "simulator-casts-saturate": "nisa.tensor_copy(whole, tile); nki.simulate(y)",
    "simulator-precise": "nl.zeros((1, 1), nl.bfloat16); nki.simulate(y)",
}
"""Row -> a line of a kernel that relies on it."""
PROGRAMS = {name: HEAD + KERNEL.replace("LINE", line) for name, line in LINES.items()} | {
    "list-arguments": HEAD + "@nki.jit\ndef kernel(x, stride=[1, 1]):\n    nisa.memset(x, 0)\n",
    "output-in-any-hbm": HEAD
    + "@nki.jit\ndef kernel(x):\n    out = nl.ndarray((1, 1), x.dtype, buffer=nl.hbm)\n"
    "    return out\n",
    "no-keyword-only-parameters": HEAD + "@nki.jit\ndef kernel(x, *, flag=True):\n    pass\n",
    "is-of-none-alone": HEAD + KERNEL.replace("LINE", "if x is not True: nl.zeros((1, 1), y)"),
    "jit-platform-target": HEAD + "@nki.jit(platform_target='trn2')\ndef kernel(x):\n    pass\n",
    "jit-mode": HEAD + "@nki.jit(mode='jax')\ndef kernel(x):\n    pass\n",
    "not-mixed-with-0.2": HEAD + "@nki.jit\ndef kernel(x):\n    nisa.register_move(x, imm=1)\n\n"
    "@nki.jit\ndef newer(x):\n    nl.load(x)\n",
}
ADDED = [form for form, row in BY_FORM.items() if row.until is None]


def before(row):
    """The last version without what a row brings, or with what it ends."""
    versions = list(VERSIONS.values())
    is_return = row.name in {"no-keyword-only-parameters", "is-of-none-alone"}
    boundary = row.since if is_return else row.until or row.since
    return versions[list(VERSIONS).index(boundary) - 1], VERSIONS[boundary]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_relies_on_a_row_is_told_where_it_ends(name):
    row, text = TABLE[name], PROGRAMS[name]
    old, new = before(row)
    origin = None if name == "not-mixed-with-0.2" else old
    statements = report_of(text, "kernels.py", new, origin).statements
    (statement,) = [each for each in statements if each.row is row]
    assert statement.version is new
    assert "kernel" in statement.kernels
    line = LINES.get(name, "").partition("\n")[0]
    assert line in text.splitlines()[statement.line - 1]
    if row.until and origin:
        assert not [s for s in report_of(text, "k.py", old, origin).statements if s.row is row]


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"not-mixed-with-0.2"}))
def test_a_program_is_told_of_its_own_row_alone(name):
    row = TABLE[name]
    old, new = before(row)
    told = {each.row.name for each in report_of(PROGRAMS[name], "k.py", new, old).statements}
    related = {"nl.dynamic_range": {"dynamic-loops-warn"}, "while-register": set()}
    assert told == {name} | (related.get(name, set()) & told)


@pytest.mark.parametrize("form", [form for form in ADDED if "(" not in form])
def test_a_name_that_a_version_added_changes_nothing_later(form):
    module, _, name = form.partition(".")
    line = f"{form}(x)" if module != "nki" else f"nki.{name}"
    text = HEAD + KERNEL.replace("LINE", line)
    row = BY_FORM[form]
    report = report_of(text, "kernels.py")
    assert report.kernels[0].oldest is VERSIONS[row.since]
    assert report.kernels[0].version is list(VERSIONS.values())[-1]
    assert report.statements == []


def test_the_rows_without_a_program_are_those_that_take_nothing_away():
    """They allow more than before, or no text shows them."""
    rest = set(TABLE) - set(PROGRAMS) - set(BY_FORM)
    assert not {name for name in rest if TABLE[name].form and TABLE[name].until}


@pytest.mark.parametrize(
    "line",
    [
        "nisa.dma_copy(out, tile)",
        "nisa.dma_copy(dst=out, src=tile, dge_mode=nisa.dge_mode.hwdge)",
        "nisa.memset(whole, 0.0)",
        "nisa.memset(tile, 2.5)",
        "nisa.tensor_reduce(tile, nl.add, other, axis=1)",
        "nisa.tensor_reduce(tile, nl.add, cube, axis=2)",
        "nisa.nc_matmul(psum, e4m3, e4m3)",
        "nisa.dma_transpose(tile, other)",
        "nisa.dma_copy(out, tile.ap([[512, 64], [1, 8]], offset=8))",
        "nisa.dma_copy(out, x.ap([[512, 64], [1, 8]], offset=8))",
        "tile.reshape((64, 1024))",
        "tile.reshape(y.shape)",
        "a = nl.copy(tile)",
        "nl.rsqrt(tile)",
        "if x is None: nl.zeros((1, 1), y)",
        "nisa.nc_find_index8(tile, other, y)",
        "nisa.dma_compute(out, [tile, other], nl.add, [1.0, 1.0])",
    ],
)
def test_what_every_version_takes_is_no_trace(line):
    assert traces_of(SourceFile(HEAD + KERNEL.replace("LINE", line))) == []


def test_what_the_text_leaves_open_is_perhaps_so():
    line = "nisa.tensor_reduce(tile, nl.add, y, axis=1)"
    report = report_of(HEAD + KERNEL.replace("LINE", line), "k.py", origin="0.2")
    assert [each.effect for each in report.statements] == ["perhaps refused"]


def test_a_kernel_that_another_calls_returns_no_output():
    text = PROGRAMS["output-in-any-hbm"]
    assert traces_of(SourceFile(text + "\ndef other(x):\n    return kernel(x)\n")) == []


def test_the_old_namespace_is_told_once_in_each_function_of_kernels():
    line = "import neuronxcc.nki.language as old; old.arange(3); old.load(x)"
    rest = "\ndef test():\n    old.arange(3)\n"
    traces = traces_of(SourceFile(HEAD + KERNEL.replace("LINE", line) + rest))
    assert [trace.line for trace in traces] == [18]
