"""Files that were written to do harm, given to every command that reads files and runs no program.

An audit hook of Python's listens while a command reads. Nothing that a file holds may be unpickled,
imported or started, no socket may be opened, and nothing may be written beside the command's own
folder. Each command ends in an answer or in a named error.
"""

import gzip
import hashlib
import io
import json
import os
import pickle
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import EmulatorError

EXAMPLES = Path(__file__).parents[1] / "examples"
RAN = "ran_by_a_hostile_file"
CODE = f"import sys; sys.modules[{RAN!r}] = sys"
ESCAPES = "\x1b[2J\x1b]0;title\x07"
HLO_READER = "trnsim.jax.stablehlo.hlo_conversion"
"""The one module that a file may start, as `jaxlib` reads HLO in a process of its own."""
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.startfile")
SOCKETS = ("socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.Request")


class Evil:
    """Unpickling it runs code."""

    def __reduce__(self):
        return exec, (CODE,)


class Listening:
    """What a command did that a file must not make it do."""

    folder: Path | None = None
    heard: tuple[str, ...] = ()

    def hear(self, event, arguments):
        if self.folder is None:
            return
        if event in STARTS and HLO_READER in str(arguments):
            return
        if event == "pickle.find_class" or event in SOCKETS or event in STARTS:
            self.heard += (f"{event} {arguments}"[:200],)
        elif event == "import" and arguments[0] == RAN:
            self.heard += (f"import of {RAN}",)
        elif event == "open" and isinstance(arguments[0], str | bytes | Path):
            self.hear_open(Path(os.fsdecode(arguments[0])), arguments[2])

    def hear_open(self, path, flags):
        is_written = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        own = (self.folder, "/dev/null", "/dev/tty")
        is_bytecode = "__pycache__" in path.parts
        if is_written and not is_bytecode and not any(map(path.absolute().is_relative_to, own)):
            self.heard += (f"{path} is written",)


LISTENING = Listening()
sys.addaudithook(LISTENING.hear)  # a hook stays until the process ends


def torch_file():
    torch = pytest.importorskip("torch")
    stream = io.BytesIO()
    torch.save({"weight": Evil()}, stream)
    return stream.getvalue()


def archive(members, comment=b""):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(name, content)
        made.comment = comment
    return stream.getvalue()


def link_in_an_archive():
    entry = zipfile.ZipInfo("m/models/model.json")
    entry.external_attr = 0o120777 << 16
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        made.writestr(entry, "/etc/passwd")
    return stream.getvalue()


def array_file(shape):
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


def objects_file():
    stream = io.BytesIO()
    np.save(stream, np.array([Evil()], dtype=object), allow_pickle=True)
    return stream.getvalue()


def with_digest(start, body):
    return f"{start}\n{hashlib.sha256(body).hexdigest()}\n".encode() + body


def in_place_of_a_neff(body):
    return with_digest("trnsim program 1\nThis file stands in place of a NEFF.", body)


CONFIG = json.loads((EXAMPLES / "llama-3.1-8b.json").read_text())
INVENTORY = (EXAMPLES / "two-workloads.csv").read_text()
PICKLE = pickle.dumps(Evil())
DEEP = "[" * 100_000
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)
TAGS = f"!!python/object/apply:builtins.exec [{CODE!r}]\n"
NAMES = [
    f"../../{RAN}",
    "/absolute",
    f"name{ESCAPES}",
    "=cmd|' /C calc'!A0",
    "\u202etxt.exe",
    "\x00",
]
"""Names that lead elsewhere, command a terminal or are formulas."""
HOSTILE = {
    "pickle": PICKLE,
    "pickle of protocol 0": pickle.dumps(Evil(), 0),
    "weights of PyTorch": torch_file,
    "array of objects": objects_file,
    "arrays of objects": lambda: archive({"a.npy": objects_file()}),
    "array of an exabyte": lambda: array_file((1 << 60,)),
    "array of a header without end": b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF),
    "safetensors of a header of terabytes": struct.pack("<Q", 1 << 44) + b"{}",
    "archive with names that leave it": lambda: archive(
        dict.fromkeys((f"../../{RAN}", "/absolute", f"name{ESCAPES}"), "x")
    ),
    "archive with a link": link_in_an_archive,
    "archive with pickles in every member": lambda: archive(
        {
            f"m/{name}": PICKLE
            for name in (
                *(
                    "models/model.json",
                    "data/sample_inputs/model.pt",
                    "data.pkl",
                    "archive_version",
                ),
                *("data/weights/model_weights_config.json", "data/weights/weight_0", "byteorder"),
            )
        }
    ),
    "archive that grows a thousandfold": lambda: archive({"m/models/model.json": bytes(1 << 24)}),
    "archive that is cut off": lambda: archive({"m/models/model.json": bytes(1 << 16)})[:-30],
    "gzip that grows a thousandfold": lambda: gzip.compress(bytes(1 << 24)),
    "gzip that is cut off": lambda: gzip.compress(b"a,b\n" * 1000)[:-12],
    "parquet of a footer of gigabytes": b"PAR1" + struct.pack("<I", 0xFFFFFFF0) + b"PAR1",
    "JSON without an end": DEEP,
    "JSON of objects without an end": '{"a":' * 100_000,
    "JSON of a number of a million digits": '{"hidden_size": ' + "9" * 1_000_000 + "}",
    "JSON of NaN": '{"hidden_size": NaN}',
    "JSON of sizes beyond any chip": lambda: json.dumps(CONFIG | {"num_hidden_layers": 10**12}),
    "JSON of sizes below zero": lambda: json.dumps(CONFIG | {"hidden_size": -4096}),
    "JSON of a class to import": lambda: json.dumps(
        CONFIG
        | {"model_type": RAN, "auto_map": {"AutoConfig": f"{RAN}.Config"}}
        | {"architectures": [f"{RAN}.Model"]}
    ),
    "JSON of a name with escapes": lambda: json.dumps(CONFIG | {"model_type": ESCAPES}),
    "JSON of an array": "[1, 2]",
    "YAML of tags": TAGS,
    "YAML of a tag in a field": f"name: {TAGS}",
    "YAML of anchors that multiply": BOMB,
    "YAML of a name with escapes": f'name: "{ESCAPES}"\nfleet: "../../etc"\n',
    "CSV of formulas": INVENTORY.replace("chat", "=cmd|' /C calc'!A0"),
    "CSV of escapes": INVENTORY.replace("chat", f"chat{ESCAPES}"),
    "CSV of paths that lead elsewhere": INVENTORY.replace("llama-3.1-8b.json", "../../etc/passwd"),
    "CSV of a line of megabytes": "workload," + "a" * (1 << 22),
    "StableHLO of a location that escapes": f'module @"{ESCAPES}" {{ stablehlo.constant }}',
    "bytecode of MLIR that is cut off": b"ML\xefR" + bytes(40),
    "notebook whose cells import": json.dumps(
        {"cells": [{"cell_type": "code", "source": [f"import {RAN}"]}], "nbformat": 4}
    ),
    "program of Python": f"import {RAN}\n",
    "program in place of a NEFF that is cut off": b"trnsim program 1\n",
    "program of a header without end": lambda: in_place_of_a_neff(DEEP.encode()),
    "program of another program without end": lambda: in_place_of_a_neff(
        json.dumps(
            {
                "target": "trn2",
                "lnc": 2,
                "flags": [],
                "compiler": ESCAPES,
                "report": {},
                "graph_format": f"{RAN}",
                "graph_bytes": len(PICKLE),
            }
        ).encode()
        + b"\n"
        + PICKLE
    ),
    "graph that nests without end": lambda: with_digest("trnsim graph 1", DEEP.encode()),
    "graph of an operation to import": lambda: with_digest(
        "trnsim graph 1",
        json.dumps(
            {
                "title": ESCAPES,
                "items": ["", 0],
                "weights": [],
                "names": {},
                "origins": [],
                "operators": [ESCAPES],
                "missing": [],
                "calls": [],
                "graph": {"inputs": [], "nodes": [[RAN, {}, [], [], -1]], "outputs": []},
            }
        ).encode(),
    ),
    "NEFF": lambda: struct.pack("<QQQQQ", 2, 1024, 9, 2, 0).ljust(2000, b"\0"),
    "HLO of brackets without end": "HloModule m\n\nENTRY e {\n  ROOT a = " + "(" * 20_000,
    "HLO of tensors beyond any memory": "HloModule m\n\nENTRY e {\n  ROOT a = "
    "f32[1000000,1000000000] constant({...})\n}\n",
    "HLO in wire format that is cut off": b"\x0a\x01m\x12\x01e\x1a\xff\xff\xff\x7f",
    "HLO in wire format of nothing": b"\x0a\x01m\x12\x01e\x1a\x00",
    "ELF": b"\x7fELF" + bytes(100),
    "nothing": b"",
}
# A command, with the place of the file in it, and the names that files of its kind may have.
COMMANDS = {
    "compile {}.pt2": (),
    "compile {}.json": (),
    "compile {}.mlir": (),
    "compile {}.jax": (),
    "compile {}.hlo": (),
    "compile {}.neff": (),
    "neuronx-cc compile {}.pb --framework XLA --target trn2 --workdir out": (),
    "assess {}.csv --report out": (),
    "assess {}.yaml --report out": (),
    "assess sources.yaml --on trn1.32xlarge --report out": ("pt2", "py", "ipynb", "cu"),
    "plan train {}.json --on trn2 --tokens 1e9": (),
    "plan train llama-3.1-8b.json --on trn2 --tokens 1e9 --measured {}.csv": (),
    "plan train llama-3.1-8b.json --on trn2 --tokens 1e9 --prices {}.yaml": (),
    "plan serve {}.json --on trn2": (),
    "plan serve llama-3.1-8b.json --on trn2 --trace {}.jsonl": (),
    "plan infer {}.json --on trn2": (),
    "plan layer {}.json --on trn2": (),
    "plan fleet {}.yaml --report out": (),
    "why {}.json {}.json": (),
    "why {}.csv {}.log": (),
    "profile view {}.json": (),
    "profile diff {}.json {}.json": (),
    "instances --for {}.json": (),
    "prices compare trn2.48xlarge --prices {}.csv": (),
    "pilot write {}.csv --on trn1 --out out": (),
    "guard write {}.json --out out": (),
    "guard bill {}.json {}.csv": (),
}
# One of each kind for each command; `make nightly` gives every file to every command.
FEW = ("pickle", "YAML of tags", "JSON of a name with escapes", "nothing")


def content_of(name):
    content = HOSTILE[name]
    content = content() if callable(content) else content
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content


@pytest.fixture
def folder(tmp_path, monkeypatch):
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    monkeypatch.chdir(place)
    monkeypatch.setenv("TRNSIM_CACHE", str(place / "cache"))
    (place / "llama-3.1-8b.json").write_text(json.dumps(CONFIG))
    (place / f"{RAN}.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(place)
    yield place
    LISTENING.folder = None
    assert RAN not in sys.modules


def check(command, name, folder):
    """Give a file to a command, and see that it ends well and did nothing else."""
    stem, content = "hostile", content_of(name)
    for suffix in {word.partition(".")[2] for word in command.split() if "{}" in word}:
        (folder / f"{stem}.{suffix}").write_bytes(content)
    for suffix in COMMANDS[command]:
        (folder / f"{stem}.{suffix}").write_bytes(content)
    if COMMANDS[command]:
        rows = [f"sources: {stem}.{suffix}" for suffix in COMMANDS[command]]
        row = "- {workload: w%d, model_config: llama-3.1-8b.json, kind: serve, gpu_hours: 10, "
        row += "current_instance: p5.48xlarge, usd_per_month: 100, %s}\n"
        text = "".join(row % (number, source) for number, source in enumerate(rows))
        (folder / "sources.yaml").write_text(f"workloads:\n{text}")
    LISTENING.heard, LISTENING.folder = (), folder
    try:
        run = CliRunner().invoke(app, command.replace("{}", stem).split())
    finally:
        LISTENING.folder = None
    assert not LISTENING.heard
    assert "\x1b" not in run.output
    assert "Usage:" not in run.output
    assert isinstance(run.exception, EmulatorError | SystemExit | None), repr(run.exception)
    outside = {path for path in folder.parents[1].rglob("*") if not path.is_relative_to(folder)}
    assert outside == {folder.parent}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_nothing_that_a_file_says(command, name, folder):
    check(command, name, folder)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_does_what_any_file_says(command, folder):
    for name in HOSTILE:
        check(command, name, folder)


def test_there_are_thirty_files():
    assert len(HOSTILE) >= 30
