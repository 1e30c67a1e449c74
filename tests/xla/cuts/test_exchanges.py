"""Ranks that cut other programs than their peers: named where the chip would wait in vain."""

import os
import pickle
import re
import warnings
from pathlib import Path

import pytest
import torch

HERE = Path(__file__)
LINES = HERE.read_text().splitlines()


def line(marker):
    """The line of this file that ends with a marker."""
    return f"{HERE}:{next(n for n, text in enumerate(LINES, 1) if text.endswith('# ' + marker))}"


def outcomes(body, folder):
    """For each of two ranks the error of `body`, or the warnings of it."""
    import torch_xla

    from trnsim.errors import EmulatorError

    os.environ["NEURONCORE_NUM_DEVICES"] = "2"

    def run(rank):
        torch.set_num_threads(1)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("default")
            try:
                body(rank)
                text = ""
            except EmulatorError as error:
                text = f"{type(error).__name__}: {error}"
        said = [f"{each.category.__name__}: {each.message}" for each in warned]
        (folder / str(rank)).write_bytes(pickle.dumps((text, said)))

    torch_xla.launch(run, start_method="fork")
    return [pickle.loads((folder / str(rank)).read_bytes()) for rank in range(2)]  # noqa: S301


def steps(number, rows=4, read=lambda *_: None, between=lambda _: None):
    """Training steps whose gradients are summed over the ranks; `read` sees loss and total.

    `between` comes between two collectives.
    """
    import torch_xla
    import torch_xla.core.xla_model as xm

    weight = torch.ones(4, 4).to("xla")
    for step in range(number):
        batch = torch.ones(rows, 4).to("xla")
        loss = (batch @ weight).sum()  # the loss
        gradient = [batch.t() @ batch]  # the gradient
        xm.all_reduce(xm.REDUCE_SUM, gradient)  # the exchange
        between(step)
        total = xm.all_reduce(xm.REDUCE_SUM, loss)
        read(step, loss, total)
        weight = weight - 0.1 * gradient[0]
        torch_xla.sync()  # the end


@pytest.mark.slow
def test_equal_ranks_pass_and_one_may_read_what_it_computed_alone(tmp_path):
    def body(rank):
        steps(2)
        steps(2, read=lambda _step, loss, _total: rank or loss.item())
        steps(1, read=lambda _step, _loss, total: total.item())

    assert outcomes(body, tmp_path) == [("", []), ("", [])]


@pytest.mark.slow
def test_a_rank_that_reads_what_all_summed_is_named_with_both_lines(tmp_path):
    def body(rank):
        def read(step, _loss, total):
            if rank == 0 and step == 1:
                total.item()  # the read

        steps(3, read=read)

    for text, said in outcomes(body, tmp_path):
        assert said == []
        assert text.startswith("CollectiveBroken: ")
        assert f"cut by aten::_local_scalar_dense at {line('the read')}, with all_reduce " in text
        assert f"cut by sync at {line('the end')}, with all_reduce float32[4, 4]" in text
        assert f"at {line('the exchange')}" in text
        assert "xm.add_step_closure" in text


@pytest.mark.slow
def test_a_rank_that_ends_a_step_more_is_named(tmp_path):
    def body(rank):
        import torch_xla

        def between(step):
            if rank == 1 and step == 1:
                torch_xla.sync()  # the branch

        steps(2, between=between)

    for text, said in outcomes(body, tmp_path):
        assert said == []
        assert "rank 1 cuts a program with a collective that rank 0 does not cut" in text
        assert "before allreduce: on the chip it waits in it for rank 0\n  rank 0: no prog" in text
        assert f"rank 1: program 1, cut by sync at {line('the branch')}, with all_reduce" in text


@pytest.mark.slow
def test_a_rank_with_another_shape_is_warned_of_with_the_first_line_that_differs(tmp_path):
    for text, said in outcomes(lambda rank: steps(3, rows=4 + rank), tmp_path):
        assert text == ""
        (warned,) = said
        assert warned.startswith("ProgramsDiffer: ranks 0 and 1 cut different programs")
        assert len(re.findall(rf"cut by sync at {line('the end')}", warned)) == 2
        assert f"differ: rank 0 at {line('the loss')}, rank 1 at {line('the loss')}" in warned
        assert "drop_last=True" in warned


@pytest.mark.slow
def test_a_printed_loss_of_one_rank_stops_nothing(tmp_path):
    def body(rank):
        def read(_step, loss, _total):
            if rank == 0:
                print(loss)  # noqa: T201  as the program does

        steps(3, read=read)

    assert [text for text, _ in outcomes(body, tmp_path)] == ["", ""]
