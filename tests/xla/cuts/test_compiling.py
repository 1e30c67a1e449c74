"""The compilation of a cut's program: the compiler's own answer, or the operators one by one."""


def test_a_program_is_one_graph_with_the_compilers_time():
    import torch
    import torch_xla

    from trnsim.device.call_log import recording
    from trnsim.device.compiled_graph import CompiledGraph
    from trnsim.xla.cuts.cutting import cuts

    device = torch_xla.device()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.5)).to(device)
    x = torch.ones(32, 64).to(device)
    with recording() as log:
        for _ in range(2):
            model.zero_grad()
            model(x)[:, ::2].square().sum().backward()
            torch_xla.sync()
    first = log.events[0].call
    assert isinstance(first, CompiledGraph)
    assert len(log.events) == 2  # no events of operators
    (record,) = [each for each in cuts.ledger.programs.values() if each.executions == 2]
    time_s, missing = record.time("trn2")
    assert 0 < time_s < 1e-3
    assert missing == ()
    assert {line.partition(":")[0] for line, _ in first.time("trn2").lines if line} == {
        "test_compiling.py"
    }


def test_a_program_without_a_graph_has_the_times_of_its_operators_and_says_why():
    import torch
    import torch_xla

    from trnsim.torch.aten.operator_call import OperatorCall
    from trnsim.xla.cuts.cutting import cuts

    x = torch.ones(5, device=torch_xla.device())
    torch_xla.sync()
    y = x.as_strided((2, 3), (1, 1)) + 2.5  # elements twice: no chain of views makes it
    torch_xla.sync()
    record = list(cuts.ledger.programs.values())[-1]
    assert record.compiled.missing == ("a view of [5] as [2, 3] in steps has no graph",)
    (call,) = record.compiled.calls
    assert isinstance(call, OperatorCall)
    assert (call.name, call.results[0].shape) == ("aten::add.Tensor", (2, 3))
    assert record.time("trn2")[0] > 0
    assert y.shape == (2, 3)
