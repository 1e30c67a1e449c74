"""The page has every operation of the dialect that jaxlib has."""

import importlib

import jax
from jax_ops import AWS, dialect, page

from trnsim.jax.stablehlo.refused import REFUSED
from trnsim.jax.stablehlo.rules import RULES

IS_NEWEST = jax.__version_info__ >= (0, 10)
"""Whether jaxlib has each operation that the rules know; an older one has fewer."""


def of_jaxlib(module):
    classes = vars(importlib.import_module(f"jaxlib.mlir.dialects._{module}_ops_gen")).values()
    return {one.OPERATION_NAME for one in classes if hasattr(one, "OPERATION_NAME")}


def test_every_operation_of_the_dialect_has_a_row():
    found = of_jaxlib("stablehlo")
    assert found <= set(dialect())
    assert found == set(dialect()) or not IS_NEWEST


def test_no_operation_is_imported_and_refused():
    assert not set(RULES) & set(REFUSED)
    assert set(AWS) <= set(dialect())


def test_operations_of_chlo_are_those_of_the_dialect():
    ours = {name for name in RULES if name.startswith("chlo.")}
    assert ours <= of_jaxlib("chlo") or not IS_NEWEST


def test_a_row_says_what_becomes_of_an_operation():
    text = page()
    assert "| `add` | lowered | the operation of that name |  |" in text
    assert "| `dot` | composed | a product over the last dimension of the left side" in text
    assert "| `cholesky` | composed | the triangle L with ``L @ L.T = a``" in text
    assert "| `complex` | host | a NeuronCore has no complex numbers" in text
    assert "| `infeed` | refused | the host exchanges nothing with a program that runs;" in text
    assert "| `while` | lowered | the trips one after the other" in text
