"""Convolutions and windows of images."""
