"""A few of the architectures of docs/generated/traced.md, in an environment with transformers."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
pytest.importorskip("transformers", reason="models are transformers': make clients")

sys.path.insert(0, str(Path(__file__).parents[1] / "xla" / "neuronx"))
import architectures

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["bert", "gpt2", "vit"])
def test_an_architecture_computes_what_the_cpu_computes(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(architectures, "FOLDER", tmp_path)
    row = architectures.outcome(kind)
    assert row["end"] == "equal", row
    assert row["difference"] == 0
    assert (tmp_path / f"{kind}.pt").exists()
