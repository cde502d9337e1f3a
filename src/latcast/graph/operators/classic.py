"""Operators of ``ai.onnx.ml``: what converters of scikit-learn, LightGBM and XGBoost write.

The FLOPs of trees are comparisons. Maps (CastMap, DictVectorizer) are no tensors and have no row.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from math import prod
from typing import cast

from latcast.graph.ir import Tensor
from latcast.graph.operators.selection import infer_as_first
from latcast.graph.operators.table import Operator, OperatorView, define

ML = "ai.onnx.ml"
_LABELS = ("classlabels_ints", "classlabels_int64s", "classlabels_strings", "cats_int64s", "cats_strings")


def _rows(view: OperatorView) -> int:
    """Return how many samples there are; one axis is one sample."""
    x = view.shape()
    return x[0] if len(x) > 1 else 1


def _features(view: OperatorView) -> int:
    return view.shape()[-1] if view.shape() else 1


def _count(view: OperatorView, *names: str) -> int:
    """Return the length of the first of these lists that a node has."""
    lists = (cast("tuple[object, ...]", view.node.attributes[name]) for name in names if name in view.node.attributes)
    return next((len(each) for each in lists if each), 0)


def _reals(view: OperatorView) -> list[Tensor]:
    return [Tensor(view.shape(), "float32")]


def infer_encoded(view: OperatorView) -> list[Tensor]:
    """Return the shape of the input, of the type of the labels that replace the others."""
    kinds = {"values_floats": "float32", "values_int64s": "int64", "values_strings": "string"}
    found = next((dtype for name, dtype in kinds.items() if name in view.node.attributes), None)
    return [Tensor(view.shape(), found or ("int64" if view.dtype() == "string" else "string"))]


def infer_extracted(view: OperatorView) -> list[Tensor]:
    x = view.shape()
    return [Tensor((*(x[:-1] or (1,)), prod(view.shape(1))), view.dtype())]


def infer_vectorised(view: OperatorView) -> list[Tensor]:
    sizes = view.node.integers("inputdimensions", tuple(view.shape(index)[-1] for index in range(len(view.inputs))))
    return [Tensor((_rows(view), sum(sizes)), "float32")]


def infer_one_hot(view: OperatorView) -> list[Tensor]:
    return [Tensor((*view.shape(), _count(view, *_LABELS)), "float32")]


def _classified(view: OperatorView, scores: int) -> list[Tensor]:
    """Return a label and so many scores for every sample."""
    label = "string" if _count(view, "classlabels_strings") else "int64"
    return [Tensor((_rows(view),), label), Tensor((_rows(view), scores), "float32")][: len(view.node.outputs)]


def infer_linear_classifier(view: OperatorView) -> list[Tensor]:
    """Return scores of as many classes as have coefficients; of two classes one set of coefficients is enough."""
    classes = max(_count(view, "coefficients") // max(_features(view), 1), 1)
    return _classified(view, 2 if classes == 1 and _count(view, *_LABELS) == 2 else classes)


def macs_coefficients(view: OperatorView) -> int:
    return _rows(view) * _count(view, "coefficients")


def infer_targets(view: OperatorView) -> list[Tensor]:
    name = "targets" if "targets" in view.node.attributes else "n_targets"
    dtype = view.dtype() if view.node.op_type == "TreeEnsemble" else "float32"
    return [Tensor((_rows(view), view.node.integer(name, 1)), dtype)]


def infer_svm_classifier(view: OperatorView) -> list[Tensor]:
    """Return scores of each class, or without probabilities of each pair of classes."""
    classes = _count(view, *_LABELS)
    pairs = _count(view, "vectors_per_class") and not _count(view, "prob_a")
    return _classified(view, max(classes * (classes - 1) // 2, 2) if pairs and classes > 2 else max(classes, 2))


def _vectors(view: OperatorView) -> int:
    """Return how many support vectors, or sets of coefficients of a linear machine, there are."""
    stored = _count(view, "support_vectors") or _count(view, "coefficients")
    return stored // max(_features(view), 1)


def macs_vectors(view: OperatorView) -> int:
    """Count a product of every sample with every support vector."""
    return _rows(view) * _vectors(view) * _features(view)


def flops_vectors(view: OperatorView) -> int:
    """Count two per multiply-accumulate, and five for the kernel function and the sum of each."""
    return 2 * macs_vectors(view) + 5 * _rows(view) * _vectors(view)


def infer_tree_classifier(view: OperatorView) -> list[Tensor]:
    return _classified(view, max(_count(view, *_LABELS), 1))


@cache
def _leaf_depths(trees: tuple[int, ...], nodes: tuple[int, ...], true: tuple[int, ...], false: tuple[int, ...],
                 leaves: tuple[bool, ...]) -> tuple[int, float]:  # fmt: skip
    """Return how many trees there are, and the mean depth of their leaves added up over the trees."""
    depth: dict[tuple[int, int], int] = {}
    ends: dict[int, list[int]] = {}
    for tree, node, yes, no, leaf in zip(trees, nodes, true, false, leaves, strict=True):
        here = depth.setdefault((tree, node), 0)  # parents are written before their children
        if leaf:
            ends.setdefault(tree, []).append(here)
        else:
            depth[tree, yes] = depth[tree, no] = here + 1
    return len(ends), sum(sum(found) / len(found) for found in ends.values())


def flops_trees(view: OperatorView) -> int:
    """Count for every sample a comparison at each node on its way, to a leaf of mean depth, and a sum for each tree."""
    names = ("nodes_treeids", "nodes_nodeids", "nodes_truenodeids", "nodes_falsenodeids")
    modes = cast("Iterable[str]", view.node.attributes.get("nodes_modes", ()))
    count, depths = _leaf_depths(*(view.node.integers(name) for name in names), tuple(mode == "LEAF" for mode in modes))
    return round(_rows(view) * (depths + count))


def flops_tree_ensemble(view: OperatorView) -> int:
    """Count as for :func:`flops_trees`: leaves of the fifth version are numbered apart, and roots are listed."""
    true, false = view.node.integers("nodes_truenodeids"), view.node.integers("nodes_falsenodeids")
    ends = view.node.integers("nodes_trueleafs"), view.node.integers("nodes_falseleafs")
    total = 0.0
    roots = view.node.integers("tree_roots")
    for root in roots:
        found: list[int] = []
        waiting, met = [(root, 0)], {root}
        while waiting:
            place, depth = waiting.pop()
            for child, leaf in ((true[place], ends[0][place]), (false[place], ends[1][place])):
                if leaf:
                    found.append(depth + 1)
                elif child not in met:
                    met.add(child)
                    waiting.append((child, depth + 1))
        total += sum(found) / max(len(found), 1)
    return round(_rows(view) * (total + len(roots)))


def flops_macs_of(view: OperatorView) -> int:
    """Count two per multiply-accumulate of coefficients."""
    return 2 * macs_coefficients(view)


_ml = partial(Operator, domain=ML)

define(
    _ml("ArrayFeatureExtractor", infer_extracted, picks=True),
    _ml("Binarizer", infer_as_first, each=1),
    _ml("CategoryMapper", infer_encoded, each=1),
    _ml("FeatureVectorizer", infer_vectorised),
    _ml("Imputer", infer_as_first, each=1),
    _ml("LabelEncoder", infer_encoded, each=1),
    _ml("LinearClassifier", infer_linear_classifier, flops_macs_of, macs_coefficients),
    _ml("LinearRegressor", infer_targets, flops_macs_of, macs_coefficients),
    _ml("Normalizer", _reals, each=3),
    _ml("OneHotEncoder", infer_one_hot, each=1),
    _ml("SVMClassifier", infer_svm_classifier, flops_vectors, macs_vectors),
    _ml("SVMRegressor", infer_targets, flops_vectors, macs_vectors),
    _ml("Scaler", _reals, each=2),
    _ml("TreeEnsemble", infer_targets, flops_tree_ensemble),
    _ml("TreeEnsembleClassifier", infer_tree_classifier, flops_trees),
    _ml("TreeEnsembleRegressor", infer_targets, flops_trees),
    _ml("ZipMap", _reals),
)
