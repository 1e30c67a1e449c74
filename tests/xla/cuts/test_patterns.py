"""Patterns: which calls are told to be repetitions by their tensors."""


def test_a_call_is_compared_by_its_tensors_once_it_was_repeated():
    import torch
    import torch_xla
    from comparisons import recorded

    device = torch_xla.device()
    x, y = torch.ones(4, 4).to(device), torch.ones(4, 4).to(device)
    torch_xla.sync()

    def step(number):
        x.mul_(0.5 + number).addcdiv_(y, y, value=0.25 + number)
        torch.nn.functional.layer_norm(x.t(), (4,)).add_(1)

    counts = recorded(step)
    assert counts[0] == counts[1] > counts[2] == 0
    assert counts[2:] == [0] * 4


def test_another_shape_number_constant_or_line_is_no_repetition():
    import torch
    import torch_xla

    from trnsim.xla.cuts.cutting import cuts

    device = torch_xla.device()
    tensors = [torch.ones(size, 4).to(device) for size in (4, 5)]
    torch_xla.sync()
    negations = (
        lambda tensor: tensor.neg(),
        lambda tensor: tensor.neg(),  # the same call at another line
    )
    repeats, made = cuts.recorder.repeats, []
    for number, dim, wide, line in (
        *[(0.5, 0, 0, 0)] * 3,
        *((0.25, 0, 0, 0), (1.0, 0, 0, 0), (0.5, 1, 0, 0), (0.5, 0, 1, 0), (0.5, 0, 0, 1)),
    ):
        before = repeats.new_calls
        scaled = tensors[wide] * number
        total = scaled.sum(dim)
        total = negations[line](total)
        torch_xla.sync()
        made.append(repeats.new_calls - before)
    assert made == [3, 0, 0, 0, 3, 2, 3, 1]


def test_the_line_of_a_call_is_that_of_the_users_function_around_it():
    """A function of the user's may stand where one of PyTorch's did, at the same depth."""
    import torch
    import torch_xla

    from trnsim.xla.cuts.cutting import cuts

    x = torch.ones(4, 4).to(torch_xla.device())
    torch_xla.sync()

    def relu(tensor):
        return torch.relu(tensor)

    lines = []
    for function in (*[torch.nn.functional.relu] * 3, relu, torch.nn.functional.relu):
        y = function(x)
        _, line = cuts.recorder.value_of(y).node.place
        lines.append(line - relu.__code__.co_firstlineno)
        torch_xla.sync()
    assert lines == [5, 5, 5, 1, 5]
