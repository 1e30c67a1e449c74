"""The API of the device: cores, memory, streams, random numbers, autocast."""
