import subprocess
import sys

import pytest

from trnsim.errors import BadInput
from trnsim.tools.neuronx_cc import operators

PROGRAM = "from trnsim.tools.neuronx_cc.operators import operator_names; print(*operator_names())"


@pytest.mark.slow  # a process of its own: JAX starts threads, beside which other tests may not fork
def test_operators_have_the_names_of_xla_builder():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    names = done.stdout.split()
    assert {"Add", "ConvGeneralDilated", "DotGeneral", "Cos", "AllGather", "Rng"} <= set(names)
    assert names == sorted(set(names))
    assert all(name[0].isupper() and "_" not in name for name in names)


def test_without_jax_it_is_said(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(operators, "import_module", missing)
    with pytest.raises(BadInput, match="operators of XLA are those that JAX's reader gives"):
        operators.operator_names()
