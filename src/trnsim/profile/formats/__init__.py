"""File formats: Chrome's and Perfetto's traces, stored reports."""
