"""Small architectures whose operators can be counted by hand."""

from trnsim.workload.architecture import (
    Architecture,
    Attention,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    Tower,
)

GROUPED = Attention(heads=8, kv_heads=2, head_dim=4, value_dim=4)
LATENT = LatentAttention(
    heads=6, query_rank=20, kv_rank=12, plain_dim=5, rotary_dim=3, value_dim=7, norms=32
)
MLP = Mlp(50)


def model(attention=GROUPED, mlp=MLP, *, layers=3, is_tied=False, **given):
    """A decoder of 32 elements and 100 words."""
    layer = Layer(layers, (attention,), mlp, norms=64)
    tower = Tower(
        "decoder", 32, (layer,), table_rows=100, head_parameters=32, outputs=100, is_tied=is_tied
    )
    return Architecture("small", "llama", (tower,), **given)


def experts(count=16, per_token=2, **given):
    """Experts of 10 elements."""
    return Experts(count, per_token, Mlp(10), **given)


def layer_of(blocks):
    """The only kind of layer among blocks."""
    (found,) = (block for block in blocks if block.name == "layer")
    return found


def named(block, name):
    """The product of a name."""
    (found,) = (one for one in block.products if one.name == name)
    return found
