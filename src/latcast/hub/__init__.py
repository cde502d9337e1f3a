"""Measurements shared over HTTP: contributors upload what they measured, a model joins them, anyone reads.

Ganesan et al., §V: every device contributes a few measurements to a central repository, from which one cost model learns.
"""
