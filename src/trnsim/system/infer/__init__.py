"""Inference of models that generate no tokens: encoders, images, pairs of both, diffusion."""
