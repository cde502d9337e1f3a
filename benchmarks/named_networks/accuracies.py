"""The facts of ``spaces/accuracies.json`` from three large tables: of timm's, torchvision's and pytorchcv's weights."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import metadata, version
from importlib.util import find_spec
from math import isfinite, nan
from pathlib import Path

from latcast.errors import DatasetError
from latcast.folders import replacing
from latcast.spaces.accuracies import FILE, USUAL_SIDE
from latcast.spaces.named_graphs import graph_file

Fact = tuple[str, int, str, str, float]
"""Network, side of the image, weights, what they were trained on, top-1 percent."""

_MORE = re.compile(r"jft|ig1b|yfcc|laion|openai|clip|webli|m30m|m38m|swag|seer|_6m|merged")
_PARTS_OF_21K = re.compile(r"in2[12]k|in12k|ssld")
"""SSLD teaches with images picked from ImageNet-22k (PaddleClas, ``docs/en/advanced_tutorials/distillation``)."""


def write_accuracies(data: Path) -> int:
    """Write the facts of the three tables in place of those there, keep the others, and return how many there are.

    Args:
        data: The folder that has ``timm/accuracy.csv``; torchvision and pytorchcv are to be installed.
    """
    known = json.loads(FILE.read_text(encoding="utf-8"))
    release = version("torchvision").partition("+")[0]
    read = {
        "huggingface/pytorch-image-models aa4b585, results/results-imagenet.csv": _timm(data / "timm" / "accuracy.csv"),
        f"torchvision {release}, the metadata of its weights": _torchvision(),
        f"pytorchcv {version('pytorchcv')}, README and model_metainfos.csv": _pytorchcv(),
    }
    projects = {source.split()[0] for source in read}
    groups = [(source, sorted(facts)) for source, facts in read.items()]
    groups += [
        (each["source"], each["facts"]) for each in known["published"] if each["source"].split()[0].rstrip(",") not in projects
    ]
    with replacing(FILE) as draft:
        draft.write_text(_text(groups, known["same"]), encoding="utf-8")
    return sum(len(facts) for _, facts in groups)


def _timm(table: Path) -> Iterator[Fact]:
    with table.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if _has_graph("timm", row["network"], int(row["input"])):
                yield f"timm/{row['network']}", int(row["input"]), row["weights"], images_of(row["weights"]), float(row["top1"])


def images_of(weights: str) -> str:
    """Return what weights were trained on, as timm's name of them says: ``fb_in22k_ft_in1k``."""
    if _MORE.search(weights):
        return "more"
    return "imagenet-21k" if _PARTS_OF_21K.search(weights) else "imagenet-1k"


def _torchvision() -> Iterator[Fact]:
    from torchvision import models

    for name in models.list_models(models):
        for weights in models.get_model_weights(name):
            top1 = weights.meta["_metrics"].get("ImageNet-1K", {}).get("acc@1", nan)
            side = weights.transforms().crop_size[-1]
            if isfinite(top1) and _has_graph("torchvision", name, side):
                yield f"torchvision/{name}", side, weights.name, images_of(weights.name.lower()), top1


_LINK = re.compile(r"/download/v[\d.]+/(\w+)-\d{4}-")
"""Address of a row's log, whose file name begins with the network's name."""


def _pytorchcv() -> Iterator[Fact]:
    spec = find_spec("pytorchcv")
    text = metadata("pytorchcv").get_payload()
    if spec is None or not spec.submodule_search_locations or not isinstance(text, str):
        raise DatasetError("found no README of pytorchcv; install it: pip install pytorchcv")
    table = Path(spec.submodule_search_locations[0]) / "models" / "common" / "model_metainfos.csv"
    with table.open(encoding="utf-8", newline="") as lines:
        sides = {row["model_name"]: row["img_size"] for row in csv.DictReader(lines) if row["test_dataset"] == "in1k"}
    _, _, listed = text.partition("| Model |  Top1 |  Top5 |")
    for line in listed.partition("\n\n")[0].splitlines()[2:]:
        cells = line.strip("| ").split("|")
        link = _LINK.search(line)
        name = link.group(1) if link else ""
        side = int(sides[name]) if sides[name].isdecimal() else USUAL_SIDE
        if side == USUAL_SIDE and _has_graph("pytorchcv", name, None):
            yield f"pytorchcv/{name}", side, "pytorchcv", "imagenet-1k", round(100 - float(cells[1]), 2)


def _has_graph(space: str, name: str, given: int | None) -> bool:
    file = graph_file(space)
    return file is not None and (name, given) in file.networks


def _text(groups: Sequence[tuple[str, Sequence[Sequence[object]]]], same: dict[str, str]) -> str:
    published = ",\n".join(
        f'{json.dumps({"source": source})[:-1]}, "facts": [\n' + ",\n".join(json.dumps(fact) for fact in facts) + "\n]}"
        for source, facts in groups
    )
    pairs = ",\n".join(f"{json.dumps(name)}: {json.dumps(other)}" for name, other in sorted(same.items()))
    return f'{{"published": [\n{published}\n],\n"same": {{\n{pairs}\n}}}}\n'
