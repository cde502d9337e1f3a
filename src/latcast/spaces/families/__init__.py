"""Families of real networks, each true to its paper."""
