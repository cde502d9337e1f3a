"""Files that hold no network that latcast can read: how each is recognised, and what to give instead.

What is compiled for an accelerator is recognised whatever it is wrapped in: by its suffix, by its first bytes, or by the operator
that holds the compiled part of a network in a TFLite or ONNX file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from latcast.errors import ModelError

_PICKLE = (
    "such files are pickles, which run any code they hold when they are opened, and often hold weights without the "
    "network; export the model to ONNX (torch.onnx.export) or save it with torch.export.save as .pt2"
)

UNREADABLE: Mapping[str, str] = {
    **dict.fromkeys((".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".ptl", ".torchscript"), _PICKLE),
    ".bin": f"{_PICKLE}; where it is a context of Qualcomm's QNN, give the model as it was before it was compiled",
    **dict.fromkeys((".h5", ".keras", ".pb"), "convert the model to ONNX (tf2onnx) or to TFLite (tf.lite.TFLiteConverter)"),
    **dict.fromkeys((".safetensors", ".gguf"), "such files hold weights without the network; export the model to ONNX"),
    **dict.fromkeys((".zip", ".tar", ".gz", ".tgz", ".xz", ".7z"), "it is an archive; unpack it and give the model in it"),
}
"""Suffix to advice: files that no importer may read."""

CONVERTED: Mapping[str, str] = {
    **dict.fromkeys((".mlmodel", ".mlpackage"), "a Core ML model"),
    **dict.fromkeys((".mnn", ".xml", ".dlc", ".pte", ".nb"), "a model converted for one runtime"),
    **dict.fromkeys((".caffemodel", ".cfg", ".pdmodel", ".prototxt", ".weights"), "a model of another framework"),
}
"""Suffix to description: files that latcast itself has no importer for."""

COMPILED: Mapping[str, str] = {
    ".axmodel": "Axera's NPU",
    ".blob": "an accelerator by OpenVINO",
    ".bmodel": "Sophgo's TPU",
    ".dla": "MediaTek's NPU (NeuroPilot)",
    ".dxnn": "DeepX's NPU",
    ".engine": "one GPU by TensorRT",
    ".hbm": "Horizon's BPU",
    ".hef": "Hailo's accelerator",
    ".kmodel": "Kendryte's KPU",
    ".mlmodelc": "Core ML",
    ".nef": "Kneron's NPU",
    ".om": "Huawei's Ascend",
    ".ort": "onnxruntime (its own format)",
    ".plan": "one GPU by TensorRT",
    ".rknn": "Rockchip's NPU",
    ".trt": "one GPU by TensorRT",
    ".vmfb": "one target by IREE",
    ".xmodel": "AMD's DPU (Vitis AI)",
}
"""Suffix to what such a file is compiled for."""

_COMPILED_STARTS: Mapping[bytes, str] = {
    b"\x01HEF": ".hef",
    b"RKNN": ".rknn",
    b"ftrt": ".engine",
    b"ptrt": ".engine",
    b"LDMK": ".kmodel",
    b"IMOD": ".om",
}
"""First bytes of a file to the suffix that it should have."""

_ORT_IDENTIFIER = b"ORTM"

_COMPILED_OPERATORS: Mapping[str, str] = {
    "edgetpu-custom-op": "the Edge TPU",
    "ethos-u": "an Arm Ethos-U by Vela",
    "DISPATCH_OP": "an NPU by LiteRT's compiler plugins (Qualcomm, MediaTek, Google)",
    "EPContext": "an execution provider of onnxruntime (Qualcomm QNN, TensorRT, OpenVINO, Vitis AI)",
    "Snpe": "Qualcomm's NPU by SNPE",
    "NeutronGraph": "NXP's eIQ Neutron NPU",
    "QNN": "Qualcomm's NPU",
    "TfLiteQnnDelegate": "Qualcomm's NPU",
    "vsi-npu": "VeriSilicon's NPU",
    "mtkext": "MediaTek's NPU",
    "MTK_EXT": "MediaTek's NPU",
    "tidl": "Texas Instruments' accelerator",
    "TIDL": "Texas Instruments' accelerator",
}
"""What the name of an operator that holds a compiled part of a network begins with, to what that is compiled for."""


def is_foreign(path: Path) -> bool:
    """Return whether a suffix is that of a model which cannot be read."""
    return path.suffix.lower() in {*UNREADABLE, *CONVERTED, *COMPILED}


def refuse_compiled(operator: str) -> None:
    """Refuse an operator that holds a compiled part of a network.

    Raises:
        ModelError: It is one.
    """
    for start, target in _COMPILED_OPERATORS.items():
        if operator.startswith(start):
            raise ModelError(
                f"it is compiled for {target}: its operator '{operator}' holds machine code; give the model as it was before it "
                "was compiled"
            )


def refuse_compiled_file(path: Path, start: bytes) -> None:
    """Refuse a file that is compiled for one target.

    Args:
        path: The file or folder.
        start: Its first 8 bytes or more.

    Raises:
        ModelError: It is one.
    """
    suffix = ".ort" if start[4:8] == _ORT_IDENTIFIER else path.suffix.lower()
    suffix = next((known for mark, known in _COMPILED_STARTS.items() if start.startswith(mark)), suffix)
    if suffix in COMPILED:
        raise ModelError(
            f"cannot read '{path}': it is compiled for {COMPILED[suffix]}; give the model as it was before it was compiled "
            "(ONNX, TFLite or PyTorch)"
        )
