"""A kernel as data: steps over named tensors, and the Python source that they stand for.

The source is what runs and what a reproducing script holds; the oracle reads the same steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from formats import FORMATS


@dataclass(frozen=True)
class Name:
    """A name of NKI as it stands in the source: `nl.add`, `nisa.engine.vector`."""

    text: str

    def __str__(self):
        return self.text

    @property
    def last(self):
        return self.text.rpartition(".")[2]


def op(name):
    """An operator; none for None."""
    return None if name is None else Name(f"nl.{name}")


@dataclass(frozen=True)
class At:
    """An index that moves with a loop variable: `size` elements from ``scale * variable`` on."""

    variable: str
    scale: int
    size: int

    def __str__(self):
        return f"nl.ds({self.variable} * {self.scale}, {self.size})"


@dataclass(frozen=True)
class View:
    """A tensor seen through methods.

    Attributes:
        tensor: its name.
        chain: (method, arguments) pairs; the method "[]" is an index.
    """

    tensor: str
    chain: tuple = ()

    def then(self, method, *args):
        return replace(self, chain=(*self.chain, (method, args)))

    def __str__(self):
        text = self.tensor
        for method, args in self.chain:
            if method == "[]":
                text += f"[{', '.join(map(_index, args))}]"
            elif method == "ap":
                text += f".ap({_pattern(*args)})"
            else:
                text += f".{method}({', '.join(map(_text, args))})"
        return text


def _pattern(pattern, offset, register=None, dim=0):
    """The arguments of `ap`; a register moves the view along a dimension."""
    moved = "" if register is None else f", scalar_offset={register}, indirect_dim={dim}"
    return f"{pattern!r}, offset={offset!r}{moved}"


def _index(index):
    if isinstance(index, slice):
        step = "" if index.step in {None, 1} else f":{index.step}"
        return f"{index.start}:{index.stop}{step}"
    return repr(index) if isinstance(index, str) else str(index)


@dataclass(frozen=True)
class Alloc:
    """A new tensor; on chip the first dimension is the partitions."""

    name: str
    shape: tuple
    dtype: str
    buffer: str = "sbuf"
    address: tuple | None = None

    def lines(self):
        where = "" if self.address is None else f", address={self.address!r}"
        buffer = "" if self.buffer == "sbuf" else f", buffer=nl.{self.buffer}"
        return [f"{self.name} = nl.ndarray({self.shape!r}, dtype=nl.{self.dtype}{buffer}{where})"]


@dataclass(frozen=True)
class Step:
    """One instruction of nki.isa, operands by name."""

    opcode: str
    args: dict

    def lines(self):
        given = ", ".join(f"{name}={_text(value)}" for name, value in self.args.items())
        if self.opcode in UNPUBLISHED:
            return [f"current_core().issue(isa.{self.opcode}({given}))"]
        return [f"nisa.{self.opcode}({given})"]


@dataclass(frozen=True)
class Line:
    """Statements as text, and what the oracle makes of them: registers, two cores."""

    text: str
    opcode: str
    args: dict = field(default_factory=dict)

    def lines(self):
        return self.text.split("\n")


UNPUBLISHED = ("nc_matmul_sparse",)
"""Instructions to which AWS gives no function in nki.isa."""


@dataclass(frozen=True)
class Loop:
    """A loop whose variable takes `values`; `kind` is its iterator as the source spells it.

    nl.fori_loop is no iterator: it is given the body as a function.
    """

    variable: str
    values: range
    kind: str
    body: tuple
    bounds: str = ""

    def lines(self):
        bounds = self.bounds or str(self.values.stop)
        if self.kind != "nl.fori_loop":
            return [f"for {self.variable} in {self.kind}({bounds}):", *_inner(self.body)]
        first, last, *step = bounds.split(", ")
        bounds = ", ".join((first, last, f"body_{self.variable}", *step))
        head = f"def body_{self.variable}({self.variable}):"
        return [head, *_inner(self.body), f"{self.kind}({bounds})"]


@dataclass(frozen=True)
class While:
    """nl.while_loop from the register `start` on; the body ends by setting its own register."""

    variable: str
    start: str
    body: tuple

    def lines(self):
        head = f"def body_{self.variable}({self.variable}):"
        end = [f"    return {self.variable}", f"nl.while_loop({self.start}, body_{self.variable})"]
        return [head, *_inner(self.body), *end]


@dataclass(frozen=True)
class Claim:
    """Steps after which the documents say more of a view than intervals carry.

    Every element of `view` is from `low` to `high`: that two tensors are equal, that a share of
    random numbers is about a half.
    """

    body: tuple
    view: View
    low: float
    high: float

    def lines(self):
        return [line for step in self.body for line in step.lines()]


def _inner(body):
    return [f"    {line}" for step in body for line in step.lines()]


def _text(value):
    if isinstance(value, float):
        return repr(value) if np.isfinite(value) else f"float('{value}')"
    if isinstance(value, View | Name):
        return str(value)
    if isinstance(value, list) and any(isinstance(item, View) for item in value):
        return f"[{', '.join(map(str, value))}]"
    return repr(value)


@dataclass(frozen=True)
class Kernel:
    """What is run: arrays, steps, and which tensors are compared.

    Attributes:
        seed: the number that it was made from.
        target: "trn1", "inf2", "trn2" or "trn3".
        cores: 1 or 2 (LNC).
        inputs: arrays by name, with the name of their format.
        steps: what the kernel does.
        outputs: (name of a tensor, its shape, format, buffer) that are returned by way of HBM.
    """

    seed: int
    target: str
    cores: int
    inputs: dict
    steps: tuple
    outputs: tuple

    def source(self):
        """The kernel as Python source; line 1 is the decorator."""
        body = [line for step in self.steps for line in step.lines()]
        body += self._epilogue()
        text = "\n".join(f"    {line}" for line in body)
        return f"@nki.jit\ndef kernel({', '.join(self.inputs)}):\n{text}\n"

    def _epilogue(self):
        """Every output copied to a tensor in shared HBM, by one core where there are two."""
        lines, names = [], []
        for number, (name, shape, dtype, buffer) in enumerate(self.outputs):
            out = f"out_{name}"
            names.append(out)
            lines.append(f"{out} = nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.shared_hbm)")
            copies, source = [], name
            if buffer == "psum":
                source = f"last_{name}"
                copies.append(f"{source} = nl.ndarray({shape}, dtype=nl.{dtype})")
                copies.append(f"nisa.tensor_copy(dst={source}, src={name})")
            copies.append(f"nisa.dma_copy(dst={out}, src={source})")
            if self.cores > 1:
                lines.append(f"if nl.program_id(0) == {number % self.cores}:")
                copies = [f"    {line}" for line in copies]
            lines += copies
        return [*lines, f"return [{', '.join(names)}]"]

    def arrays(self):
        """Its inputs as the caller passes them: copies, as a kernel may write to them."""
        return [np.array(values, FORMATS[dtype].stored) for values, dtype in self.inputs.values()]
