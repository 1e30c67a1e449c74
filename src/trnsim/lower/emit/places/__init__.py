"""Places of tensors: storage and strides, frames, spans, and transposes."""
