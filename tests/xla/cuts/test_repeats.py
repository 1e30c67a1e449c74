"""Repeated calls: programs, causes and lines are those of a recording that repeats nothing."""

import random
import threading

import pytest


class State:
    """Tensors that operations change, each by a number; the operations are the methods."""

    def __init__(self, torch, xm, device):
        self.torch, self.xm, self.device = torch, xm, device
        self.x, self.y, self.batch, self.older, self.view = (
            torch.ones(4, 4).to(device) for _ in range(5)
        )
        self.kept = []

    def swap(self, _):
        self.x, self.y = self.y, self.x

    def exchange(self, _):
        self.x, self.batch = self.batch, self.x

    def new_batch(self, _):
        self.batch = self.torch.ones(4, 4).to(self.device)

    def new_batch_beside_the_older(self, _):
        self.older = self.batch
        self.batch = self.torch.ones(4, 4).to(self.device)

    def keep(self, _):
        self.kept.append(self.x + self.batch)

    def drop(self, _):
        self.kept.clear()

    def write_a_part(self, number):
        self.x[1].mul_(number)

    def set_the_seed(self, number):
        self.xm.set_rng_state(int(number), self.device)

    def read_a_part(self, _):
        self.y = self.y + self.x[2:3].t()

    def change_layouts(self, _):
        self.y = self.x.t().contiguous() + self.batch.t().contiguous()

    def hold_a_view(self, _):
        self.view = self.y.contiguous().view(16)

    def write_the_view(self, number):
        self.view.add_(number)

    def square(self, _):
        self.y = self.batch * self.batch

    def clamp(self, number):
        self.y = self.x.clamp(-number, number)

    def norm(self, _):
        self.y = self.torch.nn.functional.layer_norm(self.x, (4,))

    def scale(self, number):
        self.x = self.x * number + number

    def drop_out(self, number):
        self.y = self.torch.nn.functional.dropout(self.x, 0.5) - number

    def mask(self, _):
        self.y = self.x[self.x > 1]
        self.y = self.x + 0.5

    def gradient(self, number):
        weight = self.x.detach().requires_grad_()
        (self.torch.relu(weight @ self.batch) * number).sum().backward()
        self.x = weight.grad

    def multiply(self, number):
        self.x.mul_(number)

    def add(self, number):
        self.x.add_(self.batch, alpha=number)

    def add_a_quotient(self, number):
        self.x.addcdiv_(self.y, self.batch, value=number)

    def join(self, _):
        self.y = self.torch.cat([self.x[:2], self.batch[2:]])

    def read_a_number(self, _):
        self.x.sum().item()

    def copy_to_the_host(self, _):
        self.y.cpu()

    def copy_from_the_host(self, _):
        self.x.copy_(self.torch.full((4, 4), 0.5))

    def copy(self, _):
        self.x.copy_(self.batch)

    def zero(self, _):
        self.x.zero_()

    def draw(self, _):
        self.y = self.torch.bernoulli(self.torch.sigmoid(self.x).nan_to_num(0.5))

    def subtract(self, _):
        self.y = self.x - self.batch

    def multiply_a_view(self, _):
        self.y = self.x * self.batch.t()

    def multiply_detached(self, _):
        self.y = self.x.detach().t() * self.batch.detach()

    def copy_into_a_part(self, _):
        self.x[1].copy_(self.batch[0])

    def fill_a_part(self, number):
        self.y[:, 2:].fill_(number)

    def add_to_a_view(self, _):
        self.y = (self.x @ self.batch).view(2, 8).add_(self.y.reshape(2, 8)).view(4, 4)

    def add_to_a_transpose(self, number):
        self.x.t().add_(self.y, alpha=number)

    def attend(self, _):
        attention = self.torch.nn.functional.scaled_dot_product_attention
        parts = [each.view(1, 1, 4, 4) for each in (self.x, self.y, self.batch)]
        self.y = attention(*parts).view(4, 4)

    def draw_on_the_host(self, _):
        generator = self.torch.Generator().manual_seed(7)
        self.y = self.torch.bernoulli(self.torch.full((4, 4), 0.5), generator=generator)
        self.y = self.y.to(self.device)

    def select_a_gradient(self, _):
        weight = self.x.detach().requires_grad_()
        (weight[1] * self.batch[2] + weight[3]).sum().backward()
        self.x = weight.grad

    def branch_on_data(self, number):
        self.x = self.x + number if self.x.sum().item() > 16 else self.x * self.batch

    def shrink(self, _):
        self.y = (self.x[:3] + self.batch[1:]).neg()

    def free_and_allocate(self, number):
        first = self.x + number
        second = first * self.batch
        del first
        third = self.batch.neg()
        del second
        self.y = third + self.x.exp()

    def fail(self, number):
        with pytest.raises(RuntimeError):
            (self.x * number) @ self.batch[:2]

    def transpose_in_place(self, _):
        self.y = self.x.clone().t_() + self.batch

    def add_in_a_thread(self, number):
        thread = threading.Thread(target=lambda: self.x.add_(self.batch, alpha=number))
        thread.start()
        thread.join()

    def hook_a_gradient(self, number):
        weight = self.x.detach().requires_grad_()
        weight.register_hook(lambda gradient: gradient * number)
        (weight * self.batch).sum().backward()
        self.x = weight.grad

    def end_operation(self, name):
        """Undo changes of shapes; a view lasts for one operation."""
        for each in ("x", "y", "view"):
            is_held = each == "view" and name == "hold_a_view"
            if getattr(self, each).shape != (4, 4) and not is_held:
                setattr(self, each, self.torch.ones(4, 4).to(self.device))


OPERATIONS = [name for name in vars(State) if name[0] != "_" and name != "end_operation"]


def executions(steps, *, tree):
    """What every execution of some steps was: its program, place and cause."""
    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm

    from trnsim.xla.cuts import repeats
    from trnsim.xla.cuts.cutting import cuts

    device = torch_xla.device()
    torch_xla.sync()
    cuts.ledger.forget()
    cuts.recorder.repeats.forget()
    repeats.MOST_KEPT = tree
    state, seen = State(torch, xm, device), []
    execute = type(cuts.ledger).execute

    def noted(record, cut, *, is_new):
        causes = (record.cause, record.place, record.calls) if is_new else None
        seen.append((record.digest, cut.kind, cut.place, causes))
        execute(cuts.ledger, record, cut, is_new=is_new)

    cuts.ledger.execute = noted
    made = cuts.recorder.repeats.new_calls
    for step in steps:
        for name, number in step:
            getattr(state, name)(number)
            state.end_operation(name)
        torch_xla.sync()
    del cuts.ledger.execute
    return seen, cuts.recorder.repeats.new_calls - made


def fuzzed(seed):
    """Steps of random operations, some of which repeat others with other numbers."""
    draw = random.Random(seed)  # noqa: S311  no secret
    scripts = [draw.choices(OPERATIONS, k=draw.randint(2, 9)) for _ in range(3)]
    numbers = (0.5, 0.25, 1.0, 0.75, 0.0)
    return [
        [(name, draw.choice(numbers)) for name in scripts[draw.choice((0, 0, 0, 1, 2))]]
        for _ in range(10)
    ]


def check(seeds):
    saved = 0
    for seed in seeds:
        steps = fuzzed(seed)
        plain, made_plain = executions(steps, tree=0)
        repeated, made = executions(steps, tree=50_000)
        assert repeated == plain, seed
        saved += made_plain - made
    assert saved > 0


def test_programs_are_those_of_a_recording_that_repeats_nothing():
    check(range(4))


@pytest.mark.slow
@pytest.mark.parametrize("first", [100, 200, 300])
def test_many_programs_are_those_of_a_recording_that_repeats_nothing(first):
    check(range(first, first + 40))


def test_data_that_changes_places_with_other_data_is_another_program():
    import torch
    import torch_xla

    from trnsim.xla.cuts.cutting import cuts

    a, b = (torch.full((4,), number).to(torch_xla.device()) for number in (2.5, 3.5))

    def step(first, second):
        total = (first + second) * a
        torch_xla.sync()
        return total

    for first, second in ((a, b), (a, b), (b, a), (b, a), (a, b)):
        step(first, second)
    assert [record.executions for record in cuts.ledger.programs.values()] == [3, 2]


def test_a_view_from_before_its_memory_was_written_is_another_value():
    import torch
    import torch_xla

    x = torch.ones(4, 4).to(torch_xla.device())
    texts = []
    for _ in range(4):
        before = x[1]
        kept = before + 2.5
        x.mul_(1.5)
        after = x[1] + 3.5
        texts.append(torch_xla._XLAC._get_xla_tensors_text([after]))
        torch_xla.sync()
        assert kept.shape == after.shape
    assert len({*texts}) == 1
    assert "aten::mul(" in texts[0]
