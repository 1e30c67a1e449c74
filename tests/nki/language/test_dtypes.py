"""The dtypes of the language, and its module of them."""

import numpy as np
import pytest

from trnsim.dtypes import BY_NAME
from trnsim.nki import language as nl
from trnsim.nki.language import dtypes


@pytest.mark.parametrize("name", BY_NAME)
def test_every_dtype_is_in_the_language_and_in_its_module(name):
    assert getattr(nl, name) is getattr(dtypes, name) is BY_NAME[name]


def test_names_of_nki_0_1_still_mean_something():
    assert nl.bool is nl.bool_
    assert (nl.fp32.min, nl.fp32.max) == (-nl.fp32.max, np.finfo(np.float32).max)


def test_a_dtype_is_a_key_and_equals_numpys():
    assert {nl.float32: 1}[np.dtype("float32")] == 1
    assert str(nl.float8_e4m3) == "float8_e4m3"
