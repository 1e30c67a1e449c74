import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from jax_page import differing, page, share

CPU = {
    "t::a": ("passed", ""),
    "t::b": ("passed", ""),
    "t::c": ("failed", "x"),
    "t::d": ("passed", ""),
}
OURS = {
    "t::a": ("passed", ""),
    "t::b": ("failed", "ValueError: two\nlines"),
    "t::c": ("failed", "x"),
    "t::d": ("skipped", "unknown platform"),
}


def test_what_the_cpu_passes_counts_unless_the_suite_skips_it():
    assert differing(CPU, OURS) == {"t::b": "ValueError: two\nlines"}
    assert share(CPU, OURS) == "1 of 2, 50.00 %"
    assert share(CPU, {}) == "-"


def test_the_page_names_each_difference_and_counts_skips():
    text = page({"lax_test": {"cpu": CPU, "neuron": OURS, "as-cpu": {}}})
    assert "| `lax_test` | 3 | 1 | 2 | 1 | 0 | 1 of 2, 50.00 % | - | - | - |" in text
    assert "- `lax_test` b: ValueError: two lines" in text
    assert "| `lax_test` | unknown platform | 1 |" in text
