import pytest

from trnsim.system.train.optimizers import OPTIMIZERS, optimizer_for


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
    assert optimizer_for(name, "bf16") is OPTIMIZERS[name]


def test_weights_in_float32_are_updated_in_place():
    """AdamW reads and writes two moments, reads the gradient, reads and writes the weight."""
    adamw = optimizer_for("adamw", "fp32")
    assert adamw.state_bytes == 2 * 4
    assert adamw.moved_bytes(4, 4) == 2 * (2 * 4) + 4 + 2 * 4
