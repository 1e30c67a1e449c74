"""Names of torch_xla in a program of one process: what they answer.

Each function is a program, as in cut_programs.py.
"""

import io
import tempfile
from pathlib import Path

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.runtime as xr
import torch_xla.utils.serialization as xser


def outcome(function, *args, **options):
    """A function's result, or the kinds of its error that programs catch."""
    try:
        return function(*args, **options)
    except Exception as error:  # noqa: BLE001  the error is the answer
        kinds = (ImportError, RuntimeError, TypeError, ValueError, AttributeError)
        return next((kind.__name__ for kind in kinds if isinstance(error, kind)), "another error")


def imported(text):
    """True if an import statement works; else the kind of its error."""
    try:
        exec(text)  # noqa: S102  a statement of programs
    except ImportError:
        return "ImportError"
    return True


def ranks_of_a_lone_process(device):
    """Ordinals and sizes of a program of one process."""
    return [
        xr.global_ordinal(),
        xr.world_size(),
        xr.local_ordinal(),
        xr.process_index(),
        xr.process_count(),
        xr.local_process_count(),
        xr.global_device_count(),
        xm.is_master_ordinal(),
        xm.is_master_ordinal(local=False),
        xr.host_index(),
    ]


def old_ranks_of_xm(device):
    """Names that went from xm."""
    return [hasattr(xm, name) for name in ("xrt_world_size", "get_ordinal", "get_local_ordinal")]


def the_device_functions(device):
    """The functions that name the device."""
    return [
        str(torch_xla.device()),
        str(torch_xla.device(0)),
        str(xm.xla_device()),
        str(xr.xla_device()) if hasattr(xr, "xla_device") else None,
        str(torch_xla.devices()[0]),
        xm.get_xla_supported_devices(max_devices=1),
    ]


def the_kinds_of_hardware(device):
    """xla_device_hw and device_type: the device's name is apart."""
    return [xm.xla_device_hw(device) in ("CPU", "NEURON"), xr.device_type() in ("CPU", "NEURON")]


def the_master_prints(device):
    """master_print."""
    text = io.StringIO()
    xm.master_print("a", 1, fd=text)
    xm.master_print("b", torch.tensor([1.5]).to(device), fd=text)
    xm.master_print("c", fd=text, flush=True)
    return text.getvalue()


def a_rendezvous_alone(device):
    """rendezvous of one process."""
    return [
        [len(part) for part in xm.rendezvous("a")],
        [part.decode() for part in xm.rendezvous("b", b"payload")],
        outcome(xm.rendezvous, "c", "text"),
    ]


def a_mesh_reduce_alone(device):
    """mesh_reduce of one process."""
    value = torch.tensor(2.5).to(device)
    return [
        xm.mesh_reduce("a", 3, sum),
        xm.mesh_reduce("b", value.item(), max),
        str(xm.mesh_reduce("c", [value], lambda x: x[0][0].device.type)),
    ]


def collectives_alone(device):
    """Collectives of one process."""
    t = torch.arange(4.0).reshape(2, 2).to(device)
    same = xm.all_reduce(xm.REDUCE_SUM, t)
    listed = [t.clone()]
    xm.all_reduce(xm.REDUCE_SUM, listed, scale=0.5)
    return [
        same,
        same is t,
        listed[0],
        xm.all_gather(t, dim=1),
        xm.reduce_scatter(xm.REDUCE_SUM, t, 0.5, 0, 1),
        xm.all_to_all(t, 0, 1, 1),
        xm.collective_permute(t, [[0, 0]]),
    ]


def all_reduce_with_a_scale(device):
    """all_reduce of a tensor with a scale, alone."""
    t = torch.arange(4.0).to(device)
    return [xm.all_reduce(xm.REDUCE_SUM, t, scale=0.5), t]


def reductions_by_name(device):
    """The names of reductions."""
    return [xm.REDUCE_SUM, xm.REDUCE_MUL, xm.REDUCE_AND, xm.REDUCE_OR, xm.REDUCE_MIN, xm.REDUCE_MAX]


def a_reduction_that_there_is_not(device):
    """A reduction of another name."""
    return outcome(xm.all_reduce, "mean", torch.ones(1).to(device))


def gradients_reduced_alone(device):
    """reduce_gradients of one process changes nothing."""
    parameter = torch.nn.Parameter(torch.ones(2).to(device))
    parameter.grad = torch.full((2,), 3.0).to(device)
    xm.reduce_gradients(torch.optim.SGD([parameter], lr=0.5))
    return parameter.grad


def data_sent_to_the_device(device):
    """send_cpu_data_to_device."""
    sent = xm.send_cpu_data_to_device([torch.ones(1), {"a": torch.zeros(1), "b": 3}], device)
    return [str(sent[0].device), str(sent[1]["a"].device), sent[1]["b"]]


def an_arena(device):
    """ToXlaTensorArena."""
    arena = xm.ToXlaTensorArena(
        lambda tensors: [tensor * 2 for tensor in tensors],
        lambda value: isinstance(value, torch.Tensor),
    )
    result = arena.transform({"a": [torch.ones(1)], "b": (torch.zeros(1), 5)})
    return [result["a"][0], result["b"][0], result["b"][1], type(result["b"]).__name__]


def saved_by_xm(device):
    """xm.save writes tensors of the host."""
    file = io.BytesIO()
    xm.save({"a": torch.ones(2).to(device), "b": 3}, file)
    file.seek(0)
    state = torch.load(file)
    return [str(state["a"].device), state["b"]]


def saved_by_xser(device):
    """xser.save and load: files by tensor."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "state.pt")
        xser.save({"a": torch.ones(2).to(device), "b": torch.zeros(1), "c": 3}, path)
        names = sorted(p.relative_to(folder).as_posix() for p in Path(folder).rglob("*"))
        state = xser.load(path)
    return [names, str(state["a"].device), state["a"], str(state["b"].device), state["c"]]


def memory_of_the_device(device):
    """get_memory_info: its keys."""
    info = xm.get_memory_info(device)
    return sorted(info)


def rates_of_a_tracker(device):
    """RateTracker."""
    tracker = xm.RateTracker()
    tracker.add(10)
    return [tracker.rate() > 0, tracker.global_rate() > 0]


def spawn_in_this_process(device):
    """xmp.spawn(nprocs=1) runs in this process."""
    seen = []
    result = xmp.spawn(lambda index, value: seen.append((index, value)), args=(5,), nprocs=1)
    return [seen, result]


def spawn_of_several_processes(device):
    """xmp.spawn(nprocs=2) is refused."""
    return outcome(xmp.spawn, print, nprocs=2)


def launch_in_this_process(device):
    """torch_xla.launch(debug_single_process=True)."""
    seen = []
    torch_xla.launch(lambda index: seen.append(index), debug_single_process=True)
    return seen


def a_model_wrapper(device):
    """MpModelWrapper and MpSerialExecutor."""
    model = xmp.MpModelWrapper(torch.nn.Linear(2, 1)).to(device)
    return [str(model.weight.device), xmp.MpSerialExecutor().run(lambda: 3)]


def a_loader_for_a_device(device):
    """ParallelLoader and its loader of a device."""
    data = [torch.ones(2) * number for number in range(3)]
    loader = pl.ParallelLoader(data, [device])
    per_device = loader.per_device_loader(device)
    return [len(pl.MpDeviceLoader(data, device)), loader.per_device_samples(), [*per_device]]


def is_xla_tensor_of_both(device):
    """is_xla_tensor."""
    return [xm.is_xla_tensor(torch.ones(1).to(device)), xm.is_xla_tensor(torch.ones(1))]


def syncfree_optimizers(device):
    """torch_xla.amp.syncfree."""
    from torch_xla.amp.syncfree import SGD, Adam, AdamW

    results = []
    for make in (SGD, Adam, AdamW):
        parameter = torch.nn.Parameter(torch.ones(2).to(device))
        optimizer = make([parameter], lr=0.25)
        parameter.grad = torch.full((2,), 3.0).to(device)
        optimizer.step()
        torch_xla.sync()
        results.append(parameter)
    return results


def counters_by_name(device):
    """counter_value of a counter that has not counted; metric_data of none."""
    return [met.counter_value("nothing"), met.metric_data("nothing")]


def counters_after_a_cut(device):
    """Counters after a cut, and after clear_all."""
    a = torch.ones(2).to(device) * 3
    torch_xla.sync()
    xm.wait_device_ops()
    before = [met.counter_value("MarkStep"), met.counter_value("UncachedCompile")]
    met.clear_all()
    return [before, met.counter_value("MarkStep"), met.metric_names(), a]


def counters_cleared(device):
    """clear_counters leaves metrics, clear_metrics counters."""
    a = torch.ones(2).to(device) * 3
    torch_xla.sync()
    xm.wait_device_ops()
    met.clear_counters()
    first = [met.counter_value("MarkStep"), met.metric_data("ExecuteTime") is None]
    b = a + 1
    torch_xla.sync()
    xm.wait_device_ops()
    met.clear_metrics()
    return [first, met.counter_value("MarkStep"), met.metric_data("ExecuteTime") is None, b]


def the_report_of_metrics(device):
    """The lines of metrics_report."""
    a = torch.ones(2).to(device) * 3
    torch_xla.sync()
    xm.wait_device_ops()
    text = met.metrics_report()
    wanted = (
        "Metric: CompileTime",
        "Metric: ExecuteTime",
        "Metric: TransferToDeviceTime",
        "  TotalSamples: ",
        "  Accumulator: ",
        "  ValueRate: ",
        "  Percentiles: ",
        "Counter: MarkStep\n  Value: 1\n",
        "Counter: UncachedCompile\n  Value: 1\n",
    )
    return [[line in text for line in wanted], a]


def the_short_report_of_metrics(device):
    """short_metrics_report of chosen names."""
    a = torch.ones(2).to(device) * 3
    torch_xla.sync()
    xm.wait_device_ops()
    text = met.short_metrics_report(counter_names=["MarkStep"], metric_names=["nothing"])
    return [text, a]


def fallbacks_that_ran(device):
    """executed_fallback_ops."""
    a = torch.tensor([3.0, 1.0, 3.0]).to(device)
    torch.unique(a)
    return met.executed_fallback_ops()


def optimization_barrier(device):
    """optimization_barrier_ changes no value."""
    a = torch.ones(2).to(device) * 3
    xm.optimization_barrier_([a])
    torch_xla.sync()
    xm.wait_device_ops()
    return a


def do_on_ordinals_alone(device):
    """do_on_ordinals."""
    result = xm.do_on_ordinals(lambda t: t.device.type, (torch.ones(1).to(device),))
    return [result, xm.do_on_ordinals(lambda: 1, (), (1,))]


def broadcast_of_a_model(device):
    """broadcast_master_param."""
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.constant_(model.weight, 2.5)
    model.to(device)
    xm.broadcast_master_param(model)
    return model.weight


def names_that_are_imported(device):
    """Imports of names that there are, and of one that there is not."""
    statements = (
        "import torch_xla.core.xla_model as xm",
        "import torch_xla.distributed.xla_backend",
        "from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel",
        "from torch_xla.core.xla_model import mark_step",
        "import torch_xla.nothing",
        "from torch_xla.core.xla_model import nothing",
        "import torch_xla.debug.profiler as xp",
        "from torch_xla.utils.checkpoint import checkpoint",
        "import torch_xla.amp.syncfree",
        "import torch_xla.experimental.pjrt_backend",
        "import torch_xla.distributed.parallel_loader",
        "from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer",
    )
    return {statement: imported(statement) for statement in statements}


def names_that_there_are_not(device):
    """hasattr of names that there are not."""
    return [
        hasattr(xm, "nothing"),
        hasattr(torch_xla, "nothing"),
        hasattr(xr, "nothing"),
        hasattr(met, "nothing"),
        outcome(getattr, xm, "nothing"),
    ]


def a_process_group_alone(device):
    """init_process_group("xla") without a launcher."""
    import torch.distributed as dist
    import torch_xla.distributed.xla_backend

    begun = outcome(dist.init_process_group, "xla", init_method="xla://")
    if begun is not None:
        return begun
    t = torch.ones(2).to(device)
    dist.all_reduce(t)
    return [dist.get_world_size(), dist.get_rank(), dist.get_backend(), t]


def a_traced_scope(device):
    """debug.profiler's scopes."""
    import torch_xla.debug.profiler as xp

    with xp.Trace("scope"):
        a = torch.ones(2).to(device) * 3
    with xp.StepTrace("step", step_num=1):
        b = a + 1
    return [a, b]


def the_text_of_a_program(device):
    """_get_xla_tensors_text names the operators."""
    a = torch.ones(2).to(device)
    text = torch_xla._XLAC._get_xla_tensors_text([a * 3 + 1])
    return ["aten::mul" in text, "aten::add" in text]


def spmd_is_off(device):
    """SPMD is off unless a program asks for it."""
    return xr.is_spmd()


def the_version(device):
    """The version that programs compare."""
    return torch_xla.__version__.partition("+")[0]
