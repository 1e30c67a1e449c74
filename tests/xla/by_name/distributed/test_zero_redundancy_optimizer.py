"""ZeRO-1: the values of the optimizer that is not sharded, with states of a share."""

import os
import pickle

import pytest
import torch


def trained(make, rank=0, steps=3):
    """The weights of a model after steps on rank's data, and its optimizer."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    scale = torch.nn.Parameter(torch.tensor(1.5))
    data = torch.randn(4, 2, 3)
    model.to("xla")
    model.register_parameter("scale", torch.nn.Parameter(scale.detach().to("xla")))
    optimizer = make(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        shares = data[step].to("xla")
        inputs = shares if rank is None else shares[rank : rank + 1]
        (model.scale * model(inputs)).square().mean().backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()], optimizer


def clipped_adamw(parameters):
    """AdamW after the clipping of all gradients to a norm of 0.1."""
    parameters = list(parameters)
    optimizer = torch.optim.AdamW(parameters, lr=0.1)
    own = optimizer.step

    def step():
        torch.nn.utils.clip_grad_norm_(parameters, 0.1)
        own()

    optimizer.step = step
    return optimizer


def sharded(parameters, **options):
    from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

    settings = {"max_norm": 0.1, "lr": 0.1} | options
    return ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, **settings)


@pytest.mark.slow
def test_two_ranks_train_to_the_values_of_one(tmp_path):
    import torch_xla

    os.environ["NEURONCORE_NUM_DEVICES"] = "2"

    def run(index):
        torch.set_num_threads(1)
        weights, optimizer = trained(sharded, index)
        rows = [share.shape[0] for _, share in optimizer._pairs()]
        (tmp_path / str(index)).write_bytes(pickle.dumps((weights, rows)))

    torch_xla.launch(run, start_method="fork")
    expected, _ = trained(clipped_adamw, None)  # PyTorch forks no process that went backward
    for rank in range(2):
        weights, rows = pickle.loads((tmp_path / str(rank)).read_bytes())  # noqa: S301
        torch.testing.assert_close(weights, expected)
        assert rows == [1, 3, 3, 1, 1]


def test_a_state_is_restored():
    import torch_xla

    _, first = trained(sharded)
    state = first.state_dict()
    assert state["shape_info"][1] == [5, 3]
    _, second = trained(sharded, steps=0)
    second.load_state_dict(state)
    moments = second.base_optimizer.state_dict()["state"][0]["exp_avg"]
    torch.testing.assert_close(moments, first.base_optimizer.state_dict()["state"][0]["exp_avg"])


def test_shares_are_saved_if_a_program_wants_them():
    import torch_xla

    _, first = trained(lambda p: sharded(p, save_master_weights=True))
    state = first.state_dict()
    assert len(state["sharded_master_weights"]) == 5
    _, second = trained(lambda p: sharded(p, save_master_weights=True), steps=0)
    second.load_state_dict(state)
    for (_, ours), (_, theirs) in zip(first._pairs(), second._pairs(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_what_it_cannot_do_is_refused_by_name():
    import torch_xla
    from torch_xla.distributed import ZeroRedundancyOptimizer

    parameters = [torch.nn.Parameter(torch.ones(2, device="xla"))]
    for option in ("sharding_groups", "grad_norm_groups"):
        with pytest.raises(ValueError, match=r"groups \[0\]; legal: None, or a list of lists"):
            ZeroRedundancyOptimizer(parameters, torch.optim.SGD, **{option: [0]}, lr=1.0)
    with pytest.raises(ValueError, match=r"rank 0 is in none of the sharding_groups \[\[1\]\]"):
        ZeroRedundancyOptimizer(parameters, torch.optim.SGD, sharding_groups=[[1]], lr=1.0)
    lazy = ZeroRedundancyOptimizer(parameters, torch.optim.SGD, lazy_init=True, lr=1.0)
    assert not lazy.inited
    with pytest.raises(ValueError, match=r"fix: call init_zero\(\) first"):
        lazy.step()
    lazy.init_zero()
    lazy.step()
    assert lazy.inited


def test_gradients_are_added_up_in_the_optimizers_dtype():
    """In bfloat16, 256 + 1 is 256."""
    import torch_xla
    from torch_xla.distributed import ZeroRedundancyOptimizer

    weight = torch.nn.Parameter(torch.zeros(3, device="xla", dtype=torch.bfloat16))
    frozen = torch.nn.Parameter(torch.zeros(3, device="xla"), requires_grad=False)
    options = {"lr": 1.0, "grad_clipping": False, "use_grad_acc_hook": True}
    optimizer = ZeroRedundancyOptimizer([weight, frozen], torch.optim.SGD, **options)
    for factor in (256.0, 1.0, 3.0):
        (weight * factor).sum().backward()
        assert weight.grad is None
    assert weight.main_grad.dtype is torch.float32
    assert weight.main_grad.tolist() == [260.0] * 3
    optimizer.step()
    assert weight.tolist() == [-260.0] * 3
    optimizer.zero_grad()
    assert weight.main_grad.tolist() == [0.0] * 3
    (weight * 2.0).sum().backward()
    optimizer.init_zero()  # shares anew; a gradient still counts once
    (weight * 2.0).sum().backward()
    assert weight.main_grad.tolist() == [4.0] * 3


def test_a_subclass_clips_by_its_own_norm():
    """As NxD's, whose norm is over the ranks of tensor parallelism too."""
    import torch_xla
    from torch_xla.distributed import ZeroRedundancyOptimizer

    class Halved(ZeroRedundancyOptimizer):
        @property
        def grad_norm(self):
            return self._grad_norm

        def _clip_grad_norm(self, max_norm, norm_type=2.0):  # noqa: ARG002  as called
            self._grad_norm = torch.tensor(7.0)
            for group in self.base_optimizer.param_groups:
                for share in group["params"]:
                    share.grad.mul_(max_norm / 2)

    weight = torch.nn.Parameter(torch.zeros(2, device="xla"))
    optimizer = Halved([weight], torch.optim.SGD, lr=1.0, max_norm=3.0)
    weight.sum().backward()
    optimizer.step()
    assert weight.tolist() == [-1.5, -1.5]
    assert optimizer.grad_norm == 7.0
    assert optimizer.sharding_groups == optimizer._sharding_groups == [[0]]


def test_the_optimizer_is_a_class():
    from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

    with pytest.raises(ValueError, match="of 'SGD'; legal: a class of optimizers"):
        ZeroRedundancyOptimizer([torch.nn.Parameter(torch.ones(1))], "SGD", lr=0.1)


def test_the_state_of_another_optimizer_is_refused():
    from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

    weights = [torch.nn.Parameter(torch.ones(2, device="xla"))]
    optimizer = ZeroRedundancyOptimizer(weights, torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match="a state with state, param_groups, and no base_state"):
        optimizer.load_state_dict(torch.optim.SGD(weights, lr=0.1).state_dict())
