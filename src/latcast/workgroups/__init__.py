"""GPU work-group sizes: which to launch a convolution with (Jiang et al., APSys 2020).

A kernel's global grid of work items is cut into work groups; their size decides how well the GPU is used. The paper's rules I to
V stand beside TFLite's present default, and sweeps measured here or by others.
"""
