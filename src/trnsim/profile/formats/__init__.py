"""Files that other programs read: Chrome's and Perfetto's traces, stored reports."""
