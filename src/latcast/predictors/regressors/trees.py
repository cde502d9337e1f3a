"""Ensembles of decision trees as plain arrays, evaluated by numpy.

Trees are trained by LightGBM and kept as arrays: no training library is needed to predict, and a bundle of today loads when
that library is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CHUNK_CELLS = 4_000_000
"""Rows x trees walked at once, so that memory stays bounded."""


@dataclass(frozen=True)
class TreeEnsemble:
    """Sum of trees: all nodes of all trees one after another.

    Attributes:
        feature: (nodes,) column tested; 0 in a leaf.
        threshold: (nodes,) go left where the value is at most this; +inf in a leaf.
        left, right: (nodes,) children; a leaf is its own child.
        value: (nodes,) what a leaf adds.
        roots: (trees,).
        depth: Longest path in edges.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    roots: np.ndarray
    depth: int

    def sum(self, features: np.ndarray) -> np.ndarray:
        """Sum over the trees, (rows,), of features (rows, columns)."""
        rows = len(features)
        result = np.zeros(rows)
        if not len(self.roots) or not rows:
            return result
        step = max(1, CHUNK_CELLS // len(self.roots))
        for start in range(0, rows, step):
            part = np.ascontiguousarray(features[start : start + step])
            flat = part.reshape(-1)
            base = (np.arange(len(part)) * part.shape[1])[:, None]
            place = np.broadcast_to(self.roots, (len(part), len(self.roots))).copy()
            for _ in range(self.depth):
                low = flat[base + self.feature[place]] <= self.threshold[place]
                place = np.where(low, self.left[place], self.right[place])
            result[start : start + step] = self.value[place].sum(axis=1)
        return result

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "feature": self.feature.astype(np.int32),
            "threshold": self.threshold,
            "left": self.left.astype(np.int32),
            "right": self.right.astype(np.int32),
            "value": self.value,
            "roots": self.roots.astype(np.int32),
            "depth": np.array([self.depth], dtype=np.int32),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> TreeEnsemble:
        return cls(
            arrays["feature"], arrays["threshold"], arrays["left"], arrays["right"], arrays["value"], arrays["roots"],
            int(arrays["depth"][0]),
        )  # fmt: skip

    @classmethod
    def from_lightgbm(cls, dump: Mapping[str, Any]) -> TreeEnsemble:
        """From ``Booster.dump_model()``; numerical splits only, no missing values (features are always finite)."""
        feature: list[int] = []
        threshold: list[float] = []
        left: list[int] = []
        right: list[int] = []
        value: list[float] = []
        roots: list[int] = []
        deepest = 0

        def add(node: Mapping[str, Any], depth: int) -> int:
            nonlocal deepest
            deepest = max(deepest, depth)
            index = len(feature)
            leaf = "split_feature" not in node
            feature.append(0 if leaf else int(node["split_feature"]))
            threshold.append(np.inf if leaf else float(node["threshold"]))
            value.append(float(node["leaf_value"]) if leaf else 0.0)
            left.append(index)
            right.append(index)
            if not leaf:
                left[index] = add(node["left_child"], depth + 1)
                right[index] = add(node["right_child"], depth + 1)
            return index

        trees: Sequence[Mapping[str, Any]] = dump["tree_info"]
        for tree in trees:
            roots.append(add(tree["tree_structure"], 0))
        return cls(
            np.array(feature, dtype=np.int32), np.array(threshold), np.array(left, dtype=np.int32),
            np.array(right, dtype=np.int32), np.array(value), np.array(roots, dtype=np.int32), deepest,
        )  # fmt: skip
