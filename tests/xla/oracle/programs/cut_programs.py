"""What cuts, and what a cut computes.

Each function is a program: it runs unmodified with torch_xla 2.9.0 and with ours. Its docstring is
the sentence that it asks about; what it returns is compared, beside its counters.
"""

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met


def pair(place):
    """Two tensors on the device, with nothing left to compute."""
    a = torch.arange(6.0).reshape(2, 3).to(place)
    b = torch.full((2, 3), 2.0).to(place)
    torch_xla.sync()
    return a, b


def sync_with_nothing_live(device):
    """With no live uncomputed tensor, nothing runs."""
    torch_xla.sync()
    torch_xla.sync()


def sync_of_dead_tensors(device):
    """A tensor that is gone before the cut is not computed."""
    a, b = pair(device)
    c = a + b
    del c
    torch_xla.sync()


def sync_computes_all_live_tensors_in_a_single_program(device):
    """All live uncomputed tensors become outputs of one program."""
    a, b = pair(device)
    c, d, e = a + b, a * b, a - b
    torch_xla.sync()
    return [c, d, e]


def mark_step_by_its_old_name(device):
    """mark_step is a cut as sync is."""
    a, b = pair(device)
    c = a + b
    xm.mark_step()
    return c


def item_computes_what_that_tensor_needs(device):
    """.item() runs one program of what that tensor needs; the rest stays lazy."""
    a, b = pair(device)
    c = a + b
    d = (a * b).exp()
    value = c.sum().item()
    torch_xla.sync()
    return [value, d]


def float_of_a_tensor(device):
    """float(t) is a cut."""
    a, b = pair(device)
    return float((a + b).sum())


def int_of_a_tensor(device):
    """int(t) is a cut."""
    a, b = pair(device)
    return int((a + b).sum())


def bool_of_a_tensor(device):
    """bool(t) is a cut."""
    a, b = pair(device)
    return bool((a + b).sum() > 3)


def a_branch_on_a_tensor(device):
    """`if t:` is a cut."""
    a, b = pair(device)
    if (a + b).sum() > 100:
        return "more"
    return "less"


def a_while_loop_on_a_tensor(device):
    """Each test of a loop's condition is a cut, and another program."""
    a = torch.ones(2).to(device)
    torch_xla.sync()
    while a.sum() < 10:
        a = a * 2
    return a


def an_f_string_of_a_scalar(device):
    """A tensor in an f-string is a cut."""
    a, b = pair(device)
    return f"{(a + b).sum():.2f}"


def tolist_of_a_tensor(device):
    """.tolist() is a cut."""
    a, b = pair(device)
    return (a + b).tolist()


def printing_a_tensor(device):
    """print(t) is a cut."""
    a, b = pair(device)
    print(a + b)


def printing_a_scalar(device):
    """print of a tensor without dimensions is a cut."""
    a, b = pair(device)
    print((a + b).sum())


def the_text_of_a_tensor(device):
    """repr(t) is a cut."""
    a, b = pair(device)
    return repr(a + b)


def cpu_of_a_tensor(device):
    """.cpu() is a cut."""
    a, b = pair(device)
    return (a + b).cpu()


def to_the_host(device):
    """.to("cpu") is a cut."""
    a, b = pair(device)
    return (a + b).to("cpu")


def numpy_of_a_copy(device):
    """.cpu().numpy() is a cut."""
    a, b = pair(device)
    return (a + b).cpu().numpy().tolist()


def assert_close_of_two_tensors(device):
    """torch.testing.assert_close is a cut."""
    a, b = pair(device)
    torch.testing.assert_close(a + b, b + a)


def item_twice_of_the_same_tensor(device):
    """After .item() the tensor stays lazy: read twice, it runs twice and compiles once."""
    a, b = pair(device)
    c = (a + b).sum()
    return [c.item(), c.item()]


def item_of_a_growing_tensor(device):
    """`t = t + x; t.item()` four times: four executions, four compilations."""
    a, _ = pair(device)
    total = torch.zeros(2, 3).to(device)
    torch_xla.sync()
    values = []
    for _ in range(4):
        total = total + a
        values.append(total[0, 1].item())
    return values


def item_of_a_growing_scalar(device):
    """A running scalar that is read each time grows and compiles each time."""
    x = torch.tensor(1.5).to(device)
    total = torch.tensor(0.0).to(device)
    torch_xla.sync()
    values = []
    for _ in range(4):
        total = total + x
        values.append(total.item())
    return values


def float_twice_of_the_same_tensor(device):
    """float(t) keeps nothing either."""
    a, b = pair(device)
    c = (a + b).sum()
    return [float(c), float(c)]


def bool_twice_of_the_same_tensor(device):
    """bool(t) keeps nothing either."""
    a, b = pair(device)
    c = (a + b).sum() > 0
    return [bool(c), bool(c)]


def cpu_twice_of_the_same_tensor(device):
    """.cpu() keeps what it computed: one execution."""
    a, b = pair(device)
    c = a + b
    return [c.cpu(), c.cpu()]


def print_twice_of_the_same_tensor(device):
    """print keeps what it computed."""
    a, b = pair(device)
    c = a + b
    print(c)
    print(c)


def item_then_sync(device):
    """A host read and the next mark_step compute the same tensor twice."""
    a, b = pair(device)
    c = (a + b).sum()
    value = c.item()
    torch_xla.sync()
    return [value, c]


def cpu_then_sync(device):
    """After .cpu() mark_step has nothing left of that tensor."""
    a, b = pair(device)
    c = a + b
    host = c.cpu()
    torch_xla.sync()
    return host


def length_shape_and_iteration(device):
    """len, shape, size and iteration are no cut."""
    a, b = pair(device)
    c = a + b
    rows = [row for row in c]
    return [len(c), list(c.shape), c.dim(), c.numel(), len(rows)]


def clip_grad_norm(device):
    """clip_grad_norm_ is no cut."""
    parameter = torch.nn.Parameter(torch.ones(3).to(device))
    parameter.grad = torch.full((3,), 4.0).to(device)
    torch_xla.sync()
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    torch_xla.sync()
    return parameter.grad


def topk_of_a_tensor(device):
    """topk is no cut."""
    a, b = pair(device)
    values, places = (a + b).topk(2)
    torch_xla.sync()
    return [values, places]


def sort_of_a_tensor(device):
    """sort is no cut."""
    a, b = pair(device)
    values, places = (b - a).sort()
    torch_xla.sync()
    return [values, places]


def svd_of_a_tensor(device):
    """svd is no cut."""
    a, b = pair(device)
    _, values, _ = torch.linalg.svd(a + b)
    torch_xla.sync()
    return values


def randperm_on_the_device(device):
    """randperm is no cut."""
    order = torch.randperm(5, device=device)
    torch_xla.sync()
    return order.cpu().sort().values


def checkpoint_of_a_function(device):
    """A checkpointed function is no cut."""
    from torch_xla.utils.checkpoint import checkpoint

    x = torch.ones(3).to(device).requires_grad_()
    torch_xla.sync()
    checkpoint(lambda y: (y * y).exp(), x).sum().backward()
    torch_xla.sync()
    return x.grad


def nonzero_of_a_tensor(device):
    """nonzero is a cut, with the counter aten::nonzero."""
    a, b = pair(device)
    return (a - b).nonzero()


def a_boolean_index(device):
    """A boolean index is a cut, with the counter aten::nonzero."""
    a, b = pair(device)
    return a[(a - b) > 0]


def where_of_a_condition_alone(device):
    """where with one argument is a cut, with the counter aten::nonzero."""
    a, b = pair(device)
    return list(torch.where(a > b))


def where_of_three(device):
    """where with three arguments is no cut."""
    a, b = pair(device)
    c = torch.where(a > b, a, b)
    torch_xla.sync()
    return c


def masked_select_of_a_tensor(device):
    """masked_select is a cut, with the counter aten::masked_select."""
    a, b = pair(device)
    return a.masked_select(a > b)


def unique_of_a_tensor(device):
    """unique has the counter aten::_unique2."""
    a = torch.tensor([3.0, 1.0, 3.0, 2.0]).to(device)
    torch_xla.sync()
    return torch.unique(a)


def multinomial_of_two(device):
    """multinomial of two without replacement has the counter aten::multinomial."""
    weights = torch.ones(4).to(device)
    torch_xla.sync()
    return list(torch.multinomial(weights, 2).shape)


def equal_of_two_tensors(device):
    """torch.equal goes to the host."""
    a, b = pair(device)
    return torch.equal(a + b, b + a)


def all_of_a_tensor(device):
    """all() without a dimension, read by bool."""
    a, b = pair(device)
    return bool((a + b > 0).all())


def any_of_a_tensor(device):
    """any() without a dimension, read by bool."""
    a, b = pair(device)
    return bool((a + b > 4).any())


def allclose_of_two_tensors(device):
    """torch.allclose is a cut."""
    a, b = pair(device)
    return torch.allclose(a + b, b + a)


def an_index_without_dimensions(device):
    """Index by a tensor without dimensions: aten::_local_scalar_dense."""
    a, _ = pair(device)
    at = torch.tensor(1).to(device)
    torch_xla.sync()
    return a[at]


def the_inverse_of_a_matrix(device):
    """linalg.inv reads from the device: aten::_local_scalar_dense."""
    a = torch.tensor([[2.0, 0.0], [1.0, 4.0]]).to(device)
    torch_xla.sync()
    return torch.linalg.inv(a)


def a_step_closure(device):
    """A step closure runs after the next mark_step, with values, and is no cut itself."""
    a, b = pair(device)
    seen = []
    for step in range(3):
        loss = (a * (step + 2)).sum() + b.sum()
        xm.add_step_closure(lambda value: seen.append(value.item()), args=(loss,))
        torch_xla.sync()
    return seen


def a_step_closure_without_a_cut(device):
    """Without a cut a step closure does not run."""
    seen = []
    xm.add_step_closure(seen.append, args=(1,))
    return seen


def a_cut_waits(device):
    """sync(wait=True) and wait_device_ops add no cut."""
    a, b = pair(device)
    c = a + b
    torch_xla.sync(wait=True)
    xm.wait_device_ops()
    return c


def unlazy_of_tensors(device):
    """xm.unlazy computes the tensors that it is given."""
    a, b = pair(device)
    c, d = a + b, a * b
    xm.unlazy([c])
    return [c, d]


def sync_multi_of_tensors(device):
    """_xla_sync_multi computes the tensors that it is given."""
    a, b = pair(device)
    c, d = a + b, a * b
    torch_xla._XLAC._xla_sync_multi([c], [])
    counted = met.metric_data("ExecuteTime")[0]
    del c
    torch_xla.sync()
    return [counted, d]


def views_of_a_tensor_written_in_place(device):
    """A view that is written writes its base."""
    a, _ = pair(device)
    a[0].add_(10)
    a[:, 1] = 7
    torch_xla.sync()
    return a


def a_tensor_moved_to_the_device_and_back(device):
    """A copy from the host runs no program."""
    a = torch.ones(3).to(device)
    return a.cpu()


def an_out_argument(device):
    """out= writes a tensor of the device."""
    a, b = pair(device)
    c = torch.empty(2, 3, device=device)
    torch.add(a, b, out=c)
    torch_xla.sync()
    return c


def xm_save_is_a_cut(device):
    """xm.save copies to the host at once."""
    import io

    a, b = pair(device)
    file = io.BytesIO()
    xm.save({"c": a + b, "d": a * b}, file)
    file.seek(0)
    return torch.load(file)
