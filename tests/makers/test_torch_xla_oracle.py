from pathlib import Path

from torch_xla_oracle import _SUBJECTS, page, rows

PROGRAMS = Path(__file__).parents[1] / "xla" / "oracle" / "programs"


def test_every_module_of_programs_has_a_subject():
    assert sorted(_SUBJECTS) == sorted(path.stem for path in PROGRAMS.glob("*.py"))


def test_every_difference_stands_with_its_reason():
    text = page()
    for row in rows():
        assert f"| {row['reason']} |" in text
