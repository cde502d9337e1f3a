"""Sources of networks: families of real networks and their variants, synthetic spaces, single kernels.

A space is a builder from JSON parameters to a graph, found by name; :class:`latcast.records.Reference` (space, parameters)
is all that a dataset keeps of a network.
"""

from latcast.spaces.catalogue import SPACES, build, family

# The names of the families are in the catalogue alone: here the package ``latcast.spaces.families`` has that name.
__all__ = ["SPACES", "build", "family"]
