"""The compiled layer beside a plan's constant."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from trnsim.cli import app, compiled_layers
from trnsim.errors import NotModelled

CONFIG = str(Path(__file__).parents[2] / "examples" / "llama-3.1-8b.json")


class Shape(SimpleNamespace):
    """As the room of models has it."""

    def __init__(self, phase, batch, sequence, past, ranks):
        super().__init__(phase=phase, batch=batch, sequence=sequence, past=past, ranks=ranks)


@pytest.fixture
def asked(monkeypatch):
    """The layers that are asked for, where nothing is compiled."""
    found = []

    def compiled_layer(path, shape, target):
        found.append((Path(path).name, target, *vars(shape).values()))
        if target == "trn1":
            raise NotModelled("no layer of it\nhas a time")
        return SimpleNamespace(shape=shape, time_s=1e-3, exchanges_s=2e-4, mfu=0.25, mbu=0.5)

    models = SimpleNamespace(ModelShape=Shape, compiled_layer=compiled_layer)
    monkeypatch.setattr(compiled_layers, "find_spec", lambda _: True)
    monkeypatch.setattr(compiled_layers, "import_module", lambda _: models)
    return found


def run(*arguments):
    result = CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_decode_step_is_that_of_the_plan_on_ranks_that_divide_the_heads(asked):
    output = run("serve", CONFIG, "--on", "trn2,p5en", "--chips", "2", "--compiled")
    # 2 chips of 4 logical cores for 32 heads; 2048 tokens in and 256 out.
    assert asked == [("llama-3.1-8b.json", "trn2", "decode", 8, 1, 2304, 8)]
    assert output.splitlines()[-2:] == [
        "one layer compiled, beside the plan's HBM efficiency:",
        (
            "  trn2: 1 ms and 200 us of exchanges (decode, batch 8, 2,304 keys, one of 8 ranks), "
            "MFU 25 %, MBU 50 %; the plan takes 68 %"
        ),
    ]


def test_nothing_is_compiled_unless_it_is_asked_for(asked):
    assert "compiled" not in run("serve", CONFIG, "--on", "trn2")
    assert "compiled_layer" not in run("serve", CONFIG, "--on", "trn2", "--json")
    assert asked == []


def test_gpus_have_no_layer(asked):
    assert "one layer" not in run("serve", CONFIG, "--on", "p5en", "--compiled")
    assert asked == []


def test_the_layer_is_in_the_json(asked):
    first, second = json.loads(
        run("serve", CONFIG, "--on", "trn1,trn2", "--chips", "2", "--compiled", "--json")
    )
    assert asked
    assert first["compiled_layer"] == {"error": "no layer of it", "constant": 0.68}
    assert second["compiled_layer"] == {
        "time_s": 1e-3, "exchanges_s": 2e-4, "mfu": 0.25, "mbu": 0.5, "ranks": 8, "constant": 0.68
    }  # fmt: skip


def test_without_transformers_the_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(compiled_layers, "find_spec", lambda _: None)
    output = run("serve", CONFIG, "--on", "trn2", "--compiled")
    assert "trn2: it needs PyTorch and transformers: pip install 'trnsim[torch,models]'" in output
