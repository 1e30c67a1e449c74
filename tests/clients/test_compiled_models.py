"""Architectures of released transformers as one program a pass, and what splits others."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
pytest.importorskip("transformers", reason="make clients installs transformers")

import captured
import compiled_models
import numpy as np
import tiny

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("kind", ["llama", "vit", "mixtral", "bert"])
def test_each_pass_is_one_program_and_computes_what_its_graph_says(kind):
    _, built = tiny.build(kind)
    graphs, why = captured.whole(built)
    assert why is None
    assert [one.kind for one in graphs] == ["forward", "backward"]
    for one in graphs:
        row = compiled_models.compiled(one, has_values=True)
        assert row["end"] == "one program", row
        assert row["programs"] == 1
        assert row["difference"] <= compiled_models.NEAR


def test_where_a_value_decides_what_runs_the_graph_is_in_pieces():
    class Model(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            return {"y": y + 1 if y.sum().item() > 0 else y - 1}

    built = tiny.Built(Model(), {"x": torch.ones(3)})
    _, why = captured.whole(built)
    assert "item" in str(why) or "_local_scalar_dense" in str(why)
    parts, why = captured.pieces(built)
    assert why is None
    ends = [compiled_models.compiled(one, has_values=True)["end"] for one in parts]
    assert len(ends) > 1
    assert set(ends) == {"one program"}


def test_what_neuronx_cc_refuses_is_named_by_code_and_operator():
    class Model(torch.nn.Module):
        def forward(self, x):
            return {"y": x.cummax(0).values + 1}

    (graph,), _ = captured.whole(tiny.Built(Model(), {"x": torch.ones(4)}))
    (code,) = compiled_models.compiled(graph, has_values=False)["codes"]
    assert code == "NCC_EVRF001 aten::cummax on float32[4]: there is no lowering of it"


def test_a_difference_is_relative_to_the_largest_number_of_its_tensor():
    wanted = [np.array([1.0, -2000.0]), np.array([1e-9, 0.5])]
    found = [np.array([3.0, -2000.0]), np.array([2e-9, 0.5])]
    assert compiled_models.difference(found, wanted) == pytest.approx(1e-3)
    assert compiled_models.difference([np.array([np.nan])], [np.array([1.0])]) == float("inf")


def test_inputs_move_by_one_unit_in_the_last_place():
    given = [np.ones(64, np.float32), np.arange(3), np.float32(0).reshape(1)]
    wide, whole, zero = compiled_models.moved(given)
    assert set(wide) == {np.float32(1 - 2**-24), np.float32(1 + 2**-23)}
    assert whole is given[1]
    assert 0 < abs(zero[0]) < 1e-44
    assert (wide.dtype, zero.dtype) == (np.float32, np.float32)


def test_the_page_counts_ends_and_causes():
    part = {"graph": "forward", "operations": 3, "codes": [], "programs": 1, "end": "one program"}
    part |= {"instructions": 9, "device_time_s": 1e-6, "difference": 1e-7}
    lacking = part | {"end": "split", "codes": ["NCC_EVRF001 aten::cummax on int64[2]: none"]}
    far = part | {"graph": "backward", "difference": 2e-3, "one unit off": 3e-3}
    rows = [
        {"kind": "a", "end": "one program", "commit": "0f", "level": 1, "graphs": [part, far]},
        {"kind": "b", "end": "split", "graphs": [lacking], "in pieces": "x: aten.nonzero.default"},
        {"kind": "c", "end": "fails", "why": "takes longer than 120 s"},
    ]
    made = compiled_models.page(rows, 5)
    assert "Of 5 architectures, 3 were compiled so far. 1 of these are one program" in made
    assert "Rows by commit:\nan earlier one, -O2 (2) and 0f (1)." in made
    assert "For 1 it is at most" in made.replace("\n", " ")
    assert "in the last place: a (2.0e-03; 3.0e-03)." in made
    assert "| a | 3, 9, 1 | 3, 9, 1 | 2e-03 |" in made
    assert "| NCC_EVRF001 | `aten::cummax` | 1 |" in made
    assert "| a value decides what runs | `nonzero` | 1 |" in made
    assert "| c | fails | 0 |  | takes longer than 120 s |" in made
