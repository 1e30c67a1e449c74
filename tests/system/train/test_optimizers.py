import pytest

from trnsim.system.train.optimizers import OPTIMIZERS


@pytest.mark.parametrize(
    ("name", "state", "moved"),
    [
        ("adamw", 12, 24 + 4 + 2),
        ("adamw-bf16", 4, 8 + 4 + 2 + 2),
        ("sgd", 8, 16 + 4 + 2),
        ("lamb", 12, 24 + 4 + 2),
        ("adafactor", 4, 8 + 4 + 2),
    ],
)
def test_optimizers_keep_and_move_bytes(name, state, moved):
    assert OPTIMIZERS[name].state_bytes == state
    assert OPTIMIZERS[name].moved_bytes() == moved
