# nki: 0.6
"""Kernels and collectives of `torch.distributed` as calls of a cut's program."""

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import pytest
import torch

LINES = Path(__file__).read_text().splitlines()


def line(marker):
    """The number of the line of this file that ends with a marker."""
    return next(n for n, text in enumerate(LINES, 1) if text.endswith("# " + marker))


@nki.jit
def scaled(x, scale=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def tripled(x):
    """Written over its argument, which it returns too."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
    nisa.dma_copy(dst=x, src=tile)
    return x


def programs():
    from trnsim.xla.cuts.cutting import cuts

    return [*cuts.ledger.programs.values()]


def test_a_kernel_is_a_call_of_the_cuts_program_with_its_time_and_its_line():
    import torch_xla

    from trnsim.device.call_log import recording
    from trnsim.xla.cuts.report import CutReport

    x = torch.arange(64.0).reshape(8, 8).to(torch_xla.device())
    with recording() as log:
        for _ in range(3):
            result = scaled(x + 1.5) * 2.5  # the launch
            torch_xla.sync()
    (record,) = programs()
    assert (record.executions, record.calls, record.cause) == (3, 3, None)
    (graph,) = record.compiled.calls
    assert graph.operators == ("aten::add.Tensor", "nki::scaled", "aten::mul.Tensor")
    assert [event.call for event in log.events] == [graph] * 3  # and none of the kernel's own
    lines = graph.time("trn2").lines
    assert {each for each, _ in lines if each} == {f"test_foreign_calls.py:{line('the launch')}"}
    torch.testing.assert_close(result.cpu(), (torch.arange(64.0).reshape(8, 8) + 1.5) * 5)

    del result
    x + 1.5
    torch_xla.sync()
    kept = x * 2.5
    torch_xla.sync()
    alone_s = programs()[-1].time("trn2")[0]
    assert record.time("trn2")[0] > alone_s
    assert kept.shape == x.shape
    from trnsim.xla.cuts.cutting import cuts

    (row, *_) = CutReport(cuts.ledger).values("trn2")["cuts"]
    assert row["executions"] == 3
    assert row["device_time_s"] == pytest.approx(3 * record.time("trn2")[0])


def test_a_kernel_compiles_again_for_another_shape_constant_or_count_of_cores():
    import torch_xla

    def step(rows, **options):
        value = torch.ones(rows, 8).to("xla")
        kept = scaled(value, **options)  # the kernel
        torch_xla.sync()
        return kept

    step(8)
    step(8, scale=2.0)  # the default
    step(4)
    step(4, scale=3.0)
    step(4, scale=3)
    assert [record.executions for record in programs()] == [2, 1, 1, 1]
    causes = [record.cause for record in programs()[1:]]
    assert [(each.kind, each.text) for each in causes] == [
        ("shape", "an input of the kernel scaled was [8, 8] and is [4, 8]"),
        ("constant", "scale of the kernel scaled was 2.0 and is 3.0"),
        ("constant", "scale of the kernel scaled was 3.0 and is 3"),
    ]
    assert {each.place[1] for each in causes} == {line("the kernel")}


def test_what_a_kernel_writes_over_is_a_new_value_of_the_same_memory():
    import torch_xla

    from trnsim.xla.cuts.cutting import cuts

    x = torch.ones(4, 8).to(torch_xla.device())
    for step in range(3):
        assert tripled(x) is x
        assert cuts.recorder.value_of(x).node.signature.name == "nki::tripled"
        torch_xla.sync()
        assert x[0, 0].item() == 3.0 ** (step + 1)
    assert [record.executions for record in programs()] == [3, 3]  # the step, the number
    part = torch.ones(8, 8).to("xla")
    tripled(part[2:4])
    assert cuts.recorder.value_of(part).node.signature.name == "write to a view"
    assert part.sum().item() == 64 + 2 * 16


def test_the_text_of_a_program_and_its_calls_one_by_one_have_the_kernel():
    import torch_xla

    from trnsim.xla.cuts.compiling import operator_calls
    from trnsim.xla.cuts.cutting import cuts

    x = torch.ones(4, 8).to(torch_xla.device())
    result = scaled(x)
    assert "%1 = f32[4,8]{1,0} nki::scaled(%0)" in torch_xla._XLAC._get_xla_tensors_text([result])
    (call,) = operator_calls(cuts.program_of([result]))
    assert call.name == "nki::scaled"
    whole = torch.ones(5).to("xla")
    odd = scaled(whole.as_strided((2, 3), (1, 1)))  # a view without a graph
    torch_xla.sync()
    record = programs()[-1]
    assert record.compiled.missing
    assert "nki::scaled" in [each.name for each in record.compiled.calls]
    assert odd.shape == (2, 3)


def on_ranks(count, body, folder):
    """`body()` in ranks of a program, with what each gives."""
    import torch_xla

    os.environ["NEURONCORE_NUM_DEVICES"] = str(count)

    def run(index):
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group("xla")
        (folder / str(index)).write_bytes(pickle.dumps(body(dist.get_rank())))
        dist.barrier()  # rank 0 holds the store, which the others may still read

    torch_xla.launch(run, start_method="fork")
    return [pickle.loads((folder / str(rank)).read_bytes()) for rank in range(count)]  # noqa: S301


def summary():
    """For each program its executions, the kind of its first cut, and its collectives."""
    return [
        (
            record.executions,
            record.kind,
            {ranks: cut.collectives for ranks, cut in (record.exchanges or {}).items()},
        )
        for record in programs()
    ]


@pytest.mark.slow
def test_collectives_of_pytorch_are_calls_of_one_program(tmp_path):
    def body(own):
        import torch.distributed as dist
        import torch.distributed._functional_collectives as functional
        import torch_xla

        x = torch.full((4, 2), own + 1.0).to("xla")
        for _ in range(2):
            y = x * 2.5
            dist.all_reduce(y)
            gathered = torch.empty(8, 2, device="xla")
            dist.all_gather_into_tensor(gathered, y + own)
            shard = torch.empty(2, 2, device="xla")
            dist.reduce_scatter_tensor(shard, y, dist.ReduceOp.MAX)
            dist.broadcast(shard, 1)
            total = functional.all_reduce(shard, "sum", dist.group.WORLD)
            torch_xla.sync()
        values = [each.cpu().flatten()[[0, -1]].tolist() for each in (y, gathered, shard, total)]
        here = [each for each in summary() if each[2]]
        dist.all_reduce(y, dist.ReduceOp.MAX)
        torch_xla.sync()
        dist.all_reduce(y, dist.ReduceOp.SUM)
        torch_xla.sync()
        return values, here, [record.cause.text for record in programs()[-1:]]

    for values, here, causes in on_ranks(2, body, tmp_path):
        assert values == [[7.5, 7.5], [7.5, 8.5], [7.5, 7.5], [15.0, 15.0]]
        ((executions, kind, by_ranks),) = here
        assert (executions, kind, [*by_ranks]) == (2, "sync", [(0, 1)])
        assert re.findall(r"(\w+) float32(\[[\d, ]+\]) at ", by_ranks[0, 1]) == [
            *(("all_reduce", "[4, 2]"), ("all_gather", "[8, 2]"), ("reduce_scatter", "[2, 2]")),
        ]
        assert by_ranks[0, 1].endswith(" and 2 more")  # the broadcast, the functional one
        assert causes == ["argument 1 of xla::all_reduce was ('MAX', ()) and is ('SUM', ())"]


@pytest.mark.slow
def test_a_reduce_a_gather_and_a_message_end_a_step(tmp_path):
    def body(own):
        import torch.distributed as dist

        x = torch.full((2, 2), own + 1.0).to("xla")
        for _ in range(2):
            y = x * 2.5
            dist.reduce(y, 0)
            parts = [torch.empty(2, 2, device="xla") for _ in range(2)] if own == 0 else None
            dist.gather(x, parts, 0)
            if own == 0:
                dist.send(x, 1)
            else:
                dist.recv(y, 0)
            objects = [None, None]
            dist.all_gather_object(objects, {"rank": own})  # goes over the host
            dist.barrier()
        scattered = torch.empty(2, 2, device="xla")
        dist.scatter(scattered, [x, x * 3.5] if own == 0 else None, 0)
        value = scattered.sum().item()
        return summary(), y.cpu()[0].tolist(), parts and parts[1].cpu()[0].tolist(), value, objects

    first, second = on_ranks(2, body, tmp_path)
    assert (first[1], first[2], first[3]) == ([7.5, 7.5], [2.0, 2.0], 4.0)
    assert (second[1], second[3]) == ([1.0, 1.0], 14.0)
    assert first[4] == second[4] == [{"rank": 0}, {"rank": 1}]
    assert [each[:2] for each in first[0][:3]] == [(2, "reduce"), (2, "gather"), (2, "send")]
    assert [each[:2] for each in second[0][:3]] == [(2, "reduce"), (2, "gather"), (2, "recv")]
    for programs_of_rank in (first[0], second[0]):
        kinds = [by_ranks[0, 1].partition(" ")[0] for _, _, by_ranks in programs_of_rank[:4]]
        assert kinds == ["all_reduce", "all_gather", "collective_permute", "reduce_scatter"]


@pytest.mark.slow
def test_groups_are_spelled_by_their_mesh_and_a_lone_rank_exchanges_nothing(tmp_path):
    def body(own):
        import torch.distributed as dist
        import torch_xla
        import torch_xla.core.xla_model as xm

        mesh = [[0, 1], [2, 3]]
        options = {"xla_pg_options": {"mesh": mesh}}
        group = dist.new_group(mesh[own // 2], pg_options=options)
        alone = dist.new_group([own])
        pair = dist.new_group(mesh[own // 2])
        x = torch.ones(4).to("xla")
        for way in (
            lambda y: dist.all_reduce(y, group=group),
            lambda y: xm.all_reduce(xm.REDUCE_SUM, [y], groups=mesh),
            lambda y: dist.all_reduce(y, group=alone),
            lambda y: dist.all_reduce(y, group=pair),
        ):
            y = x * 2.5
            way(y)
            torch_xla.sync()
        return [(record.executions, record.digest) for record in programs()]

    of_ranks = on_ranks(4, body, tmp_path)
    assert [[executions for executions, _ in each] for each in of_ranks] == [[2, 1, 1]] * 4
    digests = [[digest for _, digest in each] for each in of_ranks]
    assert digests[0][:2] == digests[1][:2] == digests[2][:2] == digests[3][:2]
    assert digests[0] == digests[1] != digests[2]  # a group without a mesh says its own ranks


@pytest.mark.slow
def test_a_program_without_kernels_loads_neither_nki_nor_the_compiler():
    code = """
import sys, torch, torch_xla
torch.ones(2, device="xla") + 1
print(sorted({"trnsim.nki", "trnsim.lower", "trnsim.graph", "trnsim.compiler"} & {*sys.modules}))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
