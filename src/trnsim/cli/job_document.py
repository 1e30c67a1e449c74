"""Checked, priced and compared job specs as documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from trnsim.document.answer import Block, Document, Figure, Items, Note, Section, Table, columns
from trnsim.document.values import picked
from trnsim.facts import Interval
from trnsim.formatting import amount, amounts, clipped, durations, enumerated, seconds
from trnsim.jobs.difference import changes, new_findings
from trnsim.jobs.finding import Finding, Severity
from trnsim.jobs.formats import FORMATS
from trnsim.jobs.job import KeptField, Role
from trnsim.jobs.launched import LaunchedTime, Term
from trnsim.jobs.plans import parallelism_of
from trnsim.jobs.price import JobPrice, TimeBasis
from trnsim.jobs.role_price import RolePrice
from trnsim.jobs.spec import JobSpec, TemplateValue
from trnsim.system.serve.plan import ServingPlan
from trnsim.system.train.estimate import TrainingEstimate

_SHOWN_FIELDS: Final = 8
"""Fields without a meaning that the text names, at most; the JSON has all."""
_SHOWN_CHARS: Final = 60
"""Characters of a value that the text shows, at most."""
_SPEC_NAMES: Final = "file=start.file line=start.line format"
"""Attributes of a spec that its JSON begins with."""
_LIST_INDEX: Final = re.compile(r"(\[\d+\])+$")
_ROLE_COLUMNS: Final = columns("role | instances | USD/h | price", numbers_from=2, numbers_to=3)
_CHANGE_COLUMNS: Final = columns("field | before | after", numbers_from=3)
_TOTAL_COLUMNS: Final = columns(" | before | after | change", numbers_from=1)
_TERM_COLUMNS: Final = columns("part of the run | priced | launched | difference", numbers_from=1)
_HOURS_OF_MONTH: Final = 730


def check_document(specs_and_findings: Sequence[tuple[JobSpec, list[Finding]]]) -> Document:
    """Specs, and the findings of each at their lines."""
    sections = [Section("", _check_blocks(spec, findings)) for spec, findings in specs_and_findings]
    all_findings = [finding for _, findings in specs_and_findings for finding in findings]
    sections.append(Section("", [Note(_count_sentence(len(specs_and_findings), all_findings))]))
    rows = Table(
        columns("file | line | severity | rule | reason | fix | source", numbers_from=7),
        [
            (
                *(finding.place.file, Figure(finding.place.line, str(finding.place.line))),
                *(finding.severity, finding.rule, finding.reason, finding.fix, finding.source),
            )
            for finding in all_findings
        ],
    )
    values = [_spec_values(spec, findings) for spec, findings in specs_and_findings]
    return Document("Checked jobs", values, sections, rows=rows, schema="job-check/1")


def _spec_values(spec: JobSpec, findings: Sequence[Finding]) -> dict[str, Any]:
    job = spec.job
    return {
        **picked(spec, _SPEC_NAMES),
        **picked(job, "name kind region time_limit_s copies replicas"),
        "roles": [_role_values(role) for role in job.roles],
        "parallelism": parallelism_of(job).stated_fields,
        "findings": [_finding_values(finding) for finding in findings],
        "templates": [picked(value, "field text line=place.line") for value in spec.templates],
        "not_understood": [field.name for field in spec.unknown_fields],
    }


def _role_values(role: Role) -> dict[str, Any]:
    names = "name replicas instance processes devices device_indexes cores lnc gpus efa vcpus"
    return picked(role, f"{names} memory_bytes hugepages_bytes shm_bytes image")


def _finding_values(finding: Finding) -> dict[str, Any]:
    return picked(finding, "rule severity file=place.file line=place.line reason fix source")


def job_title(spec: JobSpec) -> str:
    """The place, the format and the roles of a job in a line."""
    roles = "; ".join(_role_words(role) for role in spec.job.roles) or "no role"
    copies = f", {spec.job.copies:,} copies" if spec.job.copies != 1 else ""
    name = f" {spec.job.name!r}" if spec.job.name else ""
    return f"{spec.start}: {FORMATS[spec.format].title}{name}: {roles}{copies}"


def _role_words(role: Role) -> str:
    replicas = "?" if role.replicas is None else f"{role.replicas:,}"
    parts = [f"{replicas} x {role.instance or 'any instance'}"]
    counts = {
        "devices": role.requested("devices") or len(role.device_indexes) or None,
        "NeuronCores": role.requested("cores"),
        "GPUs": role.requested("gpus"),
        "EFA": role.efa,
        "ranks": role.processes,
    }
    count_texts = [
        f"{count} {unit.removesuffix('s') if count == 1 else unit}"
        for unit, count in counts.items()
        if count is not None
    ]
    return f"{', '.join([*parts, *count_texts])}{' each' if count_texts else ''}"


def _check_blocks(spec: JobSpec, findings: Sequence[Finding]) -> list[Block]:
    blocks: list[Block] = [Note(job_title(spec), kind="strong"), *_finding_blocks(findings)]
    if spec.templates:
        values = enumerated([_template_words(value) for value in spec.templates], "and")
        blocks.append(Note(f"filled in later, so not checked: {values}"))
    if spec.unknown_fields:
        blocks.append(Note(_kept_sentence(spec.unknown_fields)))
    return blocks


def _template_words(value: TemplateValue) -> str:
    return f"{value.field} ({clipped(' '.join(value.text.split()), _SHOWN_CHARS)})"


def _kept_sentence(fields: Sequence[KeptField]) -> str:
    """Fields without a meaning; the items of a list count as one name."""
    counts = Counter(_LIST_INDEX.sub("", field.name) for field in fields)
    names = [name if count == 1 else f"{name} ({count} items)" for name, count in counts.items()]
    hidden_count = len(names) - _SHOWN_FIELDS
    suffix = f" and {hidden_count} more" if hidden_count > 0 else ""
    return f"not understood, and kept: {', '.join(names[:_SHOWN_FIELDS])}{suffix}"


def _finding_blocks(findings: Sequence[Finding]) -> list[Block]:
    blocks: list[Block] = []
    for finding in findings:
        place = f"{finding.place}: {finding.severity}: {finding.reason} [{finding.rule}]"
        blocks.append(Note(place))
        blocks.append(Items([f"fix: {finding.fix}", f"source: {finding.source}"], indent=2))
    return blocks


def _count_sentence(jobs: int, findings: Sequence[Finding]) -> str:
    parts = []
    for severity in Severity:
        count = sum(finding.severity == severity.value for finding in findings)
        if count:
            parts.append(f"{count} {severity.value}{'s' if count > 1 else ''}")
    return f"{jobs} job{'s' if jobs > 1 else ''}: {', '.join(parts) or 'no finding'}"


def price_document(specs_and_prices: Sequence[tuple[JobSpec, JobPrice]]) -> Document:
    """Time and bill of jobs."""
    sections = [Section("", _price_blocks(spec, price)) for spec, price in specs_and_prices]
    values = [_price_values(spec, price) for spec, price in specs_and_prices]
    return Document("Priced jobs", values, sections, schema="job-price/1")


def _price_values(spec: JobSpec, price: JobPrice) -> dict[str, Any]:
    return {
        **picked(spec, _SPEC_NAMES),
        **picked(price.job, "name kind copies"),
        "roles": [_role_price_values(role) for role in price.roles],
        **picked(price, "usd_per_hour time_basis=basis.value"),
        **picked(price.training, "steps tokens model=model.name layout=step.layout"),
        **picked(price, "step_s goodput=training.goodput.goodput time_s usd"),
        **picked(price.serving, "requests_per_s=most_per_s usd_per_million_tokens"),
        "reasons": list(price.reasons),
        "caveats": [*price.caveats, *_branch_caveats(spec)],
    }


def _branch_caveats(spec: JobSpec) -> list[str]:
    """Blocks of a script whose commands are read, and so priced, as if the blocks ran once."""
    return [
        f"the command of line {spec.line_of(name).line} stands in {words}; it counts once"
        for name, words in spec.branches.items()
    ]


def _role_price_values(role: RolePrice) -> dict[str, Any]:
    return {
        **picked(role, "role=role.name instance=instance.name instances least_instances"),
        **picked(role, "usd_per_hour price_kind=quote.kind", price=str(role.quote)),
    }


def _price_blocks(spec: JobSpec, price: JobPrice) -> list[Block]:
    blocks: list[Block] = [Note(job_title(spec), kind="strong")]
    if price.roles:
        blocks.append(Table(_ROLE_COLUMNS, [_role_row(role) for role in price.roles]))
    blocks += [Note(sentence) for sentence in _bill_sentences(price)]
    if price.training is not None:
        blocks.append(Note(f"plan: {_training_words(price.training)}"))
    if price.serving is not None:
        blocks.append(Note(f"plan: {_serving_words(price.serving)}"))
    caveats = (*price.reasons, *price.caveats, *_branch_caveats(spec))
    blocks += [Note(reason) for reason in caveats]
    return blocks


def _role_row(role: RolePrice) -> tuple[str, ...]:
    count = "?" if role.instances is None else f"{role.instances:,}"
    if role.least_instances is not None:
        count = f"{role.least_instances:,} to {count}"
    usd = "none" if role.usd_per_hour is None else amount(role.usd_per_hour)
    return role.role.name, f"{count} x {role.instance.name}", usd, str(role.quote)


def _training_words(plan: TrainingEstimate) -> str:
    steps = f"{amount(plan.steps)} steps of {durations(plan.step.step_s)}"
    return f"{plan.model.name}, {steps}, {plan.step.layout}, goodput {plan.goodput.goodput:.1%}"


def _serving_words(plan: ServingPlan) -> str:
    rate = "" if plan.most_per_s is None else f"at most {amount(plan.most_per_s)} requests/s, "
    request = plan.load[0]  # all are of one length, as a spec states none
    lengths = f"of {request.input_tokens:,} tokens in and {request.output_tokens:,} out, "
    usd = amounts(plan.usd_per_million_tokens)
    return f"{rate}{lengths}{usd} USD for a million output tokens"


def _bill_sentences(price: JobPrice) -> list[str]:
    """Time and bill in words: the plan's, else an upper bound, else USD per hour."""
    sentences = []
    if price.time_s is not None:
        usd = "no price" if price.usd is None else f"{amounts(price.usd)} USD"
        if price.basis is TimeBasis.PLAN:
            sentences.append(f"time {durations(price.time_s)}, bill {usd}")
        else:
            usd_limit = "no price" if price.usd is None else f"{amount(price.usd.p50)} USD"
            limit = seconds(price.time_s.p50)
            sentences.append(f"at most {limit}, the time limit, and {usd_limit}: an upper bound")
    elif price.usd_per_hour is not None:
        hourly = price.usd_per_hour
        month = amount(hourly * _HOURS_OF_MONTH)
        sentences.append(f"{amount(hourly)} USD an hour, {month} USD in a month of 730 hours")
    return sentences


def launched_document(spec: JobSpec, time: LaunchedTime) -> Document:
    """The time and bill of a launch beside those of its spec's price."""
    table = Table(
        _TERM_COLUMNS,
        [
            (*(term.name, seconds(term.priced_s), seconds(term.launched_s)), _difference_text(term))
            for term in (*time.terms, time.total)
        ],
    )
    bills = [time.usd(time_s) for time_s in (time.total.priced_s, time.total.launched_s)]
    blocks: list[Block] = [Note(job_title(spec), kind="strong"), table]
    if None not in bills:
        blocks.append(Note(f"bill {' and '.join(amount(usd or 0.0) for usd in bills)} USD"))
    blocks.append(Note(_launched_words(time)))
    blocks += [Note(caveat) for caveat in _branch_caveats(spec)]
    names = "name priced_s launched_s difference_s"
    values = {
        **picked(spec, "file=start.file line=start.line"),
        **picked(time, "steps launched_steps"),
        "terms": [picked(term, names) for term in time.terms],
        **picked(time.total, names, usd=bills[0], launched_usd=bills[1], is_equal=time.is_equal),
    }
    sections = [Section("", blocks)]
    return Document("Launched and priced", values, sections, rows=table, schema="job-launched/1")


def _difference_text(term: Term) -> str:
    sign = "-" if term.difference_s < 0 else "+"
    return f"{sign}{seconds(abs(term.difference_s))}"


def _launched_words(time: LaunchedTime) -> str:
    step_counts = f"{amount(time.steps)} steps, of which the launch ran {time.launched_steps:,}"
    if time.is_equal:
        return f"{step_counts}: equal to 1 %"
    names = enumerated([term.name for term in time.main_differences], "and")
    return f"{step_counts}: they differ in {names}"


class SpecReview(NamedTuple):
    """A job's spec, the findings of its check, and its price."""

    spec: JobSpec
    findings: list[Finding]
    price: JobPrice


def difference_document(
    before: SpecReview,
    after: SpecReview,
) -> Document:
    """Changes between two versions of a spec: fields, findings, time and bill."""
    field_changes = changes(before.spec.job, after.spec.job)
    added_findings = new_findings(before.findings, after.findings)
    gone_findings = new_findings(after.findings, before.findings)
    totals = _totals(before.price, after.price)
    sections = [
        Section("", [Note(job_title(before.spec)), Note(job_title(after.spec))]),
        Section("Time and bill", [totals, *_reason_notes(before.price, after.price)]),
        Section("New findings", _finding_blocks(added_findings) or [Note("none")]),
    ]
    if gone_findings:
        sections.append(Section("Findings that are gone", _finding_blocks(gone_findings)))
    if field_changes:
        rows = [
            (change.field, _value_text(change.before), _value_text(change.after))
            for change in field_changes
        ]
        sections.append(Section("Fields that changed", [Table(_CHANGE_COLUMNS, rows)]))
    values = {
        "before": _price_values(before.spec, before.price),
        "after": _price_values(after.spec, after.price),
        "changes": [picked(change, "field before after") for change in field_changes],
        "new_findings": [_finding_values(finding) for finding in added_findings],
        "gone_findings": [_finding_values(finding) for finding in gone_findings],
    }
    return Document("What changes", values, sections, rows=totals, schema="job-diff/1")


def _reason_notes(*prices: JobPrice) -> list[Note]:
    names = ("before", "after")
    return [
        Note(f"{name}: {reason}")
        for name, price in zip(names, prices, strict=True)
        for reason in price.reasons
    ]


def _totals(before: JobPrice, after: JobPrice) -> Table:
    """Step, time, price per hour and bill of two versions, with the change of the medians."""
    steps = [
        None if price.training is None else price.training.step.step_s for price in (before, after)
    ]
    rows = [
        ("step", *_interval_cells(*steps, is_time=True)),
        ("time", *_interval_cells(before.time_s, after.time_s, is_time=True)),
        ("USD/h", *_number_cells(before.usd_per_hour, after.usd_per_hour)),
        ("bill USD", *_interval_cells(before.usd, after.usd, is_time=False)),
    ]
    return Table(_TOTAL_COLUMNS, rows)


def _interval_cells(
    before: Interval | None, after: Interval | None, *, is_time: bool
) -> tuple[str, str, str]:
    text_of = durations if is_time else amounts
    texts = ["-" if value is None else text_of(value) for value in (before, after)]
    medians = [None if value is None else value.p50 for value in (before, after)]
    return texts[0], texts[1], _relative_change(*medians)


def _number_cells(before: float | None, after: float | None) -> tuple[str, str, str]:
    texts = ["-" if value is None else amount(value) for value in (before, after)]
    return texts[0], texts[1], _relative_change(before, after)


def _relative_change(before: float | None, after: float | None) -> str:
    if before is None or after is None or not before:
        return "-"
    return f"{after / before - 1:+z.1%}"


def _value_text(value: Any) -> str:
    if value is None:
        return "-"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
