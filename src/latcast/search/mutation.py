"""Mutation of encodings: choices have no order, so one that changes is drawn anew."""

from __future__ import annotations

from typing import Any

import numpy as np

CHANGES = 2.0
"""Choices of a network that change, on average."""


def choice_mutation(choices: np.ndarray) -> Any:
    """A mutation operator of pymoo for columns with so many choices each."""
    from pymoo.core.mutation import Mutation

    class ChoiceMutation(Mutation):  # type: ignore[misc]
        """Draws each column anew with a small probability."""

        def _do(self, problem: Any, X: np.ndarray, *, random_state: np.random.Generator, **options: Any) -> np.ndarray:
            changes = random_state.random(X.shape) < min(0.5, CHANGES / len(choices))
            return np.where(changes, random_state.integers(0, choices, size=X.shape), X)

    return ChoiceMutation()
