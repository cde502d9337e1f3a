"""Networks whose latencies were published under names: those of which no graph is known are stored and compared, no more."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from latcast.records import Reference
from latcast.spaces.named_graphs import NamedNetworks

_NO_GRAPH = "of which no graph comes with latcast; export it to ONNX to predict it"
_NO_FAMILY = "that no family has;"

MEASURED_ONLY: Mapping[str, NamedNetworks] = MappingProxyType(
    {
        space: NamedNetworks(space, reason)
        for space, reason in {
            "usc_nas": "Li et al. published the latencies of their 1000 synthetic networks without the architectures",
            "huggingface": "it is a model of the Hugging Face hub, whose configuration is not part of the measurements; "
            "export it to ONNX to predict it",
            "fbnet": "the table names the operations of its networks by numbers that it does not explain",
            "ncnn_benchmark": "it is a network of ncnn's benchmark; give its .param file to predict it",
            "tflite_block": "it is a block of a search space of which only the name was published",
            "timm": f"it is a model of timm {_NO_GRAPH}",
            "torchvision": f"it is a model of torchvision {_NO_GRAPH}",
            "aihub": f"it is a model of Qualcomm AI Hub {_NO_GRAPH}",
            "mlperf": f"it is a network of MLPerf {_NO_FAMILY} give its file to predict it",
            "paddle": f"it is a model of PaddlePaddle {_NO_FAMILY} export it to ONNX to predict it",
            "netspresso": f"it is a model of NetsPresso {_NO_FAMILY} export it to ONNX to predict it",
            "ti": f"it is a model of TI's model zoo {_NO_FAMILY} give its file to predict it",
            "hailo": f"it is a model of Hailo's model zoo {_NO_FAMILY} give its ONNX file to predict it",
            "renesas_drpai": f"it is a model of Renesas's list {_NO_FAMILY} export it to ONNX to predict it",
            "mlperf_mobile": f"it is a network of MLPerf Mobile {_NO_FAMILY} give its file to predict it",
            "opencv_zoo": f"it is a model of OpenCV's zoo {_NO_FAMILY} give its ONNX file to predict it",
            "mmdeploy": f"it is a model of OpenMMLab {_NO_FAMILY} export it to ONNX to predict it",
            "xnnpack": f"it is a network of XNNPACK's benchmark {_NO_FAMILY} give its file to predict it",
            "yolo": "its size or input is not one that comes with latcast; export it to ONNX to predict it",
            "rknn": f"it is a model of Rockchip's model zoo {_NO_FAMILY} give its ONNX file to predict it",
        }.items()
    }
)
"""Spaces of such networks by name."""


def can_build(reference: Reference) -> bool:
    """Return whether a reference has a graph; otherwise only its latencies are known."""
    return not why_not(reference)


def why_not(reference: Reference) -> str:
    """Return why a reference cannot be built, where :func:`can_build` is False; else empty."""
    if reference.space == "iiswc20":
        from latcast.spaces import iiswc20

        return iiswc20.why_not(reference.parameters)
    return MEASURED_ONLY[reference.space].why_not(reference.parameters) if reference.space in MEASURED_ONLY else ""
