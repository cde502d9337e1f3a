"""Networks by the names that people write: ``ResNet-50``, ``ViT-B/16``, ``google/mobilenet_v2_1.0_224``, ``yolov8n``.

Names are compared by their letters and digits alone (two numbers stay two), in the order
of :data:`_ORDER`; the network that is found carries its own name, so that every answer says which one it is of.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from latcast.errors import ModelError
from latcast.records import Reference
from latcast.spaces.named_graphs import find_named, graph_file, spaces_with_graphs

MOST_NEAR = 6
"""Networks that an unknown name is answered with."""

_ORDER = ("timm", "torchvision", "huggingface", "yolo", "aihub")
"""Spaces whose networks are meant first by a name without a space, after the families."""

_ALSO_CALLED: Mapping[str, str] = {
    "albert": "aihub/albert_base_v2_hf", "albertbasev2": "aihub/albert_base_v2_hf",
    "bert": "aihub/bert_base_uncased_hf", "bertbase": "aihub/bert_base_uncased_hf",
    "bertbaseuncased": "aihub/bert_base_uncased_hf",
    **dict.fromkeys(("clipvitb16", "clipvitbasepatch16"), "timm/vit_base_patch16_clip_quickgelu_224"),
    **dict.fromkeys(("clipvitb32", "clipvitbasepatch32"), "timm/vit_base_patch32_clip_quickgelu_224"),
    **dict.fromkeys(("clipvitl14", "clipvitlargepatch14"), "timm/vit_large_patch14_clip_quickgelu_224"),
    "deitb": "timm/deit_base_patch16_224", "deitbase": "timm/deit_base_patch16_224",
    "deits": "deit_small_16", "deitsmall": "deit_small_16", "deitt": "deit_tiny_16", "deittiny": "deit_tiny_16",
    "detr": "aihub/detr_resnet50", "ghostnet": "ghostnet_x1_0",
    "lraspp": "torchvision/lraspp_mobilenet_v3_large", "mnasnet": "mnasnet1_0", "mobilenet": "mobilenet_v1",
    "mobilenetv3": "mobilenet_v3_large", "mobilevit": "mobilevit_s", "resnet50v1": "resnet50",
    "resnext50": "resnext50_32x4d", "resnext101": "resnext101_32x8d", "seresnext50": "se_resnext50_32x4d",
    "shufflenetv2": "shufflenet_v2_x1_0", "squeezenet": "squeezenet1_1", "ssdlite": "torchvision/ssdlite320_mobilenet_v3_large",
    "swinb": "timm/swin_base_patch4_window7_224", "swinbase": "timm/swin_base_patch4_window7_224",
    "swins": "swin_small", "swint": "swin_tiny", "vitb16": "vit_base_16", "vitb32": "vit_base_32", "vitbase": "vit_base_16",
    "vitl16": "timm/vit_large_patch16_224", "vits16": "timm/vit_small_patch16_224", "vitti16": "timm/vit_tiny_patch16_224",
    "wavlm": "aihub/huggingface_wavlm_base_plus", "yolo11nseg": "aihub/yolov11_seg", "yolov11nseg": "aihub/yolov11_seg",
    "yolov3": "hailo/yolov3_416", "yolov3tiny": "hailo/tiny_yolov3", "yolov3tinyu": "aihub/yolov3", "yolov5mu": "aihub/yolov5",
    "yolov6n": "aihub/yolov6", "yolov7tiny": "aihub/yolov7",
    "yolov8n": "aihub/yolov8_det", "yolov8nseg": "aihub/yolov8_seg",
    **{f"yolov11{size}": f"yolo/yolo11{size}" for size in "nsmlx"},
    **{f"yolov11{size}seg": f"yolo/yolo11{size}-seg" for size in "smlx"},
}  # fmt: skip
"""Letters and digits of other names to names here: of a family its usual member, of AI Hub's detectors the size they are of, of
CLIP its encoder of images."""


def find_in_any_spelling(text: str, *, whole: bool = False) -> Reference | None:
    """Return the network that a name means, whatever its spelling; None where there is none.

    An organisation before a slash, a module before a point (``torchvision.models.resnet50``), the weights behind one
    (``convnext_tiny.fb_in1k``) and a width of 1.0 are left out; a size at the end (``@224``, ``(224x224)``) is that of the input.
    Of a ``whole`` name nothing is left out.
    """
    if whole:
        return _known(letters_of(text))
    at = re.fullmatch(r"(.+)@(\d{2,4})", text)
    named = find_in_any_spelling(at[1]) if at else None
    if at and named is not None and (found := _of_size(named, int(at[2]), stated=True)) is not None:
        return found
    written, text = text, re.sub(r"[ _(@-]+(\d{2,4})(?:x\1)?\)?$", r"_\1", text)
    name = text.rpartition("/")[2]
    without = (re.sub(r"[-_ x]1\.0x?(?=[-_ ]|$)", "", name), re.sub(r"^([a-z_]+\.)+(?=[a-z])", "", name), _WEIGHTS.sub("", name))
    for each in dict.fromkeys((text, name, *without)):
        found = _known(letters_of(each), written.rpartition("/")[2])
        if found is not None:
            return found
        unsized = re.fullmatch(r"(.+)[-_x]([0-9]{2,4})", each)
        sized = _known(letters_of(unsized[1])) if unsized else None
        if unsized and sized is not None and (found := _of_size(sized, int(unsized[2]))) is not None:
            return found
    from latcast.spaces.published_names import network_called

    return network_called(written)


_WEIGHTS = re.compile(r"\.[a-z0-9]+(?:_[a-z0-9]+)+$")
"""What timm writes behind a network's name for the data that its weights saw."""


PRECISIONS: Mapping[str, str] = {
    **dict.fromkeys(("fp32", "f32", "float32", "float"), "fp32"), **dict.fromkeys(("fp16", "f16", "float16", "half"), "fp16"),
    **dict.fromkeys(("bf16", "bfloat16"), "bf16"), **dict.fromkeys(("int8", "i8", "uint8", "w8a8", "quant", "quantized"), "int8"),
}  # fmt: skip
"""Words that people write for precisions."""

_PRECISE = re.compile(rf"(.*\w)[\s_.(-]+({'|'.join(PRECISIONS)})\)?", re.IGNORECASE)


def split_precision(text: str) -> tuple[str, str]:
    """Return a network's name without the precision behind it, and that precision: empty where there is none.

    >>> split_precision("MobileNetV2 (INT8)"), split_precision("resnet50")
    (('MobileNetV2', 'int8'), ('resnet50', ''))
    """
    found = _PRECISE.fullmatch(text)
    return (found[1], PRECISIONS[found[2].lower()]) if found else (text, "")


def _of_size(reference: Reference, pixels: int, *, stated: bool = False) -> Reference | None:
    """Return a network for images of so many pixels a side; None where it takes none of that size, or the number is another.

    Where it is ``stated`` that the number is the size, any is.
    """
    from latcast.spaces.catalogue import build, resized

    graph = build(reference)
    shape = graph.shape(graph.inputs[0])
    if shape[-1] == pixels:
        return reference
    if (not stated and (pixels < 96 or pixels % 32)) or len(shape) != 4:
        return None
    try:
        found = resized(reference, {graph.inputs[0]: (*shape[:2], pixels, pixels)})
    except ModelError:
        return None
    return replace(found, name=f"{reference.name}_{pixels}")


def nearest_models(text: str) -> list[str]:
    """Return names of networks like a text, best first: those that begin with it, those that have it, the most similar."""
    wanted, known = letters_of(text), known_names()
    has = [joined for joined in known if len(wanted) > 2 and wanted in joined]
    has.sort(key=lambda joined: (not joined.startswith(wanted), "/" in known[joined], len(joined), joined))
    similar = difflib.get_close_matches(wanted, known, n=MOST_NEAR, cutoff=0.75)
    head = re.match("[a-z]{4,}", wanted)
    related = [joined for joined in known if head and joined.startswith(head[0])]
    return [known[joined] for joined in dict.fromkeys((*has, *similar, *sorted(related, key=len)))][:MOST_NEAR]


def _known(joined: str, written: str = "") -> Reference | None:
    name = known_names().get(joined)
    if name is not None and "/" in name and not name.endswith(f"/{written}"):
        # Another space may have it as it is written: Hugging Face's swin-tiny-patch4-window7-224.
        spaces = (space for space in spaces_with_graphs() if (file := graph_file(space)) is not None and written in file.names)
        name = next((f"{space}/{written}" for space in spaces), name)
    name = _ALSO_CALLED.get(joined) or name
    if name is None:
        return None
    from latcast.spaces.catalogue import find_model

    return find_named(name) or find_model(name)


@cache
def known_names() -> dict[str, str]:
    """Return the name of each network by the letters and digits of that without its space; the first where several have them."""
    from latcast.spaces.catalogue import FAMILY_NAMES, family

    names = [(name, name) for each in FAMILY_NAMES for name in family(each).published]
    for space in dict.fromkeys((*_ORDER, *spaces_with_graphs())):
        file = graph_file(space)
        names += [(name, f"{space}/{name}") for name in file.names] if file else []
    found: dict[str, str] = {}
    for bare, name in names:
        found.setdefault(letters_of(bare), name)
    return found


def letters_of(name: str) -> str:
    """Return the letters and digits of a name, in lower case: two spellings of one name have the same.

    >>> letters_of("RegNet-Y 3.2GF"), letters_of("regnet_y_3_2gf"), letters_of("RegNetY 32GF")
    ('regnety3.2gf', 'regnety3.2gf', 'regnety32gf')
    """
    apart = re.sub(r"(?<=\d)[^a-z0-9]+(?=\d)", ".", name.lower())
    return re.sub(r"[^a-z0-9.]|(?<!\d)\.|\.(?!\d)", "", apart)
