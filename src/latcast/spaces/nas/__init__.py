"""Search spaces of neural architecture search, as data: a network is a row of small integers.

A space says which choices there are (:class:`latcast.spaces.nas.supernet.Dimension`), what segments a row of choices is built
of, and how one segment is built (:class:`latcast.spaces.nas.supernet.Supernet`). From that follow the graph of a member, and
the kernels of a million members without building their graphs (:mod:`latcast.spaces.nas.segment_kernels`).
"""
