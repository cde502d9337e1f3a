"""Which of its kernels a mobile GPU backend runs for an operator, told from the kernel's sizes without the device.

A selection is written ``backend:family`` in fusion rules ("tflite_gpu:adreno6xx"): the backend is a small function that
names the kernels, the GPU family is data, the thresholds that the backend compares sizes with (Li et al. §3.2.2 and §4.1).
"""

from latcast.kernels.selection.gpu_family import GpuFamily, family_named, family_names, family_of_device
from latcast.kernels.selection.protocol import KernelSelection
from latcast.kernels.selection.selected import SELECTIONS, Selection, selection_of

__all__ = [
    "SELECTIONS",
    "GpuFamily",
    "KernelSelection",
    "Selection",
    "family_named",
    "family_names",
    "family_of_device",
    "selection_of",
]
