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


FRAMEWORK = """
import torch

def thrice(x, call=torch.neg):
    for _ in range(2):
        x = call(torch.neg(x))
    return torch.neg(x)

def halves(x):
    x = torch.neg(torch.neg(x))
    yield x
    yield torch.neg(torch.neg(x))
"""
"""Functions that stand in a file of PyTorch's, so that lines are those of their callers."""


def of_framework():
    import torch

    names = {}
    exec(compile(FRAMEWORK, torch.__file__, "exec"), names)  # noqa: S102  the text above
    return names


def lines_of(results):
    """The lines of the calls that results are of, from the last to the first."""
    from trnsim.xla.cuts.cutting import cuts

    node, lines = cuts.recorder.value_of(results).node, []
    while node is not None:
        lines.append(node.place[1])
        node = node.operands[0].node
    return lines


def test_calls_of_one_function_of_a_framework_have_the_line_that_called_it():
    import torch
    import torch_xla

    x, thrice = torch.ones(4, 4).to(torch_xla.device()), of_framework()["thrice"]
    torch_xla.sync()

    def own(tensor):
        return torch.neg(tensor)

    first = own.__code__.co_firstlineno
    found = []
    for function in (*[torch.neg] * 3, own, torch.neg):
        found.append([line - first for line in lines_of(thrice(x, function))])
        torch_xla.sync()
    assert found == [[6] * 5] * 3 + [[6, 1, 6, 1, 6]] + [[6] * 5]


def test_a_generator_of_a_framework_goes_on_at_another_line():
    import torch
    import torch_xla

    x, halves = torch.ones(4, 4).to(torch_xla.device()), of_framework()["halves"]
    torch_xla.sync()

    def go_on(parts):
        return next(parts)

    def go_on_elsewhere(parts):
        return next(parts)

    first = go_on.__code__.co_firstlineno
    found = []
    for function in (go_on, go_on, go_on, go_on_elsewhere, go_on):
        parts = halves(x)
        go_on(parts)
        found.append([line - first for line in lines_of(function(parts))])
        torch_xla.sync()
    assert found == [[1] * 4] * 3 + [[4, 4, 1, 1]] + [[1] * 4]


def test_a_function_of_the_program_goes_on_to_another_line():
    import torch
    import torch_xla

    x = torch.ones(4, 4).to(torch_xla.device())
    torch_xla.sync()

    def twice(y, others):
        for is_other in others:
            if is_other:
                y = torch.neg(y)
                continue
            y = torch.neg(y)
        return y

    found = []
    for others in (*[(False, False)] * 3, (False, True), (False, False)):
        lines = lines_of(twice(x, others))
        found.append([line - twice.__code__.co_firstlineno for line in lines])
        torch_xla.sync()
    assert found == [[5, 5]] * 3 + [[3, 5]] + [[5, 5]]


def test_a_debugger_sees_the_lines_of_marked_functions():
    import sys

    import torch
    import torch_xla

    x, thrice = torch.ones(4, 4).to(torch_xla.device()), of_framework()["thrice"]
    torch_xla.sync()
    events, traced = [], sys.gettrace()

    def trace(frame, event, _):
        if frame.f_code is thrice.__code__:
            events.append(event)
        return trace

    def begin(tensor):
        if number == 3:
            sys.settrace(trace)
        return torch.neg(tensor)

    found = []
    for number in range(5):
        try:
            found.append(lines_of(thrice(x, begin)))
        finally:
            if number == 4:
                sys.settrace(traced)
        torch_xla.sync()
    assert found == found[:1] * 5
    assert events[0] == "call"
    assert events[-1] == "return"
