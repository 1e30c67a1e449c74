"""What `make accuracy` rests on: the rows, the rewritten kernels, recordings and the choice."""

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trnsim
from trnsim.profile.measures.schema import summary_names
from trnsim.timing import policy_of

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "accuracy"))
import builders
import fit
import micro
import nkibench
import pricing
import published
import recording
import report
import run
import tutorials
from launches import Launch

ROWS = published.rows()
ARGUMENTS = {
    "matmul": {"x": (256, 2048), "w": (2048, 1024)},
    "bmm": {"x": (2, 256, 64), "w": (2, 64, 1024)},
    "silu": {"x": (256, 2048)},
    "rmsnorm_matmul": {"x": (1024, 512), "w": (512, 1024)},
    "matmul_add_rmsnorm": {"x": (256, 384), "w": (384, 1024), "z": (256, 1024), "g": (1024,)},
}


def rms_norm(x):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True))


EXPECTED = {
    "matmul": lambda x, w: x @ w,
    "bmm": lambda x, w: x @ w,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "rmsnorm_matmul": lambda x, w: rms_norm(x) @ w,
    "matmul_add_rmsnorm": lambda x, w, z, g: rms_norm(x @ w + z) * g,
}


@pytest.mark.parametrize("name", sorted(nkibench.KERNELS))
def test_a_rewritten_kernel_computes_what_its_name_says(name):
    rng = np.random.default_rng(7)
    arrays = {
        array: rng.uniform(-1, 1, shape).astype(np.float32)
        for array, shape in ARGUMENTS[name].items()
    }
    run = trnsim.run(nkibench.KERNELS[name], target="trn1", **arrays)
    exact = EXPECTED[name](**{array: a.astype(np.float64) for array, a in arrays.items()})
    np.testing.assert_allclose(run.outputs, exact, rtol=2e-3, atol=2e-4)


@pytest.mark.slow
def test_the_rewritten_matmul_reads_the_bytes_that_were_counted():
    """At 1/8 of the rows: w is loaded anew for each 128 rows, x for each 1,024 columns."""
    m, k, n = 512, 5120, 12288
    arrays = {"x": np.empty((m, k), np.float32), "w": np.empty((k, n), np.float32)}
    run = trnsim.run(nkibench.matmul, target="trn1", numerics=False, **arrays)
    identity = 128 * 128 * 4
    assert 8 * run.summary["hbm_read_bytes"] == counter("nkibench-matmul-hbm_read_bytes") - identity
    assert 8 * run.summary["hbm_write_bytes"] == counter("nkibench-matmul-hbm_write_bytes")


def counter(name):
    return next(row["value"] for row in ROWS if row["id"] == name)


def test_every_row_is_a_time_or_a_figure_of_the_summary():
    assert len(ROWS) == len({row["id"] for row in ROWS}) == 343
    for row in ROWS:
        if published.is_time(row):
            assert published.published_s(row) > 0
        else:
            assert pricing.COUNTERS[row["metric"]] in summary_names()


def test_every_time_runs_or_says_why_not():
    for row in filter(published.is_time, ROWS):
        runs = row["id"] in micro.MEASURES or builders.is_run(row)
        assert runs or published.LEFT_OUT[published.kernel_of(row)]
    assert set(micro.MEASURES) <= {row["id"] for row in ROWS}


def test_rows_of_one_kernel_and_shape_share_a_recording():
    by_id = {row["id"]: row for row in ROWS}
    key = {name: recording.key(row) for name, row in by_id.items()}
    assert key["nkl-mlptkg-line347"] == key["nkl-mlptkg-row_quant_layout_swap-005"]
    assert key["nkl-attncte-prefix-001"] != key["nkl-attncte-prefix-004"]  # a causal mask
    assert key["mamba-scan-mamba_v2-1024"] != key["mamba-scan-mamba_v3-1024"]


def test_a_recording_that_was_pickled_is_priced_as_the_run_was():
    arrays = {"x": np.empty((256, 1024), np.float32)}
    launch = Launch(nkibench.silu, "trn1", arrays)
    found = pickle.loads(pickle.dumps(recording.record([launch])))  # noqa: S301
    row = next(row for row in ROWS if row["id"] == "nkibench-silu")
    work_s = pricing.work_s(row, found, recording.core_of(found), policy_of("compiler"))
    assert work_s == launch.run().timeline.device_time_s


def test_a_refused_kernel_is_a_recording_with_its_reason():
    arrays = {"x": np.empty((256, 1000), np.float32)}
    found = recording.record([Launch(nkibench.silu, "trn1", arrays)])
    assert found.runs == []
    assert "1000" in found.refusal


PAGE = """
.. code-block:: python

    import os
    os.environ["CHOSEN"] = "1"

    def matrix_multiply_kernel(a):
      return 1 / a

A paragraph.

   .. code-block:: python

      shown = "not a kernel"

.. code-block:: python

   def matrix_multiply_kernel(a):
     return "buffer=nl.hbm"
"""


def test_the_kernels_inside_a_page_are_compiled_with_their_lines(tmp_path, monkeypatch):
    place = tmp_path / "aws-neuron-sdk/nki/guides/tutorials/kernel-optimization.rst"
    place.parent.mkdir(parents=True)
    place.write_text(PAGE, encoding="utf-8")
    monkeypatch.delenv("CHOSEN", raising=False)
    first, second = tutorials._guide(tmp_path)
    assert second(0) == "buffer=nl.shared_hbm"
    with pytest.raises(ZeroDivisionError) as caught:
        first(0)
    assert caught.traceback[-1].lineno + 1 == 8
    assert "CHOSEN" not in tutorials.os.environ


class Table:
    """Prices that are a product of the options' numbers; a launch is given in seconds."""

    def prepare(self, cases, settings):
        """Nothing is kept."""

    def seconds(self, case, setting):
        launch = setting.get(fit.LAUNCHES[case.cores][0])
        launch_s = float(launch.words) if launch and case.has_fitted_launch else 0.0
        return launch_s + self.work_s(case, setting)

    def work_s(self, case, setting):
        numbers = [float(setting[name].words) for name in ("rate", "more") if name in setting]
        return case.work * numbers[0] + sum(numbers[1:])


def case(kernel, work, published_s, cores=0):
    """A row; with `cores`, of a chip whose launch is fitted."""
    row = {"id": f"{kernel}-{work}"}
    return SimpleNamespace(
        kernel=kernel,
        work=work,
        published_s=published_s,
        row=row,
        is_quick=True,
        is_single=kernel == "instr",
        cores=cores or 1,
        has_fitted_launch=cores > 0,
    )


def switch(name, *numbers):
    return fit.Switch(name, tuple(fit.Option(str(number)) for number in numbers))


@given(
    rate=st.sampled_from([1.0, 2.0, 3.0]),
    launch=st.sampled_from([0.5, 5.0, 50.0]),
    works=st.lists(st.floats(1, 100), min_size=3, max_size=6, unique=True),
)
def test_what_made_the_times_is_chosen(rate, launch, works):
    switches = (switch("rate", 1.0, 2.0, 3.0), switch("more", 0.5, 5.0, 50.0))
    cases = [case(str(i % 2), work, rate * work + launch) for i, work in enumerate(works)]
    setting = fit.choose(cases, Table(), switches)
    first = {s.name: s.options[0] for s in switches}
    assert fit.loss(cases, setting, Table()) <= fit.loss(cases, first, Table())
    true = {"rate": fit.Option(str(rate)), "more": fit.Option(str(launch))}
    assert fit.loss(cases, true, Table()) == pytest.approx(0.0, abs=1e-12)


def test_a_fold_does_not_see_its_own_kernel():
    switches = (switch("rate", 1.0, 2.0), switch("more", 0.0))
    cases = [case("a", 1.0, 1.0), case("b", 1.0, 2.0), case("b", 3.0, 6.0)]
    chosen = fit.leave_one_out(cases, Table(), switches)
    assert chosen["a"][1] == {"a-1.0": 2.0}
    assert chosen["b"][1] == {"b-1.0": 1.0, "b-3.0": 3.0}


def test_a_launch_is_the_mean_of_kernels_and_hides_no_rate():
    """Kernels with launches of 5 and 25 us at the rate 2; a third has none of its own."""
    switches = (switch("rate", 1.0, 2.0, 4.0),)
    cases = [
        case(kernel, work, 2 * work + launch_s, cores=2)
        for kernel, launch_s in (("a", 5e-6), ("b", 25e-6))
        for work in (5e-6, 20e-6, 50e-6)
    ]
    cases += [case("b", work, 2 * work + 1e-6, cores=1) for work in (5e-6, 20e-6)]
    cases += [case("long", 1e-3, 2e-3 + 9e-6, cores=2)]
    chosen = fit.leave_one_out([*cases, case("c", 10e-6, 1.0, cores=2)], Table(), switches)
    setting, seconds = chosen["c"]
    assert setting["rate"].words == "2.0"
    assert setting["launch of two cores (s)"].words == "1.5e-05"
    assert setting["launch (s)"].words == "1e-06"
    assert seconds["c-1e-05"] == pytest.approx(35e-6)
    assert chosen["a"][0]["launch of two cores (s)"].words == "2.5e-05"


def test_every_row_of_a_kernel_weighs_the_same():
    switches = (switch("rate", 1.0, 2.0), switch("more", 0.0))
    many = [case("many", 1.0, 1.9) for _ in range(3)]
    few = [case("few", 1.0, 0.9), case("other", 1.0, 0.9)]
    assert fit.choose([*many, *few], Table(), switches)["rate"].words == "2.0"
    single = [case("instr", 1.0, 1.0) for _ in range(9)]
    assert fit.choose([*many, *few, *single], Table(), switches)["rate"].words == "2.0"


def test_rows_with_long_programs_judge_but_do_not_choose():
    switches = (switch("rate", 1.0, 2.0), switch("more", 0.0))
    slow = case("slow", 1.0, 2.0)
    slow.is_quick = False
    assert fit.choose([case("a", 1.0, 1.0), slow, slow], Table(), switches)["rate"].words == "1.0"


PUBLISHED_IN = {
    "a": ("attncte-x", "nki-library@d2ad3a5:test"),
    "b": ("tut-mamba", "aws-neuron-sdk/nki/guides/tutorials/fused_mamba.rst (table)"),
    "instr": ("instr", "aws-neuron-sdk/nki/... nki_perf_guide/fig20.png"),
}


def result(name, published_s, unseen_s, bound_by="DMA"):
    family, source = PUBLISHED_IN[name]
    row = {"id": f"{family}-{published_s}", "family": family, "source": source}
    shares = {"waiting": 1.0} if bound_by else {}
    shipped = pricing.Shipped(2e-6, bound_by, shares=shares)
    found = SimpleNamespace(
        row=row,
        kernel=name,
        cores=1,
        target="trn2",
        is_single=not bound_by,
        published_s=published_s,
    )
    return run.Result(found, shipped, unseen_s, unseen_s, 3e-6 if name == "b" else 0.0)


def test_the_page_says_first_what_to_expect_of_a_kernel_of_ones_own():
    results = [
        result("a", 100e-6, 110e-6),
        result("a", 1e-3, 0.8e-3),
        result("b", 99e-6, 99e-6, "latency"),
        result("instr", 1e-7, 2e-7, bound_by=""),
    ]
    setting = {"launch": fit.Option("1e-06")}
    left = {"x": "refused: too large", "y": "refused: too large"}
    kernels = [one.case for one in results[:3]]
    parts = [("as shipped", kernels, [0.1, -0.2, 0.0]), ("no launch", kernels, [-0.5, -0.5, -0.5])]
    chosen = (setting, {"a": setting, "b": setting})
    text = report.page(results, [], left, chosen, parts, [r.error_row for r in results])
    assert "| without | median | P90 | a | b |" in text
    assert "| as shipped | 10.0 | 18.0 | -5.0 | +0.0 |" in text
    assert "| no launch | 50.0 | 50.0 | -50.0 | -50.0 |" in text
    assert "half of the estimates are more than 29 % off" in text
    assert "- mamba tutorial: 97.0 % off in the median without it, 98.0 % with it" in text
    assert "within 10 % of the published time, nine of ten within 18 %" in text
    assert "33 % of the published times lie in P10 to P90** (3 times of 2 kernels)" in text
    assert "half of them have a median error of at most 8 %." in text
    assert "| under 100 us | 1 | 0.0 | 0.0 | +0.0 | 100 |" in text
    assert "| 100 us to 1 ms | 1 | 10.0 | 10.0 | +10.0 |" in text
    assert "| over 1 ms | 1 | 20.0 | 20.0 | -20.0 |" in text
    assert "| instructions | 1 | 100.0 | 100.0 | +100.0 |" in text
    assert "| nki-library | 2 |" in text
    assert "- refused: too large: x, y" in text
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads[0] == "## What to expect"
    assert heads[-1] == "## Row by row"


def test_a_counter_is_read_from_the_run_whose_time_is_published():
    rows = [row for row in ROWS if row["family"] == "tut-mamba" or "v5-" in row["id"]]
    results = []
    for number, row in enumerate(filter(published.is_time, rows)):
        figures = dict.fromkeys(pricing.COUNTERS.values(), number)
        found = SimpleNamespace(row=row, kernel="k", published_s=1.0)
        results.append(run.Result(found, pricing.Shipped(1.0, "DMA", figures), 1.0))
    of = {result.case.row["id"]: number for number, result in enumerate(results)}
    read = {row["id"]: value for row, _, value in run.counters(rows, results)}
    assert read["mamba-v1-256-vec"] == of["mamba-v1-256"]
    assert read["mm-trn2-v5-vec"] == of["mm-trn2-v5-device_latency"]
    assert read["mm-trn2-v5-mbu_estimated"] == of["mm-trn2-v5-device_latency"]
