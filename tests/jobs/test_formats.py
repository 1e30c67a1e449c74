import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats import FORMATS, read_specs, write_spec
from trnsim.jobs.job import Job


def test_a_format_is_found_by_its_name():
    assert all(
        name == known.name and known.title and known.suffix for name, known in FORMATS.items()
    )


def test_a_file_without_a_job_names_what_is_legal(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")
    with pytest.raises(BadInput, match=r"a\.yaml:1: no spec of a job; legal: "):
        read_specs(path)


def test_an_unknown_format_is_refused():
    with pytest.raises(BadInput, match="--as word; legal: "):
        write_spec(Job(), "word")
