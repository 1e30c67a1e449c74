"""What collectives of `xla_model` take as values, dimensions and scales."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.xla.collective_arguments import (
    CollectiveMisused,
    require_dim,
    require_scale,
    require_tensor,
)

PAIR = torch.ones(2)


def test_a_scale_is_a_number_or_a_tensor_of_one():
    for scale in (1, 0.5, torch.tensor(2.0), torch.ones(1)):
        require_scale("all_reduce", scale)


def test_others_are_refused():
    for check, message in (
        (lambda: require_scale("all_reduce", None), "xm.all_reduce with scale=None; legal: a numb"),
        (lambda: require_scale("all_reduce", PAIR), r"xm.all_reduce with scale=a tensor of \[2\];"),
        (lambda: require_tensor("all_gather", 3), "xm.all_gather of a int; legal: a tensor"),
        (lambda: require_dim("all_gather", PAIR, 1), "xm.all_gather along dimension 1 of a tensor"),
        (
            lambda: require_dim("all_gather", PAIR[0], 0),
            r"xm.all_gather along .* of shape \[\]; legal: a tensor with a dimension",
        ),
    ):
        with pytest.raises(CollectiveMisused, match=f"^{message}"):
            check()
