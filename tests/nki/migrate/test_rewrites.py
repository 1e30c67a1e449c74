"""Tests of rewrites by row; AWS's pairs are in test_guide."""

import pytest

from trnsim.behaviours import VERSIONS
from trnsim.behaviours.table import TABLE
from trnsim.nki.migrate.report import report_of
from trnsim.nki.migrate.rewrites import REWRITES
from trnsim.nki.migrate.writing import rewritten_file

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n"
KERNEL = HEAD + "@nki.jit\ndef k(x, y):\n    cube = nl.ndarray((2, 4, 8), nl.float32)\n    {}\n"


def new(line, target="0.7"):
    text = KERNEL.format(line)
    return rewritten_file(report_of(text, "k.py", VERSIONS[target], "0.2")).text.splitlines()[7:]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "nisa.tensor_reduce(x, nl.add, cube, axis=1)",
            "nisa.tensor_reduce(x, nl.add, cube, axis=2)",
        ),
        (
            "nisa.range_select(x, y, on_false_value=0.0)",
            "nisa.range_select(x, y, reduce_cmd=nisa.reduce_cmd.reset_reduce)",
        ),
        (
            "for i in nl.affine_range(x, y): nl.sequential_range(3)",
            "for i in range(x, y): range(3)",
        ),
        ("nisa.nc_matmul(x, y, y, psumAccumulateFlag=3)", "nisa.nc_matmul(x, y, y)"),
        (
            "nisa.nc_matmul(x, y, y, is_moving_zero=True)",
            "nisa.nc_matmul(x, y, y, is_moving_onezero=True)",
        ),
        (
            "nisa.nc_matmul(x, y, y, False, False, False, (0, 0), (8, 8))",
            "nisa.nc_matmul(x, y, y, False, False, False, tile_position=(0, 0), tile_size=(8, 8))",
        ),
        (
            "nisa.dma_copy(x, y, nisa.oob_mode.skip)",
            "nisa.dma_copy(x, y, oob_mode=nisa.oob_mode.skip)",
        ),
        ("nisa.register_move(dst=x, imm=3)", "nisa.register_move(dst=x, src=3)"),
        ("nisa.register_move(x, imm=y)", "nisa.register_move(x, src=y)"),
        (
            "nisa.sendrecv(x, use_gpsimd_dma=y)",
            "nisa.sendrecv(x, dma_engine=nisa.dma_engine.gpsimd_dma if y else nisa.dma_engine.dma)",
        ),
        (
            "nisa.affine_select(x, y, 3, 1, x, 0.0, cmp_op=nl.equal)",
            "nisa.affine_select(x, y, 1, x, 0.0, cmp_op=nl.equal, offset=3)",
        ),
        (
            "nisa.affine_select(x, y, 3, 1, x, 0.0, nl.equal)",
            "nisa.affine_select(x, y, 1, x, 0.0, nl.equal, offset=3)",
        ),
        (
            "nisa.affine_select(x, y, 3, 1, x, 0.0, nl.equal, 'n')",
            "nisa.affine_select(x, y, 1, x, 0.0, nl.equal, name='n', offset=3)",
        ),
        (
            "nisa.dma_compute(x, [y], [1.0], nl.add, 'n')",
            "nisa.dma_compute(x, [y], nl.add, scales=[1.0], name='n')",
        ),
        ("z = nl.ndarray((4, 4), nl.int8, 'psum')", "z = nl.ndarray((4, 4), nl.int8, nl.psum)"),
        (
            "nisa.range_select(x, y, nl.less, nl.less, y, y, nisa.reduce_cmd.idle)",
            "nisa.range_select(x, y, nl.less, nl.less, y, y, nisa.reduce_cmd.reset_reduce)",
        ),
    ],
)
def test_a_rewrite(line, expected):
    assert new(line) == [f"    {expected}"]
    if "for" not in line:  # its rewritten loop has no form
        text = KERNEL.format(expected)
        assert report_of(text, "k.py").kernels[0].version.name != "0.2"
        assert rewritten_file(report_of(text, "k.py")).text == text


@pytest.mark.parametrize(
    ("line", "comment"),
    [
        ("nisa.dma_copy(x, y, dge_mode=9)", "# nki 0.7: the documents want members by name"),
        (
            "nisa.tensor_reduce(x, nl.add, y, axis=1)",
            "# nki 0.7: perhaps, here and below: axis of nisa.",
        ),
        ("nisa.quantize_mx(x, y, x)", "# nki 0.7: the block scale of nisa.quantize_mx is twice"),
        ("nl.affine_range(3, step=2)", "# nki 0.7: nl.affine_range, nl.sequential_range and"),
        ("nisa.dma_transpose(x, y, x, nisa.oob_mode.skip)", "# nki 0.7: priority is the third"),
        ("nisa.range_select(x, **y)", "# nki 0.7: nisa.range_select follows reduce_cmd"),
    ],
)
def test_what_is_not_mechanical_gets_a_comment(line, comment):
    first, *_, last = new(line)
    assert first.strip().startswith(comment)
    assert last == f"    {line}"


def test_a_rule_of_some_versions_is_rewritten_for_those_alone():
    assert new("if x is True: pass", "0.4") == ["    if x == True: pass"]
    assert new("if x is True: pass") == ["    if x is True: pass"]


def test_keyword_only_parameters_without_defaults_are_for_a_person():
    text = HEAD + "@nki.jit\ndef k(x, y=1, *, z):\n    pass\n"
    made = rewritten_file(report_of(text, "k.py", VERSIONS["0.3"], "0.2")).text
    assert "# nki 0.3: a `*` in the signature of a kernel is refused" in made


def test_lists_of_one_and_of_none_become_tuples():
    text = HEAD + "@nki.jit\ndef k(x, a=[], b=[1], c=[1,]):\n    pass\n"
    made = rewritten_file(report_of(text, "k.py", VERSIONS["0.3"], "0.2")).text
    assert "def k(x, a=(), b=(1,), c=(1,)):" in made


def test_names_are_spelled_as_the_file_spells_them():
    text = "import nki\nfrom nki import language\n@nki.jit\ndef k(x):\n    {}\n"
    line = "return language.ndarray((1, 1), x.dtype, buffer={})"
    told = report_of(text.format(line.format("'hbm'")), "k.py")
    assert line.format("language.shared_hbm") in rewritten_file(told).text
    text = "from nki.language import ndarray\ndef k(x):\n    ndarray(x, x, buffer='sbuf')\n"
    made = rewritten_file(report_of(text, "k.py"))
    assert made.rewrite_count == 0
    assert "# nki 0.7: a buffer is an object" in made.text


def test_every_rewrite_is_of_a_row():
    assert set(REWRITES) <= set(TABLE)


def test_values_in_the_places_of_range_select_are_for_a_person():
    by_place = "y, y, nisa.reduce_cmd.idle, x, nl.maximum, 0.0, 1.0"
    text = "\n".join(new(f"nisa.range_select(x, y, nl.less, nl.less, {by_place})"))
    assert by_place in text
    assert "# nki 0.7: " in text


@pytest.mark.parametrize("value", ["1e999", "-1e999", "2.5"])
def test_a_fill_that_is_no_whole_number_is_for_a_person(value):
    line = f"nisa.memset(t, {value})"
    text = HEAD + f"@nki.jit\ndef k(x):\n    t = nl.ndarray((2, 4), nl.int32)\n    {line}\n"
    made = rewritten_file(report_of(text, "k.py", VERSIONS["0.7"], "0.2"))
    assert (made.rewrite_count, line in made.text) == (0, True)
    assert "# nki 0.7: the value of nisa.memset must be" in made.text
