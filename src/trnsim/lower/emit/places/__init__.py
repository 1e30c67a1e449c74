"""Where tensors lie: storage and strides, frames, spans, and transposes."""
