"""Language models: read from a header, a configuration or a name; predicted by phase, in tokens a second.

A :class:`~latcast.llm.decoder.LanguageModel` is facts: matrices with their tensor types, attention and recurrent layers.
:mod:`~latcast.llm.workload` counts what each phase reads and computes; :mod:`~latcast.llm.prices` prices that on a platform.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def read_facts(name: str) -> Any:
    """Return the JSON of one of this package's own files."""
    return json.loads(files(__name__).joinpath(name).read_text(encoding="utf-8"))
