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


def test_a_graph_surrounds_its_collectives():
    import torch
    import torch_xla

    from trnsim.xla.cuts.cutting import cuts

    x = torch.ones(8, 8).to(torch_xla.device())
    product, shard = x @ x, torch.ones(4, 8, device="xla")
    cuts.record("xla::reduce_scatter", [product], [shard], ("sum", ()))
    del product
    total = (shard * 2.5).sum()
    text = torch_xla._XLAC._get_xla_tensors_text([total])
    assert (
        "%3 = (f32[4,8]{1,0}, f32[]) xla::reduce_scatter(%2), xla_shape=(f32[4,8]{1,0}, f32[])\n"
        in text
    )
    torch_xla.sync()
    (record,) = cuts.ledger.programs.values()
    assert record.compiled.missing == ()
    operators = record.compiled.calls[0].operators
    assert [each.partition(".")[0] for each in operators] == ["aten::mm", "aten::mul", "aten::sum"]
    cuts.record("xla::all_reduce", [total], [total], ("sum", ()))
    torch_xla.sync()  # a program of a collective alone
    assert sum(each.executions for each in cuts.ledger.programs.values()) == 2


def test_operators_one_by_one_have_no_collectives():
    import torch
    import torch_xla

    from trnsim.xla.cuts.compiling import operator_calls
    from trnsim.xla.cuts.cutting import cuts

    x = torch.ones(8, device=torch_xla.device())
    cuts.record("xla::all_reduce", [x], [x], ("sum", ()))
    assert [call.name for call in operator_calls(cuts.program_of([x * 2.5]))] == [
        *("aten::fill_.Scalar", "aten::mul.Tensor")
    ]


def test_attention_and_its_gradient_are_part_of_a_graph_and_no_import_ends_the_program(monkeypatch):
    import torch
    import torch_xla

    from trnsim.errors import BadInput
    from trnsim.xla.cuts import compiling
    from trnsim.xla.cuts.cutting import cuts

    query = torch.ones(1, 2, 8, 16).to(torch_xla.device()).requires_grad_()
    torch.nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()
    torch_xla.sync()
    record = list(cuts.ledger.programs.values())[-1]
    assert record.compiled.missing == ()
    names = record.compiled.calls[0].operators
    assert sum("attention" in name for name in names) == 2

    def refused(_):
        raise BadInput("a graph that is none")

    monkeypatch.setattr(compiling, "import_graph", refused)
    result = query.detach().exp()
    torch_xla.sync()
    record = list(cuts.ledger.programs.values())[-1]
    assert record.compiled.missing == ("a graph that is none",)
    assert [call.name for call in record.compiled.calls] == ["aten::exp"]
    assert result.shape == query.shape
