"""Packages of CUDA, and names that make kernels."""

import pytest

from trnsim.decide.scan.findings import EFFORTS, KINDS
from trnsim.decide.scan.packages import KERNEL_NAMES, PACKAGES, longest_entry


def test_every_entry_has_a_kind_an_effort_and_an_advice():
    for found in (*PACKAGES.values(), *KERNEL_NAMES.values()):
        assert found.kind in KINDS
        assert found.effort in EFFORTS
        assert found.advice


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("flash_attn", "flash_attn"),
        ("flash_attn.bert_padding.unpad_input", "flash_attn"),
        ("flash_attn_interface", "flash_attn_interface"),
        ("numba.cuda", "numba.cuda"),
        ("numba", None),
        ("nvidia.dali.fn", "nvidia.dali"),
        ("flash", None),
        ("my.flash_attn", None),
        ("", None),
    ],
)
def test_a_name_lies_in_the_longest_entry(name, entry):
    found = longest_entry(name, PACKAGES)
    assert (found and found[0]) == entry


def test_names_that_make_kernels_are_no_packages():
    assert not KERNEL_NAMES.keys() & PACKAGES.keys()
