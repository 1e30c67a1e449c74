"""``trnsim job``: specs of jobs checked, priced, written in another format, compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from trnsim import files
from trnsim.cli.job_document import (
    SpecReview,
    check_document,
    difference_document,
    launched_document,
    price_document,
)
from trnsim.cli.options import OwnPrices, catalogue_with, command, parser, price_option
from trnsim.cli.quantity_options import number, whole
from trnsim.cli.report_files import PrintedAnswer, answering
from trnsim.cli.terminal import echo
from trnsim.document.answer import Document
from trnsim.errors import BadInput
from trnsim.jobs.assumption import SpecAssumption
from trnsim.jobs.finding import Severity
from trnsim.jobs.formats import FORMATS, read_specs, write_spec
from trnsim.jobs.formats.batch_request import apply_request
from trnsim.jobs.launched import launched_time
from trnsim.jobs.price import JobPrice, price_job
from trnsim.jobs.rules import findings
from trnsim.jobs.spec import JobSpec
from trnsim.price import check_kind

_ERROR: Final = Severity.ERROR.value
_FORMAT_NAMES: Final = ", ".join(FORMATS)

app = parser(
    help="Check, price, convert and compare specs of jobs: Slurm, Kubernetes, SageMaker, Batch, "
    f"ECS.\n\nFormats: {_FORMAT_NAMES}. A spec is data: no command in it is run.",
    no_args_is_help=True,
)

_Files = Annotated[list[Path], typer.Argument(help="Specs: JSON, YAML, scripts.", metavar="FILE")]


_On = Annotated[
    str, typer.Option(help="Instance type of roles that state none.", metavar="INSTANCE")
]
_Model = Annotated[
    str,
    typer.Option(
        help="The model that is trained, in place of the spec's own: a name, or a config.json.",
        metavar="MODEL",
    ),
]
_Submit = Annotated[
    Path | None,
    typer.Option(
        help="A SubmitJob request of AWS Batch for the definition that it names: size of an array, "
        "nodes, overrides.",
        metavar="FILE",
    ),
]


def _read(
    paths: Sequence[Path], submit: Path | None, assumption: SpecAssumption | None = None
) -> list[JobSpec]:
    """The specs of files, as a request of AWS Batch submits them.

    An assumed instance type that no role needs has no effect; a note on stderr says so.

    Raises:
        BadInput: a file cannot be read, or the request names no definition among them.
    """
    specs = [spec for path in paths for spec in read_specs(path)]
    specs = specs if submit is None else apply_request(specs, submit)
    instances = dict.fromkeys(role.instance for spec in specs for role in spec.job.roles)
    name = "" if assumption is None else assumption.instance_name
    if name and instances and all(instances) and list(instances) != [name]:
        echo(
            f"trnsim: note: --on {name} has no effect: it is for roles that state no instance "
            f"type, and these state {', '.join(instances)}",
            is_error=True,
        )
    return specs


@dataclass(frozen=True, kw_only=True)
class SupplementOptions:
    """Options with values that a spec may lack."""

    on: _On = ""
    model: _Model = ""
    submit: _Submit = None
    run_tokens: Annotated[
        float | None,
        number(
            "Tokens of the whole run.",
            "--run-tokens",
            unit="tokens",
            example="10B",
            exclusive_minimum=0,
        ),
    ] = None
    run_steps: Annotated[
        int | None, whole("Optimizer steps of the run.", "--run-steps", unit="steps", minimum=1)
    ] = None
    price: Annotated[
        str | None,
        price_option("the spec's kind, else a capacity block, on demand or spot, as it is sold"),
    ] = None
    prices: OwnPrices = None

    def assumption(self) -> SpecAssumption:
        """The options as answers for what a spec does not state.

        Raises:
            BadInput: the kind of purchase is not known.
        """
        if self.price is not None:
            check_kind(self.price, f"--price is {self.price!r}")
        return SpecAssumption(
            instance=self.on,
            model=self.model,
            tokens=self.run_tokens,
            steps=self.run_steps,
            purchase=self.price or "",
            rows=catalogue_with(self.prices),
        )


@dataclass(frozen=True, kw_only=True)
class PriceOptions(SupplementOptions):
    """Options of ``trnsim job price``."""

    specs: _Files


@dataclass(frozen=True, kw_only=True)
class DiffOptions(SupplementOptions):
    """Options of ``trnsim job diff``."""

    before: Annotated[Path, typer.Argument(help="The earlier version.", metavar="A")]
    after: Annotated[Path, typer.Argument(help="The later version.", metavar="B")]


@app.command()
@answering
def check(specs: _Files, on: _On = "", model: _Model = "", submit: _Submit = None) -> PrintedAnswer:
    """Say what is wrong in specs, each at its line, with the source and what to change.

    Ends with status 1 if a finding is an error. Fields that are not understood are named.

    Example: trnsim job check train.sbatch --on trn2.48xlarge
    """
    assumption = SpecAssumption(instance=on, model=model)
    full_specs = [assumption.complete_spec(spec) for spec in _read(specs, submit, assumption)]
    specs_and_findings = [(spec, findings(spec)) for spec in full_specs]
    has_error = any(
        finding.severity == _ERROR for _, rows in specs_and_findings for finding in rows
    )
    return PrintedAnswer(check_document(specs_and_findings), status=1 if has_error else 0)


@app.command()
@answering
@command(PriceOptions)
def price(options: PriceOptions) -> Document:
    """Print how long jobs take and what they cost, as `plan train` estimates it.

    A job without a model, a layout or a length has no plan: the text says why, and a time limit is
    an upper bound.

    Example: trnsim job price train.sbatch --on trn2.48xlarge --model llama-3.1-8b
    """
    assumption = options.assumption()
    specs = _read(options.specs, options.submit, assumption)
    return price_document([(spec, _price_of(spec, assumption)) for spec in specs])


@app.command()
def write(
    spec: Annotated[Path, typer.Argument(help="A spec: JSON, YAML, a script.", metavar="FILE")],
    format_name: Annotated[
        str, typer.Option("--as", help=f"The format: {_FORMAT_NAMES}.", metavar="FORMAT")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", help="Write the spec to a file.", metavar="FILE")
    ] = None,
    submit: _Submit = None,
) -> None:
    """Write the jobs of a spec, or of a plan that `plan train --output` stored, in another format.

    What the other format has no place for is named on stderr.

    Example: trnsim job write train.sbatch --as pytorchjob
    """
    if output is not None:
        files.check_writable(output)
    specs = _read([spec], submit)
    text = "".join(_converted_text(job_spec, format_name) for job_spec in specs)
    if output is None:
        echo(text.rstrip("\n"))
    else:
        files.write(output, text)
        echo(f"wrote {output}")


def _converted_text(spec: JobSpec, format_name: str) -> str:
    """A job in another format; fields that only its own format has are named on stderr."""
    job = spec.job
    if format_name == spec.format or not job.kept_fields:
        return write_spec(job, format_name)
    text = write_spec(spec.with_job(kept_fields=()).job, format_name)
    names = ", ".join(field.name for field in job.kept_fields)
    echo(f"{spec.start}: left out, as only {spec.format} has them: {names}", is_error=True)
    return text


@app.command()
@answering
@command(DiffOptions)
def diff(options: DiffOptions) -> Document:
    """Print what changes between two versions of a spec: fields, findings, time and bill.

    --output change.md writes it for a pull request.

    Example: trnsim job diff old.sbatch new.sbatch --on trn2.48xlarge --output change.md
    """
    assumption = options.assumption()
    before, after = (
        _review(path, options.submit, assumption) for path in (options.before, options.after)
    )
    return difference_document(before, after)


@dataclass(frozen=True, kw_only=True)
class LaunchedOptions(SupplementOptions):
    """Options of ``trnsim job launched``."""

    spec: Annotated[Path, typer.Argument(help="A spec of one job.", metavar="FILE")]
    world: Annotated[
        Path, typer.Argument(help="The report of its launch, world.json.", metavar="WORLD")
    ]


@app.command()
@answering
@command(LaunchedOptions)
def launched(options: LaunchedOptions) -> Document:
    """Print the time of a launched job beside the price of its spec, term by term.

    A launch's report has the time of its kernels and exchanges on the chip; the price is the
    plan's. What differs is named, with its seconds.

    Example: trnsim job launched train.sbatch trnsim-slurm-12.0/world.json --model llama-3.2-1b
    """
    spec, _, price = _review(options.spec, options.submit, options.assumption())
    return launched_document(spec, launched_time(price, options.world))


def _price_of(spec: JobSpec, assumption: SpecAssumption) -> JobPrice:
    return price_job(spec.job, assumption, is_of_sagemaker=spec.is_of_sagemaker)


def _review(path: Path, submit: Path | None, assumption: SpecAssumption) -> SpecReview:
    """The only job of a file, with its findings and its price.

    Raises:
        BadInput: the file holds several jobs.
    """
    specs = _read([path], submit, assumption)
    if len(specs) > 1:
        lines = ", ".join(str(spec.start.line) for spec in specs)
        raise BadInput(
            f"{path} holds {len(specs)} jobs, in lines {lines}", fix="name a file of one job"
        )
    (spec,) = specs
    spec_findings = findings(assumption.complete_spec(spec))
    return SpecReview(spec, spec_findings, _price_of(spec, assumption))
