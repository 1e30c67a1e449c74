"""The answer of a program: what it returns, prints and raises, and what was counted.

The file imports neither package of ours nor PyTorch's tests, so that the real one runs it too.
"""

import contextlib
import gc
import io
import math

COUNTERS = ("MarkStep", "UncachedCompile", "CachedCompile")
METRICS = ("CompileTime", "ExecuteTime", "TransferFromDeviceTime", "TransferToDeviceTime")


def programs_of(module):
    """Name -> program of a module: its functions of one argument, `device`."""
    return {
        name: value
        for name, value in vars(module).items()
        if callable(value)
        and getattr(value, "__module__", "") == module.__name__
        and value.__code__.co_varnames[: value.__code__.co_argcount] == ("device",)
    }


def answer_of(program):
    """What a program answers, as JSON has it."""
    import torch_xla

    answer, printed, result = {}, io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            result = program(torch_xla.device())
    except Exception as error:  # noqa: BLE001  the error is the answer
        answer["error"] = [kind.__name__ for kind in type(error).__mro__]
        answer["message"] = str(error).strip().partition("\n")[0][:200]
        error.__traceback__ = None
    answer["counted"] = counted()
    gc.collect()
    if "error" not in answer:
        answer["result"] = plain(result)
    if printed.getvalue():
        answer["printed"] = printed.getvalue()
    return answer


def counted():
    """The counters and the samples of metrics by now."""
    import torch_xla.core.xla_model as xm
    import torch_xla.debug.metrics as met

    xm.wait_device_ops()  # the real one counts an execution when it has ended
    names = [*COUNTERS, *sorted(name for name in met.counter_names() if name.startswith("aten::"))]
    values = {name: met.counter_value(name) or 0 for name in names}
    for name in METRICS:
        data = getattr(met, "metric_data", str)(name)
        values[name] = data[0] if isinstance(data, tuple) else 0
    return values


def plain(value):
    """A value as JSON has it, tensors with their dtype and shape."""
    import torch

    if isinstance(value, torch.Tensor):
        host = value.detach().cpu()
        numbers = host.to(torch.float64) if host.is_floating_point() else host
        return {
            "dtype": str(host.dtype).removeprefix("torch."),
            "shape": list(host.shape),
            "values": [plain(number) for number in numbers.reshape(-1).tolist()],
        }
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.8g}")
    return value if value is None or isinstance(value, bool | int | str) else str(value)
