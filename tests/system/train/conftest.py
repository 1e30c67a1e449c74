"""Models and machines of these tests."""

import pytest

from trnsim.place.machine import machine
from trnsim.system.train.layout import Layout
from trnsim.workload.config import from_config

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
MIXTRAL = LLAMA | {
    "model_type": "mixtral",
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 32768,
}


@pytest.fixture(scope="session")
def llama():
    return from_config(LLAMA, "llama-8b.json")


@pytest.fixture(scope="session")
def mixtral():
    return from_config(MIXTRAL, "mixtral.json")


@pytest.fixture(scope="session")
def make_llama():
    """A Llama with other sizes."""
    return lambda **sizes: from_config(LLAMA | sizes, "llama.json")


@pytest.fixture(scope="session")
def trn2():
    return machine("trn2", 4)


@pytest.fixture
def layout():
    """A layout that `trn2` and `llama` can have."""
    return Layout(tensor=8, pipeline=4, data=8, is_sequence=True, global_batch=256, sequence=4096)
