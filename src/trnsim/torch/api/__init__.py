"""What a program asks of the device by name: cores, memory, streams, random numbers, autocast."""
