"""Cuts: executions, compilations and counters, as measured with torch_xla 2.9.0 on its CPU."""

import pytest


def counts(program):
    import torch_xla
    import torch_xla.debug.metrics as met

    torch_xla.sync()
    met.clear_all()
    program()
    found = {name: met.counter_value(name) for name in met.counter_names()}
    return {name.removesuffix("Compile"): number for name, number in found.items()}


def check_reads(torch, sync, a):
    def read_twice():
        total = (a + 3).sum()
        total.item()
        total.item()

    assert counts(read_twice) == {"Uncached": 1, "Cached": 1, "aten::_local_scalar_dense": 2}

    def copied_twice():
        rows = a.exp().sum(1)
        rows.cpu()
        rows.cpu()
        repr(rows)

    assert counts(copied_twice) == {"Uncached": 1}

    def copied_then_more():
        first = a + 11.5
        second = first.sin()
        first.cpu()
        second.cpu()

    assert counts(copied_then_more) == {"Uncached": 2}

    def counted():
        hidden = a + 2
        hidden[hidden > 2]
        hidden.masked_select(hidden > 2)

    found = counts(counted)
    assert (found["aten::nonzero"], found["aten::masked_select"]) == (1, 1)

    def total():
        running = torch.zeros((), device=a.device)
        for _ in range(4):
            running = running + a.sum()
            running.item()

    assert counts(total) == {"Uncached": 4, "aten::_local_scalar_dense": 4}
    assert counts(lambda: [sync(), sync()]) == {"MarkStep": 2}
    assert counts(lambda: torch.lgamma(a)) == {"aten::lgamma": 1}


def check_numbers(torch, sync, a):
    def each(function, values):
        def program():
            for value in values:
                result = function(value)
                sync()
                del result

        found = counts(program)
        assert found.pop("MarkStep") == len(values)
        return found.get("Uncached", 0), found.get("Cached", 0)

    assert each(lambda v: a.tan() * v, (2.5, 3.5, 7)) == (1, 2)
    assert each(lambda v: a.atan() * v, (0, 1, 2, 3)) == (3, 1)
    assert each(lambda v: a.tanh() * 2.5 + v, (2.5, 3.5, 4.5)) == (2, 1)
    assert each(lambda v: a**v, (2.0, 3.0)) == (2, 0)
    assert each(lambda v: a[v].cos(), (0, 1, 2)) == (3, 0)
    assert each(lambda v: torch.rand(v, v, device=a.device), (3, 3)) == (1, 1)
    assert each(lambda v: a.clone().add_(v), (2.5, 3.5)) == (1, 1)


def check_training(torch, sync, a):
    def train(kind, **options):
        def program():
            model = torch.nn.Linear(4, 4).to(a.device)
            optimizer = kind(model.parameters(), lr=0.1, **options)
            for number in range(4):
                optimizer.param_groups[0]["lr"] = 0.2 + number
                optimizer.zero_grad()
                model(a).square().mean().backward()
                optimizer.step()
                sync()

        return counts(program)

    assert train(torch.optim.SGD) == {"MarkStep": 4, "Uncached": 1, "Cached": 3}
    assert train(torch.optim.Adam) == {"MarkStep": 4, "Uncached": 2, "Cached": 2}


def check_memory(torch, sync, a):
    """A program whose result takes the memory of an input is another one than that without."""

    def program():
        x = torch.ones(4, 4).to(a.device)
        for is_in_place in (False, False, False, True, True, True, False, False):
            result = (x.add_ if is_in_place else x.add)(a)
            sync()
            del result

    assert counts(program) == {"MarkStep": 8, "Uncached": 2, "Cached": 6}


def test_cuts_count_as_torch_xla_counts_them(monkeypatch):
    import torch
    import torch_xla

    from trnsim.xla.cuts import cutting

    monkeypatch.setattr(cutting, "compile_program", lambda *_: None)
    a = torch.ones(4, 4).to(torch_xla.device())
    torch_xla.sync()
    for check in (check_reads, check_numbers, check_training, check_memory):
        check(torch, torch_xla.sync, a)


def test_an_interrupted_compilation_names_its_program_and_is_none(monkeypatch):
    import torch
    import torch_xla
    import torch_xla.debug.metrics as met

    from trnsim.xla.cuts import cutting

    real = cutting.compile_program

    def interrupted(*_):
        raise KeyboardInterrupt

    x = torch.ones(2, device=torch_xla.device())
    torch_xla.sync()
    met.clear_all()
    y = x.exp()
    monkeypatch.setattr(cutting, "compile_program", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        torch_xla.sync()
    assert caught.value.__notes__[0].startswith(
        "in the compilation of program 1 (1 call), cut by sync at "
    )
    assert "test_cutting.py:" in caught.value.__notes__[0]
    assert met.counter_value("UncachedCompile") is None
    monkeypatch.setattr(cutting, "compile_program", real)
    torch_xla.sync()
    assert met.counter_value("UncachedCompile") == 1
    assert torch.equal(y.cpu(), torch.ones(2).exp())


def test_results_of_a_step_are_in_the_order_of_calls_and_those_of_a_sync_in_that_of_tensors():
    import torch
    import torch_xla

    from trnsim.xla.cuts.cutting import cuts

    x = torch.ones(4).to(torch_xla.device())
    torch_xla.sync()
    cuts.ledger.forget()

    def step(*, is_synced):
        second, first = torch.zeros(4, device=x.device), torch.zeros(4, device=x.device)
        first.add_(x)
        second.sub_(x)
        if is_synced:
            cuts.sync([second, first], "sync")
        torch_xla.sync()

    for is_synced in (True, False, True, False):
        step(is_synced=is_synced)
    assert [record.executions for record in cuts.ledger.programs.values()] == [2, 2]
