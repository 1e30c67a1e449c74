"""Files with one key that is wrong: an error of ours that names it, or an answer."""

import pytest
from published_models import COUNTS

from trnsim.errors import BadInput, NotModelled
from trnsim.workload.captured import CapturedModel, workload_of
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries
from trnsim.workload.resident import parameters

WRONG = (-1, 0, 1, 3, 2**70, 1.5, float("nan"), float("inf"), True, False, "", "x", "7", [], [1])
WRONG += ([None], [[]], [[1], 2], ["x"], {}, {"x": 1}, {"x": None}, None)
EXTRA = (
    *("architectures", "attention_bias", "attention_types", "decoder_sparse_step", "head_dim"),
    *("id2label", "layer_types", "mlp_only_layers", "quantization_config", "rope_scaling"),
    *("sliding_window", "sliding_window_pattern", "tie_word_embeddings", "torch_dtype"),
)


def places(config, inside=()):
    """The path of each key, nested ones too."""
    for key, value in config.items():
        yield (*inside, key)
        if isinstance(value, dict):
            yield from places(value, (*inside, key))


def put(config, path, value):
    """A copy with another value at a path."""
    key, *rest = path
    return {**config, key: put(config[key], rest, value) if rest else value}


THIRDS = (0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow))
"""Of the values of a key. Keys next to each other, and a key of three models, get all of them."""


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize("third", THIRDS)
@pytest.mark.parametrize("name", COUNTS)
def test_a_wrong_value_is_refused_or_counted(name, third):
    config, _ = COUNTS[name]
    first = list(COUNTS).index(name) + third
    said, counted = [], set()  # each model once: most values change none
    for at, path in enumerate((*places(config), *((key,) for key in EXTRA))):
        for value in WRONG[(first + at) % 3 :: 3]:
            try:
                found = workload_of(put(config, path, value), "mine.json")
                if isinstance(found, CapturedModel) or repr(found) in counted:
                    continue
                counted.add(repr(found))
                assert parameters(found) > 0
                assert summaries(found, Pass(Phase.TRAIN, 1, 4), Split(tensor=3, expert=2))
            except (BadInput, NotModelled) as error:
                said.append(str(error))
    assert said
    assert all("mine" in message for message in said)
