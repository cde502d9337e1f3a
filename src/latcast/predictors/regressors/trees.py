"""Boosted trees on analytical terms.

Trees are trained by LightGBM, kept as plain arrays and evaluated by numpy: no training library is needed to predict, and a bundle
of today loads when that library is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from latcast.errors import BundleError
from latcast.predictors.regressors import Arrays

CHUNK_CELLS = 400_000
"""Rows x trees evaluated at once, so that memory stays bounded and mostly in cache."""

MANY_ROWS = 100
"""From so many rows on, working out the bit vectors of the trees pays."""

MOST_LEAVES = 64
"""Trees with more leaves than a machine word has bits are walked."""


@dataclass(frozen=True)
class TreeEnsemble:
    """Sum of trees: all nodes of all trees one after another.

    Attributes:
        feature: (nodes,) column tested; 0 in a leaf.
        threshold: (nodes,) go left where the value is at most this; +inf in a leaf.
        left, right: (nodes,) children, after their parent; a leaf is its own child.
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

    @cached_property
    def columns(self) -> int:
        """Return how many columns of features the trees look at."""
        return int(self.feature.max()) + 1 if len(self.feature) else 0

    def sum(self, features: np.ndarray) -> np.ndarray:
        """Sum over the trees, (rows,), of features (rows, columns).

        Raises:
            BundleError: A tree tests a column that the features do not have.
        """
        rows = len(features)
        result = np.zeros(rows)
        if not len(self.roots) or not rows:
            return result
        if features.shape[1] < self.columns:
            raise BundleError(
                f"a tree tests feature {self.columns} of kernels that have {features.shape[1]}; "
                "the trees were trained by another version of latcast; train them again"
            )
        scorer = self._bit_vectors if rows >= MANY_ROWS else None
        step = max(1, CHUNK_CELLS // len(self.roots))
        for start in range(0, rows, step):
            part = np.ascontiguousarray(features[start : start + step])
            result[start : start + step] = self._walk(part) if scorer is None else scorer.sum(part)
        return result

    def _walk(self, features: np.ndarray) -> np.ndarray:
        flat = features.reshape(-1)
        base = (np.arange(len(features)) * features.shape[1])[:, None]
        place = np.broadcast_to(self.roots, (len(features), len(self.roots))).copy()
        for _ in range(self.depth):
            low = flat[base + self.feature[place]] <= self.threshold[place]
            place = np.where(low, self.left[place], self.right[place])
        return np.asarray(self.value[place].sum(axis=1))

    @cached_property
    def _bit_vectors(self) -> _BitVectors | None:
        return _BitVectors.of(self)

    def levels(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Return the inner nodes from the roots down, with the numbers of their trees."""
        nodes, trees = self.roots, np.arange(len(self.roots))
        while len(nodes):
            inner = self.left[nodes] != nodes
            nodes, trees = nodes[inner], trees[inner]
            yield nodes, trees
            nodes = np.concatenate([self.left[nodes], self.right[nodes]])
            trees = np.concatenate([trees, trees])

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
        """Rebuild an ensemble from what :meth:`arrays` gave.

        Raises:
            BundleError: The arrays do not form trees; evaluating them could fail, or never end.
            KeyError: An array is missing.
        """
        found = cls(
            arrays["feature"], arrays["threshold"], arrays["left"], arrays["right"], arrays["value"], arrays["roots"],
            int(arrays["depth"][0]),
        )  # fmt: skip
        problem = found._flaw()
        if problem:
            raise BundleError(f"a tree ensemble is damaged: {problem}")
        return found

    def _flaw(self) -> str | None:
        """Return the reason why these arrays are not trees, or None."""
        per_node = (self.feature, self.threshold, self.left, self.right, self.value)
        count = len(self.value)
        if any(array.shape != (count,) for array in per_node) or self.roots.ndim != 1:
            return "its arrays differ in length"
        if any(array.dtype.kind not in "iu" for array in (self.feature, self.left, self.right, self.roots)):
            return "a node's number or column is not an integer"
        if not np.isfinite(self.value).all() or np.isnan(self.threshold).any():
            return "a value is not finite"
        if count and self.feature.min() < 0:
            return "a column is negative"
        if len(self.roots) and not 0 <= self.roots.min() <= self.roots.max() < count:
            return "a root lies outside the nodes"
        own = np.arange(count)
        inner = self.left != own
        children = np.concatenate([self.left[inner], self.right[inner]])
        if ((self.right != own) != inner).any() or (children <= np.concatenate([own[inner], own[inner]])).any():
            return "a child stands before its parent"
        if len(children) and children.max() >= count:
            return "a child lies outside the nodes"
        parents = np.bincount(np.concatenate([children, self.roots]), minlength=count)
        if count and parents.max() > 1:
            return "a node belongs to two trees"
        if sum(1 for nodes, _ in self.levels() if len(nodes)) > self.depth:
            return f"a path is longer than its stated depth of {self.depth}"
        return None if self.depth <= count else f"its stated depth of {self.depth} is more than it has nodes"

    @classmethod
    def from_lightgbm(cls, text: str) -> TreeEnsemble:
        """Read ``Booster.model_to_string()``; numerical splits only, no missing values (features are always finite).

        A tree's inner nodes come first, in the order in which they were split, then its leaves. The text is read, as LightGBM's
        nested dictionary takes longer to make than the trees take to train.
        """
        blocks = text.partition("\nend of trees")[0].split("\nTree=")[1:]
        trees = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in blocks]
        return cls._joined(
            [
                (
                    np.array(tree.get("split_feature", "").split(), dtype=np.int32),
                    np.array(tree.get("threshold", "").split(), dtype=np.float64),
                    np.array(tree.get("left_child", "").split(), dtype=np.int32),
                    np.array(tree.get("right_child", "").split(), dtype=np.int32),
                    np.array(tree["leaf_value"].split(), dtype=np.float64),
                )
                for tree in trees
            ]
        )

    @classmethod
    def of_values(cls, values: Sequence[float]) -> TreeEnsemble:
        """Return trees of one leaf each."""
        none = np.zeros(0, dtype=np.int32)
        return cls._joined([(none, np.zeros(0), none, none, np.array([value])) for value in values])

    @classmethod
    def _joined(cls, trees: Sequence[tuple[np.ndarray, ...]]) -> TreeEnsemble:
        """Join trees: columns, thresholds and children of the inner nodes (a leaf as ~its number), and leaf values."""
        sizes = [(len(tree[0]), len(tree[4])) for tree in trees]
        starts = np.cumsum([0, *(inner + leaves for inner, leaves in sizes)])
        count = int(starts[-1])
        feature, threshold, value = np.zeros(count, dtype=np.int32), np.full(count, np.inf), np.zeros(count)
        left = np.arange(count, dtype=np.int32)
        right = left.copy()
        for start, (inner, _), (columns, thresholds, lefts, rights, leaves) in zip(starts.tolist(), sizes, trees, strict=False):
            own = slice(start, start + inner)
            feature[own], threshold[own] = columns, thresholds
            for side, children in ((left, lefts), (right, rights)):
                side[own] = start + np.where(children < 0, inner + ~children, children)
            value[start + inner : start + inner + len(leaves)] = leaves
        found = cls(feature, threshold, left, right, value, starts[:-1].astype(np.int32), 0)
        return replace(found, depth=sum(1 for nodes, _ in found.levels() if len(nodes)))


@dataclass(frozen=True)
class _BitVectors:
    """Trees as bit vectors (QuickScorer: Lucchese et al., SIGIR 2015, §3).

    A bit a leaf, the leftmost leaf lowest. A test that fails rules out all leaves left of it; the leaf reached is the lowest
    one that no failed test rules out. Failing a test of a column fails all tests of smaller thresholds too, so what a value
    rules out in all trees at once is looked up by its rank among the column's thresholds.

    Attributes:
        columns: The columns that are tested.
        thresholds: For each of them, its distinct thresholds in ascending order.
        left_over: For each of them, (thresholds + 1, trees): leaves not ruled out, by rank.
        values: (trees * leaves,) what each leaf adds.
        offsets: (trees,) where each tree's leaves begin in ``values``.
    """

    columns: tuple[int, ...]
    thresholds: tuple[np.ndarray, ...]
    left_over: tuple[np.ndarray, ...]
    values: np.ndarray
    offsets: np.ndarray
    word: type[np.unsignedinteger[Any]]

    @classmethod
    def of(cls, ensemble: TreeEnsemble) -> _BitVectors | None:
        """Return the bit vectors; None where a tree has more leaves than a word has bits."""
        levels = list(ensemble.levels())
        left, right = ensemble.left, ensemble.right
        leaves = np.ones(len(ensemble.value), dtype=np.int64)
        for nodes, _ in reversed(levels):
            leaves[nodes] = leaves[left[nodes]] + leaves[right[nodes]]
        most = int(leaves[ensemble.roots].max())
        if most > MOST_LEAVES:
            return None
        first = np.zeros(len(leaves), dtype=np.int64)
        tree_of = np.zeros(len(leaves), dtype=np.int64)
        tree_of[ensemble.roots] = np.arange(len(ensemble.roots))
        for nodes, trees in levels:
            first[left[nodes]] = first[nodes]
            first[right[nodes]] = first[nodes] + leaves[left[nodes]]
            tree_of[left[nodes]] = tree_of[right[nodes]] = trees
        values = np.zeros(len(ensemble.roots) * most)
        reached = np.concatenate([ensemble.roots, *(np.concatenate([left[nodes], right[nodes]]) for nodes, _ in levels)])
        ends = reached[left[reached] == reached]
        values[tree_of[ends] * most + first[ends]] = ensemble.value[ends]
        word = next(kind for kind, bits in ((np.uint16, 16), (np.uint32, 32), (np.uint64, 64)) if most <= bits)
        inner = np.concatenate([nodes for nodes, _ in levels])
        one = np.uint64(1)
        ruled_out = ((one << leaves[left[inner]].astype(np.uint64)) - one) << first[inner].astype(np.uint64)
        keep = (~ruled_out).astype(word)
        columns, thresholds, left_over = [], [], []
        for column in np.unique(ensemble.feature[inner]):
            rows = np.flatnonzero(ensemble.feature[inner] == column)
            distinct, rank = np.unique(ensemble.threshold[inner[rows]], return_inverse=True)
            table = np.full((len(distinct) + 1, len(ensemble.roots)), ~word(0), dtype=word)
            np.bitwise_and.at(table, (rank + 1, tree_of[inner[rows]]), keep[rows])
            columns.append(int(column))
            thresholds.append(distinct)
            left_over.append(np.bitwise_and.accumulate(table, axis=0))
        offsets = np.arange(len(ensemble.roots)) * most
        return cls(tuple(columns), tuple(thresholds), tuple(left_over), values, offsets, word)

    def sum(self, features: np.ndarray) -> np.ndarray:
        left_over = np.full((len(features), len(self.offsets)), ~self.word(0), dtype=self.word)
        for column, thresholds, table in zip(self.columns, self.thresholds, self.left_over, strict=True):
            left_over &= table[np.searchsorted(thresholds, features[:, column])]
        lowest = left_over & (~left_over + self.word(1))
        leaf = np.frexp(lowest.astype(np.float32))[1] - 1
        return np.asarray(self.values[leaf + self.offsets].sum(axis=1))


def train_trees(
    features: np.ndarray,
    target: np.ndarray,
    parameters: Mapping[str, Any],
    rounds: int,
    *,
    weight: np.ndarray | None = None,
    seed: int = 0,
) -> TreeEnsemble:
    """Train with LightGBM on one thread (so that a seed gives the same trees everywhere)."""
    import lightgbm

    settings = {
        "objective": "l2", "verbosity": -1, "num_threads": 1, "deterministic": True, "force_row_wise": True,
        "seed": seed, "boost_from_average": True, "min_data_in_bin": 1, **parameters,
    }  # fmt: skip
    data = lightgbm.Dataset(features, target, weight=weight, params={"verbosity": -1, "min_data_in_bin": 1})
    booster = lightgbm.train(settings, data, num_boost_round=rounds)
    return TreeEnsemble.from_lightgbm(booster.model_to_string())


@dataclass(frozen=True)
class LogResidual:
    """Predicts a factor around 1 (the "latency" it is trained on is the ratio to the analytical base).

    In logarithms its squared error is, to first order, the squared percentage error. Other numbers of trees and leaves, chosen by
    cross-validation on the kernels, made networks of other families worse.
    """

    ensemble: TreeEnsemble
    kind: ClassVar[str] = "log_residual"

    @classmethod
    def fit(cls, features: np.ndarray, latency_ms: np.ndarray, *, seed: int = 0) -> LogResidual:
        """See :class:`latcast.predictors.regressors.Regressor`."""
        parameters = {
            "learning_rate": 0.06, "num_leaves": 15, "min_data_in_leaf": 5 if len(latency_ms) > 200 else 3,
            "feature_fraction": 0.7, "bagging_fraction": 0.8, "bagging_freq": 1, "lambda_l2": 1.0,
        }  # fmt: skip
        # A path without vector instructions may take ten times as long; further out are measurement accidents.
        target = np.clip(np.log(latency_ms), -3.0, 3.0)
        return cls(train_trees(features, target, parameters, 200, seed=seed))

    def predict(self, features: np.ndarray) -> np.ndarray:
        return np.exp(self.ensemble.sum(features))

    def arrays(self) -> Arrays:
        return self.ensemble.arrays()

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> LogResidual:
        return cls(TreeEnsemble.from_arrays(arrays))
