"""Collectives of xm in forked ranks, each by the numbers that its documentation gives."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from trnsim.xla.collective_arguments import CollectiveMisused


def on_ranks(count, body, folder):
    """`body()` in ranks of a program, with what each gives."""
    import torch_xla

    os.environ["NEURONCORE_NUM_DEVICES"] = str(count)

    def run(index):
        torch.set_num_threads(1)
        result = body()
        (folder / str(index)).write_bytes(pickle.dumps(result))

    torch_xla.launch(run, start_method="fork")
    return [pickle.loads((folder / str(rank)).read_bytes()) for rank in range(count)]  # noqa: S301


def row(*numbers):
    return torch.tensor(numbers, device="xla", dtype=torch.float32)


@pytest.mark.slow
def test_every_collective_of_two_ranks(tmp_path):
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    def body():
        own = xr.global_ordinal()
        value = row(own + 1.0, 10.0)
        parts = [row(own), row(1.0)]
        returned = xm.all_reduce(xm.REDUCE_SUM, parts, scale=0.5)
        square = torch.arange(4, device="xla", dtype=torch.float32).reshape(2, 2) + 10 * own
        output = torch.zeros(4, device="xla")
        broadcast = row(own)
        xm.collective_broadcast([broadcast], root_ordinal=1)
        model = torch.nn.Linear(1, 1, bias=False).to("xla")
        torch.nn.init.constant_(model.weight, own + 5.0)
        xm.broadcast_master_param(model)
        parameter = torch.nn.Parameter(row(0.0))
        parameter.grad = row(own)
        xm.optimizer_step(torch.optim.SGD([parameter], lr=1.0))
        bits = torch.tensor([own + 1], device="xla")
        return {
            "rank": (own, xr.local_ordinal(), xr.world_size(), value.device.index),
            "core": os.environ["NEURON_RT_VISIBLE_CORES"],
            "sum": xm.all_reduce(xm.REDUCE_SUM, value).tolist(),
            "max": xm.all_reduce(xm.REDUCE_MAX, value, scale=2.0).tolist(),
            "min": xm.all_reduce("min", value).tolist(),
            "mul": xm.all_reduce(xm.REDUCE_MUL, value).tolist(),
            "or": xm.all_reduce(xm.REDUCE_OR, bits).tolist(),
            "and": xm.all_reduce(xm.REDUCE_AND, bits).tolist(),
            "kept": value.tolist(),
            "in place": [part.item() for part in parts],
            "returned": returned is parts,
            "alone": xm.all_reduce("sum", row(own), groups=[[0], [1]]).tolist(),
            "gather": xm.all_gather(square, dim=1).tolist(),
            "output": xm.all_gather(value, output=output, pin_layout=False) is output,
            "outputs": output.tolist(),
            "list": [t.tolist() for t in xm.all_gather([row(own)], pin_layout=False)],
            "scatter": xm.reduce_scatter("sum", square, 0.5, 1, 2).tolist(),
            "to all": xm.all_to_all(square, 0, 1, 2).tolist(),
            "permute": xm.collective_permute(row(own + 7.0), [[0, 1]]).tolist(),
            "swap": xm.collective_permute(row(own), [[0, 1], [1, 0]]).tolist(),
            "broadcast": broadcast.item(),
            "master": model.weight.item(),
            "step": parameter.item(),
            "rendezvous": xm.rendezvous("a", f"payload {own}".encode()),
            "mesh": xm.mesh_reduce(
                "b", {"x": row(own)}, lambda all_: [d["x"].item() for d in all_]
            ),
            "ordinals": xm.do_on_ordinals(lambda: "ran", (), (1,)),
        }

    first, second = on_ranks(2, body, tmp_path)
    both = {
        "sum": [3.0, 20.0], "max": [4.0, 20.0], "min": [1.0, 10.0], "mul": [2.0, 100.0],
        "or": [3], "and": [0], "in place": [0.5, 1.0], "returned": True,
        "gather": [[0.0, 1.0, 10.0, 11.0], [2.0, 3.0, 12.0, 13.0]], "output": True,
        "outputs": [1.0, 10.0, 2.0, 10.0], "list": [[0.0, 1.0]], "broadcast": 1.0, "master": 5.0,
        "step": -0.5, "rendezvous": [b"payload 0", b"payload 1"], "mesh": [0.0, 1.0],
    }  # fmt: skip
    for name, value in both.items():
        assert first[name] == second[name] == value, name
    assert first["rank"] == (0, 0, 2, 0)
    assert second["rank"] == (1, 1, 2, 0)
    assert (first["core"], second["core"]) == ("0", "1")
    assert (first["kept"], second["kept"]) == ([1.0, 10.0], [2.0, 10.0])
    assert (first["alone"], second["alone"]) == ([0.0], [1.0])
    assert first["scatter"] == [[5.0], [7.0]]
    assert second["scatter"] == [[6.0], [8.0]]
    assert first["to all"] == [[0.0, 1.0, 10.0, 11.0]]
    assert second["to all"] == [[2.0, 3.0, 12.0, 13.0]]
    assert (first["permute"], second["permute"]) == ([0.0], [7.0])
    assert (first["swap"], second["swap"]) == ([1.0], [0.0])
    assert (first["ordinals"], second["ordinals"]) == (None, "ran")


@pytest.mark.slow
def test_groups_of_four_ranks_exchange_among_themselves(tmp_path):
    import torch_xla.core.xla_model as xm

    groups = [[0, 2], [1, 3]]

    def body():
        value = row(float(xm.get_ordinal()), 1.0)
        parameter = torch.nn.Parameter(row(0.0, 0.0))
        parameter.grad = value.clone()
        xm.reduce_gradients(torch.optim.SGD([parameter]), groups)
        return [
            xm.all_reduce("sum", value, groups=groups).tolist(),
            xm.all_gather(value, groups=groups).tolist(),
            xm.reduce_scatter("sum", value, 1.0, 0, 2, groups=groups).tolist(),
            xm.all_reduce("sum", value, groups=[[0, 1, 2, 3]]).tolist(),
            parameter.grad.tolist(),
        ]

    results = on_ranks(4, body, tmp_path)
    assert results[0] == [[2.0, 2.0], [0.0, 1.0, 2.0, 1.0], [2.0], [6.0, 4.0], [0.5, 0.5]]
    assert results[3] == [[4.0, 2.0], [1.0, 1.0, 3.0, 1.0], [2.0], [6.0, 4.0], [1.0, 0.5]]


@pytest.mark.parametrize("dim", [0, -1, 3, "a"])
def test_a_tensor_without_the_dimension_is_refused(dim):
    import torch_xla.core.xla_model as xm

    scalar = torch.tensor(1.0, device="xla")
    match = r"along dimension .* of a tensor of shape \[\]; legal: a tensor with a dimension"
    for call in (
        lambda: xm.all_gather(scalar, dim),
        lambda: xm.reduce_scatter("sum", scalar, 1.0, dim, 1),
        lambda: xm.all_to_all(scalar, dim, 0, 1),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(ValueError, match=r"along dimension 'a' .*; legal: -1 to 0"):
        xm.all_gather(row(1.0), "a")


def test_a_list_has_as_many_outputs_and_is_gathered_without_a_layout():
    import torch_xla.core.xla_model as xm

    values = [row(1.0)]
    with pytest.raises(ValueError, match=r"xm.all_gather of a list with pin_layout=True"):
        xm.all_gather(values)
    for output in ([], [row(0.0), row(0.0)], row(0.0)):
        with pytest.raises(ValueError, match=r"; legal: a list of as many tensors, 1"):
            xm.all_gather(values, output=output, pin_layout=False)
        with pytest.raises(ValueError, match=r"; legal: a list of as many tensors, 1"):
            xm.reduce_scatter("sum", values, 1.0, 0, 1, output=output)


def test_groups_without_ranks_are_none():
    import torch_xla.core.xla_model as xm

    assert xm.reduce_scatter("sum", row(1.0, 2.0), 1.0, 0, 1, groups=[[]]).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match=r"into 0 parts, in a group of 1 ranks"):
        xm.reduce_scatter("sum", row(1.0, 2.0), 1.0, 0, 0, groups=[[]])


def test_a_lone_rank_exchanges_nothing():
    import torch_xla.core.xla_model as xm

    value = row(1.0, 2.0)
    copied = xm.all_reduce("sum", value)
    assert copied is not value
    for result in (copied, xm.all_gather(value), xm.all_to_all(value, 0, 0, 1)):
        assert result.tolist() == [1.0, 2.0]
    assert xm.reduce_scatter("sum", value, 2.0, 0, 1).tolist() == [2.0, 4.0]
    integers = xm.reduce_scatter("sum", value.to(torch.int32), 1.0, 0, 1)
    assert (integers.dtype, integers.tolist()) == (torch.int32, [1, 2])
    values = [value]
    assert xm.all_reduce("sum", values, scale=3.0) is values
    assert value.tolist() == [1.0, 2.0]
    assert xm.rendezvous("a") == [b""]
    assert xm.mesh_reduce("a", 2, sum) == 2


def test_arguments_that_fit_no_rank_are_named():
    import torch_xla.core.xla_model as xm

    value = row(1.0, 2.0)
    with pytest.raises(ValueError, match=r"(?s)a reduction 'mean'; legal: sum, mul.*REDUCE_SUM"):
        xm.all_reduce("mean", value)
    with pytest.raises(ValueError, match=r"reduce_scatter of \[2\] along dimension 0 into 3 parts"):
        xm.reduce_scatter("sum", value, 1.0, 0, 3)
    with pytest.raises(ValueError, match=r"into '1' parts, in a group of 1 ranks"):
        xm.reduce_scatter("sum", value, 1.0, 0, "1")
    for output in (5, [value]):
        with pytest.raises(
            ValueError, match=r"all_gather with an output of type (int|list); legal"
        ):
            xm.all_gather(value, output=output)
    with pytest.raises(ValueError, match=r"all_to_all .* as many parts as ranks"):
        xm.all_to_all(value, 0, 0, 2)
    with pytest.raises(ValueError, match="sends or receives twice"):
        xm.collective_permute(value, [[0, 1], [0, 2]])
    with pytest.raises(TypeError, match=r"'t'\) must be bytes, not <class 'str'>"):
        xm.rendezvous("t", "text")
    with pytest.raises(ValueError, match="of 2 of 1 ranks"):
        xm.rendezvous("t", b"", [0, 1])
    with pytest.raises(CollectiveMisused, match="of 5"):
        xm.rendezvous("t", b"", 5)
    with pytest.raises(CollectiveMisused, match="reduce_fn=5; legal: a function") as refused:
        xm.mesh_reduce("t", 1, 5)
    assert refused.value.line.file == __file__


def test_groups_that_leave_out_a_rank_are_named():
    import torch_xla.core.xla_model as xm

    from trnsim.xla import collectives

    for groups in ([[1]], [[0], [0]], [[0, 1]]):
        with pytest.raises(ValueError, match=r"(?s)of 1 ranks; legal: each rank in one"):
            collectives.subgroup(groups)
    assert xm.all_reduce("sum", row(1.0), groups=[[0]]).tolist() == [1.0]


@pytest.mark.slow
def test_a_program_has_its_collectives_as_calls(tmp_path):
    def body():
        import torch_xla
        import torch_xla.core.xla_model as xm

        value = torch.ones(4, 4).to("xla")
        shard = xm.reduce_scatter(xm.REDUCE_SUM, value @ value, 0.5, 0, 2, groups=[[0, 1]])
        gathered = xm.all_gather(shard)
        summed = [gathered * 2.5]
        xm.all_reduce(xm.REDUCE_SUM, summed)
        moved = xm.collective_permute(summed[0], [[0, 1], [1, 0]])
        result = xm.all_to_all(moved, 0, 0, 2)
        text = torch_xla._XLAC._get_xla_tensors_text([result])
        names = ("mm", "reduce_scatter", "all_gather", "all_reduce", "collective_permute")
        places = [text.index(name) for name in (*names, "all_to_all")]
        torch_xla.sync()
        return places == sorted(places), torch_xla._XLAC._get_xla_tensors_text([result])

    assert on_ranks(2, body, tmp_path) == [(True, "IR {\n}\n")] * 2


def test_a_lone_rank_is_told_of_groups_that_name_others():
    import torch_xla.core.xla_model as xm

    from trnsim.xla.collectives import CollectiveAlone

    for groups in ([[0, 5]], [[0], [1]]):
        with pytest.warns(CollectiveAlone, match="nothing is exchanged") as warned:
            assert xm.all_reduce("sum", row(1.0), groups=groups).tolist() == [1.0]
        assert warned[0].filename == __file__
    assert xm.all_reduce("sum", row(1.0), groups=[(0,)]).tolist() == [1.0]


def test_values_and_dimensions_and_pairs_that_are_none_are_named():
    import torch_xla.core.xla_model as xm

    x = row(1.0, 2.0)
    for call, match in (
        (lambda: xm.all_reduce("sum", None), "all_reduce of a NoneType; legal: a tensor"),
        (lambda: xm.all_reduce("sum", [x, "x"]), "all_reduce of a str; legal: a tensor"),
        (lambda: xm.all_reduce("sum", x, "a"), "all_reduce with scale='a'; legal: a number"),
        (lambda: xm.reduce_scatter("sum", x, "a", 0, 1), "reduce_scatter with scale='a'; legal"),
        (lambda: xm.reduce_scatter("sum", x, x, 0, 1), r"with scale=a tensor of \[2\]; legal"),
        (lambda: xm.all_gather(x, dim=1), r"dimension 1 of .* \[2\]; legal: -1 to 0"),
        (lambda: xm.all_gather(x, dim=-2), "along dimension -2"),
        (lambda: xm.reduce_scatter("sum", x, 1.0, 2, 1), "xm.reduce_scatter along dimension 2"),
        (lambda: xm.all_gather(x, groups="ab"), "groups 'ab'; legal: None, or a list of lists"),
        (lambda: xm.all_reduce("sum", x, groups=[0]), r"groups \[0\]; legal"),
        (
            lambda: xm.collective_broadcast([x], 1),
            r"from rank 1; legal: a rank of this rank's group, \[0\]",
        ),
        (lambda: xm.collective_permute(x, [[0, 1]]), r"with \[0, 1\] among .*, from 0 to 0 in"),
        (lambda: xm.collective_permute(x, [(0,)]), r"with \(0,\) among its pairs"),
        (lambda: xm.collective_permute(x, 3), "with 3 among its pairs"),
    ):
        with pytest.raises(CollectiveMisused, match=match) as refused:
            call()
        assert refused.value.line.file == __file__
    assert xm.all_gather(x, dim=-1).tolist() == [1.0, 2.0]
    assert xm.collective_permute(x, [[0, 0]]).tolist() == [1.0, 2.0]


def columns(x):
    import torch_xla.core.xla_model as xm

    groups = [[0, 2], [1, 3]]
    (summed,) = xm.all_reduce(xm.REDUCE_SUM, [x * 2], scale=0.5, groups=groups)
    largest = xm.all_reduce(xm.REDUCE_MAX, x)
    gathered = xm.all_gather(x, dim=1, groups=groups)
    part = xm.reduce_scatter(xm.REDUCE_MUL, gathered, 3.0, 1, 2, groups=groups)
    return summed, largest, xm.all_to_all(part, 0, 1, 2, groups=groups)


@pytest.mark.slow
def test_collectives_of_a_trace_are_calls_of_its_program_and_wait_for_nobody(monkeypatch):
    import torch_neuronx

    monkeypatch.setenv("WORLD_SIZE", "4")
    traced = [torch_neuronx.trace(columns, torch.ones(2, 3)) for _ in range(4)]
    for rank, module in enumerate(traced):
        torch.ops.neuron._load_collectives_neuron(module.model, rank, 1, rank, 4)

    def run(rank):
        return traced[rank](torch.tensor([[1.0, 2, 3], [4, 5, 6]]) + rank)

    with ThreadPoolExecutor(4) as threads:
        summed, largest, parts = list(threads.map(run, range(4)))[3]
    # ranks 1 and 3 have [[2, 3, 4], [5, 6, 7]] and [[4, 5, 6], [7, 8, 9]]
    assert summed.tolist() == [[6, 8, 10], [12, 14, 16]]
    assert largest.tolist() == [[4, 5, 6], [7, 8, 9]]
    assert parts.tolist() == [[75, 108, 147, 147, 192, 243]]


def test_groups_of_a_trace_have_each_rank_once(monkeypatch):
    import torch_xla.core.xla_model as xm

    from trnsim.torch.traces.exchanges import exchange_tracing

    monkeypatch.setenv("WORLD_SIZE", "4")
    with exchange_tracing.on(), pytest.raises(CollectiveMisused, match="each rank in one"):
        xm.all_reduce("sum", torch.ones(2), groups=[[0, 1]])


def test_shards_of_a_trace_in_one_process_are_those_of_its_groups():
    """Without the groups the world of this process was asked, which has one rank."""
    import torch_xla.core.xla_model as xm

    from trnsim.torch.traces.exchanges import exchange_tracing

    x = torch.ones(4, 2, device="meta")
    with exchange_tracing.on():
        shard = xm.reduce_scatter("sum", x, 1.0, 0, 2, groups=[[0, 1]])
        joined = xm.all_to_all(x, 0, 1, 2, groups=[[0, 1]])
    assert shard.shape == (2, 2)
    assert joined.shape == (2, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("xm.reduce_scatter('sum', x, 1.0, 0, 1, groups=5)", "groups 5; legal: None, or a list"),
        ("xm.all_to_all(x, 0, 0, 1, groups=[0])", r"groups \[0\]; legal: None, or a list"),
        ("xm.reduce_gradients(torch.optim.SGD([x], 0.1), 5)", "groups 5; legal: None"),
        ("xm.all_to_all(x, 0, 5, 1)", "along dimension 5 of a tensor of shape .*; legal: -2 to 1"),
        ("xm.all_gather(x, output=torch.zeros(3, 2, 2))", r"shape \[3, 2, 2\]; legal: \[2, 2\]"),
        ("xm.reduce_scatter('sum', x, 1.0, 0, 1, output=x[0])", r"shape \[2\]; legal: \[2, 2\]"),
        ("xm.collective_broadcast([3])", "xm.collective_broadcast of a int; legal: a tensor"),
        ("xm.collective_broadcast([x], 1)", r"from rank 1; legal: .* group, \[0\]"),
        ("xm.collective_broadcast(None)", "xm.collective_broadcast of a NoneType; legal"),
        ("xm.all_reduce(['sum'], x)", r"a reduction \['sum'\]; legal: sum, mul"),
        ("xm.collective_broadcast(x.sum(), 1)", r"from rank 1; legal: .* group, \[0\]"),
        (
            "xm.reduce_scatter('sum', x, 1.0, 0, 1, groups=[[0], [1, 2]])",
            r"groups \[\[0\], \[1, 2\]\] of different sizes; legal: groups of one size",
        ),
    ],
)
def test_arguments_that_no_collective_takes_are_refused(call, message):
    import torch_xla.core.xla_model as xm

    x = torch.ones(2, 2, device="xla")
    with pytest.raises(CollectiveMisused, match=message):
        eval(call, {"xm": xm, "x": x, "torch": torch})  # noqa: S307  the calls above
