"""What neuronx-cc documents that it refuses, by code."""
