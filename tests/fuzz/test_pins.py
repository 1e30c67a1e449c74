"""Random kernels under each version of NKI, and whether an unexplained difference is seen."""

import numpy as np
import pins
import pytest
from generate import generate
from pins import Outcome, check_pins, explaining

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.nki.notices.DynamicLoopWarning")


@pytest.mark.slow_but("20-3")
@pytest.mark.parametrize(("first", "count"), [(0, 10), (10, 10), (20, 3), (23, 17)])
def test_random_kernels_differ_only_where_a_row_says_so(first, count):
    for seed in range(first, first + count):
        failure, _ = check_pins(generate(seed))
        assert failure is None, f"seed {seed}: {failure.kind}: {failure.text}"


def test_a_difference_without_a_row_is_found(monkeypatch):
    def outcome(kernel, version, lifted=()):
        del kernel, lifted
        return Outcome([np.float32(version == "0.3")], "", {"view-methods", "copy-reads-psum"})

    monkeypatch.setattr(pins, "outcome", outcome)
    failure, explained = check_pins(None)
    assert failure.kind == "NKI 0.3"
    assert failure.text == "other values; no row of the table explains it"
    assert explained == {}


def test_a_row_explains_only_where_it_answers_otherwise():
    found = Outcome(None, "", {"ap-offset-adds", "mx-scale-twice-ocp", "view-methods"})
    assert {row.name for row in explaining(found, "0.4")} == {
        "ap-offset-adds",
        "mx-scale-twice-ocp",
    }
    assert explaining(found, "0.5") == []
    found.error = "tensor.slice() under NKI 0.4, where tensors have ...; legal: from NKI 0.5 on"
    assert "view-methods" in {row.name for row in explaining(found, "0.4")}
