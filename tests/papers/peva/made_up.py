"""Published measurements of a world with simple laws.

An operation takes 1 ms and 1 ms for each million FLOPs; a network 2 ms more than its operations. Two cores are 1.6 times as
fast as one, int8 twice as fast as fp32, but half as fast on one large core.
"""

from __future__ import annotations

from dataclasses import replace

from latcast.environment import MOMENT
from latcast.records import ExecutedKernel, Measurement, Reference
from papers.peva.published import PublishedNetworks

GPU = "a03s/tflite-2.10/gpu/fp16"
PYTORCH_GPU = "pixel4/pytorch-2.0/gpu/fp16"
ONE, TWO, SMALL, MIXED = (f"pixel4/tflite-2.10/{unit}/fp32" for unit in ("1large", "2large", "1med", "1large1med"))

OVERHEAD_MS = 2.0


def convolution(
    size: int, channels: int, filters: int, kind: str = "convolution_2d", window: int = 3, groups: int = 1
) -> ExecutedKernel:
    """A convolution of stride 1 as it would be recorded."""
    flops = 2 * window**2 * channels // groups * filters * size**2
    configuration: dict[str, int | str] = {
        "operation": "vulkan_prepack::run_conv2d_context" if "vulkan" in kind else "CONV_2D", "input_size": size,
        "input_channels": channels, "output_size": size, "output_channels": filters, "kernel_size": window, "stride": 1,
        "groups": groups,
    }  # fmt: skip
    return ExecutedKernel(f"{kind}_0" if "vulkan" not in kind else kind, kind, (), 1.0 + flops / 1e6, configuration)


def network(place: int, kind: str = "convolution_2d", count: int = 3) -> tuple[ExecutedKernel, ...]:
    """The operations of one network."""
    sizes = [(7 + (place * 3 + index * 5) % 23, 8 * (1 + (place + index) % 5), 8 * (1 + (place * 7 + index * 2) % 4)) for index in
             range(count)]  # fmt: skip
    return tuple(convolution(*size, kind) for size in sizes)


def measurement(platform: str, name: str, latency_ms: float, executed: tuple[ExecutedKernel, ...] = ()) -> Measurement:
    environment = {MOMENT: {"flops": 1e6 * latency_ms, "size_bytes": 4e6}}
    reference = Reference("pytorchcv", {"name": name}, name)
    return Measurement(platform, reference, latency_ms=latency_ms, variation=0.02, executed=executed, environment=environment)


def names(count: int) -> list[str]:
    """Of five families in turn."""
    families = ("resnet", "vgg", "densenet", "mobilenet", "squeezenet")
    return [f"{families[place % 5]}{10 + place}" for place in range(count)]


def made_up_published(count: int = 50, synthetic: int = 0) -> PublishedNetworks:
    """GPUs with operations, and CPUs without."""
    found: list[Measurement] = []
    for place, name in enumerate(names(count)):
        for platform, kind in ((GPU, "convolution_2d"), (PYTORCH_GPU, "vulkan.conv2d")):
            executed = network(place, kind)
            whole = OVERHEAD_MS + sum(kernel.latency_ms for kernel in executed)
            found.append(measurement(platform, name, whole, executed))
        one = 10.0 + place
        for platform, latency_ms in ((ONE, one), (TWO, one / 1.6), (SMALL, 2 * one), (MIXED, 1.25 * one)):
            int8 = platform.replace("fp32", "int8")
            found += [
                measurement(platform, name, latency_ms),
                measurement(int8, name, latency_ms * (2 if platform == ONE else 0.5)),
            ]
    for place in range(synthetic):
        made = measurement(ONE, f"NAS{place}", 1.0 + place % 40)
        found.append(replace(made, reference=Reference("usc_nas", {"name": f"NAS{place}"}, f"NAS{place}")))
    return PublishedNetworks.of(found)
