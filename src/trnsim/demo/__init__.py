"""The demo: five things that trnsim does, each computed when it is printed."""
