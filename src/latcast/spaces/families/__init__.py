"""Families of real networks, each true to its paper: a table of published members, and a function that adds one to a graph.

That function takes a builder ``b``, an image ``x``, the number of ``classes`` and the family's parameters; it returns the
outputs.
"""
