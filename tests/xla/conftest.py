"""Each test here runs in a process of its own: `import torch_xla` renames the device for good.

The processes are forked from a server that has imported PyTorch. A test's arguments are pickled.
"""

import importlib.util
import multiprocessing
import os
import sys
import traceback
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "torch"))  # groups.py is a module by its name

PRELOADED = [
    *("torch", "torch._dynamo", "torch.distributed", "pytest"),  # optimizers load the second
    *("trnsim.torch", "trnsim.torch.aten.decompositions", "trnsim.torch.compile.fx_import"),
    *("trnsim.device.compiled_graph", "trnsim.device.watch", "trnsim.instance.state.writer"),
    *("trnsim.compiler.reports.pattern_uses", "trnsim.compiler.compile_cache.cached_compilation"),
    *("trnsim.xla.cuts.compiling", "trnsim.xla.cuts.recorder"),
]
"""What is imported before the fork: all that renames nothing and that most tests need."""
_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def in_a_process(path, name, arguments, pipe):
    import torch

    torch.set_num_threads(1)
    sys.path[:0] = [str(Path(path).parent), str(Path(__file__).parent.parent / "torch")]
    os.environ.pop("PJRT_DEVICE", None)
    try:
        spec = importlib.util.spec_from_file_location(Path(path).stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        function = getattr(module, name)
        getattr(function, "__wrapped__", function)(**arguments)
    except BaseException:  # noqa: BLE001  the test's process reports it
        pipe.send(traceback.format_exc())
    else:
        pipe.send("")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """The test in a process of its own."""
    parents = pyfuncitem.path.parents
    if Path(__file__).parent not in parents or Path(__file__).parent / "neuronx" in parents:
        return None  # torch_neuronx renames nothing
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    context = multiprocessing.get_context(_METHOD)
    context.set_forkserver_preload(PRELOADED)
    ours, theirs = context.Pipe(duplex=False)
    given = (str(pyfuncitem.path), pyfuncitem.originalname, arguments, theirs)
    process = context.Process(target=in_a_process, args=given)
    process.start()
    theirs.close()
    try:
        failure = ours.recv()
    except EOFError:
        failure = "the test's process ended"
    process.join()
    if failure:
        pytest.fail(failure, pytrace=False)
    return True
