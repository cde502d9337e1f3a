"""Synthetic networks to learn from: random, yet built of the blocks that real ones use."""
