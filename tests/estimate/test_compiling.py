from types import SimpleNamespace

import pytest
from layer_sizes import LLAMA, layer

from trnsim.errors import BadInput
from trnsim.estimate import compiling, table
from trnsim.estimate.compiling import compiled, layer_of
from trnsim.workload.operators import Pass, Phase, Split

STEP = Pass(Phase.DECODE, 2, 1, 999)


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Compiles nothing: what was asked for, and 1 ms."""
    shapes = []
    made = SimpleNamespace(
        ModelShape=lambda *sizes, **more: (*sizes, more),
        compiled_layer=lambda path, shape, name: (
            shapes.append((path, shape, name)) or SimpleNamespace(time_s=1e-3)
        ),
    )
    monkeypatch.setattr(compiling, "find_spec", lambda _: True)
    monkeypatch.setattr(compiling, "import_module", lambda _: made)
    monkeypatch.setenv("TRNSIM_CACHE", str(tmp_path))
    table._of_user.cache_clear()
    yield shapes
    table._of_user.cache_clear()


def test_a_layer_that_was_compiled_is_known_from_then_on(asked):
    block = layer(LLAMA, STEP, Split(8))
    assert table.Table("NeuronCore-v2", {}).at(block, STEP) is None
    assert compiled("llama.json", LLAMA, "trn1", STEP, 8) == 1e-3
    assert asked == [("llama.json", ("decode", 2, 1, 999, 8, {"is_padded": True}), "trn1")]
    assert table.Table("NeuronCore-v2", {}).at(block, STEP)[0] == 1e-3
    assert table.Table("NeuronCore-v2", {}).at(layer(LLAMA, STEP), STEP) is None


def test_a_logical_core_is_a_rank_of_its_own(asked):
    compiled("llama.json", LLAMA, "trn2", STEP, 8)
    block = layer(LLAMA, STEP, Split(8))
    assert table.Table("2 x NeuronCore-v3", {}).at(block, STEP)[0] == 1e-3
    assert len(asked) == 1


@pytest.mark.parametrize(
    "given", [Pass(Phase.TRAIN, 1, 128), Pass(Phase.PREFILL, 1, 128, 128)], ids=["train", "past"]
)
def test_passes_without_a_compiled_time_are_refused(asked, given):
    with pytest.raises(BadInput, match="legal: encode, prefill, decode"):
        compiled("llama.json", LLAMA, "trn1", given, 1)
    assert not asked


def test_without_pytorch_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match=r"(?s)PyTorch module.*pip install 'trnsim\[torch,models\]'"):
        compiled("llama.json", LLAMA, "trn1", STEP, 8)


def test_the_first_layer_is_that_of_the_ranks():
    assert layer_of(LLAMA, STEP, 8) == layer(LLAMA, STEP, Split(8))
