"""The PyTorch side of the digest: a row for every operator call of fixed models and samples.

Values are computed instruction by instruction, so that `trnsim.runs.launch` tells each call's
kernels; its time is what two timing events around it say. Only PyTorch's own interface is used.
"""

import os
import random
import tomllib
import warnings
from importlib import import_module
from pathlib import Path

os.environ["TRNSIM_NUMERICS"] = "exact"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from digest_hook import SEED, described, fingerprint, seed
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

import trnsim

SOURCE = Path(trnsim.__file__).parents[1]
DEVICE = "neuron"
ENTRIES, SAMPLES = 400, 2
DTYPES = (torch.float32, torch.bfloat16, torch.int64)
MOST_ELEMENTS = 4096


class Calls(TorchDispatchMode):
    """A row for each operator call inside."""

    def __init__(self, notes):
        super().__init__()
        self.notes = notes
        self.number = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        del types
        if operator.namespace == "profiler":  # marks of PyTorch's own
            return operator(*args, **(kwargs or {}))
        self.number += 1
        place, before = f"operator {self.number}", self.notes.launches
        row = {"call": self.notes.clean(f"{operator}{described(args, kwargs or {})}")}
        start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
        start.record()
        try:
            result = operator(*args, **(kwargs or {}))
        except Exception as error:
            self.notes.write(place, **row, error=self.notes.said(error))
            raise
        end.record()
        row["kernels"] = self.notes.launches - before
        # What nothing was written to holds whatever lay there.
        values = "" if "empty" in operator.name() else fingerprint([result])
        self.notes.write(place, **row, **self.timed(start, end), values=values)
        return result

    def timed(self, start, end):
        """The time between two events, or why there is none."""
        try:
            return {"time": repr(start.elapsed_time(end))}
        except Exception as error:  # noqa: BLE001  whatever the version raises
            return {"error": self.notes.said(error)}


class Net(nn.Module):
    """Embedding, recurrence and attention: what the other models have not."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(37, 16)
        self.recurrent = nn.LSTM(16, 16, batch_first=True)
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, tokens):
        """Scores of every token."""
        x, _ = self.recurrent(self.embed(tokens))
        x, _ = self.attend(x, x, x, need_weights=False)
        return x @ self.embed.weight.T


def models():
    """Name -> (model, its input), of sizes that no tile divides."""
    encoder = nn.TransformerEncoderLayer(24, 3, 40, batch_first=True, dropout=0.0)
    image = nn.Sequential(
        nn.Conv2d(3, 5, 3, stride=2), nn.BatchNorm2d(5), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.LazyLinear(7),
    )  # fmt: skip
    pixels = torch.randn(2, 3, 15, 17)
    image(pixels)
    return {
        "perceptron": (nn.Sequential(nn.Linear(8, 33), nn.Tanh(), nn.Linear(33, 1)),
                       torch.randn(130, 8)),
        "encoder": (encoder, torch.randn(2, 9, 24)),
        "image": (image, pixels),
        "tokens": (Net(), torch.randint(37, (2, 11))),
    }  # fmt: skip


OPTIMIZERS = {
    "perceptron": torch.optim.AdamW,
    "encoder": torch.optim.Adam,
    "image": torch.optim.SGD,
    "tokens": torch.optim.RMSprop,
}


def training(notes):
    """Two eager training steps of each model, and one that is compiled."""
    for name, optimizer_of in OPTIMIZERS.items():
        for way in ("eager", "compiled"):
            notes.begin(f"{name} {way}")
            seed()
            model, x = models()[name]
            model, x = model.to(DEVICE), x.to(DEVICE)
            optimizer = optimizer_of(model.parameters(), lr=1e-2)
            try:
                trained(notes, model, x, optimizer, is_eager=way == "eager")
            except Exception as error:  # noqa: BLE001  a refusal is a row
                notes.write("outcome", error=notes.said(error))


def trained(notes, model, x, optimizer, *, is_eager):
    """Steps of a model, and the parameters after them."""
    if is_eager:
        with Calls(notes):
            for _ in range(2):
                step(model, x, optimizer)
    else:
        compiled_step(notes, model, x, optimizer)
    values = fingerprint([parameter.detach() for parameter in model.parameters()])
    notes.write("parameters", values=values)


def compiled_step(notes, model, x, optimizer):
    """A step with a compiled forward pass: its time as a whole."""
    forward = torch.compile(model, backend=compiler())
    step(forward, x, optimizer)  # compiling reads values, and its calls are not the program's
    start, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    start.record()
    step(forward, x, optimizer)
    end.record()
    notes.write("step", **Calls(notes).timed(start, end))


def compiler():
    """The compiler of the checkout under test; what is installed may be of another."""
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    place = project["project"]["entry-points"]["torch_dynamo_backends"][DEVICE]
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def step(model, x, optimizer):
    """A training step with a loss that every output reaches."""
    optimizer.zero_grad()
    model(x).float().square().mean().backward()
    optimizer.step()


def drawn_entries():
    """The entries of PyTorch's table of operators whose samples are called."""
    able = [e for e in op_db if set(DTYPES) & e.supported_dtypes("cpu") and "empty" not in e.name]
    able.sort(key=lambda entry: entry.full_name)
    return random.Random(SEED).sample(able, ENTRIES)  # noqa: S311  a sample, no secret


def samples_of(entry):
    """The first small samples of an entry, in the first dtype that it has."""
    dtype = next(d for d in DTYPES if d in entry.supported_dtypes("cpu"))
    seed()
    found = []
    for sample in entry.sample_inputs("cpu", dtype):
        given = [t for t in (sample.input, *sample.args) if isinstance(t, torch.Tensor)]
        if all(t.numel() <= MOST_ELEMENTS for t in given):
            found.append(sample)
        if len(found) == SAMPLES:
            break
    return found


def operators(notes):
    """The calls that samples of PyTorch's own table come to."""
    for entry in drawn_entries():
        for number, sample in enumerate(samples_of(entry)):
            notes.begin(f"{entry.full_name} sample {number}")
            moved = tree_map_only(
                torch.Tensor,
                lambda t: t.detach().to(DEVICE),
                [sample.input, [*sample.args], dict(sample.kwargs)],
            )
            seed()
            try:
                with Calls(notes), torch.device(DEVICE):
                    entry.op(moved[0], *moved[1], **moved[2])
            except Exception as error:  # noqa: BLE001  a refusal is a row
                notes.write("outcome", error=notes.said(error))


def run(notes):
    """All rows of the PyTorch side."""
    notes.is_estimating = True
    # Else PyTorch's compiler takes the notes for a part of the program.
    torch._dynamo.trace_rules.add("digest_hook")
    warnings.simplefilter("ignore")
    training(notes)
    operators(notes)
