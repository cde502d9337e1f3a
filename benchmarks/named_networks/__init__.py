"""The graphs of networks that others published, built once from their modules: ``python -m benchmarks.named_networks``."""
