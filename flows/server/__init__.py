"""The services around a flow: servers, locks, signals, and runs whose process has ended."""
