"""Policies of wrapping: which modules within are wrapped, by count and by class."""

from functools import partial

from torch import nn


class Wrapper(nn.Module):
    def __init__(self, module, **options):
        super().__init__()
        self.inner, self.options = module, options


def tree():
    return nn.Sequential(nn.Linear(10, 10), nn.ModuleList([nn.Linear(2, 2)]), nn.ReLU())


def test_classes_are_wrapped_wherever_they_lie():
    from trnsim.xla.by_name.distributed.fsdp import wrap

    policy = partial(wrap.transformer_auto_wrap_policy, transformer_layer_cls={nn.Linear})
    model, count = wrap.recursive_wrap(tree(), policy, Wrapper, kind=3)
    assert isinstance(model[0], Wrapper)
    assert isinstance(model[1][0], Wrapper)
    assert model[0].options == {"kind": 3}
    assert isinstance(model[2], nn.ReLU)
    assert count == 110 + 6


def test_sizes_count_what_is_not_wrapped_within():
    from trnsim.xla.by_name.distributed.fsdp import wrap

    policy = partial(wrap.size_based_auto_wrap_policy, min_num_params=6)
    model, count = wrap.recursive_wrap(tree(), policy, Wrapper)
    assert isinstance(model, nn.Sequential)  # all of it is wrapped within
    assert isinstance(model[0], Wrapper)
    assert isinstance(model[1], nn.ModuleList)
    assert isinstance(model[1][0], Wrapper)
    assert count == 116
    model, count = wrap.recursive_wrap(
        tree(), partial(wrap.size_based_auto_wrap_policy, min_num_params=117), Wrapper
    )
    assert (count, type(model)) == (0, nn.Sequential)


def test_a_module_that_nothing_is_wrapped_within():
    from trnsim.xla.by_name.distributed.fsdp import wrap

    attention = nn.MultiheadAttention(4, 1)
    policy = partial(wrap.size_based_auto_wrap_policy, min_num_params=1)
    model, count = wrap.recursive_wrap(attention, policy, Wrapper)
    assert model is attention
    assert count == 0


def test_other_policies_and_children_alone():
    from trnsim.xla.by_name.distributed.fsdp import wrap

    model, _ = wrap.recursive_wrap(tree(), wrap.always_wrap_policy, Wrapper)
    assert isinstance(model, Wrapper)
    assert isinstance(model.inner[2], Wrapper)
    model, _ = wrap.recursive_wrap(
        tree(), wrap.always_wrap_policy, Wrapper, only_wrap_children=True
    )
    assert isinstance(model, nn.Sequential)
    policy = partial(
        wrap.lambda_auto_wrap_policy, lambda_fn=lambda module: isinstance(module, nn.ReLU)
    )
    model, count = wrap.recursive_wrap(tree(), policy, Wrapper)
    assert isinstance(model[2], Wrapper)
    assert count == 0
