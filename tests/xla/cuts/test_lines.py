"""Lines: those of forward calls, also for the calls of the backward pass."""


def test_a_call_of_the_backward_pass_has_the_line_of_the_forward_call(monkeypatch):
    from trnsim.torch import pytorch
    from trnsim.xla.cuts import lines as module

    lines, sequence = module.Lines(), iter((10, 14, 20))
    monkeypatch.setattr(pytorch, "next_sequence_number", lambda: next(sequence))
    for line in (3, 3, 4):
        monkeypatch.setattr(module, "program_place", lambda line=line: ("train.py", line))
        assert lines.place() == ("train.py", line)
    monkeypatch.setattr(module, "program_place", lambda: None)
    for number, line in ((8, None), (9, 3), (12, 3), (13, 4), (99, 4), (None, None)):
        monkeypatch.setattr(pytorch, "backward_sequence_number", lambda number=number: number)
        assert lines.place() == (None if line is None else ("train.py", line))
    lines.settle()
    monkeypatch.setattr(pytorch, "backward_sequence_number", lambda: 12)
    assert lines.place() is None
    lines.begin(("train.py", 5))
    monkeypatch.setattr(pytorch, "backward_sequence_number", lambda: 19)
    assert lines.place() == ("train.py", 5)
