"""Archives of ``torch.export.save`` from strangers: none runs code, unless the user trusts it."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="reads archives of PyTorch, which is not installed")
pytest.importorskip("onnxscript", reason="PyTorch exports to ONNX with onnxscript, which is not installed")

import torch
from torch import nn

from latcast.cli.main import run
from latcast.errors import LatcastError, ModelError
from latcast.graph.importers import load_graph
from latcast.graph.importers.pt2_archive import is_arithmetic

TRACE = "code-was-run"
WEIGHTS, CONSTANTS = "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"
SAMPLE, PROGRAM = "data/sample_inputs/model.pt", "models/model.json"

Members = dict[str, bytes]


class Payload:
    """Leaves a trace when it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path(TRACE),))


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 4)
        self.register_buffer("scale", torch.arange(4.0))

    def forward(self, x: Any) -> Any:
        return self.first(x) * self.scale + torch.tensor([1.0, 2.0, 3.0, 4.0])


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of torch.export.save."""
    path = tmp_path_factory.mktemp("programs") / "model.pt2"
    torch.export.save(torch.export.export(Scaled().eval(), (torch.zeros(2, 8),)), path)
    return path


def members_of(path: Path) -> Members:
    """Contents by their names below the archive's folder, in order."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def packed(members: Members, path: Path, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"model/{name}", content)
    return path


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def changed(members: Members, name: str, change: Callable[[Any], object]) -> None:
    content = json.loads(members[name])
    change(content)
    members[name] = json.dumps(content).encode()


def first_tensor(members: Members, name: str, **entries: object) -> None:
    changed(members, name, lambda content: next(iter(content["config"].values())).update(entries))


def pickled_weight(members: Members) -> None:
    first_tensor(members, WEIGHTS, use_pickle=True)
    members["data/weights/weight_0"] = saved(Payload())


def pickled_constant(members: Members) -> None:
    first_tensor(members, CONSTANTS, use_pickle=True)
    members["data/constants/tensor_0"] = saved(Payload())


def opaque_object(members: Members) -> None:
    first_tensor(members, CONSTANTS, path_name="opaque_obj_0")
    members["data/constants/opaque_obj_0"] = pickle.dumps(Payload())


def opaque_object_in_capitals(members: Members) -> None:
    first_tensor(members, CONSTANTS, path_name="opaque_obj_0")
    members["data/constants/OPAQUE_OBJ_0"] = pickle.dumps(Payload())


def opaque_object_in_a_folder(members: Members) -> None:
    first_tensor(members, CONSTANTS, path_name="opaque_obj_0/x")
    members["data/constants/opaque_obj_0/x"] = pickle.dumps(Payload())


def opaque_object_at_the_place_of_a_tensor(members: Members) -> None:
    first_tensor(members, CONSTANTS, path_name="opaque_obj_0/../tensor_0")
    members["data/constants/opaque_obj_0/../tensor_0"] = pickle.dumps(Payload())


def second_list_in_capitals(members: Members) -> None:
    """PyTorch finds the first of the two that it takes for the same."""
    honest = members.pop(WEIGHTS)
    members["data/weights/model_weights_config.JSON"] = honest
    first_tensor(members, "data/weights/model_weights_config.JSON", use_pickle=True)
    members["data/weights/weight_0"] = saved(Payload())
    members[WEIGHTS] = honest


def legacy_weights(members: Members) -> None:
    members["data/weights/model.pt"] = saved({"first.weight": Payload()})


def sample_inputs_in_capitals(members: Members) -> None:
    del members[SAMPLE]
    members["data/sample_inputs/model.PT"] = saved(Payload())


def library(members: Members) -> None:
    members["data/aotinductor/model/model.so"] = b"\x7fELF"


def call_of_any_function(members: Members) -> None:
    def change(program: Any) -> None:
        node = program["graph_module"]["graph"]["nodes"][0]
        node["target"] = "torch.serialization.os.mkdir"
        node["inputs"] = [{"name": "path", "arg": {"as_string": TRACE}, "kind": 1}]

    changed(members, PROGRAM, change)


def call_that_loads_a_library(members: Members) -> None:
    changed(
        members, PROGRAM, lambda program: program["graph_module"]["graph"]["nodes"][0].update(target="torch.ops.load_library")
    )


def size_that_is_code(members: Members) -> None:
    def change(program: Any) -> None:
        values = program["graph_module"]["graph"]["tensor_values"]
        expression = f"[].__class__.__base__.__subclasses__() or open('{TRACE}', 'w')"
        for value in values.values():
            value["sizes"][0] = {"as_expr": {"expr_str": expression, "hint": {"as_int": 2}}}

    changed(members, PROGRAM, change)


def container_that_imports(members: Members) -> None:
    Path("imported_by_pytorch.py").write_text(f"open('{TRACE}', 'w').close()\nclass Colour: pass\n")
    context = json.dumps([{"__enum__": True, "fqn": "imported_by_pytorch:Colour", "name": "RED"}])
    spec = json.dumps([1, {"type": "builtins.dict", "context": context, "children_spec": []}])

    def change(program: Any) -> None:
        program["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = spec

    changed(members, PROGRAM, change)


CODE = f"__import__('os').mkdir('{TRACE}')"


def renamed(members: Members, old: str, new: str) -> None:
    """Everywhere in the program, as key and as value."""

    def swapped(value: Any) -> Any:
        if isinstance(value, dict):
            return {new if key == old else key: swapped(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [swapped(inner) for inner in value]
        return new if value == old else value

    members[PROGRAM] = json.dumps(swapped(json.loads(members[PROGRAM]))).encode()


def input_with_a_default(members: Members) -> None:
    """The default of a parameter is evaluated where PyTorch defines the function."""
    renamed(members, "x", f"x={CODE}")


def node_that_is_a_subscript(members: Members) -> None:
    """A name on the left of an assignment: its index is evaluated first."""
    renamed(members, "linear", f"{{}}[{CODE}]")


def weight_that_is_an_expression(members: Members) -> None:
    """A path of attributes is written into a call of getattr, within quotes."""
    quoted = f'first.weight"), {CODE}, ("'
    renamed(members, "first.weight", quoted)
    content = json.loads(members[WEIGHTS])
    content["config"] = {quoted if key == "first.weight" else key: entry for key, entry in content["config"].items()}
    members[WEIGHTS] = json.dumps(content).encode()


def keyword_input_with_a_default(members: Members) -> None:
    """Without names of the parameters, those of the keywords come from the description of containers."""

    def change(program: Any) -> None:
        signature = program["graph_module"]["module_call_graph"][0]["signature"]
        leaf = {"type": None, "context": None, "children_spec": []}
        empty = {"type": "builtins.tuple", "context": "null", "children_spec": []}
        named = {"type": "builtins.dict", "context": json.dumps([f"x={CODE}"]), "children_spec": [leaf]}
        spec = {"type": "builtins.tuple", "context": "null", "children_spec": [empty, named]}
        signature.update(in_spec=json.dumps([1, spec]), forward_arg_names=None)

    changed(members, PROGRAM, change)


def parameter_with_a_default(members: Members) -> None:
    def change(program: Any) -> None:
        program["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = [f"x={CODE}"]

    changed(members, PROGRAM, change)


def text_that_is_code(members: Members) -> None:
    changed(members, PROGRAM, lambda program: program.update(torch_version=CODE))


def name_of_a_class(members: Members) -> None:
    renamed(members, "first.weight", "first.__class__.weight")


def container_of_two_types(members: Members) -> None:
    def change(program: Any) -> None:
        signature = program["graph_module"]["module_call_graph"][0]["signature"]
        signature["in_spec"] = signature["in_spec"].replace('"builtins.tuple"', '["x"]', 1)

    changed(members, PROGRAM, change)


ATTACKS = [
    input_with_a_default,
    node_that_is_a_subscript,
    weight_that_is_an_expression,
    keyword_input_with_a_default,
    parameter_with_a_default,
    text_that_is_code,
    name_of_a_class,
    container_of_two_types,
    pickled_weight,
    pickled_constant,
    opaque_object,
    opaque_object_in_capitals,
    opaque_object_in_a_folder,
    opaque_object_at_the_place_of_a_tensor,
    second_list_in_capitals,
    legacy_weights,
    sample_inputs_in_capitals,
    library,
    call_of_any_function,
    call_that_loads_a_library,
    size_that_is_code,
    container_that_imports,
]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where payloads leave their trace."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_archive_that_could_run_code_is_refused_before_it_does(
    attack: Callable[[Members], None], honest: Path, workplace: Path
) -> None:
    members = members_of(honest)
    attack(members)
    path = packed(members, workplace / "evil.pt2")

    with pytest.raises(ModelError, match=r"evil\.pt2' holds .*could run code.*--trust"):
        load_graph(path)

    assert not (workplace / TRACE).exists()


@pytest.mark.parametrize(
    "attack", [pickled_weight, opaque_object, opaque_object_in_capitals, sample_inputs_in_capitals, input_with_a_default]
)
def test_pytorch_itself_would_have_run_it_and_trust_lets_it(
    attack: Callable[[Members], None], honest: Path, workplace: Path
) -> None:
    members = members_of(honest)
    attack(members)
    path = packed(members, workplace / "evil.pt2")

    with suppress(LatcastError):  # what most payloads leave behind is no tensor
        load_graph(path, trust=True)

    assert (workplace / TRACE).exists()


def test_sample_inputs_are_not_unpickled(honest: Path, workplace: Path) -> None:
    members = members_of(honest)
    members[SAMPLE] = saved(Payload())
    members["data/sample_inputs/model.PT"] = saved(Payload())
    with pytest.raises(ModelError, match=r"a pickled object \(data/sample_inputs/model\.PT\)"):
        load_graph(packed(members, workplace / "second.pt2"))
    del members["data/sample_inputs/model.PT"]

    graph = load_graph(packed(members, workplace / "evil.pt2"))

    assert graph.structure_key == load_graph(honest).structure_key
    assert not (workplace / TRACE).exists()


def test_guards_and_extra_files_are_left_out(honest: Path, workplace: Path) -> None:
    members = members_of(honest)
    changed(members, PROGRAM, lambda program: program.update(guards_code=[f"open('{TRACE}', 'w')"]))
    members["extra/notes.pkl"] = pickle.dumps(Payload())

    assert load_graph(packed(members, workplace / "model.pt2")).nodes
    assert not (workplace / TRACE).exists()


def test_an_honest_archive_is_read_the_same_with_and_without_trust(honest: Path) -> None:
    assert load_graph(honest).structure_key == load_graph(honest, trust=True).structure_key


class Various(nn.Module):
    """Texts, branches, several outputs, nested inputs and a size that varies."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("conv-1", nn.Conv2d(3, 4, 3, padding="same"))
        self.norm = nn.BatchNorm2d(4)

    def forward(self, pictures: Any, more: Any = None, *, from_keyword: Any) -> Any:
        y = torch.nn.functional.gelu(self.norm(getattr(self, "conv-1")(pictures["first"])), approximate="tanh")
        left, right = torch.split(y, 2, dim=1)
        y = torch.einsum("bchw,bdhw->bcdh", left, right) + more[0].mean() + from_keyword
        torch._check(y.shape[0] < 1000)
        return {"sum": y.sum(-1), "parts": (y, torch.div(y, 3, rounding_mode="floor"))}


def test_an_honest_archive_with_texts_containers_and_sizes_that_vary_is_read(tmp_path: Path) -> None:
    path = tmp_path / "various.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(
        Various().eval(),
        ({"first": torch.zeros(2, 3, 8, 8)}, [torch.zeros(3)]),
        {"from_keyword": torch.zeros(1)},
        dynamic_shapes={"pictures": {"first": {0: batch}}, "more": [None], "from_keyword": None},
    )
    torch.export.save(program, path)
    shapes = {"pictures_first": [4, 3, 8, 8]}

    graph = load_graph(path, shapes=shapes)

    assert graph.structure_key == load_graph(path, shapes=shapes, trust=True).structure_key


def test_the_commands_refuse_and_say_the_option(honest: Path, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    members = members_of(honest)
    opaque_object(members)
    path = packed(members, workplace / "evil.pt2")

    assert run(["predict", str(path), "--on", "pixel4/tflite-2.10/gpu/fp16"]) == 1
    refused = capsys.readouterr().err
    assert "--trust" in refused
    assert refused.count("\n") == 1
    assert not (workplace / TRACE).exists()
    assert run(["predict", str(path), "--on", "pixel4/tflite-2.10/gpu/fp16", "--trust"]) == 1
    assert (workplace / TRACE).exists()


# Damage


def twice(members: Members, path: Path) -> None:
    with zipfile.ZipFile(packed(members, path), "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(f"model/{PROGRAM}", b"{}")


def deflated(members: Members, path: Path) -> None:
    packed({**members, "data/weights/weight_9": bytes(1 << 20)}, path, zipfile.ZIP_DEFLATED)


def bzipped(members: Members, path: Path) -> None:
    packed(members, path, zipfile.ZIP_BZIP2)


def of_an_unknown_method(members: Members, path: Path) -> None:
    packed(members, path)
    path.write_bytes(
        path.read_bytes().replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x63\x00")
    )


def encrypted(members: Members, path: Path) -> None:
    packed(members, path)
    path.write_bytes(path.read_bytes().replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"))


def overlapping(members: Members, path: Path) -> None:
    """All members are the same bytes of the file, so that they would take more than the file has."""
    with zipfile.ZipFile(packed({**members, "data/weights/weight_9": bytes(1 << 20)}, path), "a") as archive:
        big = archive.getinfo("model/data/weights/weight_9")
        for index in range(10, 40):
            entry = zipfile.ZipInfo(f"model/data/weights/weight_{index}")
            entry.header_offset, entry.file_size, entry.compress_size, entry.CRC = big.header_offset, 1 << 20, 1 << 20, big.CRC
            archive.filelist.append(entry)
            archive.NameToInfo[entry.filename] = entry
        archive._didModify = True  # type: ignore[attr-defined]


def deep(members: Members, path: Path) -> None:
    members[PROGRAM] = b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    packed(members, path)


def of_another_kind(members: Members, path: Path) -> None:
    members[WEIGHTS] = b'{"config": [1, 2]}'
    packed(members, path)


def without_a_tensor(members: Members, path: Path) -> None:
    del members["data/weights/weight_0"]
    packed(members, path)


def outside(members: Members, path: Path) -> None:
    with zipfile.ZipFile(packed(members, path), "a") as archive:
        archive.writestr("../elsewhere", b"x")


def cut(members: Members, path: Path) -> None:
    packed(members, path)
    path.write_bytes(path.read_bytes()[:300])


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (twice, r"models/model\.json: found it twice"),
        (deflated, "is compressed"),
        (bzipped, "packed otherwise than by deflate"),
        (of_an_unknown_method, "packed otherwise than by deflate"),
        (encrypted, "found it twice, encrypted"),
        (overlapping, "its members would take"),
        (deep, "is no JSON"),
        (of_another_kind, "lists no tensors"),
        (without_a_tensor, "lacks 'data/weights/weight_0'"),
        (outside, "outside its folder"),
        (cut, "not a zip file"),
    ],
)
def test_a_damaged_archive_is_refused_in_words(
    damage: Callable[[Members, Path], None], words: str, honest: Path, tmp_path: Path
) -> None:
    path = tmp_path / "damaged.pt2"
    damage(members_of(honest), path)

    with pytest.raises(ModelError, match=rf"damaged\.pt2.*{words}"):
        load_graph(path)


@pytest.mark.parametrize(
    "expression",
    [
        "Symbol('s77', positive=True, integer=True)",
        "Mul(Integer(48), Max(Integer(1), Add(Symbol('s53', positive=True, integer=True), Integer(-2))))",
        "Pow(Symbol('s0', integer=True), Integer(2))",
        "FloorDiv(Symbol('s0', positive=True), Integer(2))",
        "8*s53 + 1",
        "Float('1.5', precision=53)",
    ],
)
def test_sizes_that_pytorch_writes_are_arithmetic(expression: str) -> None:
    assert is_arithmetic(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "exit()",
        "().__class__",
        "Symbol('s0').__class__",
        "__import__('os')",
        "Add('exit()', 1)",
        "Symbol('exit()')",
        "Integer('9**9')",
        "[1]",
        "(lambda: 0)()",
        "Pow(Integer(9), Integer(99999999))",
        "9**9**9",
        "Pow(Pow(Pow(Pow(Pow(s0, 8), 8), 8), 8), 8)",
        "(" * 1500 + "1" + ")" * 1500,
        "1" + "0" * 30,
        "f'{s0}'",
        "",
        7,
    ],
)
def test_sizes_that_could_do_more_are_not(expression: object) -> None:
    assert not is_arithmetic(expression)
