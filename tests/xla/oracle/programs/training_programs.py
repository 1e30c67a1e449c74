"""Training: optimizers, loaders, losses, and what each step cuts and compiles.

Each function is a program, as in cut_programs.py.
"""

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
import torch_xla.distributed.parallel_loader as pl
from torch import nn


def model_on(place):
    """A small model with weights that are always the same, on the device."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            values = torch.arange(parameter.numel(), dtype=torch.float32) - 3.0
            parameter.copy_((values / (number + 5)).reshape(parameter.shape))
    return model.to(place)


def batches(count, rows=2):
    """Batches on the host."""
    for number in range(count):
        yield torch.linspace(-1.0, 1.0, rows * 3).reshape(rows, 3) + number / 8


def trained(device, make, steps=4, read=None):
    """The weights and losses after some steps, each ended by a cut."""
    model = model_on(device)
    optimizer = make(model.parameters())
    losses = []
    for batch in batches(steps):
        optimizer.zero_grad()
        loss = model(batch.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if read is not None:
            losses.append(read(loss))
    return [losses, *model.parameters()]


def sgd(device):
    """SGD: one compilation in four steps, beside that of the start."""
    return trained(device, lambda ps: torch.optim.SGD(ps, lr=0.25))


def sgd_with_momentum(device):
    """SGD with momentum: the first step makes the state."""
    return trained(device, lambda ps: torch.optim.SGD(ps, lr=0.25, momentum=0.875))


def adam(device):
    """Adam: two compilations, as step 1 makes the state."""
    return trained(device, lambda ps: torch.optim.Adam(ps, lr=0.125))


def adamw(device):
    """AdamW: two compilations."""
    return trained(device, lambda ps: torch.optim.AdamW(ps, lr=0.125))


def adamw_without_foreach(device):
    """AdamW, a parameter at a time."""
    return trained(device, lambda ps: torch.optim.AdamW(ps, lr=0.125, foreach=False))


def adagrad(device):
    """Adagrad."""
    return trained(device, lambda ps: torch.optim.Adagrad(ps, lr=0.125))


def rmsprop(device):
    """RMSprop."""
    return trained(device, lambda ps: torch.optim.RMSprop(ps, lr=0.0625))


def a_changing_learning_rate(device):
    """A scheduler's learning rate is an input."""
    model = model_on(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.625)
    for batch in batches(4):
        optimizer.zero_grad()
        model(batch.to(device)).square().mean().backward()
        optimizer.step()
        scheduler.step()
        torch_xla.sync()
    return [*model.parameters()]


def a_loss_read_in_each_step(device):
    """loss.item() after the cut of each step runs nothing more."""
    return trained(device, lambda ps: torch.optim.SGD(ps, lr=0.25), read=lambda x: x.item())


def a_loss_read_before_each_cut(device):
    """loss.item() before the cut: eight executions, one more compilation."""
    model = model_on(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    losses = []
    for batch in batches(4):
        optimizer.zero_grad()
        loss = model(batch.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        torch_xla.sync()
    return losses


def a_total_of_losses(device):
    """`total += loss`: two compilations."""
    model = model_on(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    total = 0
    for batch in batches(4):
        optimizer.zero_grad()
        loss = model(batch.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        total += loss
        torch_xla.sync()
    return total


def a_loader(device):
    """MpDeviceLoader over five batches: five executions, one compilation, MarkStep 7."""
    model = model_on(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    torch_xla.sync()
    met.clear_all()
    for batch in pl.MpDeviceLoader([*batches(5)], device):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        xm.optimizer_step(optimizer)
    return [*model.parameters()]


def a_loader_with_a_short_last_batch(device):
    """A short last batch compiles again."""
    model = model_on(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    torch_xla.sync()
    met.clear_all()
    for batch in pl.MpDeviceLoader([*batches(3), *batches(1, rows=1)], device):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        xm.optimizer_step(optimizer)
    return [*model.parameters()]


def a_loader_with_two_batches_in_a_step(device):
    """batches_per_execution=2: a cut after every second batch."""
    model = model_on(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    torch_xla.sync()
    met.clear_all()
    for batch in pl.MpDeviceLoader([*batches(4)], device, batches_per_execution=2):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        xm.optimizer_step(optimizer)
    return [*model.parameters()]


def a_loader_that_stops_early(device):
    """A break leaves the loader."""
    seen = 0
    for batch in pl.MpDeviceLoader([*batches(5)], device):
        seen += 1
        if seen == 2:
            break
    return [seen, batch]


def a_loader_of_pairs(device):
    """A batch of tensors, numbers and text keeps its form."""
    data = [
        (torch.ones(2) * number, {"label": torch.tensor([number]), "name": "x"})
        for number in range(2)
    ]
    found = [*pl.MpDeviceLoader(data, device)]
    return [found[1][0], found[1][1]["label"], found[1][1]["name"], len(found)]


def an_optimizer_step_with_a_barrier(device):
    """optimizer_step(barrier=True) is a cut."""
    model = model_on(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    for batch in batches(4):
        optimizer.zero_grad()
        model(batch.to(device)).square().mean().backward()
        xm.optimizer_step(optimizer, barrier=True)
    return [*model.parameters()]


def an_optimizer_step_without_a_barrier(device):
    """With neither barrier nor loader nothing ever runs."""
    model = model_on(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    for batch in batches(4):
        optimizer.zero_grad()
        model(batch.to(device)).square().mean().backward()
        xm.optimizer_step(optimizer)
    return met.metric_data("ExecuteTime")


def an_optimizer_step_with_a_closure(device):
    """optimizer_args are those of the optimizer's step."""
    parameter = nn.Parameter(torch.ones(2).to(device))
    optimizer = torch.optim.SGD([parameter], lr=0.25)
    parameter.grad = torch.ones(2).to(device)
    result = xm.optimizer_step(optimizer, optimizer_args={"closure": lambda: 7}, barrier=True)
    return [result, parameter]


def gradients_accumulated(device):
    """Two backward passes, one step."""
    model = model_on(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    for number, batch in enumerate(batches(4)):
        (model(batch.to(device)).square().mean() / 2).backward()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
        torch_xla.sync()
    return [*model.parameters()]


def an_older_optimizer_trains_nothing(device):
    """`m.to("xla")` makes new Parameters: an optimizer made before has those of the host."""
    model = nn.Linear(2, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    before = model.weight
    model.to(device)
    model(torch.ones(1, 2).to(device)).sum().backward()
    optimizer.step()
    torch_xla.sync()
    return [model.weight is before, before.grad is None, model.weight]


def tied_weights_part(device):
    """`m.to("xla")` unties weights that two modules share."""
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.weight = first.weight
    model = nn.Sequential(first, second)
    before = model[0].weight is model[1].weight
    model.to(device)
    return [before, model[0].weight is model[1].weight, len([*model.parameters()])]


def a_module_moved_back(device):
    """`m.cpu()` makes new Parameters too."""
    model = nn.Linear(2, 2).to(device)
    before = model.weight
    model.cpu()
    return [model.weight is before, str(model.weight.device)]


def a_module_cast_on_the_device(device):
    """A cast on the device keeps the Parameters."""
    model = nn.Linear(2, 2).to(device)
    before = model.weight
    model.to(torch.bfloat16)
    return [model.weight is before, str(model.weight.dtype)]


def a_gradient_moved_with_its_module(device):
    """Gradients move with a module."""
    model = nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    model.to(device)
    return [model.weight.grad, str(model.weight.grad.device), model.weight.is_leaf]


def a_frozen_parameter_moved(device):
    """requires_grad stays."""
    model = nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    model.to(device)
    return [model.weight.requires_grad, model.bias.requires_grad, type(model.bias).__name__]


def buffers_moved(device):
    """Buffers move with a module."""
    model = nn.BatchNorm1d(2).to(device)
    model(torch.tensor([[1.0, 2.0], [3.0, 6.0]]).to(device))
    torch_xla.sync()
    return [model.running_mean, model.num_batches_tracked]


def a_state_dict_loaded(device):
    """A state on the host is copied into a model of the device."""
    model = model_on(device)
    state = {name: value * 2 for name, value in model_on("cpu").state_dict().items()}
    model.load_state_dict(state)
    torch_xla.sync()
    return [*model.parameters()]


def a_cross_entropy_step(device):
    """A classifier's step."""
    model = model_on(device)
    model[2] = nn.Linear(4, 3).to(device)
    with torch.no_grad():
        model[2].weight.fill_(0.25)
        model[2].bias.copy_(torch.tensor([0.0, 0.5, 1.0]))
    labels = torch.tensor([2, 0]).to(device)
    loss = nn.functional.cross_entropy(model(next(batches(1)).to(device)), labels)
    loss.backward()
    torch_xla.sync()
    return [loss, model[2].weight.grad, model[0].weight.grad]


def an_embedding_step(device):
    """An embedding's gradient."""
    table = nn.Embedding(5, 2).to(device)
    with torch.no_grad():
        table.weight.copy_(torch.arange(10.0).reshape(5, 2))
    rows = table(torch.tensor([1, 3, 1]).to(device))
    rows.sum().backward()
    torch_xla.sync()
    return [rows, table.weight.grad]


def attention_of_a_small_model(device):
    """Scaled dot-product attention, forward and backward."""
    query = torch.linspace(-1, 1, 24).reshape(1, 2, 4, 3).to(device).requires_grad_()
    result = nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True)
    result.square().sum().backward()
    torch_xla.sync()
    return [result, query.grad]


def a_convolution_step(device):
    """A convolution with pooling, forward and backward."""
    layer = nn.Conv2d(1, 2, 3, padding=1).to(device)
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(-1, 1, 18).reshape(2, 1, 3, 3))
        layer.bias.zero_()
    image = torch.linspace(0, 1, 16).reshape(1, 1, 4, 4).to(device)
    result = nn.functional.max_pool2d(layer(image).relu(), 2)
    result.sum().backward()
    torch_xla.sync()
    return [result, layer.weight.grad]


def a_lstm_forward(device):
    """An LSTM's forward pass."""
    layer = nn.LSTM(2, 3, batch_first=True)
    with torch.no_grad():
        for number, parameter in enumerate(layer.parameters()):
            values = torch.linspace(-1, 1, parameter.numel()) / (number + 1)
            parameter.copy_(values.reshape(parameter.shape))
    layer.to(device)
    with torch.no_grad():
        result, _ = layer(torch.linspace(-1, 1, 8).reshape(1, 4, 2).to(device))
    torch_xla.sync()
    return result


def zero_redundancy_alone(device):
    """ZeroRedundancyOptimizer in a world of one rank."""
    from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

    model = model_on(device)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.AdamW, lr=0.125, pin_layout=False
    )
    for batch in batches(3):
        optimizer.zero_grad()
        model(batch.to(device)).square().mean().backward()
        optimizer.step()
        torch_xla.sync()
    return [*model.parameters()]


def sharded(place, **options):
    """Norms, sizes of shares, and the whole weights of a model trained with FSDP."""
    from torch_xla.distributed import fsdp

    model = fsdp.XlaFullyShardedDataParallel(model_on(place), **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    norms = []
    for batch in batches(3):
        optimizer.zero_grad()
        model(batch.to(place)).square().mean().backward()
        norms.append(model.clip_grad_norm_(0.5))
        optimizer.step()
        torch_xla.sync()
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    whole = fsdp.consolidate_sharded_state_dicts([state], model.get_shard_metadata())
    sizes = [list(parameter.shape) for parameter in model.parameters()]
    return [norms, sizes, dict(whole)]


def fully_sharded_alone(device):
    """XlaFullyShardedDataParallel in a world of one rank."""
    return sharded(device)


def fully_sharded_by_rows(device):
    """shard_param_on_dim_0: a share is of rows."""
    return sharded(device, shard_param_on_dim_0=True)


def fully_sharded_layers(device):
    """auto_wrap_policy wraps the layers on their own."""
    from functools import partial

    from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy

    policy = partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.Linear})
    return sharded(device, auto_wrap_policy=policy)


def names_of_shares(device):
    """The names of the parameters that shares are of."""
    from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel

    model = XlaFullyShardedDataParallel(model_on(device))
    return [name for name, _ in model.get_original_names_and_sharded_parameters()]
