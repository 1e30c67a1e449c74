"""Convolutional networks that transformers does not have, written down from their papers."""

import torch
from torch import nn


def vgg(layers):
    """Simonyan and Zisserman's: convolutions of 3 x 3, a 0 for a pooling, three layers on top."""
    parts, channels = [], 3
    for wide in layers:
        if wide:
            parts += [nn.Conv2d(channels, wide, 3, padding=1), nn.ReLU()]
            channels = wide
        else:
            parts.append(nn.MaxPool2d(2))
    top = [nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU()]
    return nn.Sequential(*parts, nn.Flatten(), *top, nn.Linear(4096, 1000))


def twice(channels, wide):
    """Two convolutions, each with batch norm and ReLU."""
    parts = []
    for given in (channels, wide):
        parts += [nn.Conv2d(given, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU()]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    """Ronneberger et al.'s: down by pooling, up by transposed convolutions, each level joined."""

    def __init__(self, widths):
        super().__init__()
        first, *deeper = widths
        self.first, self.last = twice(3, first), nn.Conv2d(first, 2, 1)
        pairs = list(zip(widths, deeper, strict=False))
        self.down = nn.ModuleList(twice(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairs[::-1])
        self.joined = nn.ModuleList(twice(b, a) for a, b in pairs[::-1])

    def forward(self, image):
        """Two classes for each pixel."""
        levels = [self.first(image)]
        for down in self.down:
            levels.append(down(nn.functional.max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for up, joined in zip(self.up, self.joined, strict=True):
            skip, x = levels.pop(), up(x)
            high, wide = (n - m for n, m in zip(skip.shape[2:], x.shape[2:], strict=True))
            x = nn.functional.pad(x, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
            x = joined(torch.cat([skip, x], 1))
        return self.last(x)


def network(facts):
    """The network that an entry of architectures.json describes."""
    return vgg(facts["layers"]) if "layers" in facts else UNet(facts["widths"])
