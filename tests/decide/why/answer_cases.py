"""Answers as commands print them, in the least of their fields."""


def interval(median):
    return {"p10": median * 0.5, "p50": median, "p90": median * 2}


def estimate(parts, **changed):
    median = sum(parts.values())
    return {
        "p10_s": median * 0.5,
        "p50_s": median,
        "p90_s": median * 2,
        "parts_s": parts,
        "sources": {"model": "few constants"},
        "conditions": [],
        "extrapolations": [],
    } | changed


def infer(parts=None, **changed):
    return {
        "platform": "trn2",
        "batch": 1,
        "items_per_s": interval(100.0),
        "estimate": estimate(parts or {"products": 2e-3, "host": 1e-3}),
    } | changed


def compiled(parts=None, **changed):
    return {
        "target": "trn2",
        "lnc": 2,
        "program_s": 1.0,
        "estimate": estimate(parts or {"products": 3e-3}),
        "phase": "encode",
        "batch": 1,
        "tokens": 128,
        "past": 0,
    } | changed


def train(**changed):
    layout = {"tensor": 2, "pipeline": 1, "data": 4, "context": 1}
    return {
        "platform": "trn2",
        "instances": 4,
        "step_s": interval(10.0),
        "estimate": estimate({"compute": 9.0, "data": 1.0}),
        "layout": {**layout, "global_batch": 64, "sequence": 4096},
    } | changed


def serve(**changed):
    return {
        "platform": "trn2",
        "ttft_p50_s": interval(0.05),
        "tpot_p50_s": interval(0.011),
        "output_tokens_per_s": interval(100.0),
        "token_parts_s": {"weights": 6e-3, "host": 0.0, "prompts of others": 4e-3},
        "decode_step": {"batch": 8, "tokens": 1, "past": 2303, **estimate({"weights": 6e-3})},
        "prefill_step": {"batch": 1, "tokens": 2048, "past": 0, **estimate({"products": 0.03})},
    } | changed
