"""Where tensors lie: storages and steps, frames, spans, and how matrices turn."""
