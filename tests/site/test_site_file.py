import json
import re

import pytest
from site_cases import write_site

from trnsim.errors import BadInput
from trnsim.site.site_file import OTHER, digest, read, sealed


def changed(path, old, new):
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))
    return path


def line_of(path, text):
    return next(at for at, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_a_group_has_its_factors_and_others_have_those_of_others(tmp_path):
    site = read(write_site(tmp_path / "site.json"))
    own = site.correction("trainium1", "decode")
    assert (own.factor("weights"), own.factor("KV")) == (2.0, 1.5)
    assert site.provenance(own) == "yours, 2026-11-20, 14 rows"
    other = site.correction("h100", "GPU decode")
    assert (other.chip, other.family) == (OTHER, OTHER)
    assert site.provenance(other) == "yours, 2026-11-20, 14 rows of other chips or families"


@pytest.mark.parametrize(
    ("old", "new", "said", "at"),
    [
        ('"calibrate/1"', '"calibrate/2"', "schema is 'calibrate/2'; legal: calibrate/1", "schema"),
        ('"version": "0.1.0"', '"version": "0.0.9"', "version is '0.0.9'; legal: 0.1.0", "version"),
        ('"weights": 2.0', '"weights": 1.0', "corrections[0] was changed since", '"chip"'),
        ('"sigma": 0.05', '"sigma": 0.01', "corrections[0] was changed since", '"chip"'),
        ('"family": "decode"', r'"family": "\ud800"', "corrections[0] was changed since", '"chip"'),
        ('"rows": 14', '"rows": 99', "a field outside corrections was changed since", "{"),
        (
            '"sigma": 0.05',
            '"sigma": "low"',
            "corrections[0].sigma is 'low'; legal: a number",
            '"sigma"',
        ),
        ('"weights": 2.0', '"weights": true', "parts.weights is True", '"weights"'),
        ('"written": "2026-11-20"', '"written": "today"', "written is 'today'", '"written"'),
    ],
)
def test_a_file_of_another_version_or_changed_by_hand_is_refused_with_its_line(
    old, new, said, at, tmp_path
):
    path = changed(write_site(tmp_path / "site.json"), old, new)
    with pytest.raises(BadInput, match=re.escape(said)) as caught:
        read(path)
    line = int(re.search(r"site\.json:(\d+)", caught.value.reason)[1])
    assert abs(line - line_of(path, at)) <= 1
    assert "trnsim calibrate" in caught.value.fix


def test_a_file_that_was_cut_short_is_refused_with_its_line(tmp_path):
    path = write_site(tmp_path / "site.json")
    path.write_text(path.read_text()[:150])
    with pytest.raises(BadInput, match=r"site\.json:\d+: "):
        read(path)


def test_a_file_without_a_correction_for_others_is_refused(tmp_path):
    path = write_site(tmp_path / "site.json")
    told = json.loads(path.read_text())
    told["corrections"] = told["corrections"][:1]
    path.write_text(json.dumps(told, indent=1))
    with pytest.raises(BadInput, match="corrections: none of other chips and families"):
        read(path)


def test_a_factor_of_nothing_is_refused(tmp_path):
    path = write_site(tmp_path / "site.json", factor=0.0)
    with pytest.raises(
        BadInput, match=r"parts\.weights is 0\.0; legal: a factor between 0\.0001 and 10000"
    ):
        read(path)


def test_a_digest_is_of_all_fields_but_itself():
    told = sealed({"a": 1.5, "b": ["x"]})
    assert told["check"] == digest(told) == digest({"a": 1.5, "b": ["x"]})
    assert digest({"a": 1.5}) != digest({"a": 1.25})
