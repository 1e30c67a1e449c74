"""Inference of what makes no tokens: encoders, images, pairs of both, diffusion."""
