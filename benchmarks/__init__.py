"""Benchmarks: every one prints a ratio against the peer a user would pick, measured in the same run."""
