import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from itertools import product

from torch import nn


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))


def conv_net():
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 4),
    )


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.embed = nn.Embedding(10, 16)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 4)

    def forward(self, inputs):
        tokens = (inputs.abs() * 3).long().clamp(max=9)
        return self.head(self.encoder(self.embed(tokens)).mean(dim=1))


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=5e-3),
    "adamw-foreach": lambda parameters: torch.optim.AdamW(parameters, lr=5e-3, foreach=True),
    "adamw-loop": lambda parameters: torch.optim.AdamW(parameters, lr=5e-3, foreach=False),
    "adamw-fused": lambda parameters: torch.optim.AdamW(parameters, lr=5e-3, fused=True),
    "sgd-foreach": lambda parameters: torch.optim.SGD(parameters, lr=0.05, foreach=True),
}


def train(make_model, make_optimizer, device):
    torch.manual_seed(0)
    dataset = torch.utils.data.TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
    dataloader = torch.utils.data.DataLoader(dataset, batch_size=32)
    criterion = nn.CrossEntropyLoss()
    model = make_model()
    optimizer = make_optimizer(model.parameters())  # before .to: parameters keep their identity
    model = model.to(device)
    losses = []
    for _ in range(8):
        for features, classes in dataloader:
            inputs, targets = features.to(device), classes.to(device)
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = criterion(outputs, targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return model, outputs, losses


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    ("make_model", "optimizer"),
    # An optimizer sees parameters, not layers: every one with one model, two with the others.
    [*((mlp, name) for name in OPTIMIZERS), *product((conv_net, Encoder), ("sgd", "adamw-fused"))],
)
def test_training_gives_the_losses_of_the_cpu(make_model, optimizer):
    model, outputs, losses = train(make_model, OPTIMIZERS[optimizer], "neuron")
    _, _, expected = train(make_model, OPTIMIZERS[optimizer], "cpu")
    assert losses == pytest.approx(expected, abs=1e-3)
    assert losses[-1] < losses[0]
    assert outputs.device.type == "neuron"
    for parameter in model.parameters():
        assert parameter.device.type == "neuron"
        assert type(parameter) is nn.Parameter
        assert parameter.grad.device.type == "neuron"
    assert any(parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_training_with_autocast_learns_near_the_cpu():
    losses = {}
    for device in ("neuron", "cpu"):
        torch.manual_seed(0)
        model = mlp().to(device)
        inputs, targets = torch.randn(32, 16).to(device), torch.randint(0, 4, (32,)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
        losses[device] = []
        for _ in range(10):
            optimizer.zero_grad()
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["neuron"] == pytest.approx(losses["cpu"], abs=3e-2)
    assert losses["neuron"][-1] < losses["neuron"][0]


def test_targets_left_on_the_cpu_are_named():
    outputs = torch.randn(3, 4, device="neuron")
    with pytest.raises(RuntimeError, match="neuron:0 and cpu") as caught:
        nn.functional.cross_entropy(outputs, torch.zeros(3, dtype=torch.long))
    assert "argument 'target' of aten::nll_loss_forward" in str(caught.value)
    assert __file__ in str(caught.value)


def test_evaluation_of_an_encoder_with_a_padding_mask():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    inputs, mask = torch.randn(2, 5, 16), torch.tensor([[0] * 5, [0, 0, 0, 1, 1]]).bool()
    with torch.no_grad():
        expected = encoder(inputs, mask=None, src_key_padding_mask=None)
        on_device = encoder.to("neuron")
        assert torch.allclose(on_device(inputs.to("neuron")).cpu(), expected, atol=1e-5)
        masked = on_device(inputs.to("neuron"), src_key_padding_mask=mask.to("neuron"))
    assert torch.allclose(masked[0].cpu(), expected[0], atol=1e-5)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpointed_dropout_is_recomputed_with_the_same_mask(use_reentrant):
    from torch.utils.checkpoint import checkpoint  # noqa: PLC0415  imports much

    dropout = nn.Dropout(0.5)
    inputs = torch.ones(64, device="neuron", requires_grad=True)
    outputs = checkpoint(dropout, inputs, use_reentrant=use_reentrant)
    outputs.sum().backward()
    assert torch.equal(inputs.grad, outputs.detach())


def test_loss_scaling_takes_a_step():
    model = nn.Linear(3, 3).to("neuron")
    before = model.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("neuron")
    scaler.scale(model(torch.ones(2, 3, device="neuron")).sum()).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(before, model.weight)


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"pin_memory": True}])
def test_batches_of_a_data_loader_move_to_the_device(options):
    loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=4, **options)
    batches = [batch.to("neuron", non_blocking=True).tolist() for batch in loader]
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7]]
