"""The model above a program: a tree of modules, and what adds up to the whole."""

import pytest

from trnsim.profile.analysis.model_estimate import NO_MODULE, ModelEstimate, Share, label, modules
from trnsim.profile.measures.parts import WAITING, PartCost


def part(time_us, engine="dma", **hbm_bytes):
    return PartCost(1, {engine: time_us * 1e-6}, {engine: time_us * 1e-6}, hbm_bytes)


SHARES = (
    Share("net.embed", "gather", 1, part(1, weights=4)),
    Share("net.layers.*.attention.query", "dot_general", 12, part(6, "tensor", weights=64)),
    Share("net.layers.*.mlp", "dot_general", 12, part(8, "tensor", weights=128)),
    Share("net.layers.*.mlp", "gelu", 12, part(2, "scalar")),
    Share("", "results to HBM", 1, part(3, outputs=16)),
)


def whole(**changes):
    facts = {
        "launch_s": 10e-6, "device_time_s": 20e-6, "exchanges_s": 5e-6, "bound_s": 7e-6,
        "binds": "HBM", "flop": 1e9, "hbm_bytes": 2e6, "mfu": 0.25, "mbu": 0.5, "programs": 1,
        "layers": 11, "compiled": 4, "shares": SHARES,
    }  # fmt: skip
    return ModelEstimate(**{**facts, **changes})


def test_modules_are_a_tree_in_which_each_has_what_is_in_it():
    rows = [(row["path"], row["depth"], row["times"], row["time_ns"]) for row in modules(SHARES)]
    assert rows == [
        ("net", 0, 1, pytest.approx(17e3)),
        ("net.embed", 1, 1, pytest.approx(1e3)),
        ("net.layers.*", 1, 12, pytest.approx(16e3)),
        ("net.layers.*.attention.query", 2, 1, pytest.approx(6e3)),
        ("net.layers.*.mlp", 2, 1, pytest.approx(10e3)),
        (NO_MODULE, 0, 1, pytest.approx(3e3)),
    ]


def test_what_bounds_a_module_is_what_bounds_what_is_in_it():
    rows = {row["path"]: row["bound_by"] for row in modules(SHARES)}
    assert rows["net.layers.*.mlp"] == "Tensor Engine"
    assert rows["net.embed"] == "DMA"


def test_a_module_without_a_name_is_no_part_of_another():
    assert [row["path"] for row in modules(SHARES[-1:])] == [NO_MODULE]
    assert modules([]) == []


def test_tables_add_up_to_the_device_time():
    data = whole().as_data()
    for table in ("operations", "engines"):
        key = "time_ns" if table == "operations" else "critical_ns"
        assert sum(row[key] for row in data[table]) == pytest.approx(data["device_ns"])
    assert sum(row["time_ns"] for row in data["modules"] if not row["depth"]) == pytest.approx(20e3)


def test_operations_and_reasons_come_dearest_first():
    data = whole().as_data()
    assert [row["name"] for row in data["operations"]] == [
        *("dot_general", "results to HBM", "gelu", "gather")
    ]
    assert data["traffic"] == [
        {"reason": "weights", "bytes": 196},
        {"reason": "outputs", "bytes": 16},
    ]


def test_the_time_has_one_launch_and_the_exchanges():
    assert whole().time_s == pytest.approx(35e-6)
    assert whole().bound_ratio == pytest.approx(5)
    assert whole(bound_s=0.0).bound_ratio == float("inf")


def test_the_dearest_modules_in_words():
    assert whole().longest_modules(2) == (
        "net.layers.*.mlp 10 us (50 %); net.layers.*.attention.query 6 us (30 %)"
    )
    assert whole(shares=SHARES[-1:]).longest_modules(2) == f"{NO_MODULE} 3 us (15 %)"


def test_what_takes_time_has_a_name():
    assert label("gpsimd") == "GpSimd Engine"
    assert label(WAITING) == "waiting for results"
    assert (label("kernels"), label("")) == ("kernels", "nothing")
