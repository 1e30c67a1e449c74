"""Whole graphs: torch.compile and torch.export."""
