"""Released sentence-transformers embeds on the device as on the CPU."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
st = pytest.importorskip("sentence_transformers", reason="make clients installs it")

from known import MODELS
from sentence_transformers.sentence_transformer import modules
from words import tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")


def test_sentences_have_the_cpus_embeddings(tmp_path):
    MODELS["BERT"].build().bert.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    found = {}
    for device in ("neuron", "cpu"):
        words = modules.Transformer(str(tmp_path))
        pooled = modules.Pooling(words.get_embedding_dimension())
        model = st.SentenceTransformer(modules=[words, pooled], device=device)
        assert model.device.type == device
        found[device] = model.encode(["w1 w2 w3", "w4", "w5 w6"], convert_to_tensor=True).cpu()
    assert found["neuron"].shape == (3, 32)
    assert torch.allclose(found["neuron"], found["cpu"], atol=1e-5)
