"""Random jobs of AWS's services, and the services' own description of their APIs."""

import json
import os
import re
import string
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import botocore.session
import pytest
from botocore.validate import ParamValidator
from hypothesis import strategies as st

from trnsim.jobs.formats import FORMATS
from trnsim.jobs.job import Role
from trnsim.reader import FileContent
from trnsim.reader.json_text import parse_json

MIB = 2**20
CHECKER = Path(__file__).parents[3] / ".venv-specs" / "bin" / "python"
needs_moto = pytest.mark.skipif(
    not CHECKER.exists(), reason="no .venv-specs: make .venv-specs/.made"
)
MOTO = """
import json, sys, boto3, moto
service, create, describe, arguments, documents = json.load(sys.stdin)
with moto.mock_aws():
    client = boto3.client(service, region_name="us-east-1")
    if service == "sagemaker":
        role = "arn:aws:iam::111122223333:role/a"
        client.create_model(ModelName="your-model", ExecutionRoleArn=role)
    answers = []
    for document in documents:
        made = getattr(client, create)(**document)
        known = {name: made.get(field, document.get(field)) for name, field in arguments.items()}
        if service == "batch":
            known = {"jobDefinitions": [made["jobDefinitionArn"]]}
        if service == "ecs":
            known = {"taskDefinition": made["taskDefinition"]["taskDefinitionArn"]}
        answers.append(getattr(client, describe)(**known))
print(json.dumps(answers, default=str))
"""
"""What moto, an emulator of AWS's APIs, says of a document after it has taken it."""
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12)
NAMES = st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=20).filter(
    lambda text: text[0].isalnum()
)
HOSTS = st.from_regex(r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?", fullmatch=True)
VARIABLES = st.lists(
    st.tuples(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,15}", fullmatch=True), WORDS), max_size=3
).map(tuple)
UNIQUE_VARIABLES = st.dictionaries(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,15}", fullmatch=True), WORDS, max_size=3
).map(lambda pairs: tuple(pairs.items()))
COMMANDS = st.lists(WORDS, max_size=5).map(tuple)
MODELS = st.from_regex(r"[\w .:/=+@-]{0,20}", fullmatch=True)
ML_TYPES = st.sampled_from(["trn1.32xlarge", "trn2.48xlarge", "p5.48xlarge", "m5.large"])


def optional(strategy):
    return st.none() | strategy


def containers(**fields):
    """Roles that ECS and Batch express."""
    indexes = st.lists(st.integers(0, 15), max_size=4).map(tuple)
    fields = {
        "image": WORDS,
        "environment": VARIABLES,
        "command": COMMANDS,
        "gpus": optional(st.integers(0, 8)),
        "efa": optional(st.integers(1, 16)),
        "vcpus": optional(st.integers(1, 10**6).map(lambda units: units / 1024)),
        "memory_bytes": optional(st.integers(0, 2**22).map(lambda size: size * MIB)),
        "shm_bytes": optional(st.integers(0, 2**22).map(lambda size: size * MIB)),
        "is_privileged": st.booleans(),
        "is_memlock_unlimited": st.booleans(),
        "device_indexes": indexes,
    } | fields
    return st.builds(Role, **fields).map(
        lambda role: (
            role
            if role.devices is not None
            else _with(role, devices=len(role.device_indexes) or None)
        )
    )


def _with(role, **fields):
    return Role(**{**vars(role), **fields})


def read(text, name):
    """The spec in a text, by one format alone."""
    root = FileContent("spec.json", parse_json(text)).root
    (place,) = FORMATS[name].places(root)
    return FORMATS[name].read(place)


def same(first, second):
    """Whether jobs are equal, apart from the order of what is kept."""
    kept = [sorted(map(repr, job.kept_fields)) for job in (first, second)]
    return replace(first, kept_fields=()) == replace(second, kept_fields=()) and kept[0] == kept[1]


def demanded(job, **fields):
    """A job without kept fields, whose roles state what the service demands."""
    return replace(job, kept_fields=(), roles=tuple(replace(role, **fields) for role in job.roles))


def from_moto(jobs, name, operations, arguments=()):
    """Jobs without kept fields, as moto describes them after it has taken what is written."""
    documents = [json.loads(FORMATS[name].write(job)) for job in jobs]
    service, create, describe, field = operations
    done = subprocess.run(
        [CHECKER, "-c", MOTO],
        input=json.dumps([service, create, describe, dict(arguments), documents]),
        text=True,
        capture_output=True,
        check=False,
        env=os.environ | {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "a"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout)
    described = [answer[field][0] if service == "batch" else answer for answer in answers]
    return [replace(read(json.dumps(answer), name).job, kept_fields=()) for answer in described]


def check_round_trip(job, name, operation):
    """The job that is read from what is written of it is the same, and the service takes it."""
    text = FORMATS[name].write(job)
    assert same(read(text, name).job, job)
    assert problems(json.loads(text), *operation) == []


@cache
def shape(service, operation):
    model = botocore.session.get_session().get_service_model(service)
    return model.operation_model(operation).input_shape


def problems(document, service, operation):
    """What a service's API would refuse, by its own description."""
    of = shape(service, operation)
    report = ParamValidator().validate(document, of).generate_report()
    return [*report.splitlines(), *patterns(document, of)]


def patterns(value, of):
    """Texts that are none of a list, or have not the pattern that the description demands."""
    inner = []
    if of.type_name == "structure":
        inner = [(value[name], of.members[name]) for name in value if name in of.members]
    elif of.type_name == "list":
        inner = [(item, of.member) for item in value]
    elif of.type_name == "map":
        inner = [pair for key in value for pair in ((key, of.key), (value[key], of.value))]
    elif of.type_name == "string":
        yield from _faults(value, of)
    for item in inner:
        yield from patterns(*item)


def _faults(text, of):
    rules = of.metadata
    if of.enum and text not in of.enum:
        yield f"{of.name}: {text!r} is none of the legal names"
    if len(text) > rules.get("max", len(text)):
        yield f"{of.name}: {text!r} is too long"
    pattern = rules.get("pattern", "").replace(r"\p{L}\p{Z}\p{N}", r"\w\s")
    if pattern and not re.fullmatch(pattern, text):
        yield f"{of.name}: {text!r} has not the pattern {pattern}"
