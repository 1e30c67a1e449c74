"""Panels of an operand: as wide as each other, so that no transfer has short rows."""

import pytest
from made_graphs import Made

from trnsim.lower.emit import product_operand


@pytest.mark.parametrize(
    ("columns", "widths"), [(512, {512}), (640, {256, 384}), (720, {336, 384}), (1280, {256, 512})]
)
def test_panels_of_a_matrix_are_about_equally_wide(columns, widths, monkeypatch):
    monkeypatch.setattr(product_operand, "_STATIONARY_PANEL_BYTES", 1024)  # 512 columns
    loaded, load = set(), product_operand.ProductOperand._load_panel

    def recorded(operand, number, start, count):
        loaded.add(count)
        return load(operand, number, start, count)

    monkeypatch.setattr(product_operand.ProductOperand, "_load_panel", recorded)
    made = Made("bfloat16")
    table = made.given(3, 128, columns)
    chosen = made.graph.gather(table, made.given(2, dtype="int32", array=[2, 0]))
    made.check(made.graph.dot_general(made.given(2, 5, 128), chosen, (2, 1)))
    assert loaded == widths
