"""Logs that the model would write if it were off by hidden factors, with noise of steps."""

import json

import numpy as np


def csv_log(path, step_s, *, steps=100, noise=0.03, seed=0, sequences=512, loss=2.0, model=None):
    """A training log whose median step is `step_s`, the first ones slower."""
    drawn = np.random.default_rng(seed)
    times = step_s * np.exp(noise * drawn.standard_normal(steps + 5))
    times[:5] *= 3
    losses = (
        loss + 8 * np.exp(-np.arange(steps + 5) / 20) + 0.002 * drawn.standard_normal(steps + 5)
    )
    rows = ["step,loss,step_s,sequences" + (",model" if model else "")]
    for at, (time_s, one) in enumerate(zip(times, losses, strict=True)):
        rows.append(f"{at},{one:.5f},{time_s:.6f},{sequences}" + (f",{model}" if model else ""))
    path.write_text("\n".join(rows) + "\n")
    return path


def titan_log(path, tokens_per_s, *, steps=100, noise=0.03, seed=0, loss=2.0):
    """torchtitan's lines at a rate of one accelerator."""
    rates = tokens_per_s * np.exp(noise * np.random.default_rng(seed).standard_normal(steps + 5))
    path.write_text(
        "\n".join(
            f"step: {at}  loss: {loss:.4f}  memory: 10.2GiB(12.9%)  tps: {one:,.0f}  mfu: 18.1%"
            for at, one in enumerate(rates)
        )
    )
    return path


def vllm_log(
    path, tokens_per_s, *, requests=2048, failed=0, model="small_llama", ttft_ms=200.0, tpot_ms=30.0
):
    """What vLLM's benchmark writes."""
    found = {"duration": 256 * requests / tokens_per_s, "completed": requests}
    found |= {"num_prompts": requests + failed, "output_throughput": tokens_per_s}
    for name, value in (("ttft", ttft_ms), ("tpot", tpot_ms)):
        found |= {f"median_{name}_ms": value, f"p90_{name}_ms": 1.2 * value}
        found[f"p99_{name}_ms"] = 1.5 * value
    path.write_text(json.dumps(found | {"model_id": model}))
    return path


def step_s(pilot, side, factor=1.0):
    """Seconds of a step of a side that is off by `factor`."""
    tokens = pilot.run.sequences * pilot.run.sequence
    return factor * tokens / pilot.sides[side].rate_per_s.p50
