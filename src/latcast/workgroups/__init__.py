"""GPU work-group sizes: which to launch a convolution with (Jiang et al., APSys 2020).

A kernel's global grid of work items is cut into work groups; their size decides how well the GPU is used. Here are the paper's
rules I to V, each of which says what it cannot know, TFLite's present default beside them, sweeps measured here or by others, and
a cost model that learns from a device's first few measurements.
"""
