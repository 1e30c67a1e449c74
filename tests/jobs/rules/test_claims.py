import pytest

from trnsim.errors import SourceLine
from trnsim.jobs.device_claim import DeviceClaim
from trnsim.jobs.job import Job, Role
from trnsim.jobs.rules import findings
from trnsim.jobs.rules.claims import RULES
from trnsim.jobs.spec import JobSpec

PLACE = SourceLine("claim.yaml", 3)


def reasons(**fields):
    """Reasons and fixes of the findings in a job with a claim."""
    claim = DeviceClaim("c", PLACE, **fields)
    lines = {"roles.0.devices": PLACE}
    spec = JobSpec("pod", Job(roles=(Role(),)), PLACE, lines, claims={"roles.0": (claim,)})
    each = findings(spec, RULES)
    assert all((finding.rule, finding.place) == ("claim-group", PLACE) for finding in each)
    return [(finding.reason, finding.fix) for finding in each]


@pytest.mark.parametrize(
    ("devices", "group", "fix"),
    [
        (2, 1, "match devicegroup4_id"),
        (5, 4, "match devicegroup8_id"),
        (9, 8, "match devicegroup16_id"),
        (17, 16, "claim fewer devices"),
    ],
)
def test_a_group_has_no_more_devices_than_its_size(devices, group, fix):
    assert reasons(devices=devices, group=group) == [
        (f"claim c: {devices} devices of a group of {group}", fix)
    ]


@pytest.mark.parametrize(
    "fields",
    [{}, {"devices": 99}, {"group": 4}, {"devices": 4, "group": 4}, {"is_whole_instance": True}],
)
def test_what_a_group_has_or_no_group_limits_is_legal(fields):
    assert reasons(**fields) == []


def test_a_group_that_no_device_has_is_named():
    ((reason, fix),) = reasons(devices=2, group=2)
    assert reason == "claim c: devicegroup2_id is no attribute of a device"
    assert "devicegroup4_id" in fix
