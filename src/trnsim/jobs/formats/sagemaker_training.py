"""Training jobs of SageMaker, as CreateTrainingJob takes them.

Without an entry point and arguments SageMaker runs `train` in the image, whose toolkit passes
hyperparameters to the program as `--name value`: then they are words of the command after `train`.
Instance groups are roles; all of them have one image, environment and command.

Sources: Amazon SageMaker API reference, CreateTrainingJob, ResourceConfig, AlgorithmSpecification
and StoppingCondition; CloudFormation user guide,
AWS::SageMaker::TrainingJob; developer guide, "How Amazon SageMaker AI Runs Your Training Image".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.cloudformation import resources
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.listing import item_count, tagged_model, tags
from trnsim.jobs.formats.refusal import (
    UnsupportedField,
    check_expressible,
    check_name,
    common_value,
    in_units,
)
from trnsim.jobs.formats.rendezvous import with_head, without_head
from trnsim.jobs.formats.sagemaker import (
    UNSUPPORTED_FIELDS,
    Keys,
    check_whole,
    instance_in,
    instance_name,
    take_examples,
)
from trnsim.jobs.formats.writing import json_spec, with_kept_fields, without_empty
from trnsim.jobs.job import Job, JobKind, KeptField, Role
from trnsim.jobs.parallelism import started_ranks
from trnsim.jobs.spec import JobSpec, SpecReader
from trnsim.reader import SourcePlace

_NAME: Final = re.compile(r"(?=.{1,63}\Z)[a-zA-Z0-9](-*[a-zA-Z0-9])*", re.ASCII)
"""Source: CreateTrainingJob, TrainingJobName."""
_TRAIN: Final = "train"
_RESOURCES: Final = "ResourceConfig"
_GROUPS: Final = (_RESOURCES, "InstanceGroups")
_ALGORITHM: Final = "AlgorithmSpecification"
_HEAD: Final = "algo-1"
"""Name of the first host. Source: developer guide, "How Amazon SageMaker AI Provides Training
Information", resourceconfig.json."""
_MOST_WORDS: Final = 100
_MOST_WORD_CHARACTERS: Final = 256
"""Maximum number of words of an entry point and of arguments, and of characters of a word. Source:
AlgorithmSpecification, ContainerEntrypoint and ContainerArguments."""
_MOST_VALUE: Final = 2500
"""Maximum length of a hyperparameter's value; limits of names and of their number are those of
words. Source: CreateTrainingJob, HyperParameters."""
_EXAMPLES: Final[dict[Keys, str]] = {
    ("RoleArn",): "arn:aws:iam::111122223333:role/your-sagemaker-role",
    ("OutputDataConfig", "S3OutputPath"): "s3://your-bucket/output",
    (_ALGORITHM, "TrainingInputMode"): "File",
}
"""Values of the fields that the API demands, and that a job does not state."""
_UNSUPPORTED_FIELDS: Final = UNSUPPORTED_FIELDS | {
    "roles.least_replicas": UnsupportedField("a training job of SageMaker does not grow"),
}


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    yield from resources(root, "AWS::SageMaker::TrainingJob", "TrainingJobName")
    if (
        isinstance(root.value, dict)
        and "TrainingJobName" in root.value
        and (_RESOURCES in root.value or _ALGORITHM in root.value)
    ):
        yield root


def _read(place: SourcePlace) -> JobSpec:
    """The spec of a training job."""
    reader = SpecReader(place)
    name = reader.text("TrainingJobName", field="name")
    limit = reader.whole(
        "StoppingCondition", "MaxRuntimeInSeconds", field="time_limit_s", minimum=1
    )
    groups = item_count(reader, *_GROUPS)
    count = max(groups, 1)
    command, entry_words = _command(reader, count)
    fields: dict[str, Any] = {
        "is_exclusive": True,
        "command": command,
        "entry_words": entry_words,
        "processes": started_ranks(command),
        "image": reader.text(_ALGORITHM, "TrainingImage", field="roles.0.image"),
        "environment": _environment(reader, count),
    }
    if groups:
        roles = [_group(reader, index, fields) for index in range(groups)]
    else:
        roles = [Role(**fields, **_instance_fields(reader, (_RESOURCES,), "roles.0"))]
    take_examples(reader, _EXAMPLES)
    job = Job(
        name=name,
        model=tagged_model(reader, "Tags", key="Key", value="Value"),
        roles=tuple(roles),
        time_limit_s=None if limit is None else float(limit),
        region=_region(reader),
        kept_fields=reader.kept_fields(),
    )
    return JobSpec(FORMAT.name, job, reader.start, reader.lines, tuple(reader.templates))


def _instance_fields(reader: SpecReader, keys: tuple[str | int, ...], field: str) -> dict[str, Any]:
    """The instance type and the count of instances of a role, by the fields of `Role`."""
    return {
        "instance": instance_in(reader, *keys, "InstanceType", field=f"{field}.instance"),
        "replicas": reader.whole(*keys, "InstanceCount", field=f"{field}.replicas"),
    }


def _group(reader: SpecReader, index: int, fields: dict[str, Any]) -> Role:
    """The role of a group of instances."""
    keys, field = (*_GROUPS, index), f"roles.{index}"
    name = reader.text(*keys, "InstanceGroupName", field=f"{field}.name")
    return Role(name=name, **fields, **_instance_fields(reader, keys, field))


def _command(reader: SpecReader, roles: int) -> tuple[tuple[str, ...], int]:
    """The words of the command, and how many first words replace the image's entry point.

    Raises:
        BadInput: a word or a hyperparameter is no text.
    """
    entry = reader.words(_ALGORITHM, "ContainerEntrypoint", field="roles.0.command")
    arguments = reader.words(_ALGORITHM, "ContainerArguments", field="roles.0.command")
    names = reader.names("HyperParameters")
    if entry or arguments or not names:
        words = (*entry, *arguments)
        return (words if entry else without_head(words, _HEAD)), len(entry)
    pairs = [_TRAIN]
    for name in names:
        value = reader.text("HyperParameters", name, field=f"roles.0.parameters.{name}")
        pairs += [f"--{name}", value]
    place = reader.place("HyperParameters")
    if place is not None:
        for index in range(roles):
            reader.lines.setdefault(f"roles.{index}.command", place.line)
    return tuple(pairs), 0


def _environment(reader: SpecReader, roles: int) -> tuple[tuple[str, str], ...]:
    """Names and values of variables.

    Raises:
        BadInput: a value is no text.
    """
    variables = []
    for name in reader.names("Environment"):
        value = ""
        for index in range(roles):
            value = reader.text("Environment", name, field=f"roles.{index}.environment.{name}")
        variables.append((name, value))
    return tuple(variables)


def _region(reader: SpecReader) -> str:
    """The region of the training plan, which the job is in; "" if there is none."""
    place = reader.place(_RESOURCES, "TrainingPlanArn")
    parts = str(place.value).split(":") if place is not None else []
    if place is None or parts[:1] != ["arn"] or parts[2:3] != ["sagemaker"]:
        return ""
    reader.lines["region"] = place.line
    return parts[3] if len(parts) > 3 else ""  # noqa: PLR2004  arn:aws:sagemaker:REGION


def _write(job: Job) -> str:
    """The training job of a job."""
    check_expressible(job, _UNSUPPORTED_FIELDS)
    if job.kind is not JobKind.TRAINING:
        raise BadInput(f"a {job.kind.value} job is no training job", fix="--as sagemaker-endpoint")
    check_name(job.name, _NAME, "SageMaker: 1 to 63 letters, digits and -, no - at an end")
    if not job.roles:
        raise BadInput("a training job needs a role", fix="give the job a role")
    for role in job.roles:
        check_whole(role)
    why = "instance groups of a training job share it"
    image, environment, command, entry_words = (
        common_value(job, name, why) for name in ("image", "environment", "command", "entry_words")
    )
    document: dict[str, Any] = {
        "TrainingJobName": job.name,
        _ALGORITHM: without_empty(
            {"TrainingImage": image, **_words(with_head(job.roles[0], _HEAD), entry_words)}
        ),
        "Tags": tags(job, ("Tags",), key="Key", value="Value"),
        "HyperParameters": _parameters(command, entry_words),
        "Environment": dict(environment),
        _RESOURCES: _resources(job),
        "StoppingCondition": without_empty(
            {"MaxRuntimeInSeconds": in_units(job.time_limit_s, 1, "time_limit_s", "seconds")}
        ),
    }
    examples = (KeptField(keys, value) for keys, value in _EXAMPLES.items())
    return json_spec(with_kept_fields(without_empty(document), (*job.kept_fields, *examples)))


def _resources(job: Job) -> dict[str, Any]:
    """The resources: instances, or groups of instances if a role has a name of its own."""
    rows = [
        without_empty({"InstanceType": instance_name(role), "InstanceCount": role.replicas})
        for role in job.roles
    ]
    if len(rows) == 1 and job.roles[0].name == Role().name:
        return rows[0]
    names = [role.name for role in job.roles]
    return {
        "InstanceGroups": [
            row | {"InstanceGroupName": name} for row, name in zip(rows, names, strict=True)
        ]
    }


def _parameters(command: tuple[str, ...], entry_words: int) -> dict[str, str]:
    """Hyperparameters for the words after `train`; {} if they are no pairs, or too many."""
    names, values = command[1::2], command[2::2]
    is_pairs = (
        command[:1] == (_TRAIN,)
        and not entry_words
        and len(names) == len(values) == len(set(names))
        and len(names) <= _MOST_WORDS
        and all(name.startswith("--") and len(name) <= _MOST_WORD_CHARACTERS for name in names)
        and all(len(value) <= _MOST_VALUE for value in values)
    )
    pairs = zip(names, values, strict=True) if is_pairs else ()
    return {name.removeprefix("--"): value for name, value in pairs}


def _words(command: tuple[str, ...], entry_words: int) -> dict[str, Any]:
    """Entry point and arguments of a command without hyperparameters.

    Raises:
        BadInput: the words are too many, or too long.
    """
    if _parameters(command, entry_words):
        return {}
    parts = {
        "ContainerEntrypoint": list(command[:entry_words]),
        "ContainerArguments": list(command[entry_words:]),
    }
    for words in parts.values():
        if len(words) > _MOST_WORDS or any(len(word) > _MOST_WORD_CHARACTERS for word in words):
            raise BadInput(
                f"the command has {len(words)} words, the longest of {max(map(len, words))} "
                f"characters; legal in SageMaker: {_MOST_WORDS} words of {_MOST_WORD_CHARACTERS}",
                fix="put the command into a script of the image",
            )
    return parts


FORMAT: Final = JobFormat(
    name="sagemaker-training",
    title="SageMaker training job",
    suffix=".json",
    places=_places,
    read=_read,
    write=_write,
    fields="sagemaker-training",
)
