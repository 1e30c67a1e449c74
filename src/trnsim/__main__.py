"""The command `trnsim`, and `python -m trnsim`."""

INTERRUPTED = 130
"""The exit status that a shell gives a program that Ctrl-C ended."""


def main() -> None:
    """Run the command line; Ctrl-C while it is still being imported ends it without a traceback."""
    try:
        from trnsim.cli import main as run  # noqa: PLC0415  most of a command's first tenth second

        run()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
