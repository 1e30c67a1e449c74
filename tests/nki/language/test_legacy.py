"""Names that NKI 0.2 removed."""

import pytest

from trnsim.errors import NotModelled
from trnsim.nki import language as nl
from trnsim.nki.language import legacy


@pytest.mark.parametrize("name", legacy.REPLACEMENTS)
def test_a_name_of_nki_0_1_says_what_replaces_it(name):
    with pytest.raises(NotModelled, match=rf"nl\.{name} belongs to NKI 0\.1") as caught:
        getattr(nl, name)
    assert caught.value.fix
    assert caught.value.source


def test_a_name_that_never_was_is_an_ordinary_mistake():
    with pytest.raises(AttributeError, match=r"'nki\.language' has no attribute 'nonsense'"):
        _ = nl.nonsense


@pytest.mark.usefixtures("on_core")
def test_par_dim_marks_the_first_dimension():
    assert nl.ndarray((nl.par_dim(4), 8), nl.float32).shape == (4, 8)
    assert nl.par_dim(4) * 2 == 8
    with pytest.raises(NotModelled, match="behind block dimensions"):
        nl.ndarray((2, nl.par_dim(4), 8), nl.float32)
