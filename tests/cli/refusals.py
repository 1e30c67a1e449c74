"""Refusals of the command line, every one at three widths, to be read.

usage: refusals.py FILE [WORDS...]

Runs command lines that are to be refused, those that contain the WORDS or all: options mistyped
and with illegal values, as each command declares them, files of every declared kind that are
broken, and the questions of `QUESTIONS`. FILE gets each refusal as terminals of 60, 80 and 120
columns show it, and the command lines that are not refused. Some ten minutes.
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import textwrap
from importlib import import_module
from pathlib import Path
from unittest import mock

from typer.main import get_command

from trnsim import cli
from trnsim.cli import COMMANDS, module_of
from trnsim.cli.terminal import complain
from trnsim.document.wrapping import columns_of

WIDTHS = (60, 80, 120)
EXAMPLES = Path(__file__).parents[2] / "examples"
QUESTION_S, OPTION_S = 60, 4
"""Most CPU time of a command line; an option that is not refused by then is legal."""
PREFIX = "trnsim: error: "

FILES = {
    "kernel.py": """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def copy(a):
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out
""",
    "stored-plan.json": json.dumps(
        {
            "schema": "plan-train/1",
            "model": "llama-3.2-1b",
            "steps": 10.0,
            "instance": "trn1.32xlarge",
            "instances": 1,
            "layout": {"tensor": 8, "data": 4, "global_batch": 64, "sequence": 2048},
        }
    ),
    "two.py": "import nki\n\n@nki.jit\ndef a(x): return x\n\n@nki.jit\ndef b(x): return x\n",
    "none.py": "x = 1\n",
    "syntax.py": "def f(:\n",
    "raises.py": "raise ValueError('mine')\n",
    "trace.csv": "arrival,input,output\n0,512,0\n",
    "trace-back.csv": "arrival,input,output\n5,512,8\n1,512,8\n",
    "own.yaml": "- {instance: trn2.48xlarge, kind: spto, usd_per_hour: 8}\n",
    "comma.csv": "instance,kind,usd_per_hour,as_of\ntrn2.48xlarge,private,'8,000',2026-11-01\n",
    "key.yaml": "- instance: trn2.48xlarge\n  instance: trn1.32xlarge\n",
    "tabs.yaml": "a:\n\t- b\n",
    "anchors.yaml": "a: &a [1]\nb: *a\nc: [*a, *a\n",
    "measured.csv": "phase,batch,tokens,past,time_us\ndecode,4,1,511,-3\n",
    "inventory.csv": "workload,model_config,kind\nchat,llama-3.1-8b.json,server\n",
    "no-price.csv": "workload,model_config,kind,current_instance,tokens_per_month\n"
    "chat,llama-3.1-8b.json,serve,p6.48xlarge,1e9\n",
    "empty.csv": "",
    "head.csv": "workload,model_config,kind\n",
    "columns.csv": "workload,model,knd\nchat,x,serve\n",
    "config.json": '{"model_type": "llama", "hidden_size": "many"}\n',
    "unknown.json": '{"model_type": "lllama"}\n',
    "cut.json": '{"model_type": "llama",\n "hidden_size": ',
    "twice.json": '{"model_type": "llama", "model_type": "mistral"}\n',
    "list.json": "[1, 2]\n",
    "number.json": "3\n",
    "monitor.json": '{"period": "1 fortnight"}\n',
    "decision.json": "{}\n",
    "world.json": json.dumps(
        {
            "schema": "launch/1",
            "instance": "trn1.32xlarge",
            "nodes": 1,
            "ranks_per_node": 32,
            "ranks": [{"steps": 1, "device_time_s": 1, "step_s": 1}],
        }
    ),
    "plan.json": '{"platforms": []}\n',
    "log.txt": "step 1 loss 3\n",
    "today.csv": "step,loss\n1,2\n",
    "program.mlir": "module {",
    "model.pt2": "not a program",
    "scenario.yaml": "name: small\ntimezone: Mars/Olympus\n",
    "bill.csv": "month,workload,usd,volume\n2026-13,chat,5,9\n",
    "utf16.csv": "workload,model_config\n".encode("utf-16"),
    "nul.json": b'{"model_type": "lla\x00ma"}',
    "latin.yaml": "name: r\xe9sum\xe9\n".encode("latin-1"),
    "array.npy": b"\x93NUMPY\x01\x00",
    "text.npy": b"no array",
}
KERNEL = """
import numpy as np
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def kernel(a):
    {}
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    return out

kernel(np.ones(({}), np.float32))
"""
ILLEGAL_KERNELS = {
    "partitions": "t = nl.ndarray((129, 4), dtype=a.dtype, buffer=nl.sbuf)\n    nisa.memset(t, 0)",
    "sbuf": "t = nl.ndarray((128, 1 << 20), dtype=a.dtype, buffer=nl.sbuf)\n    nisa.memset(t, 0)",
    "unwritten": "t = nl.ndarray((4, 4), dtype=a.dtype, buffer=nl.sbuf)\n    "
    "nisa.tensor_copy(t, t)",
    "shape": "t = nl.ndarray((4, 4), dtype=a.dtype, buffer=nl.sbuf)\n    nisa.dma_copy(t, a)",
    "argument": "nisa.memset(a, 0, engin=3)",
    "name": "nisa.tensor_coppy(a, a)",
    "matmul": "t = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)\n    nisa.memset(t, 0)\n"
    "    nisa.nc_matmul(t, t, t)",
    "dtype": "t = nl.ndarray((4, 4), dtype='float63', buffer=nl.sbuf)",
    "engine": "t = nl.ndarray((4, 4), dtype=a.dtype, buffer=nl.sbuf)\n    nisa.memset(t, 0)\n    "
    "nisa.tensor_copy(t, t, engine=nisa.engine.tensor)",
    "index": "t = nl.ndarray((4, 4), dtype=a.dtype, buffer=nl.sbuf)\n    "
    "nisa.memset(t[0:4, 2:9], 0)",
}
"""Bodies of kernels that break a rule, by its name."""

BASES = {
    "demo": "",
    "run": "kernel.py",
    "check": "kernel.py",
    "mcp": "",
    "lsp": "",
    "tune": "kernel.py",
    "launch": "--on trn2.48xlarge",
    "profile view": "report.json",
    "profile summary": "report.json",
    "profile diff": "report.json report.json",
    "explain": "nc_matmul",
    "compile": "bert-large.json",
    "neuronx-cc compile": "graph.pb --framework XLA --target trn2",
    "neuronx-cc list-operators": "",
    "neuron_parallel_compile": "--command clear-locks --cache-url cache",
    "calibrate": "log.txt",
    "migrate": "kernel.py --to 0.6",
    "models": "",
    "plan train": "bert-large.json --on trn1",
    "plan serve": "llama-3.1-8b.json --on trn2",
    "plan fleet": "fleet.yaml",
    "plan collective": "all_reduce --bytes 1MiB --on trn2",
    "plan layer": "llama-3.1-8b.json --on trn2",
    "plan infer": "bert-large.json --on trn1",
    "job check": "stored-plan.json",
    "job price": "stored-plan.json",
    "job write": "stored-plan.json --as plan",
    "job diff": "stored-plan.json stored-plan.json",
    "job launched": "stored-plan.json world.json",
    "why": "plan.json plan.json",
    "assess": "two-workloads.csv",
    "pilot write": "two-workloads.csv --folder pilot",
    "pilot read": "pilot log.txt",
    "guard write": "decision.json --folder guard",
    "guard bill": "bill.csv decision.json",
    "shell": "",
    "fault": "hang",
    "neuron-ls": "",
    "nccom-test": "allr --nworkers 2",
    "neuron-top": "",
    "neuron-monitor": "",
    "neuron-monitor-prometheus": "",
    "neuron-monitor-otlp": "",
    "neuron-monitor-k8s-info": "",
    "k8s scheduler-extension": "--server http://127.0.0.1:1",
    "k8s device-plugin": "",
    "k8s node-problems": "--server http://127.0.0.1:1",
    "slurm gres": "--on trn2.48xlarge",
    "slurm launch": "",
    "chips": "",
    "instances": "",
    "prices show": "trn2.48xlarge",
    "prices compare": "trn2.48xlarge p5en.48xlarge",
    "prices refresh": "",
    "claims": "C07",
    "report-bug": "",
}
"""A legal command line of each command, to which a wrong option is added."""
ENDLESS = (
    *("shell", "neuron-top", "neuron-monitor-prometheus", "neuron-monitor-otlp", "launch", "mcp"),
    "lsp",
    *("neuron-monitor-k8s-info", "k8s device-plugin", "k8s node-problems", "slurm launch"),
)
"""Commands that run on if a wrong option is not refused; only its name is mistyped."""
VALUES = ("many", "-1", "1e30")
"""For options that are numbers."""
TEXTS = ("wrong", "''")

QUESTIONS = (
    "",
    *(f"run illegal-{name}.py" for name in ILLEGAL_KERNELS),
    *"""
plaan
plan
plan trayn
run
run absent.py
run .
run none.py --input x.npy
run two.py --input array.npy
run kernel.py --input array.npy
run kernel.py --input text.npy
run kernel.py --kernel copi --input text.npy
run syntax.py
run raises.py
run kernel.py --on p5en
run kernel.py --ranks 3
run kernel.py --on trn2,trn9
check
check absent.py
check syntax.py
check none.py
check kernel.py --max-us 0
check kernel.py --update
check kernel.py --kernel copi
check kernel.py --baseline plan.json
check kernel.py --baseline plan.json --against HEAD
check illegal-partitions.py
tune
tune absent.py
tune kernel.py
tune kernel.py --kernel copi
launch --on trn2.48xlarge
launch --on trn2.48xlarge -- no-such
launch --on trn2.48xlarge --fault rank=3 -- python none.py
launch --on trn2.48xlarge --fault hbm=3 -- python none.py
launch --on trn2.48xlarge --ranks-per-node 99 -- python none.py
launch --on p5en -- python none.py
profile view absent.json
profile summary decision.json
profile diff list.json cut.json
explain nc_matmull
explain C99
explain trn9
compile absent.pt2
compile model.pt2
compile program.mlir
compile no-such-model
compile meta-llama/No-Such
compile config.json
compile unknown.json
compile cut.json
compile twice.json
compile list.json
compile number.json
compile nul.json
compile bert-large.json --phase decode
compile llama-3.1-8b --tp 7
compile llama-3.1-8b --flags --auto-cast=no
compile bert-large.json --on p5en
compile kernel.py
compile bert-large.json --sequence 100000
plan train no-such
plan train config.json
plan train llama-3.1-8b --on trn2 --tp 7
plan train llama-3.1-8b --on trn2 --tp 8 --pp 33
plan train llama-3.1-8b --on trn2 --instances 1 --dp 100
plan train llama-3.1-8b --on trn2 --zero 4
plan train llama-3.1-8b --on trn2 --vp 2 --pp 1
plan train llama-3.1-8b --on trn2 --ep 2
plan train llama-3.1-8b --on trn2 --dtype int3
plan train llama-3.1-8b --on trn1 --dtype fp8
plan train llama-3.1-8b --on trn2 --tp 1 --pp 1 --cp 1 --zero 0 --recompute none
plan train llama-3.1-8b --on trn2 --instances 3,0
plan train bert-large.json --sequence 4096
plan train llama-3.1-8b --on trn2 --measured measured.csv
plan train llama-3.1-8b --on trn2 --prices own.yaml
plan train llama-3.1-8b --on trn2 --prices comma.csv
plan train llama-3.1-8b --on trn2 --prices key.yaml
plan train llama-3.1-8b --on trn2 --prices tabs.yaml
plan train llama-3.1-8b --on trn2 --prices anchors.yaml
plan train llama-3.1-8b --on trn2 --price spot
plan train llama-3.1-8b --on trn2 --price sopt
plan train llama-3.1-8b --on trn2 --emit slurm
plan train deepseek-v3 --on inf2.xlarge
plan serve llama-3.1-8b --on trn2 --tensor-parallel-size 7
plan serve llama-3.1-8b --on inf2.xlarge --tensor-parallel-size 1
plan serve llama-3.1-8b --on trn2 --slo-ttft 1ms --slo-tpot 1us --request-rate 1
plan serve llama-3.1-8b --on trn2 --max-num-seqs 100000
plan serve gpt2-xl --on trn2 --max-model-len 1025
plan serve llama-3.1-8b --on trn2 --max-model-len 512 --input-len 1024
plan serve llama-3.1-8b --on trn2 --trace trace.csv
plan serve llama-3.1-8b --on trn2 --trace trace-back.csv
plan serve llama-3.1-8b --on trn2 --trace empty.csv
plan serve llama-3.1-8b --on trn2 --quantization int3
plan serve llama-3.1-8b --on trn2 --buckets 100,50
plan serve llama-3.1-8b --on trn2 --input-len uniform:9:3
plan serve llama-3.1-8b --on trn2 --input-len normal:9:3
plan serve llama-3.1-8b --on trn2 --concurrency 4 --request-rate 3
plan serve llama-3.1-8b --on trn2 --speculative-model no-such
plan serve llama-3.1-8b --on trn2 --speculative-acceptance 2
plan serve llama-3.1-8b --on trn2 --lnc 3
plan serve llama-3.1-8b --on trn2 --port-state slow
plan serve llama-3.1-8b --on trn2 --port-state as-ported
plan serve qwen3-30b-a3b --on p5en --port-state as-ported
plan serve bert-large.json --on trn2
plan serve deepseek-v3 --on inf2.xlarge
plan serve llama-3.1-8b --on trn9
plan serve llama-3.1-8b --on trn2 --router fastest
plan fleet absent.yaml
plan fleet scenario.yaml
plan fleet latin.yaml
plan fleet list.json
plan fleet fleet.yaml --policy fastest
plan collective all_reduse --bytes 1MiB
plan collective all_reduce --bytes 1MiX --on trn2
plan collective all_reduce --bytes 1MiB --on trn2 --ranks 100000
plan collective all_reduce --bytes 1MiB --on trn2 --stride 7 --ranks 64
plan layer llama-3.1-8b --on trn2 --phase encode
plan layer bert-large.json --on trn2 --phase decode
plan infer llama-3.1-8b --on trn2
plan infer bert-large.json --on p5en --dtype fp32
plan infer bert-large.json --on trn2 --image 224
plan infer bert-large.json --on trn2 --cores 999
why absent.json plan.json
why plan.json plan.json
why 'plan infer' plan.json
why 'chips' log.txt
assess
assess absent.csv
assess inventory.csv
assess empty.csv
assess head.csv
assess columns.csv
assess utf16.csv
assess no-price.csv
assess two-workloads.csv --as-of 2026-02-30
assess two-workloads.csv --as-of 1990-01-01
assess .
assess two-workloads.csv --output x.pdf
assess two-workloads.csv --report empty.csv
assess two-workloads.csv --output no/such/folder/x.json
pilot write two-workloads.csv --folder pilot --workload chatt
pilot write head.csv --folder pilot
pilot write two-workloads.csv --folder full
pilot read absent log.txt
pilot read . log.txt
pilot read full today.csv
pilot read full log.txt
guard write decision.json --folder guard
guard write absent.json --folder guard
guard write cut.json --folder guard
guard bill bill.csv decision.json
guard bill absent.csv decision.json
shell --on trn9
shell --on p5en
shell --on trn2.48xlarge --lnc 5
fault hagn
fault hang --device 99
fault hang --device 0 --core 99
fault hang
neuronx-cc compile absent.pb --framework XLA --target trn2
neuronx-cc compile kernel.py --framework XLA
neuronx-cc compile kernel.py --framework XLA --target trn2 --auto-cats all
neuronx-cc compile kernel.py --framework XLA --target trn9
neuronx-cc list-operators --framework TF
neuron_parallel_compile
neuron_parallel_compile --command wash
neuron_parallel_compile XLA_USE_BF16=1 torchrun train.py
neuron_parallel_compile --command clean --cache-url s3://bucket
nccom-test allreduce -r 2
nccom-test allr -r 3
nccom-test allr -r 2 -b 1MB -e 1KB
nccom-test allr -r 2 -b 3 -d fp32
nccom-test allr -r 2 -d fp64
nccom-test allr -r 2 --stats median
nccom-test allr -r 2 --seed 3
nccom-test allr -r 2 --sb2sb
nccom-test allr -r 2 --coalesced-cc-size-ratio 1,2
nccom-test allr -r 2 --hosts a b
nccom-test allr -r 2 --slurm-job-id 4
nccom-test allr -r 2 --custom-replica-groups list.json
nccom-test allr -r 2 --streams-json cut.json
nccom-test alltoallv -r 2
nccom-test allr -r 64 -N 2
neuron-monitor -c monitor.json
neuron-monitor -c absent.json
neuron-monitor -c cut.json
neuron-monitor-otlp --endpoint nowhere
k8s scheduler-extension --server nowhere
neuron-monitor-prometheus --port 99999
neuron-monitor-prometheus --address nowhere
chips --on trn9
chips --on gpu
instances --for no-such
instances --for unknown.json
instances --on trn9
prices show trn2.49xlarge
prices show trn2.48xlarge --kind spto
prices show trn2.48xlarge --region mars-1
prices show trn2.48xlarge --days 0
prices compare trn2.48xlarge
prices compare trn2.48xlarge g5.xlarge:capacity_block
prices compare trn2.48xlarge p5en.48xlarge:spot --kind on_demand
prices refresh trn9.48xlarge
claims C99
claims 7
models --jsn
""".strip().splitlines(),
)
"""Command lines that are to be refused; of some it is told that they are not."""


def leaves():
    """(name, command) of every command, subcommands by both names."""
    for name in COMMANDS:
        command = get_command(import_module(module_of(name)).app)
        for below in getattr(command, "commands", ("",)):
            yield f"{name} {below}".strip(), command.get_command(None, below) if below else command


def of_options():
    """Command lines with an option mistyped, and with illegal values."""
    for name, command in leaves():
        line = f"{name} {BASES[name]}".strip()
        for option in command.params:
            if option.param_type_name != "option" or option.opts[0] == "--help":
                continue
            spelled = max(option.opts, key=len)
            yield f"{line} {spelled[:-2]}{spelled[-1]} 1"
            if name in ENDLESS or getattr(option, "is_flag", False):
                continue
            is_number = re.match("NUMBER|[A-Z_]+\\||PER_SECOND|SECONDS", option.metavar or "")
            for value in VALUES if is_number else TEXTS:
                yield f"{line} {spelled} {value}"


def lay_out(folder):
    """Put the files that the command lines name into a folder."""
    for path in EXAMPLES.iterdir():
        if path.suffix in (".json", ".yaml", ".csv") and path.name not in FILES:
            shutil.copy(path, folder)
    kernels = {
        f"illegal-{name}.py": KERNEL.format(body, "128, 64" if name == "shape" else "4, 4")
        for name, body in ILLEGAL_KERNELS.items()
    }
    for name, content in (FILES | kernels).items():
        stored = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(stored)
    (folder / "full").mkdir()
    (folder / "full" / "pilot.json").write_text(json.dumps({"format": 99}), encoding="utf-8")
    return folder


def ended(line):
    """(exit status, stdout, stderr) of a command line, in the present folder."""
    out, complaint = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["trnsim", *shlex.split(line)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(complaint),
    ):
        try:
            cli.main()
            status = 0
        except SystemExit as end:
            status = end.code or 0
    return status, out.getvalue(), complaint.getvalue()


def shown(text, columns):
    """A refusal as a terminal of so many columns shows it."""
    stream = io.StringIO()
    stream.isatty = lambda: True
    with (
        mock.patch.dict(os.environ, {"COLUMNS": str(columns), "NO_COLOR": "1"}),
        contextlib.redirect_stderr(stream),
    ):
        complain(text.rstrip("\n").removeprefix(PREFIX))
    return stream.getvalue()


def faults(text):
    """The rules of a refusal's text that it breaks, in words."""
    if not text.startswith(PREFIX):
        yield "no error of trnsim"
        return
    if re.search(r"Traceback|PosixPath|<[A-Za-z]+[ .].*>| object at 0x|Input should be", text):
        yield "words of Python"
    if not re.search(r"fix: |legal|Legal", text):
        yield "neither what is legal nor a fix"
    if re.search(r"[^.]\.\.$| $|\S  +\S", text.rstrip("\n"), re.MULTILINE):
        yield "spaces or periods too many"
    for columns in WIDTHS:
        lines = shown(text, columns).splitlines()
        if any(columns_of(line) > columns for line in lines):
            yield f"a line is wider than {columns} columns"
        if any(line.strip() in {"", "fix:", "source:", "at"} for line in lines):
            yield f"a line of {columns} columns says nothing"


class OutOfTimeError(BaseException):
    """A command line took too long."""


def _stop(*_):
    raise OutOfTimeError


def timed(line, seconds):
    """(exit status, stderr) of a command line; status 0 if it is not refused in so many seconds."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        status, _, text = ended(line)
    except OutOfTimeError:
        status, text = 0, ""
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  a fault is told
        status, text = 3, f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return status, text


def told(line, status, text):
    """The lines that FILE has of a command line."""
    if not status:
        return f"not refused: trnsim {line}\n"
    is_ours = text.startswith(PREFIX)
    broken = "; ".join(faults(text)) if status == 2 else f"status {status}"
    head = f"$ trnsim {line}{broken and f'   [{broken}]'}\n"
    if not is_ours:
        return f"{head}{textwrap.indent(text[-2000:], '! ')}\n"
    return head + "".join(f"{columns:-<{columns}}\n{shown(text, columns)}" for columns in WIDTHS)


def main():
    """Write every refusal at three widths into a file."""
    target, words = Path(sys.argv[1]).resolve(), sys.argv[2:]
    lines = [*((line, QUESTION_S) for line in QUESTIONS), *((o, OPTION_S) for o in of_options())]
    signal.signal(signal.SIGPROF, _stop)
    seen = set()
    with tempfile.TemporaryDirectory() as scratch, target.open("w", encoding="utf-8") as file:
        os.chdir(lay_out(Path(scratch)))
        for line, seconds in lines:
            if all(word in line for word in words):
                status, text = timed(line, seconds)
                if not status or text not in seen:
                    seen.add(text)
                    file.write(told(line, status, text))
                    file.flush()
        os.chdir(target.parent)


if __name__ == "__main__":
    main()
