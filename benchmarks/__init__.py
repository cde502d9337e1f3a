"""Benchmarks behind every figure of README.md and docs/."""
