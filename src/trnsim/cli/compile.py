"""`trnsim compile`: a model of PyTorch or JAX on the chip, without running it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trnsim.cli.on import chips as chips_of
from trnsim.cli.on import on_option
from trnsim.cli.options import Lnc, parser
from trnsim.cli.progress import progress
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import AsJson
from trnsim.cli.report_files import answer as report_answer
from trnsim.cli.terminal import echo, width
from trnsim.compiler import Flags
from trnsim.compiler.explained import pattern_table
from trnsim.document.answer import Document
from trnsim.errors import BadInput
from trnsim.files import check_folder, read_bytes, write
from trnsim.profile import report_of, write_report, write_traces
from trnsim.workload.config import read_values
from trnsim.workload.model_names import config_file
from trnsim.workload.shape import ModelShape

if TYPE_CHECKING:
    from collections.abc import Callable


_On = Annotated[list[str] | None, on_option("trn2")]
_Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        help="A module that registers the model's own operators; several with --import again.",
        metavar="MODULE",
    ),
]
_Flags = Annotated[
    str, typer.Option(help="Flags of neuronx-cc, after those of NEURON_CC_FLAGS.", metavar="FLAGS")
]
_Report = Annotated[
    Path | None,
    typer.Option(
        help="Write the report here: a folder, or the page's file (.html), beside which lie the "
        "stored report (JSON), the text, and the traces.",
        metavar="DIR|FILE.html",
    ),
]
_Batch = Annotated[int, whole("Sequences or images of a config.json's model.", unit="sequences")]
_Sequence = Annotated[int, whole("Tokens of each sequence.", unit="tokens")]
_Past = Annotated[int, whole("Keys in the cache: one more token is decoded.", unit="tokens")]
_Tp = Annotated[int, typer.Option(help="Ranks over which each layer is split.", metavar="NUMBER")]
_Phase = Annotated[
    str | None,
    typer.Option(
        help="encode, prefill, decode or train, where the model does not say it.", metavar="PHASE"
    ),
]
_Dtype = Annotated[
    str,
    typer.Option(
        help="Type of weights and activations: bfloat16, float16 or float32.", metavar="DTYPE"
    ),
]

_Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weights",
        help="An argument of a program of JAX that holds weights, such as params; several with "
        "--weights again.",
        metavar="NAME",
    ),
]
_Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Print the compiler's patterns that the model has, and the program's instructions and "
        "time with and without each: it is compiled once more for each.",
    ),
]
_OF_JAX: Final = (".jax", ".mlir", ".mlirbc", ".stablehlo")
"""What files of programs of JAX are named, whatever they hold."""

app = parser()


@app.command()
def compile_model(
    model: Annotated[
        Path,
        typer.Argument(
            parser=config_file,
            help="An exported program (.pt2), a model's name (trnsim models) or config.json, a "
            "Python file (.py), or a program of JAX: what jax.export wrote, or StableHLO (.mlir).",
            metavar="MODEL",
        ),
    ],
    on: _On = None,
    modules: _Modules = None,
    flags: _Flags = "",
    lnc: Lnc = None,
    report: _Report = None,
    batch: _Batch = 1,
    sequence: _Sequence = 128,
    past: _Past = 0,
    tp: _Tp = 1,
    phase: _Phase = None,
    dtype: _Dtype = "bfloat16",
    weights: _Weights = None,
    explain: _Explain = False,
    as_json: AsJson = False,
) -> None:
    """Compile a model to a program for a NeuronCore: its time, what bounds it, where it goes.

    The model is an exported program; a name or a config.json, as it lies beside a model's weights,
    of which one rank's graph in one phase is built; or a Python file: what it names model, on what
    it names args; or a program of JAX. Nothing is computed: any weights do.

    To export a model: torch.export.save(torch.export.export(model.eval(), (x,)), "model.pt2").
    Shapes are those of x; another batch size is another program. Of a function of JAX, save the
    bytes of jax.export.export(jax.jit(f))(params, x).serialize() as step.jax.

    Examples: trnsim compile model.pt2 --on trn2,trn3 --report out

    trnsim compile model.pt2 --flags "--auto-cast=matmult -O1"

    trnsim compile llama-3.1-8b --batch 8 --past 2047 --tp 32 --lnc 2 --report decode.html

    trnsim compile step.jax --weights params --report out

    trnsim compile model.pt2 --explain
    """
    folder, name = _place(report, model)
    _import_all(modules or [])
    asked = Flags.parse(flags, "--flags", Flags.of_environment())
    chips = [chip.name for chip in chips_of(on)]
    sizes = batch, sequence, past, tp
    show = _nothing if as_json else echo
    with progress() as tell:
        tell(model.name)
        subject, answer = _asked(model, sizes, phase, dtype, weights or [])
        ask = _Asking(partial(answer, subject), tell, show, is_explained=explain)
        answers = [ask(model.name, chip, asked, lnc) for chip in chips]
        if folder is not None:
            files = _write([one for one, _ in answers], folder, name, tell)
            show("\n".join(f"  {kind:<8}{path}" for kind, path in files))
    if as_json:
        shape = _sizes(model, sizes, phase, dtype)
        _print_json(model, [{**one.as_dict(), **shape, **more} for one, more in answers])


@dataclass(frozen=True)
class _Asking:
    """Asks for answers about one model, and shows them.

    Attributes:
        answer: of a chip.
        tell: says what is done now.
        show: prints.
        is_explained: whether the compiler's patterns are asked for.
    """

    answer: Callable[..., Any]
    tell: Callable[[str], None]
    show: Callable[[str], None]
    is_explained: bool

    def __call__(
        self, name: str, chip: str, flags: Flags, lnc: int | None
    ) -> tuple[Any, dict[str, object]]:
        """The answer for a chip, and the patterns that the model has there."""
        where = f"{name} for {chip}"
        self.tell(where)
        tell = partial(_tell_of, self.tell, where)
        found = self.answer(chip, flags, lnc, tell)
        self.show(f"{found.text(width())}\n")
        return found, _explained(found, tell, self.show) if self.is_explained else {}


def _explained(
    answer: Any, tell: Callable[[str], None], show: Callable[[str], None]
) -> dict[str, object]:
    """Show the patterns that a model has; the same as plain values."""
    taken = answer.explained(tell)
    show(f"{pattern_table(taken, answer.program)}\n")
    return {"patterns": [one.as_dict() for one in taken]}


def _print_json(model: Path, answers: list[dict[str, Any]]) -> None:
    """Print one answer as an object, several as a list."""
    values = answers[0] if len(answers) == 1 else answers
    report_answer(Document(model.name, values, (), schema="compile/1"), as_json=True)


def _nothing(_: str) -> None:
    """Print nothing: with --json the answer stands alone."""


def _tell_of(tell: Callable[[str], None], where: str, what: str) -> None:
    tell(f"{where}: {what}")


def _place(report: Path | None, model: Path) -> tuple[Path | None, str]:
    """The folder of a report, which can be written to, and the name of its files."""
    folder, name = report, model.stem
    if report is not None and report.suffix.lower() == ".html" and not report.is_dir():
        folder, name = report.parent, report.stem
    if folder is not None:
        check_folder(folder)
    return folder, name


def _is_of_jax(model: Path) -> bool:
    """Whether a file is a program of JAX: by its name, or by what it holds."""
    if model.suffix in _OF_JAX:
        return True
    if model.suffix in (".json", ".py", ".pt2") or not model.is_file():
        return False
    head = read_bytes(model)
    return b"ML\xefR" in head or b"stablehlo." in head


def _program_of_jax(model: Path, weights: list[str]) -> Any:
    """The program of JAX in a file; imported late: other commands need no JAX."""
    try:
        import_module("jaxlib")
    except ImportError as error:
        raise BadInput("a program of JAX needs JAX", fix="pip install jax") from error
    from trnsim.jax.stablehlo.exported import of_export  # noqa: PLC0415  as above

    return of_export(model, weights)


def _any_answer() -> Any:
    """What answers for a graph of any framework."""
    from trnsim.device.model_report import report_model  # noqa: PLC0415  a config.json is answered by torch's

    return report_model


def _asked(
    model: Path, sizes: tuple[int, int, int, int], phase: str | None, dtype: str, weights: list[str]
) -> tuple[Any, Any]:
    """The model in a file, of whatever framework, and the function that answers for it."""
    if _is_of_jax(model):
        return _program_of_jax(model, weights), _any_answer()
    if model.suffix == ".json":
        return _configured(model, sizes, phase, dtype)
    answers = _answers()
    return (answers.of_script if model.suffix == ".py" else answers.of_export)(
        model
    ), answers.report_model


def _configured(
    model: Path, sizes: tuple[int, int, int, int], phase: str | None, dtype: str
) -> tuple[Any, Any]:
    """The model of a config.json; transformers builds it where not all of it is known."""
    from trnsim.device import configured  # noqa: PLC0415  with the graph's room

    batch, sequence, past, tp = sizes
    shape = ModelShape(_phase(model, phase, past), batch, sequence, past, tp)
    subject = configured.model_of_config(model, shape, dtype)
    if subject is not None:
        return subject, _any_answer()
    answers = _answers(f" for {model}: {configured.unknown_part(model)}")
    return answers.of_config(model, shape, dtype), answers.report_model


def _phase(model: Path, phase: str | None, past: int) -> str:
    """The phase that is asked for, or meant."""
    from trnsim.device import configured  # noqa: PLC0415  as above

    return phase or configured.phase_of(read_values(model), past)


def _sizes(
    model: Path, sizes: tuple[int, int, int, int], phase: str | None, dtype: str
) -> dict[str, object]:
    """How much of a config.json's model is computed at once; of another file it is in the graph."""
    if model.suffix != ".json":
        return {}
    batch, sequence, past, tp = sizes
    named = _phase(model, phase, past)
    return {
        "phase": named,
        "batch": batch,
        "tokens": 1 if named == "decode" else sequence,
        "past": past,
        "tensor_parallel_size": tp,
        "dtype": dtype,
    }


def _write(
    found: list[Any], folder: Path, name: str, tell: Callable[[str], None]
) -> list[tuple[str, Path]]:
    """Write one report of a model on all chips: the kind and path of each file."""
    tell(f"{name}: report")
    runs = [answer.run() for answer in found]
    report = report_of(runs, [answer.whole for answer in found])
    page = write_report(report, folder, name)
    made = [("report", page), ("stored", page.with_suffix(".json"))]
    for answer, run in zip(found, runs, strict=True):
        chip = run.target.name
        text = write(folder / f"{name}-{chip}.txt", f"{answer.long_text()}\n", parents=True)
        made += [("text", text), *write_traces(run, folder, f"{name}-{chip}", tell).items()]
    return made


def _answers(why: str = "") -> Any:
    """`trnsim.torch.models.subjects`, imported late: other commands need no PyTorch."""
    try:
        import_module("torch")
    except ImportError as error:
        needs = f"trnsim compile needs PyTorch{why}"
        raise BadInput(needs, fix="pip install 'trnsim[torch]'") from error
    from trnsim.torch.models import subjects  # noqa: PLC0415  as above

    return subjects


def _import_all(modules: list[str]) -> None:
    for name in modules:
        try:
            import_module(name)
        except ImportError as error:
            raise BadInput(
                f"--import {name}: {error}", fix="install it, or set PYTHONPATH"
            ) from error
