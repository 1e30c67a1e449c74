"""`trnsim compile`: a model of PyTorch or JAX on the chip, without running it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trnsim.cli.comparison import Comparison, Refusal
from trnsim.cli.on import chips as chips_of
from trnsim.cli.on import on_option
from trnsim.cli.options import Lnc, long_dtype, parser
from trnsim.cli.progress import progress
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import AsJson, Output, answer, check_output
from trnsim.compiler import Flags
from trnsim.compiler.reports.pattern_uses import PatternUse, pattern_blocks
from trnsim.document.answer import Document, Section, label_table, records
from trnsim.errors import BadInput
from trnsim.files import check_folder, check_readable, read_bytes, write
from trnsim.jax.programs import is_program_of_xla, subject_of
from trnsim.profile import report_of, write_report, write_traces
from trnsim.workload.config import read_values
from trnsim.workload.model_names import config_file
from trnsim.workload.shape import ModelShape

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
_Batch = Annotated[
    int,
    whole(
        "Sequences or images of a config.json's model.", unit="sequences", example="8", minimum=1
    ),
]
_Sequence = Annotated[int, whole("Tokens of each sequence.", unit="tokens", minimum=1)]
_Past = Annotated[
    int, whole("Keys in the cache: one more token is decoded.", unit="tokens", minimum=0)
]
_Tp = Annotated[int, whole("Ranks over which each layer is split.", minimum=1)]
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
_TABLE_COLUMNS: Final = (
    "target",
    "lnc",
    "subject",
    "program_s",
    "bound_s",
    "bound",
    "mfu",
    "mbu",
    "flop",
)
"""Columns of the table for spreadsheets."""
_SIZES: Final = {"--batch": 1, "--sequence": 128, "--past": 0, "--tp": 1}
"""Options of a config.json's pass, and the values that they have without them."""
_DTYPE: Final = "bfloat16"
_ReportAndPatterns = tuple[Any, "tuple[PatternUse, ...] | None"]
"""The report of a model on a chip, and the compiler's patterns in it with --explain."""
_JAX_ENDINGS: Final = (".jax", ".mlir", ".mlirbc", ".stablehlo", ".hlo", ".pb", ".neff")
"""Endings of files that are read as programs of JAX or XLA."""

_Model = Annotated[
    Path,
    typer.Argument(
        parser=config_file,
        help="An exported program (.pt2), a model's name (trnsim models) or config.json, a "
        "Python file (.py), or a program of JAX: what jax.export wrote, StableHLO (.mlir), or HLO.",
        metavar="MODEL",
    ),
]

app = parser()


@app.command()
def compile_model(
    model: _Model,
    on: _On = None,
    modules: _Modules = None,
    flags: _Flags = "",
    lnc: Lnc = None,
    report: _Report = None,
    batch: _Batch = _SIZES["--batch"],
    sequence: _Sequence = _SIZES["--sequence"],
    past: _Past = _SIZES["--past"],
    tp: _Tp = _SIZES["--tp"],
    phase: _Phase = None,
    dtype: _Dtype = _DTYPE,
    weights: _Weights = None,
    explain: _Explain = False,
    as_json: AsJson = False,
    output: Output = None,
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
    folder, name = _report_folder_and_name(report, model)
    check_output(output)
    _import_all(modules or [])
    compiler_flags = Flags.parse(flags, "--flags", Flags.of_environment())
    chips, sizes, dtype = chips_of(on), (batch, sequence, past, tp), long_dtype(dtype)
    _check_effects(model, sizes, phase, dtype, weights)
    compiled_models: list[_ReportAndPatterns] = []
    comparison = Comparison()
    with progress() as tell:
        tell(model.name)
        subject, report_for = _model_and_reporter(model, sizes, phase, dtype, weights or [])
        pass_values = _pass_values(model, sizes, phase, dtype)
        for chip in chips:
            tell_of = partial(_tell_of_subject, tell, f"{model.name} for {chip.name}")
            tell_of("")
            report_on = partial(report_for, subject, chip.name, compiler_flags, lnc, tell_of)
            chip_reports = comparison.ask(chip.name, report_on)
            compiled_models += _with_patterns(chip_reports, tell_of, explain=explain)
        comparison.check(compiled_models)
        files = [] if folder is None else _write_report_files(compiled_models, folder, name, tell)
    document = _document(model, compiled_models, pass_values, files, comparison.refusals)
    answer(document, None, output, as_json=as_json)


def _with_patterns(
    reports: Sequence[Any], tell: Callable[[str], None], *, explain: bool
) -> list[_ReportAndPatterns]:
    """Each report with the compiler's patterns in its graph; None without --explain."""
    return [(report, report.explained(tell) if explain else None) for report in reports]


def _document(
    model: Path,
    compiled_models: Sequence[_ReportAndPatterns],
    pass_values: dict[str, object],
    files: Sequence[tuple[str, Path]],
    refusals: Sequence[Refusal],
) -> Document:
    """A model on each chip, with the compiler's patterns where they are asked for."""
    values: list[dict[str, Any]] = []
    sections: list[Section] = []
    refusal_values: dict[str, Any] = {}
    if refusals:
        sections.append(Section("", [refusal.note for refusal in refusals]))
        refusal_values = {"refused": [refusal.values for refusal in refusals]}
    for chip_report, patterns in compiled_models:
        values.append({**chip_report.as_dict(), **pass_values, **refusal_values})
        sections.append(Section("", chip_report.blocks()))
        if patterns is not None:
            values[-1]["patterns"] = [pattern.as_dict() for pattern in patterns]
            sections.append(Section("", pattern_blocks(patterns, chip_report.program)))
    if files:
        paths = [(kind, str(path)) for kind, path in files]
        sections.append(Section("", [label_table(paths, indent=2)], place="text"))
    content = values[0] if len(values) + len(refusals) == 1 else values
    rows = records([{key: row[key] for key in _TABLE_COLUMNS} for row in values], _TABLE_COLUMNS)
    return Document(model.name, content, sections, rows=rows, schema="compile/1")


def _tell_of_subject(tell: Callable[[str], None], subject: str, detail: str) -> None:
    tell(f"{subject}: {detail}" if detail else subject)


def _report_folder_and_name(report: Path | None, model: Path) -> tuple[Path | None, str]:
    """The folder of a report and the name of its files; a folder must be writable."""
    folder, name = report, model.stem
    if report is not None and report.suffix.lower() == ".html" and not report.is_dir():
        folder, name = report.parent, report.stem
    if folder is not None:
        check_folder(folder)
    return folder, name


def _check_effects(
    model: Path,
    sizes: tuple[int, int, int, int],
    phase: str | None,
    dtype: str,
    weights: list[str] | None,
) -> None:
    """Refuse options that a model of this kind leaves without effect.

    Raises:
        BadInput: it names the first of them.
    """
    option_names = [
        *(name for name, size in zip(_SIZES, sizes, strict=True) if size != _SIZES[name]),
        *(["--phase"] if phase is not None else []),
        *(["--dtype"] if dtype != _DTYPE else []),
    ]
    if option_names and model.suffix != ".json":
        raise BadInput(
            f"{option_names[0]} has no effect on {model.name}: its graph has its own shapes and "
            "types; legal: for a model's name or a config.json",
            fix=f"leave {option_names[0]} out, and write the file anew for another graph",
        )
    if weights and not _is_jax_program(model):
        raise BadInput(
            f"--weights has no effect on {model.name}; legal: for a program of JAX or XLA",
            fix="leave --weights out",
        )


def _is_jax_program(model: Path) -> bool:
    """True if a file is a program of JAX or XLA, by its ending or its content."""
    if model.suffix in _JAX_ENDINGS:
        return True
    if model.suffix in (".json", ".py", ".pt2") or not model.is_file():
        return False
    return is_program_of_xla(read_bytes(model))


def _model_reporter() -> Any:
    """The function that compiles a graph of any framework and reports on it."""
    from trnsim.device.model_report import report_model  # noqa: PLC0415  models of PyTorch have their own

    return report_model


def _model_and_reporter(
    model: Path, sizes: tuple[int, int, int, int], phase: str | None, dtype: str, weights: list[str]
) -> tuple[Any, Any]:
    """The model in a file of any framework, and the function that compiles and reports on it."""
    if _is_jax_program(model):
        subject = subject_of(read_bytes(model), str(model), model.name, weights)
        return subject, _model_reporter()
    if model.suffix == ".json":
        return _config_model_and_reporter(model, sizes, phase, dtype)
    subjects = _torch_subjects(model)
    read_subject = subjects.of_script if model.suffix == ".py" else subjects.of_export
    return read_subject(model), subjects.report_model


def _config_model_and_reporter(
    model: Path, sizes: tuple[int, int, int, int], phase: str | None, dtype: str
) -> tuple[Any, Any]:
    """`_model_and_reporter` of a config.json; transformers builds what trnsim does not know."""
    from trnsim.device import configured  # noqa: PLC0415  with the graph's room

    batch, sequence, past, tp = sizes
    shape = ModelShape(_phase(model, phase, past), batch, sequence, past, tp)
    subject = configured.model_of_config(model, shape, dtype)
    if subject is not None:
        return subject, _model_reporter()
    subjects = _torch_subjects(model, f" for {model}: {configured.unknown_part(model)}")
    return subjects.of_config(model, shape, dtype), subjects.report_model


def _phase(model: Path, phase: str | None, past: int) -> str:
    """The phase of --phase, else the model's usual one: decode if the cache has `past` keys."""
    from trnsim.device import configured  # noqa: PLC0415  as above

    return phase or configured.phase_of(read_values(model), past)


def _pass_values(
    model: Path, sizes: tuple[int, int, int, int], phase: str | None, dtype: str
) -> dict[str, object]:
    """The sizes of a config.json's pass, for the JSON; {} for a file whose graph has them."""
    if model.suffix != ".json":
        return {}
    batch, sequence, past, tp = sizes
    phase_name = _phase(model, phase, past)
    return {
        "phase": phase_name,
        "batch": batch,
        "tokens": 1 if phase_name == "decode" else sequence,
        "past": past,
        "tensor_parallel_size": tp,
        "dtype": dtype,
    }


def _write_report_files(
    models: Sequence[_ReportAndPatterns], folder: Path, name: str, tell: Callable[[str], None]
) -> list[tuple[str, Path]]:
    """Write one report of a model on all chips; returns the kind and path of each file."""
    tell(f"{name}: report")
    runs = [chip_report.run() for chip_report, _ in models]
    report = report_of(runs, [chip_report.scaled_estimate for chip_report, _ in models])
    page = write_report(report, folder, name)
    files = [("report", page), ("stored", page.with_suffix(".json"))]
    for (chip_report, _), run in zip(models, runs, strict=True):
        chip = run.target.name
        text = write(folder / f"{name}-{chip}.txt", f"{chip_report.long_text()}\n", parents=True)
        files += [("text", text), *write_traces(run, folder, f"{name}-{chip}", tell).items()]
    return files


def _torch_subjects(model: Path, why: str = "") -> Any:
    """The module `trnsim.torch.models.subjects`, which only these models need.

    Raises:
        BadInput: PyTorch is not installed, and the reason ends in `why`; or `model` cannot be read.
    """
    try:
        import_module("torch")
    except ImportError as error:
        check_readable(model)
        reason = f"trnsim compile needs PyTorch{why}"
        raise BadInput(reason, fix="pip install 'trnsim[torch]'") from error
    from trnsim.torch.models import subjects  # noqa: PLC0415  as above

    return subjects


def _import_all(modules: list[str]) -> None:
    for name in modules:
        try:
            import_module(name)
        except (ImportError, TypeError, ValueError) as error:  # TypeError: .name; ValueError: ""
            raise BadInput(
                f"--import {name}: {error}", fix="install it, or set PYTHONPATH"
            ) from error
