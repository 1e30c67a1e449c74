"""Servers under load beside published ones: the page is what the planner says today."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "bench" / "system"))

import serving_page
import serving_rows

KNOWN_MISS = "deepseek_r1_b200_trtllm_fp8_8192x1024_c32_tp8"


@pytest.fixture(scope="module")
def judged():
    return serving_rows.judge()


@pytest.mark.slow
def test_the_page_says_what_the_planner_says(judged):
    page = serving_page.page(judged, serving_rows.fit(serving_rows.ROWS))
    assert serving_page.PAGE.read_text() == page


@pytest.mark.slow
def test_tuned_servers_are_within_a_fifth_at_each_load_but_one(judged):
    tuned = [each for each in judged if each.row["state"] == serving_rows.TUNED]
    missed = {
        e.row["id"] for e in tuned if abs(e.error("tpot_p50_s")) > serving_rows.LIMITS["TPOT"]
    }
    assert missed == {KNOWN_MISS}


@pytest.mark.slow
def test_one_user_waits_for_his_prompt_alone(judged):
    alone = [e for e in judged if e.row["concurrency"] == 1 and "ttft_p50_s" in e.row]
    assert len(alone) == 3
    for each in alone:
        assert abs(each.error("ttft_p50_s")) < serving_rows.LIMITS["TTFT"]
        assert each.figures["ttft_queue_p50_s"].p50 == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_load_slows_tokens_as_published(judged):
    pairs = serving_rows.ratios(judged)
    assert len(pairs) == 7
    for pair in pairs:
        assert abs(pair.error) < serving_rows.LIMITS["ratio"], pair.loaded.row["id"]


def test_a_publication_is_left_out_as_a_whole():
    names = {serving_rows.publication(row) for row in serving_rows.ROWS}
    assert names == {
        "huggingface/optimum-neuron",
        "aws-neuron/neuronx-distributed-inference",
        "docs.nvidia.com/nim/benchmarking/llm/1.0.0/performance",
        "ai-dynamo/aiconfigurator",
    }
