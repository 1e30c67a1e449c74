"""A transformer's encoder, for `trnsim compile`: the model, and the arguments it is called with."""

import torch
from torch import Tensor, nn
from torch.nn import functional

TOKENS, WIDTH, HEADS, LAYERS = 256, 512, 8, 8


class Attention(nn.Module):
    """Every token looks at every other one."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """Of tokens [batch, tokens, width]."""
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        query = self.query(x).view(shape).transpose(1, 2)
        key = self.key(x).view(shape).transpose(1, 2)
        value = self.value(x).view(shape).transpose(1, 2)
        found = functional.scaled_dot_product_attention(query, key, value)
        return self.out(found.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and two linear layers, each with a norm before it and a residual around it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.norm = Attention(), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.middle = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Of tokens [batch, tokens, width]."""
        x = x + self.attention(self.norm(x))
        return x + self.down(functional.gelu(self.up(self.middle(x))))


class Encoder(nn.Module):
    """Equal blocks, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Of tokens [batch, tokens, width]."""
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


model = Encoder().eval()
args = (torch.zeros(1, TOKENS, WIDTH),)
