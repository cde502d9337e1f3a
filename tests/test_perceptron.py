"""Products of small matrices, in portions that BLAS does not share out between threads."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from latcast.perceptron import ALONE, product


# 28 rows by 96 x 96 are 258,048 multiply-accumulates, 29 are more than 262,144.
@pytest.mark.parametrize("rows", [1, 28, 29, 64, 257])
def test_a_product_in_portions_is_the_product(rows: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = rng.random((rows, 96)), rng.random((96, 96))
    out = np.empty((rows, 96))

    assert np.allclose(product(a, b), a @ b, rtol=1e-12)
    assert product(a, b.T, out=out) is out
    assert np.allclose(out, a @ b.T, rtol=1e-12)


def test_a_matrix_that_is_too_large_for_portions_is_multiplied_at_once() -> None:
    b = np.ones((600, 600))
    assert b.size > ALONE

    assert np.array_equal(product(np.ones((3, 600)), b), np.full((3, 600), 600.0))


def test_other_threads_take_no_part() -> None:
    code = """
import time
import numpy as np
from latcast.perceptron import product
a, b = np.ones((64, 96)), np.ones((96, 96))
all_s, own_s = time.process_time(), time.thread_time()
for _ in range(100):
    product(a, b.T)
all_s, own_s = time.process_time() - all_s, time.thread_time() - own_s
print(all_s - own_s < 0.25 * own_s + 0.01)
"""
    threads = {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **threads}
    )
    assert found.stdout.strip() == "True"
