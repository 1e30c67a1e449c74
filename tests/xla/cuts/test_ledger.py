"""The ledger: counters, metrics, and how many programs it keeps."""


def test_programs_are_compiled_once_and_few_calls_are_kept(monkeypatch):
    import torch

    from trnsim.xla.cuts import ledger as module
    from trnsim.xla.cuts.programs import program_of
    from trnsim.xla.cuts.values import RecordedCall, RecordedValue, Signature

    ledger = module.Ledger()
    geometry = ((), (), 0, torch.float32)

    def run(name, line):
        signature = Signature("aten::exp", name, (), (), (geometry,))
        program = program_of(
            [RecordedValue(geometry, RecordedCall(signature, (), ("a.py", line), line))]
        )
        cut = ledger.cut("sync", ("a.py", 9))
        record, is_new = ledger.record_of(program, cut)
        if is_new:
            ledger.add(record, program, cut)
        ledger.execute(record, cut, is_new=is_new)
        return record

    monkeypatch.setattr(module, "MOST_KEPT_CALLS", 2)
    assert run("exp", 1).cause is None
    assert run("sin", 1).cause.text == "sin is called in place of exp"
    assert run("exp", 2).executions == 2
    run("cos", 1)
    assert run("sin", 1).executions == 2  # known by its digest, though not kept
    assert ledger.counters == {"UncachedCompile": 3, "CachedCompile": 2}
    (cut,) = ledger.cuts.values()
    assert (cut.cuts, cut.compilations, dict(cut.executions)) == (5, 3, {0: 2, 1: 2, 2: 1})
    assert ledger.metric("ExecuteTime", "trn2").count == 5
    assert ledger.metric("TensorsGraphSize", "trn2").total == 5
    assert ledger.metric("CompileTime", "trn2") is None
    ledger.clear_metrics()
    assert ledger.metric_names() == []
    assert ledger.metric("ExecuteTime", "trn2") is None
    assert ledger.programs[run("sin", 1).digest].time("trn2") == (0.0, ("it was not compiled",))


def test_the_latest_samples_are_kept_and_all_are_counted():
    from trnsim.xla.cuts.ledger import MOST_SAMPLES, Samples

    samples = Samples()
    for number in range(MOST_SAMPLES + 2):
        samples.add(number)
    assert (samples.count, len(samples.latest_samples), samples.latest_samples[0][1]) == (
        1026,
        1024,
        2,
    )
