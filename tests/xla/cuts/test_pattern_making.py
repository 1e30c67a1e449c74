"""The making of patterns: which calls have one, and that the others are tried once."""


def test_calls_that_are_several_calls_of_a_program_are_compared_by_their_tensors():
    import torch
    import torch_xla
    from comparisons import recorded

    device = torch_xla.device()
    x, y = torch.ones(4, 4).to(device), torch.ones(4, 4).to(device)
    weight = torch.ones(3, 4, device=device, requires_grad=True)
    torch_xla.sync()

    def step(number):
        weight.grad = None
        (weight[1] * (2.5 + number)).sum().backward()  # a gradient copied into a part of zeros
        x.t().add_(y)  # written over in another layout
        (x @ y).view(2, 8).add_(1.5 + number)  # a view that is read and written
        y[1].copy_(x[2])
        torch.empty(3, device=device).fill_(0.25 + number)
        parts = [each.view(1, 1, 4, 4) for each in (x, y, x)]
        torch.nn.functional.scaled_dot_product_attention(*parts)  # tensors without elements, a seed
        torch.nn.functional.dropout(y, 0.5)

    counts = recorded(step)
    assert counts[1] > 20  # the second step begins with another layout of x
    assert counts[3:] == [0] * 3


def test_a_call_without_a_pattern_is_tried_once(monkeypatch):
    import torch
    import torch_xla
    from comparisons import recorded

    from trnsim.xla.cuts import recorder

    x = torch.ones(4, 4).to(torch_xla.device())
    torch_xla.sync()
    tried, make = [], recorder.pattern_of

    def counted(name, *rest):
        tried.append(name)
        return make(name, *rest)

    monkeypatch.setattr(recorder, "pattern_of", counted)
    recorded(lambda number: torch.cat([x, x]).add_(number + 2))
    assert tried == ["aten::cat", "aten::add_.Tensor"]
