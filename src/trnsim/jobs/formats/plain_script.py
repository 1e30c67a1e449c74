"""Shell scripts without options of sbatch, with the nodes and ranks that their launcher states.

A script of torchrun is started on each node, and `--nnodes` states their number; mpirun, srun,
accelerate and deepspeed start the ranks of all nodes. Without a stated number there is one node.
Scripts that only start Python are left out: most install something or prepare data. Sources:
PyTorch, torchrun; Open MPI 4, mpirun(1); Slurm, srun(1), OPTIONS; accelerate 1.15, `accelerate
launch`; DeepSpeed, Getting Started, Resource Configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from trnsim.errors import BadInput
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.sbatch import command_words, exported_variables, script_of
from trnsim.jobs.formats.sbatch_options import options_in
from trnsim.jobs.formats.sbatch_script import HEADER, ScriptContent
from trnsim.jobs.job import Job, Role
from trnsim.jobs.parallelism import options_of, started_ranks
from trnsim.jobs.spec import JobSpec, SpecReader, TemplateValue, is_template
from trnsim.reader import FileContent, SourcePlace
from trnsim.reader.parsed import ParsedText

_SHELLS: Final = re.compile(r"#!\s*\S*?(?:\benv\s+(?:-\S+\s+)*)?\b(?:ba|da|k|z)?sh\b")
_PYTHON: Final = re.compile(r"python[\d.]*")
_MODULES: Final = ("torch.distributed.run", "torch.distributed.launch")
_COUNT: Final = re.compile(r"[1-9]\d{0,6}", re.ASCII)
_RANGE: Final = re.compile(r"([1-9]\d{0,6})(?::([1-9]\d{0,6}))?", re.ASCII)
_PER_NODE: Final = re.compile(r"ppr:([1-9]\d{0,6}):node", re.ASCII)
_LAUNCHERS: Final = ("torchrun", "mpirun", "mpiexec", "srun", "accelerate", "deepspeed")
_COUNTED_STEP_OPTIONS: Final = {"nodes", "ntasks", "ntasks-per-node"}
WHY_NOT: Final = (
    "no spec of a job: a shell script without #SBATCH options, in which no command of "
    f"{', '.join(_LAUNCHERS)} starts ranks"
)
"""The reason why a script is no job."""
_HOST_FILES: Final = ("hostfile", "machinefile", "default-hostfile", "f")


class _Ranks(NamedTuple):
    """The ranks that a launcher states.

    Attributes:
        nodes: number of nodes, the largest of a range; None where a variable or a file of hosts
            states it.
        per_node: ranks of a node; None where nothing states them.
        min_nodes: the smallest number of nodes of a range; None without a range.
    """

    nodes: int | None
    per_node: int | None
    min_nodes: int | None = None


def is_script(root: SourcePlace) -> bool:
    """True if a document is a script of a shell."""
    return isinstance(root.value, str) and (
        _SHELLS.match(root.value) is not None or not root.value.startswith("#!")
    )


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    if is_script(root) and _launcher(script_of(root)):
        yield root


def _launcher(script: ScriptContent) -> str:
    """The name of the launcher that starts the ranks; "" without one."""
    words = (script.content.get("command") or [[]])[0]
    if script.content.get("srun"):
        return "srun" if words else ""
    names = [PurePosixPath(word).name for word in words]
    if _PYTHON.fullmatch(names[0] if names else "") and names[1:2] == ["-m"]:
        return "torchrun" if names[2:3] and names[2] in _MODULES else ""
    if names[:1] == ["neuron_parallel_compile"]:
        names = names[1:]
    return names[0] if names and names[0] in _LAUNCHERS else ""


def _read(place: SourcePlace) -> JobSpec:
    """The spec of a script.

    Raises:
        BadInput: a quote or a bracket is not closed.
    """
    script = script_of(place)
    script_text = ParsedText(script.content, script.line_of)
    reader = SpecReader(FileContent(place.document.file, script_text, place.document.fix).root)
    for key in (HEADER, "tail"):
        reader.take(key)
    if reader.value("srun") is False:
        reader.take("srun")
    elif not set(options_in(reader.value("srun", 0) or ())) - _COUNTED_STEP_OPTIONS:
        reader.take("srun", 0)
    command = command_words(reader, ("command", 0), "roles.0.command")
    options = [str(word) for word in reader.value("srun", 0) or ()]
    ranks = _ranks(_launcher(script), command, options)
    line = reader.lines.get("roles.0.command", reader.start)
    for name in ("replicas", "processes"):
        reader.lines[f"roles.0.{name}"] = line
    if ranks.nodes is None:
        text = "the nodes of the command's launcher"
        reader.templates.append(TemplateValue("roles.0.replicas", text, line))
    role = Role(
        replicas=ranks.nodes,
        least_replicas=ranks.min_nodes,
        is_exclusive=True,
        processes=ranks.per_node,
        image=reader.text("image", 0, field="roles.0.image"),
        command=command,
        environment=exported_variables(reader, 1, script),
    )
    return JobSpec(
        FORMAT.name,
        Job(roles=(role,), kept_fields=reader.kept_fields()),
        reader.start._replace(line=1),
        reader.lines,
        tuple(reader.templates),
        branches={"roles.0.command": script.branch} if script.branch else {},
    )


def _ranks(launcher: str, command: Sequence[str], step: Sequence[str]) -> _Ranks:
    """The nodes and the ranks of a command.

    Args:
        launcher: the name of the launcher.
        command: the words of the command, without srun and its options.
        step: options of srun.
    """
    if launcher == "srun":
        srun_options = options_in(step)
        per_node = _positive_number(srun_options.get("ntasks-per-node"))
        ranks = _ranks_by_counts(
            _positive_number(srun_options.get("ntasks")),
            _most_nodes(srun_options.get("nodes")),
            per_node,
            default=1,
        )
        launch_ranks = started_ranks(command)
        return (
            ranks
            if launch_ranks is None
            else ranks._replace(per_node=(ranks.per_node or 1) * launch_ranks)
        )
    if launcher in ("mpirun", "mpiexec"):
        return _mpi_ranks(command)
    options = options_of(command)
    if launcher == "accelerate":
        nodes = _stated_nodes(command, options, "num-machines")
        return _ranks_by_counts(_positive_number(options.get("num-processes")), nodes, None)
    if launcher == "deepspeed":
        nodes = None if "hostfile" in options else _stated_nodes(command, options, "num-nodes")
        return _Ranks(nodes, _positive_number(options.get("num-gpus")))
    per_node = started_ranks(command)
    match = _RANGE.fullmatch(options.get("nnodes", ""))
    if match is None:
        return _Ranks(_stated_nodes(command, options, "nnodes"), per_node)
    least_nodes, most_nodes = int(match[1]), int(match[2] or match[1])
    return _Ranks(most_nodes, per_node, least_nodes if least_nodes != most_nodes else None)


def _stated_nodes(command: Sequence[str], options: dict[str, str], name: str) -> int | None:
    """The nodes that an option states; 1 without it, None where a variable may hold the option."""
    if name in options:
        return _most_nodes(options[name])
    launcher_words = takewhile(lambda word: not word.endswith(".py"), command)
    return (
        None
        if any(is_template(word) and not word.startswith("-") for word in launcher_words)
        else 1
    )


def _mpi_ranks(command: Sequence[str]) -> _Ranks:
    """The ranks of mpirun, by its options for all ranks, for ranks of a node and for hosts."""
    options: dict[str, str] = {}
    words = list(command[1:])
    for index, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name:
            next_word = words[index + 1] if index + 1 < len(words) else ""
            options.setdefault(name, value if equals else next_word)
        elif _PYTHON.fullmatch(PurePosixPath(word).name):
            break
    total = next((options[name] for name in ("np", "n", "c") if name in options), None)
    per_node = next((options[name] for name in ("npernode", "N", "ppn") if name in options), None)
    if match := _PER_NODE.match(options.get("map-by", "")):
        per_node = match[1]
    hosts = next((options[name] for name in ("H", "host", "hosts") if name in options), "")
    if any(name in options for name in _HOST_FILES) or is_template(hosts):
        return _Ranks(None, _positive_number(per_node))
    count = len({part.partition(":")[0] for part in hosts.split(",")}) if hosts else None
    if count is None and per_node is not None and total is not None:
        return _ranks_by_counts(_positive_number(total), None, _positive_number(per_node))
    return _ranks_by_counts(_positive_number(total), count or 1, _positive_number(per_node))


def _ranks_by_counts(
    total: int | None, nodes: int | None, per_node: int | None, default: int | None = None
) -> _Ranks:
    """Nodes and ranks of a node from two of three numbers; the default number of nodes is 1.

    Args:
        total: ranks of all nodes.
        nodes: number of nodes.
        per_node: ranks of a node.
        default: ranks of a node where nothing states them.
    """
    if nodes is None and total is not None and per_node is not None and total % per_node == 0:
        return _Ranks(total // per_node, per_node)
    count = 1 if nodes is None else nodes
    if per_node is None and total is not None and total % count == 0:
        per_node = total // count
    return _Ranks(count, default if per_node is None else per_node)


def _positive_number(text: str | bool | None) -> int | None:
    return int(text) if isinstance(text, str) and _COUNT.fullmatch(text) else None


def _most_nodes(text: str | bool | None) -> int | None:
    return _positive_number(text.partition("-")[2] or text) if isinstance(text, str) else None


def _write(job: Job) -> str:
    del job
    raise BadInput("--as script: a plain script states no nodes", fix="--as sbatch")


FORMAT: Final = JobFormat("script", "shell script", ".sh", _places, _read, _write)
