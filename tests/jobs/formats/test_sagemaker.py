import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats.sagemaker import (
    check_whole,
    instance_in,
    instance_name,
    take_examples,
)
from trnsim.jobs.job import Role
from trnsim.jobs.spec import SpecReader
from trnsim.reader import FileContent


def reader(content):
    return SpecReader(FileContent.of(content, "a.json").root)


@pytest.mark.parametrize(
    ("text", "instance"),
    [("ml.trn1.2xlarge", "trn1.2xlarge"), ("", ""), ("$TYPE", "$TYPE"), (None, "")],
)
def test_instances_have_a_prefix(text, instance):
    assert instance_in(reader({"a": text}), "a", field="instance") == instance
    assert instance_name(Role(instance=instance)) == (text or "")


def test_an_instance_without_the_prefix_is_refused():
    with pytest.raises(BadInput, match=r"a is 'trn1\.2xlarge'; legal: a type of SageMaker"):
        instance_in(reader({"a": "trn1.2xlarge"}), "a", field="instance")


def test_examples_are_not_kept():
    spec = reader({"a": {"b": "example", "c": "mine"}})
    take_examples(spec, {("a", "b"): "example", ("a", "c"): "example", ("d",): "example"})
    assert [kept.name for kept in spec.kept_fields()] == ["a.c"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"devices": 16, "efa": 8, "vcpus": 128.0},
        {"capabilities": ("IPC_LOCK",), "memory_bytes": 512 * 2**30},
    ],
)
def test_what_an_instance_has(fields):
    check_whole(Role(is_exclusive=True, instance="trn1.32xlarge", **fields))


@pytest.mark.parametrize(
    ("role", "why"),
    [
        (Role(instance="trn1.32xlarge"), "shares its instance"),
        (Role(is_exclusive=True, instance="trn1.32xlarge", devices=8), "devices is 8; .* 16 of"),
        (Role(is_exclusive=True, instance="trn1.32xlarge", gpus=1), "gpus is 1; .* unknown"),
        (Role(is_exclusive=True, instance="trn1.32xlarge", efa=9), "efa is 9; .* 8 of"),
        (Role(is_exclusive=True, instance="p5.48xlarge", devices=8), "devices is 8; .* unknown"),
        (Role(is_exclusive=True, instance="trn1.32xlarge", memory_bytes=2**40), "memory_bytes is"),
        (Role(is_exclusive=True, vcpus=1.0), "vcpus is 1.0; .*: unknown"),
    ],
)
def test_what_an_instance_has_not_is_refused(role, why):
    with pytest.raises(BadInput, match=why):
        check_whole(role)
