"""Tensors in SBUF."""

import pytest

from trnsim.arch import TARGETS
from trnsim.errors import BadInput
from trnsim.tools.nccom.operations import operation
from trnsim.tools.nccom.options import OperationOptions
from trnsim.tools.nccom.shapes import check_sbuf, sbuf_shape


def check(name="allr", nbytes=4096, chip="trn2", lnc=2, **stated):
    stated = OperationOptions(operation=name, sb2sb=True, **stated)
    check_sbuf(stated, operation(name), TARGETS.get(chip), lnc, 4, nbytes)


def test_a_shape_is_read_as_the_page_writes_it():
    shape = sbuf_shape("--input-shape", "[1,2][512,128]", 128)
    assert (shape.steps, shape.counts, shape.elements) == ((1, 2), (512, 128), 65_536)
    assert sbuf_shape("--input-shape", " [1, 2] [3, 4] ", 128).counts == (3, 4)


@pytest.mark.parametrize("text", ["", "[1,1]", "[1][2]", "[0,1][2,3]", "[1,1][2,3", "1,1,2,3"])
def test_another_shape_is_refused(text):
    with pytest.raises(BadInput, match=r"--input-shape '.*'; legal: \[step0,step1\]\[num_elem0"):
        sbuf_shape("--input-shape", text, 128)


def test_partitions_are_those_of_sbuf():
    assert sbuf_shape("--output-shape", "[1,1][1,128]", 128)
    with pytest.raises(BadInput, match=r"num_elem1 is 129; legal: up to 128"):
        sbuf_shape("--output-shape", "[1,1][1,129]", 128)


def test_input_and_output_share_the_sbuf_of_a_rank():
    room = 2 * 24 << 20  # at least two cores of 24 MiB
    check(nbytes=room // 2)
    with pytest.raises(BadInput, match=r"--sb2sb of 67,108,864 bytes: input and output have 134,"):
        check(nbytes=64 << 20)
    check("allg", nbytes=32 << 20)  # a gather's input is a quarter


@pytest.mark.parametrize(
    ("name", "chip"),
    [("allr", "trn1"), ("allr", "inf1"), ("alltoall", "trn2"), ("permute", "trn2")],
)
def test_chips_and_operations_without_it_are_refused(name, chip):
    with pytest.raises(BadInput, match=rf"--sb2sb of \w+ on {chip}; legal: all_reduce, all_gather"):
        check(name, chip=chip)


def test_a_shape_has_the_elements_of_its_tensor():
    check("allg", 4096, datatype="fp32", input_shape="[1,1][2,128]", output_shape="[1,1][8,128]")
    with pytest.raises(
        BadInput, match=r"--output-shape \[1,1\]\[2,128\] has 256 elements; legal: 1,"
    ):
        check("allg", 4096, datatype="fp32", output_shape="[1,1][2,128]")


def test_without_the_option_nothing_is_checked():
    check_sbuf(OperationOptions(operation="permute"), operation("permute"), None, 1, 2, 1 << 40)
