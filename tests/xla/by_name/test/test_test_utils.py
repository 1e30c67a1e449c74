"""Lines that example programs of torch_xla print."""

import contextlib
import io
import re

import pytest


def test_lines_of_training_and_of_tests():
    from torch_xla.test import test_utils

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        test_utils.print_training_update("xla:0", 20, 0.5, 10.0, 9.876)
        test_utils.print_training_update("xla:0", 20, 0.5, 10.0, 9.876, epoch=2)
        test_utils.print_test_update("xla:0", 97.255, epoch=2)
        test_utils.print_test_update("xla:0", None, step=0)
    lines = re.sub(r"Time=\d\d:\d\d:\d\d", "Time=T", printed.getvalue()).splitlines()
    assert lines == [
        "| Training Device=xla:0 Step=20 Loss=0.50000 Rate=10.00 GlobalRate=9.88 Time=T",
        "| Training Device=xla:0 Epoch=2 Step=20 Loss=0.50000 Rate=10.00 GlobalRate=9.88 Time=T",
        "| Test Device=xla:0 Epoch=2 Accuracy=97.25 Time=T",
        "| Test Device=xla:0 Step=0 Time=T",
    ]


def test_rates_go_to_a_writer():
    from torch_xla.test import test_utils

    class Writer:
        def __init__(self):
            self.scalars = []

        def add_scalar(self, name, value):
            self.scalars.append((name, value))

    writer = Writer()
    with contextlib.redirect_stdout(io.StringIO()):
        test_utils.print_training_update("xla:0", 1, 0.5, 3.0, 2.0, summary_writer=writer)
    assert writer.scalars == [("examples/sec", 3.0), ("average_examples/sec", 2.0)]


def test_helpers_of_torch_xlas_own_tests_are_refused():
    from torch_xla.test import test_utils

    with pytest.raises(AttributeError, match=r"(?s)mp_test: it is of.*torch_xla\.launch"):
        test_utils.mp_test  # noqa: B018
