"""Latencies of a stranger's model on all known platforms, computed in a short-lived process.

It is run by :mod:`latcast.hub.isolation` in a separate process, with limits, so nothing here has to survive a hostile file.
"""

from __future__ import annotations

import base64
import json
import re
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from latcast.errors import DynamicShapeError, HubError, LatcastError
from latcast.forecast import predict_many
from latcast.graph.compact import pack, unpack, with_derived_names
from latcast.graph.importers import IMPORTERS
from latcast.graph.importers.onnx_file import read_without_weights
from latcast.graph.input_values import parse_values
from latcast.graph.ir import Graph
from latcast.graph.operators import node_flops
from latcast.hub.named_platforms import facts_of, meaning_among
from latcast.kernels.rules import unit_kind
from latcast.networks import ModelOptions, parse_shapes, read_model
from latcast.platforms import load_all
from latcast.predictors.bundle_index import LOCAL, platforms
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform
from latcast.spaces.catalogue import model as published_model

if TYPE_CHECKING:
    from latcast.hub.own_platforms import OwnPlatforms

PREDICTING_CPU_S, PREDICTING_WALL_S = 12.0, 30.0
"""After this time the platforms that are left over are left out, and the answer says how many they are. Processor time is that
of the whole process; both lie below the limits of :mod:`latcast.hub.isolation`, which end it without an answer."""

AT_ONCE = 100
"""Platforms that are predicted between two looks at the clock."""

MAX_KERNELS = 200
"""Kernels that an answer lists."""

MAX_TEXT = DynamicShapeError.most_characters
"""Characters of a refusal."""

MAX_GRAPH_BYTES = 200_000
"""Size of shapes that are shared, in bytes; the largest that latcast ships takes 21 kB."""

TOO_LARGE = "the model takes more memory to read than a file is given; export a smaller part of it"

_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\u1fff\u2010-\u2027\u2030-\u205f\u2070-\ud7ff]+")


@dataclass(frozen=True)
class ModelRequest:
    """A question about a model.

    Attributes:
        name: As its user calls it.
        source: "file" (ONNX or TFLite), "shapes" (as they are shared), or "name" (that of a published network).
        shapes: As ``input=1,3,224,224``.
        signature: Which signature of a TFLite file.
        values: As ``rate=16000``.
        on: A device, chip or platform in any spelling, or a glob of ids; all platforms where None.
        kernels: The platform whose kernels are wanted; None for none.
        top: How many of them, the longest first.
        share: Whether the shapes are wanted too.
        compressed: Whether the body is to be gzip.
        streamed: Whether predictions are wanted as they come, in lines of JSON.
    """

    name: str = "model"
    source: str = "file"
    shapes: Sequence[str] = ()
    signature: str = ""
    values: Sequence[str] = ()
    on: str | None = None
    kernels: str | None = None
    top: int = 15
    share: bool = False
    compressed: bool = False
    streamed: bool = False


@dataclass(frozen=True)
class ModelAnswer:
    """The answer of a process, or a part of it.

    Attributes:
        status: Of HTTP: 200, or 422 for a model that cannot be read or predicted.
        body: JSON, of a part whole lines of it; gzip where that was asked for and the status is 200.
        key: Hash of the model's shapes; empty where it could not be read.
        packed: The shapes, where they are to be shared.
        cpu_s: Processor time that the process took until then.
        last: Whether no part follows.
    """

    status: int
    body: bytes
    key: str = ""
    packed: bytes = b""
    cpu_s: float = 0.0
    last: bool = True

    @classmethod
    def refusal(cls, text: str, cpu_s: float = 0.0) -> ModelAnswer:
        """Return a refusal of one printable line."""
        line = _UNPRINTABLE.sub(" ", text)
        line = line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"
        return cls(422, json.dumps({"detail": line}).encode(), cpu_s=cpu_s)

    def to_bytes(self) -> bytes:
        """Return the answer as it goes from process to process: a line of JSON with the size of the body, then the body."""
        head = {**vars(self), "body": len(self.body), "packed": base64.b64encode(self.packed).decode()}
        return json.dumps(head).encode() + b"\n" + self.body

    @classmethod
    def read(cls, stream: IO[bytes], most_bytes: int) -> ModelAnswer:
        """Read :meth:`to_bytes`, with a body of at most so many bytes.

        Raises:
            ValueError: It is cut off, or larger.
        """
        found = json.loads(stream.readline(most_bytes))
        body = stream.read(min(found["body"], most_bytes))
        if len(body) < found["body"]:
            raise ValueError("cut off")
        return cls(**{**found, "body": body, "packed": base64.b64decode(found["packed"])})


@dataclass(frozen=True)
class Known:
    """The platforms that can be predicted for, loaded; ``left_out`` counts those that have no predictor yet."""

    predictors: Mapping[str, PlatformPredictor]
    facts: Mapping[str, Mapping[str, Any]] = field(repr=False)
    left_out: int = 0

    @classmethod
    def loaded(cls, most: int | None = None) -> Known:
        """Load all shipped platforms and those in the user's folder, without ``local``, which is another machine everywhere.

        Args:
            most: Only so many; all where None.
        """
        predictors: dict[str, PlatformPredictor] = {}
        facts: dict[str, Mapping[str, Any]] = {}
        for each in platforms()[:most]:
            if each.device == LOCAL:
                continue
            try:
                [predictors[each.id]] = load_all(each.id)
            except LatcastError:
                continue  # a damaged bundle of the administrator's; the others can be predicted for
            facts[each.id] = {
                "device": each.device,
                "chip": each.chip,
                "kind": unit_kind(each.unit),
                "mape": each.mape,
                "licence": each.licence,
                "source": each.source,
            }
        return cls(_sorted_by_rules(predictors), facts)

    def with_own(self, own: OwnPlatforms) -> Known:
        """Return these and the platforms of a hub, which stand in place of those of the same name."""
        predictors = {**self.predictors, **{name: each.predictor for name, each in own.platforms.items()}}
        facts = {**self.facts, **{name: each.facts for name, each in own.platforms.items()}}
        return Known(_sorted_by_rules(predictors), facts, own.left_out)


def _sorted_by_rules(predictors: Mapping[str, PlatformPredictor]) -> dict[str, PlatformPredictor]:
    """Sort so that platforms with the same rules lie together, and share what is the same on all of them."""

    def place(name: str) -> tuple[str, str, str, str]:
        platform = Platform.parse(name)
        return platform.runtime, unit_kind(platform.unit), platform.precision, name

    return {name: predictors[name] for name in sorted(predictors, key=place)}


def predict_model(request: Mapping[str, Any], content: int, known: Known) -> Iterator[ModelAnswer]:
    """Read a model and predict it; any fault of it becomes an answer of one line.

    Args:
        request: The fields of a :class:`ModelRequest`.
        content: File descriptor of the model's file, or of its shapes as they are shared.
        known: The platforms.

    Yields:
        The answer, in parts where it is to be streamed: what is known of the model, predictions, and what was left out.
    """
    wanted, path = ModelRequest(**request), Path(f"/dev/fd/{content}")
    compressor = zlib.compressobj(5, wbits=zlib.MAX_WBITS | 16) if wanted.compressed else None  # a gzip

    def answer(found: Mapping[str, Any], *, last: bool, packed: bytes = b"") -> ModelAnswer:
        body = json.dumps(found, separators=(",", ":")).encode() + b"\n" * wanted.streamed
        if compressor is not None:
            body = compressor.compress(body) + compressor.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH)
        return ModelAnswer(200, body, graph.structure_key, packed, last=last)

    try:
        graph = _read_graph(wanted, path)
        about = {
            "name": wanted.name,
            "key": graph.structure_key,
            "inputs": [{"name": name, "shape": list(graph.shape(name))} for name in graph.inputs],
            "operators": len(graph.nodes),
            "parameters": graph.parameter_count,
            **({"notes": list(graph.notes)} if graph.notes else {}),
            "flops": sum(node_flops(graph, node) or 0 for node in graph.nodes),
        }
        found: dict[str, Any] = {"schema": 1, "model": about}
        packed = packed_shapes(graph) if wanted.share else b""
        if wanted.share:
            found["link"] = f"/model/{graph.structure_key}"
        if wanted.kernels is not None:
            yield answer(found | _kernels(graph, wanted, known), last=True, packed=packed)
            return
        chosen, note = (known, "") if not wanted.on else _named(wanted.on, known)
        rows: list[dict[str, Any]] = []
        for portion in _predictions(graph, wanted, chosen):
            if wanted.streamed:
                yield answer({**(found if not rows else {}), "predictions": portion}, last=False, packed=b"" if rows else packed)
            rows += portion
        rows.sort(key=lambda row: (row["latency_ms"], row["platform"]))
        left_out = {"not_predicted": len(chosen.predictors) - len(rows) + chosen.left_out, **({"note": note} if note else {})}
        if wanted.streamed:
            yield answer(left_out, last=True)
        else:
            yield answer(found | {"predictions": rows} | left_out, last=True, packed=packed)
    except MemoryError:
        yield ModelAnswer.refusal(TOO_LARGE)
    except LatcastError as problem:
        if isinstance(problem.__cause__, MemoryError):
            yield ModelAnswer.refusal(TOO_LARGE)
            return
        # In words of the request: without where the file lay here, and without options of the command line.
        yield ModelAnswer.refusal(
            str(problem).replace(str(path), wanted.name).replace("--shape ", "shape=").replace("--value ", "value=")
        )


def _read_graph(wanted: ModelRequest, path: Path) -> Graph:
    options = ModelOptions(
        parse_shapes(wanted.shapes), signature=wanted.signature, values=parse_values(wanted.values, files=False)
    )
    if wanted.source == "name":
        return read_model(published_model(wanted.name), options)
    with path.open("rb") as file:
        file.seek(0)
        start = file.read(8)
        if wanted.source == "shapes":
            return read_model(unpack(start + file.read(), wanted.name), options)
    if start[4:8] == b"TFL3":
        return IMPORTERS.get("tflite")().load(path, options)
    # From memory: data beside the file is then not looked for, as the folder is the server's.
    model = read_without_weights(path)
    model.graph.name = wanted.name
    return IMPORTERS.get("onnx")().load(model, options)


def packed_shapes(graph: Graph) -> bytes:
    """Return a graph as it is shared, packed and without any name of its user.

    Raises:
        HubError: It is larger than what is kept.
        ModelError: It cannot be packed.
    """
    renamed = graph.renamed({name: f"input_{index}" for index, name in enumerate(graph.inputs)})
    nodes = tuple(replace(node, name=f"{node.op_type.lower()}_{index}") for index, node in enumerate(renamed.nodes))
    found = pack(with_derived_names(replace(renamed, name="model", nodes=nodes)))
    if len(found) > MAX_GRAPH_BYTES:
        raise HubError(f"the model's shapes take {len(found)} bytes, expected at most {MAX_GRAPH_BYTES}; share a smaller model")
    return found


def _predictions(graph: Graph, wanted: ModelRequest, chosen: Known) -> Iterator[list[dict[str, Any]]]:
    """Yield predictions, :data:`AT_ONCE` platforms at a time, until the time is over."""
    names = list(chosen.predictors)
    ends_s = time.monotonic() + PREDICTING_WALL_S
    for start in range(0, len(names), AT_ONCE):
        if start and (time.process_time() > PREDICTING_CPU_S or time.monotonic() > ends_s):
            return
        predictors = [chosen.predictors[name] for name in names[start : start + AT_ONCE]]
        found = predict_many([graph], predictors)
        yield [{**each.to_json(), "model": wanted.name, **chosen.facts[each.platform]} for each in found]


def _named(text: str, known: Known) -> tuple[Known, str]:
    """Return the platforms that a text means, and what was taken, in a sentence; see :func:`meaning_among`."""
    found = meaning_among(text, {name: each.card for name, each in known.predictors.items()})
    taken = {name: known.predictors[name] for name in known.predictors if name in found.taken}
    if found.alike:
        taken = {name: each.standing_in() for name, each in taken.items()}
    made = {each.platform.id: each for each in found.from_chip}
    facts = {name: known.facts[name] for name in taken} | {name: facts_of(each.platform, "chip") for name, each in made.items()}
    return Known(taken | made, facts), found.note


def _kernels(graph: Graph, wanted: ModelRequest, known: Known) -> dict[str, Any]:
    chosen, _ = _named(wanted.kernels or "", known)
    if len(chosen.predictors) != 1:
        raise HubError(f"'{(wanted.kernels or '')[:100]}' names {len(chosen.predictors)} platforms, expected one; name its id")
    [(platform, predictor)] = chosen.predictors.items()
    [found] = predict_many([graph], [predictor], breakdown=True)
    return {
        "prediction": {**found.to_json(), "model": wanted.name, **chosen.facts[platform], "overhead_ms": found.overhead_ms},
        "kernels": [each.to_json() for each in found.top(min(wanted.top, MAX_KERNELS))],
        "all_kernels": len(found.kernels),
        "by_type": found.by_type(),
    }
