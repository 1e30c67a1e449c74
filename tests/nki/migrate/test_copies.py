"""Tests of copies that are rewritten; AWS's pairs are in test_guide."""

import pytest

from trnsim.nki.migrate.report import report_of
from trnsim.nki.migrate.writing import manual_reason, rewritten_file

HEAD = (
    "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n@nki.jit\ndef k(d, s, o):\n"
)


def report(*body):
    return report_of(HEAD + "".join(f"    {line}\n" for line in body), "k.py", origin="0.2")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("nisa.dma_copy(d, s, dst_rmw_op=None)", "nisa.dma_copy(d, s)"),
        (
            "nisa.dma_copy(dst=d, src=s, dst_rmw_op=nl.add)",
            "nisa.dma_compute(dst=d, srcs=[s, d], reduce_op=nl.add)",
        ),
        (
            "nisa.dma_copy(d, s, dst_rmw_op=nl.add, unique_indices=False)",
            "nisa.dma_compute(d, [s, d], reduce_op=nl.add, unique_indices=False)",
        ),
        ("nisa.dma_copy(d, s, unique_indices=False)", "nisa.dma_copy(d, s)"),
        (
            "nisa.tensor_copy_dynamic_src(d, s.ap(o, scalar_offset=o))",
            "nisa.tensor_copy(d, s.ap(o, scalar_offset=o))",
        ),
        (
            "nisa.tensor_copy_dynamic_dst(src=s, dst=d.ap(o, scalar_offset=o))",
            "nisa.tensor_copy(src=s, dst=d.ap(o, scalar_offset=o))",
        ),
    ],
)
def test_a_copy_that_computes(line, expected):
    assert rewritten_file(report(line)).text == f"{HEAD}    {expected}\n"


def test_a_choice_in_the_call_becomes_branches():
    made = rewritten_file(report("nisa.dma_copy(d, s, dst_rmw_op=nl.add if o else None)")).text
    assert made.removeprefix(HEAD) == (
        "    if o:\n        nisa.dma_compute(dst=d, srcs=[s, d], reduce_op=nl.add)\n"
        "    else:\n        nisa.dma_copy(dst=d, src=s)\n"
    )


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["nisa.tensor_copy_dynamic_src(d, s[o])"], "src is no tensor.ap(pattern"),
        (["nisa.dma_copy(d, s, dst_rmw_op=nl.add, dge_mode=o)"], "nisa.dma_compute has no dge"),
        (["nisa.dma_copy(d, s, dst_rmw_op=o)"], "dst_rmw_op=o is not an operation for all calls"),
        (["nisa.dma_copy(d, s, dst_rmw_op=o.op)"], "not an operation for all calls"),
        (["nisa.dma_copy(*d, dst_rmw_op=nl.add)"], "its arguments are passed on"),
        (["z = nisa.dma_copy(d, s, dst_rmw_op=nl.add if o else None)"], "part of an expression"),
        (
            ["nisa.dma_copy(d, s, dst_rmw_op=nl.add if o else nl.maximum)"],
            "one of several operations",
        ),
        (
            ["p = nl.ndarray(o, buffer=nl.psum, dtype=o)", "z = nisa.dma_copy(d, p)"],
            "part of an expression",
        ),
        (
            ["p = nl.ndarray(o, o, nl.psum)", "q = p", "nisa.dma_copy(d, q)"],
            "the shape of the tile in PSUM is not written out",
        ),
    ],
)
def test_a_copy_that_is_for_a_person(lines, words):
    told = report(*lines)
    assert any(words in manual_reason(told, statement) for statement in told.statements)
    assert "# nki 0.7: nisa." in rewritten_file(told).text
