"""Opening a ``.pt2`` archive of ``torch.export.save`` without running what a stranger put into it.

``torch.export.load`` runs code of whoever made the file in many places: it unpickles sample inputs, weights and constants
marked ``use_pickle``, and custom objects; it loads compiled libraries; it evaluates size expressions and guards; it writes the
names of inputs and nodes into Python source, which it executes; and the target of a node may be any function below ``torch``,
such as ``torch.ops.load_library``. It also reads the archive with a parser of its own, which takes ``X.PT`` for ``x.pt``.

So PyTorch never sees the file itself. Members are taken by their exact names, checked, and written to a new archive without
what nobody needs for a graph (sample inputs, guards, what nodes remember of their source); PyTorch loads that. Nothing in it
is unpickled. Whatever is not on the lists here is refused, for the user to allow with ``trust`` if he knows who made the file.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from latcast.errors import ModelError
from latcast.reading import UNREADABLE_ZIP, open_zip

MAX_MEMBERS = 100_000
MAX_JSON_BYTES = 64 << 20
"""What a program of 20,000 operators takes."""
MAX_EXPRESSION_CHARACTERS = 2000

_PROGRAM = "models/model.json"
_SAMPLE_INPUTS = "data/sample_inputs/model.pt"
_CONFIGS = {
    "data/weights/model_weights_config.json": ("data/weights/", re.compile(r"weight_\d{1,9}")),
    "data/constants/model_constants_config.json": ("data/constants/", re.compile(r"tensor_\d{1,9}")),
}
"""Lists of tensors: the folder in which their bytes lie, and how the members are called."""
_TENSOR = re.compile(r"data/(weights/weight|constants/tensor)_\d{1,9}")
_COPIED = frozenset({"archive_format", "archive_version", "byteorder", ".data/version", "version"})
_LEFT_OUT = re.compile(r"extra/.*|\.data/serialization_id|\.format_version|\.storage_alignment")
_PICKLED = re.compile(r"(?i).*(custom_obj_|opaque_obj_)[^/]*|.*\.(pt|pth|pkl)")
_COMPILED = re.compile(r"(?i)(.*/)?(aotinductor|executorch|xl_model_weights|mtia)/.*|.*\.(so|dll|dylib|pyd|cpp)")

_NAMESPACES = r"aten|prims|quantized_decomposed|torchvision|onnx|onnx_symbolic"
_HIGHER_ORDER = (
    r"cond|while_loop|scan|map_impl|wrap_with_set_grad_enabled|wrap_with_autocast|invoke_subgraph|associative_scan|"
    r"flex_attention|auto_functionalized|auto_functionalized_v2"
)
_PYTHON = r"eq|ne|le|ge|lt|gt|neg|pos|mul|add|sub|floordiv|mod|pow|truediv|and_|or_|lshift|rshift|getitem"
_TARGET = re.compile(
    rf"torch\.ops\.({_NAMESPACES})(\.(?!_?_\w*__)\w+){{1,2}}|torch\.ops\.higher_order\.({_HIGHER_ORDER})|"
    rf"_operator\.({_PYTHON})|math\.trunc|torch\.sym_(not|int|float|ite|max|min|sqrt)"
)
"""Targets of nodes that are functions of numbers and tensors."""
_REACHING_OUT = re.compile(r"torch\.ops\.aten\.(from_file|save|load)\b.*")

_CONTAINERS = frozenset({"builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})
"""Types of the containers in which inputs and outputs come; PyTorch imports modules for others."""

_IDENTIFIER = re.compile(r"(?!__\w*__\Z)[A-Za-z_]\w{0,200}", re.ASCII)
_PATH = re.compile(r"(?!(.*\.)?__\w*__(\.|@|\Z))[\w.@-]{0,1000}", re.ASCII)
"""A tensor or module in its modules: ``layer1.0.conv.weight``; ``@1`` marks the second call of a module."""
_PLAIN_TEXT = re.compile(r"[\w .,:;>+-]{0,1000}", re.ASCII)
"""Such as ``tanh``, ``cuda:0`` or ``bij,bjk->bik``: no quote to end a literal with, no bracket to call anything with."""
_PATH_KEYS = frozenset({"parameter_name", "buffer_name", "tensor_constant_name", "custom_obj_name", "fqn"})
_CHECKED_APART = {"target", "as_operator", "in_spec", "out_spec", "expr_str"}
"""Texts with rules of their own."""


def open_checked(path: Path) -> IO[bytes]:
    """An archive that ``torch.export.load`` can be given: what is harmless of a file.

    Raises:
        ModelError: The file is damaged, or could run code when it is loaded.
    """
    checked = tempfile.TemporaryFile(prefix="latcast-")  # noqa: SIM115 - the caller closes it
    try:
        with (
            open_zip(path, error=ModelError, most_members=MAX_MEMBERS) as archive,
            zipfile.ZipFile(checked, "w", zipfile.ZIP_STORED) as copy,
        ):
            _Check(path, archive).write(copy)
    except ModelError:
        checked.close()
        raise
    except UNREADABLE_ZIP as error:
        checked.close()
        raise ModelError(f"'{path}' is damaged or no archive of torch.export.save: {error}") from error
    checked.seek(0)
    return checked


class _Check:
    """One archive being checked and copied."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self.archive = archive
        self.members = self._named()

    def _named(self) -> dict[str, zipfile.ZipInfo]:
        """The members by their name below the one folder that all lie in."""
        entries = self.archive.infolist()
        if not entries:
            raise self._damaged("it holds nothing")
        root = entries[0].filename.partition("/")[0]
        members: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            folder, _, name = entry.filename.partition("/")
            if folder != root or not name:
                raise self._damaged(f"member '{entry.filename[:80]}' lies outside its folder '{root[:40]}'")
            if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
                raise self._damaged(f"member '{name[:80]}' is compressed; torch.export.save does not do that")
            members[name] = entry
        claimed, held = sum(entry.file_size for entry in entries), self.path.stat().st_size
        if claimed > held:
            raise self._damaged(f"its members would take {claimed} bytes, the file has {held}")
        return members

    def write(self, copy: zipfile.ZipFile) -> None:
        """Writes what is harmless.

        Raises:
            ModelError: Something is not.
        """
        for name in self.members:
            if not (name in _COPIED or name in _CONFIGS or name in (_PROGRAM, _SAMPLE_INPUTS)):
                self._check_name(name)
        missing = sorted({_PROGRAM, *_CONFIGS} - self.members.keys())
        if missing:
            raise self._damaged(f"it lacks '{missing[0]}'")
        folder = "package"
        for name, entry in self.members.items():
            if name in _COPIED:
                copy.writestr(f"{folder}/{name}", self._read(name, 4096))
            elif _TENSOR.fullmatch(name):
                with self.archive.open(entry) as source, copy.open(f"{folder}/{name}", "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        for name in _CONFIGS:
            copy.writestr(f"{folder}/{name}", json.dumps(self._config(name)))
        copy.writestr(f"{folder}/{_PROGRAM}", json.dumps(self._program()))
        # Empty sample inputs are none: PyTorch unpickles no others, and the exporter needs none.
        copy.writestr(f"{folder}/{_SAMPLE_INPUTS}", b"")

    def _check_name(self, name: str) -> None:
        if _TENSOR.fullmatch(name) or _LEFT_OUT.fullmatch(name):
            return
        if _COMPILED.fullmatch(name):
            raise self._refused(f"compiled code ({name[:80]})")
        if _PICKLED.fullmatch(name):
            raise self._refused(f"a pickled object ({name[:80]})")
        raise self._refused(f"'{name[:80]}', which ordinary archives do not hold")

    def _read(self, name: str, limit: int) -> bytes:
        entry = self.members[name]
        if entry.file_size > limit:
            raise self._damaged(f"member '{name}' takes {entry.file_size} bytes; at most {limit} are read")
        with self.archive.open(entry) as file:
            return file.read(limit)

    def _json(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads(self._read(name, MAX_JSON_BYTES))
        except (UnicodeDecodeError, ValueError, RecursionError) as error:
            raise self._damaged(f"{name} is no JSON ({type(error).__name__}: {str(error)[:80]})") from error
        if not isinstance(content, dict):
            raise self._damaged(f"{name} is no JSON object")
        self._check_expressions(content)
        return content

    def _config(self, name: str) -> dict[str, Any]:
        folder, pattern = _CONFIGS[name]
        content = self._json(name)
        entries = content.get("config")
        if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
            raise self._damaged(f"{name} lists no tensors")
        for label, entry in entries.items():
            if entry.get("use_pickle") is not False:
                raise self._refused(f"a pickled tensor ('{label[:40]}' in {name})")
            member = entry.get("path_name")
            if not isinstance(member, str) or not pattern.fullmatch(member):
                raise self._refused(f"a pickled object ('{label[:40]}' in {name} lies in '{str(member)[:40]}')")
            if f"{folder}{member}" not in self.members:
                raise self._damaged(f"it lacks '{folder}{member}'")
        checked = {"config": entries}
        self._check_texts(checked)
        return checked

    def _program(self) -> dict[str, Any]:
        """The program without guards and without what its nodes remember of their source."""
        program = self._json(_PROGRAM)
        for value in _objects(program):
            target = value.get("target")
            if isinstance(target, str) and ("inputs" in value or "outputs" in value):
                self._check_target(target)
                value["metadata"] = {}
                if ".aten._assert_" in target:
                    self._drop_messages(value)
            elif "target" in value:
                self._check_target(target)
            if "as_operator" in value:
                self._check_target(value["as_operator"])
            for key in ("in_spec", "out_spec"):
                if key in value:
                    self._check_containers(value[key])
            if any(value.get(key) for key in ("as_custom_obj", "custom_obj", "custom_obj_values")):
                raise self._refused("a custom object among its tensors")
            for key in ("metadata", "treespec_namedtuple_fields"):
                if key in value and "module_call_graph" in value:
                    value[key] = {}
        program["guards_code"] = []
        self._check_texts(program)
        return program

    def _drop_messages(self, node: dict[str, Any]) -> None:
        """What an assertion would say quotes code; nobody reads it."""
        for value in _objects(node.get("inputs")):
            if "as_string" in value:
                value["as_string"] = ""

    def _check_texts(self, content: object) -> None:
        """Names become Python source that PyTorch executes, and so may other texts: each is one of a few harmless kinds."""
        waiting: list[tuple[str, object, bool]] = [("", content, False)]
        while waiting:
            key, value, is_argument = waiting.pop()
            if isinstance(value, dict):
                for name, inner in value.items():
                    if not (_is_identifier(name) or _is_name_of_its_own(key, name)):
                        raise self._refused(f"the name '{name[:60]}'")
                    # An operator's parameter may be called 'from'; where it is nothing, it goes by its place.
                    waiting.append((name, inner, name == "name" and "arg" in value))
            elif isinstance(value, list):
                waiting += ((key, inner, is_argument) for inner in value)
            elif key in _PATH_KEYS:
                if value is not None and not (isinstance(value, str) and _PATH.fullmatch(value)):
                    raise self._refused(f"the name '{str(value)[:60]}'")
            elif key.endswith(("name", "names")):
                allowed = value is None or _is_identifier(value) or (is_argument and value in ("", *keyword.kwlist))
                if not allowed and key != "path_name":
                    raise self._refused(f"the name '{str(value)[:60]}'")
            elif isinstance(value, str) and key not in _CHECKED_APART and not _PLAIN_TEXT.fullmatch(value):
                raise self._refused(f"the text '{value[:60]}' as its '{key[:40]}'")

    def _check_target(self, target: object) -> None:
        if not isinstance(target, str) or not _TARGET.fullmatch(target) or _REACHING_OUT.fullmatch(target):
            raise self._refused(f"a call of '{str(target)[:60]}'")

    def _check_containers(self, text: object) -> None:
        """Inputs and outputs come in tuples, lists and dictionaries, described by JSON within the JSON."""
        try:
            content = json.loads(text) if isinstance(text, str) and text else []
        except (ValueError, RecursionError) as error:
            raise self._damaged("its description of inputs is no JSON") from error
        for value in _objects(content):
            kind, context = value.get("type"), value.get("context")
            if kind is not None and not (isinstance(kind, str) and kind in _CONTAINERS):
                raise self._refused(f"inputs or outputs in a '{str(kind)[:60]}'")
            if not _is_list_of_keys(context):
                raise self._refused("inputs or outputs in a container of a kind of its own")

    def _check_expressions(self, content: object) -> None:
        """Symbolic sizes are evaluated as Python: they must be plain arithmetic."""
        for value in _objects(content):
            if "expr_str" in value and not is_arithmetic(value["expr_str"]):
                raise self._refused(f"the size expression '{str(value['expr_str'])[:40]}'")

    def _damaged(self, what: str) -> ModelError:
        return ModelError(f"'{self.path}' is damaged or no archive of torch.export.save: {what}")

    def _refused(self, what: str) -> ModelError:
        return ModelError(
            f"'{self.path}' holds {what}, which could run code when it is loaded; export the model to ONNX or save it "
            "again with a newer torch.export.save, or say --trust (trust=True in Python) if you know who made it"
        )


def _is_identifier(name: object) -> bool:
    return isinstance(name, str) and _IDENTIFIER.fullmatch(name) is not None and not keyword.iskeyword(name)


def _is_name_of_its_own(of: str, name: str) -> bool:
    """Keys that are not written into source: those of tensors and of the ranges of sizes."""
    return (of == "config" and _PATH.fullmatch(name) is not None) or (of == "range_constraints" and is_arithmetic(name))


def _is_list_of_keys(context: object) -> bool:
    """Whether a container says nothing of itself but its keys, in JSON.

    Keys of named inputs become parameters of a function that PyTorch writes. An object instead of a key names a class, for
    which PyTorch would import a module.
    """
    if context is None:
        return True
    try:
        keys = json.loads(context) if isinstance(context, str) else False
    except (ValueError, RecursionError):
        return False
    if keys is None:
        return True
    return isinstance(keys, list) and all(isinstance(key, int) or (isinstance(key, str) and _PATH.fullmatch(key)) for key in keys)


def _objects(content: object) -> Iterator[dict[str, Any]]:
    """Every JSON object in a value."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


# Size expressions, as sympy's srepr writes them: Add(Symbol('s53', positive=True, integer=True), Integer(-2))

_FUNCTIONS = frozenset({
    "Symbol", "Integer", "Rational", "Float", "Add", "Mul", "Pow", "Max", "Min", "Mod", "PythonMod", "FloorDiv", "CleanDiv",
    "CeilDiv", "IntTrueDiv", "FloatTrueDiv", "PowByNatural", "ToFloat", "TruncToInt", "CeilToInt", "FloorToInt", "RoundToInt",
    "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "StrictLessThan", "StrictGreaterThan", "LessThan", "GreaterThan", "Equality",
    "Unequality", "Where", "And", "Or", "Not", "ModularIndexing",
})  # fmt: skip
_ASSUMPTIONS = frozenset({"positive", "negative", "nonnegative", "integer", "real", "zero", "finite", "precision"})
_SYMBOL = re.compile(r"[a-z]{1,4}\d{1,9}")
_NUMBER_TEXT = re.compile(r"-?\d{1,20}(\.\d{0,20})?(e[+-]?\d{1,3})?")
_LARGEST_NUMBER = 1 << 64
_LARGEST_EXPONENT, _MOST_POWERS = 8, 4
_OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def is_arithmetic(expression: object) -> bool:
    """Whether a symbolic size only adds, multiplies and compares symbols and numbers, and is quickly worked out."""
    if not isinstance(expression, str) or len(expression) > MAX_EXPRESSION_CHARACTERS:
        return False
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    powers = 0
    for node in ast.walk(tree.body):
        if not _is_plain(node):
            return False
        exponent = _exponent(node)
        if exponent is not None:
            powers += 1
            if powers > _MOST_POWERS or not _is_small(exponent):
                return False
    return True


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and _symbol_is_named(node)
    if isinstance(node, ast.Name):
        return node.id in _FUNCTIONS or _SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.keyword):
        return node.arg in _ASSUMPTIONS and isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, str):
            return bool(_SYMBOL.fullmatch(value) or _NUMBER_TEXT.fullmatch(value))
        return isinstance(value, (bool, int, float)) and abs(value) < _LARGEST_NUMBER
    return isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Load, *_OPERATIONS, *_COMPARISONS))


def _symbol_is_named(call: ast.Call) -> bool:
    """Texts stand where symbols and real numbers are made, and nowhere else: functions would evaluate them."""
    texts = [argument for argument in call.args if isinstance(argument, ast.Constant) and isinstance(argument.value, str)]
    assert isinstance(call.func, ast.Name)
    return not texts or (call.func.id in ("Symbol", "Float") and len(call.args) == 1)


def _exponent(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return node.right
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and "Pow" in node.func.id:
        return node.args[1] if len(node.args) == 2 else node
    return None


def _is_small(exponent: ast.expr) -> bool:
    if isinstance(exponent, ast.Call) and isinstance(exponent.func, ast.Name) and exponent.func.id == "Integer":
        exponent = exponent.args[0] if len(exponent.args) == 1 else exponent
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    return isinstance(exponent, ast.Constant) and type(exponent.value) is int and exponent.value <= _LARGEST_EXPONENT
