"""Parameters of models by closed formulas, which the sums over their graphs are compared with."""

from trnsim.workload.architecture import Attention, Experts, LatentAttention


def of_attention(attention, hidden):
    """``hidden (heads (d + v) + kv_heads (d + v))``, biases and norms; or of latent vectors."""
    if isinstance(attention, LatentAttention):
        queries = (attention.query_rank or hidden) * (attention.plain_dim + attention.rotary_dim)
        made = attention.kv_rank * (attention.plain_dim + attention.value_dim)
        fixed = (
            hidden * (attention.query_rank + attention.kv_rank + attention.rotary_dim)
            + attention.norms
        )
        return attention.heads * (queries + made + attention.value_dim * hidden) + fixed
    assert isinstance(attention, Attention)
    per_head = attention.head_dim + attention.value_dim
    return (
        hidden * per_head * (attention.heads + attention.kv_heads)
        + attention.biases
        + attention.norms
    )


def of_mlp(mlp, hidden, *, is_active=False):
    """``matrices hidden intermediate``, and biases; of experts all, or those that a token takes."""
    if not isinstance(mlp, Experts):
        return mlp.matrices * hidden * mlp.intermediate + mlp.biases
    shared = of_mlp(mlp.shared, hidden) if mlp.shared else 0
    fixed = hidden * mlp.count + mlp.router_biases + shared + mlp.shared_gate
    return (mlp.per_token if is_active else mlp.count) * of_mlp(mlp.expert, hidden) + fixed


def of_layer(layer, hidden, *, is_active=False):
    """Those of one of equal layers."""
    attentions = sum(of_attention(attention, hidden) for attention in layer.attentions)
    mlp = of_mlp(layer.mlp, hidden, is_active=is_active)
    return attentions + mlp + layer.norms + layer.other_parameters


def of_table(tower):
    """Those that are looked up, not multiplied; a tied table counts with the product."""
    is_own = not (tower.is_tied or tower.is_table_shared)
    table_rows = tower.table_rows * tower.width if is_own else 0
    return table_rows + tower.positions * tower.hidden + tower.embedding_parameters


def of_ends(tower):
    """Those of products outside the layers, and of the last norm."""
    is_own = not (tower.is_tied and tower.is_table_shared)
    outputs = tower.outputs * tower.width if is_own else 0
    products = (
        (one.inputs * one.outputs + one.biases)
        for one in (*tower.input_projections, *tower.output_projections)
    )
    return outputs + sum(products) + tower.head_parameters


def of_tower(tower, *, is_active=False):
    """All, or those that one token takes."""
    layers = sum(
        (layer.times if is_active or not layer.is_shared else 1)
        * of_layer(layer, tower.hidden, is_active=is_active)
        for layer in tower.layers
    )
    return layers + of_table(tower) + of_ends(tower)


def of_model(model, *, is_active=False):
    """All, or those that one token takes."""
    return sum(of_tower(tower, is_active=is_active) for tower in model.towers)


def multiplied(model):
    """Those that one token multiplies: all that it takes but what is looked up."""
    tables = sum(of_table(tower) for tower in model.towers)
    return of_model(model, is_active=True) - tables
