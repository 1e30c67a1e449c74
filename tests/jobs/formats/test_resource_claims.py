import pytest
from kubernetes_jobs import read

from trnsim.errors import SourceLine
from trnsim.jobs.device_claim import DeviceClaim
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.formats.resource_claims import claim_templates
from trnsim.jobs.rules import findings
from trnsim.reader import load_documents

TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: four}
spec:
  spec:
    devices:
      requests:
        - name: neurons
          exactly:
            deviceClassName: neuron.aws.com
            allocationMode: ExactCount
            count: 4
            selectors:
              - cel: {expression: "device.attributes['neuron.aws.com'].instanceType == 'trn2.48xlarge'"}
      constraints:
        - {requests: [neurons], matchAttribute: resource.aws.com/devicegroup4_id}
      config:
        - opaque:
            driver: neuron.aws.com
            parameters: {apiVersion: neuron.aws.com/v1, kind: NeuronConfig, logicalNeuronCore: 1}
"""  # noqa: E501  an expression has no line breaks
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  containers:
    - {name: main, image: me, resources: {claims: [{name: neurons}]}}
  resourceClaims:
    - {name: neurons, resourceClaimTemplateName: four}
"""
COUNT = "            count: 4\n"
EQUAL = "instanceType == 'trn2.48xlarge'"
NODE = "resourceType == 'neuron_node'"
BOTH = EQUAL + " && device.attributes['neuron.aws.com'].neuronDriverVersion == '2.25.4.0'"


def claim(folder, *changes):
    """The claim of the template after replacements."""
    text = TEMPLATE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = folder / "claim.yaml"
    path.write_text(text)
    return claim_templates(load_documents(path)).get("four")


def role_of(folder, text):
    """The only role of a file, and its spec."""
    path = folder / "job.yaml"
    path.write_text(text)
    (spec,) = read_specs(path)
    (role,) = spec.job.roles
    return role, spec


def test_a_template_states_devices_group_instance_and_lnc(tmp_path):
    assert claim(tmp_path) == DeviceClaim(
        *("four", SourceLine(str(tmp_path / "claim.yaml"), 12)),
        devices=4,
        group=4,
        group_place=SourceLine(str(tmp_path / "claim.yaml"), 16),
        instance="trn2.48xlarge",
        lnc=1,
    )


@pytest.mark.parametrize(
    ("changes", "devices", "is_whole_instance"),
    [
        ([(COUNT, "")], 1, False),
        ([("ExactCount", "All"), (COUNT, "")], None, True),
        ([("ExactCount", "all"), (COUNT, "")], None, False),
        ([(COUNT, "            count: 0\n")], None, False),
        ([(COUNT, "            count: true\n")], None, False),
        ([(COUNT, "            count: $N\n")], None, False),
        ([(EQUAL, NODE), ("count: 4", "count: 1")], None, True),
        ([(EQUAL, NODE)], None, False),
        ([("ExactCount", "All"), (COUNT, ""), (EQUAL, NODE)], None, False),
    ],
)
def test_devices_are_counted_or_those_of_an_instance(tmp_path, changes, devices, is_whole_instance):
    stated = claim(tmp_path, *changes)
    assert (stated.devices, stated.is_whole_instance) == (devices, is_whole_instance)


@pytest.mark.parametrize(
    ("expression", "instance"),
    [
        (BOTH, "trn2.48xlarge"),
        (EQUAL.replace(" ", ""), "trn2.48xlarge"),
        (EQUAL + " || true", ""),
        ("!(" + EQUAL + ")", ""),
        (EQUAL.replace("==", "!="), ""),
    ],
)
def test_an_instance_type_is_one_that_must_be_equal(tmp_path, expression, instance):
    assert claim(tmp_path, (EQUAL, expression)).instance == instance


@pytest.mark.parametrize(
    ("changes", "devices"),
    [
        ([("neuron.aws.com\n            alloc", "efa.networking.k8s.aws\n            alloc")], 0),
        ([("          exactly:", "          firstAvailable:")], None),
        ([("requests:", "other:")], None),
    ],
)
def test_other_devices_are_none_and_alternatives_are_not_counted(tmp_path, changes, devices):
    stated = claim(tmp_path, *changes)
    assert (stated.devices, stated.is_whole_instance, stated.instance) == (devices, False, "")


@pytest.mark.parametrize("change", [("resource.k8s.io/v1", "v1"), ("{name: four}", "{}")])
def test_a_document_that_is_no_template_is_passed_over(tmp_path, change):
    assert claim(tmp_path, change) is None


def test_a_request_of_the_first_versions_has_no_exactly(tmp_path):
    text = TEMPLATE.replace("          exactly:\n", "")
    text = text.replace("            deviceClass", "          deviceClass")
    text = text.replace("            allocation", "          allocation")
    text = text.replace("            count", "          count").replace(
        "            selectors", "          selectors"
    )
    path = tmp_path / "claim.yaml"
    path.write_text(text)
    assert claim_templates(load_documents(path))["four"].devices == 4


def test_a_pod_has_what_its_claim_states_wherever_it_stands_in_the_file(tmp_path):
    for text in (f"{TEMPLATE}---\n{POD}", f"{POD}---\n{TEMPLATE}"):
        role, spec = role_of(tmp_path, text)
        assert (role.devices, role.instance, role.lnc) == (4, "trn2.48xlarge", 1)
        assert not role.is_exclusive
        assert spec.line_of("roles.0.devices").line == 1 + text[: text.index("count:")].count("\n")
        assert findings(spec) == []


def test_all_devices_are_those_of_the_instance(tmp_path):
    text = TEMPLATE.replace("ExactCount", "All").replace(COUNT, "")
    role, _ = role_of(tmp_path, f"{text}---\n{POD}")
    assert (role.devices, role.is_exclusive) == (16, True)


def test_claims_of_templates_in_the_file_are_understood(tmp_path):
    _, spec = role_of(tmp_path, f"{TEMPLATE}---\n{POD}")
    assert spec.unknown_fields == ()
    _, spec = role_of(tmp_path, POD)
    assert [kept.name for kept in spec.unknown_fields] == [
        "spec.containers[0].resources.claims[0].name",
        "spec.resourceClaims[0].name",
        "spec.resourceClaims[0].resourceClaimTemplateName",
    ]


def test_a_template_that_the_file_does_not_hold_states_nothing(tmp_path):
    role, spec = role_of(tmp_path, POD)
    assert (role.devices, role.instance) == (None, "")
    assert spec.claims == {"roles.0": (DeviceClaim("four"),)}


def test_two_claims_add_up_and_one_of_them_may_be_elsewhere(tmp_path):
    second = "    - {name: more, resourceClaimTemplateName: two}\n"
    other = TEMPLATE.replace("name: four", "name: two").replace("count: 4", "count: 2")
    role, _ = role_of(tmp_path, f"{TEMPLATE}---\n{other}---\n{POD}{second}")
    assert role.devices == 6
    role, spec = role_of(tmp_path, f"{TEMPLATE}---\n{POD}{second}")
    assert role.devices is None
    assert role.instance == "trn2.48xlarge"
    assert [stated.place is None for stated in spec.claims["roles.0"]] == [False, True]


def test_what_the_pod_states_wins(tmp_path):
    stated = POD.replace("{claims", "{limits: {aws.amazon.com/neuron: 8}, claims").replace(
        "image: me,",
        "image: me, env: [{name: NEURON_LOGICAL_NC_CONFIG, value: '2'}],",
    )
    role, _ = role_of(tmp_path, f"{TEMPLATE}---\n{stated}")
    assert (role.devices, role.lnc) == (8, 2)


def test_claimed_devices_are_not_requested_a_second_time(tmp_path):
    _, spec = role_of(tmp_path, f"{TEMPLATE}---\n{POD}")
    text = write_spec(spec.job, "pod")
    assert "aws.amazon.com/neuron" not in text
    assert "resourceClaimTemplateName: four" in text
    assert read("pod", text, tmp_path).job.roles[0].lnc == 1
