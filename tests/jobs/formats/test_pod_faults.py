"""What `tests/jobs/rules/twins` has not: what is left open, and what lies at the edge."""

import json

import pytest

from trnsim.jobs.formats import read_specs
from trnsim.jobs.formats.pod_faults import pod_faults
from trnsim.reader import load_documents

LIMITS = {"aws.amazon.com/neuron": "1", "cpu": "2", "memory": "1Gi", "hugepages-1Gi": "2Gi"}
MOUNT = {"name": "a", "mountPath": "/a"}


def pod(container=(), **fields):
    container = {"name": "c", "image": "i", "resources": {"limits": LIMITS}} | dict(container)
    spec = {"containers": [container]} | fields
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def rules(tmp_path, document):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    (loaded,) = load_documents(path)
    assert read_specs(path)[0].faults
    return [fault.rule for fault, _ in pod_faults(loaded.root)]


def resources(**requests):
    return {"resources": {"limits": LIMITS, "requests": requests}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (pod({"volumeMounts": [MOUNT]}, volumes=[{"name": "a"}]), []),
        (pod({"volumeMounts": [MOUNT]}), ["volume-name"]),
        (pod({"volumeMounts": [MOUNT]}, volumes=[{"name": "${VOLUME}"}]), []),
        (pod({"volumeMounts": [MOUNT]}, volumes="{{ .Values.volumes }}"), []),
        (pod({"volumeMounts": [MOUNT | {"name": "$NAME"}]}), []),
        (pod({"volumeMounts": [{"mountPath": "/a"}, 3]}), []),
        (pod(resources(cpu="2000m", memory="1024Mi")), []),
        (pod(resources(cpu="2001m")), ["request-above-limit"]),
        (pod(resources(cpu="${CPUS}", memory=None)), []),
        (pod({"env": [{"name": "NEURON_RT_NUM_CORES", "value": "2"}]}), []),
    ],
)
def test_parts_of_a_pod_agree(tmp_path, document, expected):
    document["colour"] = 1  # a fault of another kind
    assert rules(tmp_path, document) == expected


def test_pages_are_whole_ones(tmp_path):
    limits = LIMITS | {"hugepages-1Gi": "1536Mi", "hugepages-2Mi": "3Mi"}
    document = pod({"resources": {"limits": limits}})
    assert rules(tmp_path, document) == ["huge-page-size", "huge-page-size"]


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ({"a": "b"}, {"a": "b", "c": "d"}, []),
        ({"a": "b"}, None, ["selector-labels"]),
        ({"a": "b"}, {"a": "c"}, ["selector-labels"]),
        ({"a": "{{ .Release.Name }}"}, {"a": "c"}, []),
        ({"a": "b"}, {"a": "$B"}, []),
        (None, {"a": "c"}, []),
    ],
)
def test_a_set_finds_its_pods(tmp_path, selector, labels, expected):
    inner = pod({"volumeMounts": [MOUNT]})["spec"]
    spec = {"selector": {"matchLabels": selector}, "template": {"spec": inner}, "colour": 1}
    spec["template"]["metadata"] = {"labels": labels}
    document = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}}
    assert rules(tmp_path, document | {"spec": spec}) == expected  # its claims make volumes
