"""Resizing images: TFLite knows three ways to place the samples, ONNX many; they are compared sample by sample."""

from __future__ import annotations

import numpy as np

from latcast.graph.writers.tflite.folding import Step, unsupported
from latcast.graph.writers.tflite.layout import CHANNELS_LAST
from latcast.graph.writers.tflite.writer import GraphWriter, emits

_PLACEMENTS: tuple[dict[str, bool], ...] = ({}, {"half_pixel_centers": True}, {"align_corners": True})


@emits("Resize", "Upsample")
def resize(writer: GraphWriter, step: Step) -> None:
    """RESIZE_NEAREST_NEIGHBOR or RESIZE_BILINEAR."""
    view = writer.view(step)
    x, out = writer.shape(step.inputs[0]), writer.shape(step.output)
    mode = view.str_attribute("mode", "nearest")
    placement = view.str_attribute("coordinate_transformation_mode", "half_pixel" if step.op_type == "Resize" else "asymmetric")
    if len(x) != 4 or x[:2] != out[:2] or mode not in ("nearest", "linear"):
        raise unsupported(step.node, f"mode '{mode}' from {list(x)} to {list(out)}; images are resized nearest or linear")
    rounding = view.str_attribute("nearest_mode", "round_prefer_floor" if step.op_type == "Resize" else "floor")
    wanted = [_onnx_samples(x[a], out[a], placement, step) for a in (2, 3)]
    for options in _PLACEMENTS:
        found = [_tflite_samples(x[a], out[a], **options) for a in (2, 3)]
        if mode == "nearest":
            same = all(
                np.array_equal(_onnx_nearest(w, size, rounding, step), _tflite_nearest(f, size, **options))
                for w, f, size in zip(wanted, found, x[2:], strict=True)
            )
        else:
            same = all(
                np.allclose(np.clip(w, 0, size - 1), np.clip(f, 0, size - 1), atol=1e-4)
                for w, f, size in zip(wanted, found, x[2:], strict=True)
            )
        if same:
            size = writer.indices(out[2:], f"{step.output}/size")
            builtin = "RESIZE_NEAREST_NEIGHBOR" if mode == "nearest" else "RESIZE_BILINEAR"
            writer.finish(builtin, (writer.operand(step.inputs[0], CHANNELS_LAST), size), step, CHANNELS_LAST, **options)
            return
    raise unsupported(step.node, f"'{placement}' with '{rounding}' from {list(x)} to {list(out)} samples where TFLite does not")


def _onnx_samples(size: int, resized: int, placement: str, step: Step) -> np.ndarray:
    """Where in the source each output sample lies (ONNX Resize, coordinate_transformation_mode)."""
    at = np.arange(resized, dtype=np.float64)
    scale = size / resized
    if placement == "asymmetric":
        return at * scale
    if placement == "half_pixel" or (placement == "pytorch_half_pixel" and resized > 1):
        return (at + 0.5) * scale - 0.5
    if placement == "align_corners":
        return at * ((size - 1) / (resized - 1)) if resized > 1 else at
    raise unsupported(step.node, f"coordinate_transformation_mode '{placement}'")


def _tflite_samples(size: int, resized: int, *, half_pixel_centers: bool = False, align_corners: bool = False) -> np.ndarray:
    at = np.arange(resized, dtype=np.float64)
    if align_corners and resized > 1:
        return at * ((size - 1) / (resized - 1))
    return (at + 0.5) * (size / resized) - 0.5 if half_pixel_centers else at * (size / resized)


def _onnx_nearest(samples: np.ndarray, size: int, rounding: str, step: Step) -> np.ndarray:
    rules = {
        "floor": np.floor(samples), "ceil": np.ceil(samples), "round_prefer_floor": np.ceil(samples - 0.5),
        "round_prefer_ceil": np.floor(samples + 0.5),
    }  # fmt: skip
    if rounding not in rules:
        raise unsupported(step.node, f"nearest_mode '{rounding}'")
    return np.clip(rules[rounding], 0, size - 1)


def _tflite_nearest(
    samples: np.ndarray, size: int, *, half_pixel_centers: bool = False, align_corners: bool = False
) -> np.ndarray:
    if half_pixel_centers or align_corners:
        samples = samples + 0.5
    return np.clip(np.floor(samples), 0, size - 1)
