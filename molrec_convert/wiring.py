"""Where a lower layer reaches what stands above it: a name, and the "module:function" the package put under it.

`molrec_convert/__init__.py` fills the names in, so they are there however a module of the package is imported; the
module behind one is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["provide", "provided"]

_PROVIDED: dict[str, str] = {}


def provide(name: str, where: str) -> None:
    """Put `"package.module:function"` under a name."""
    _PROVIDED[name] = where


def provided(name: str) -> Any:
    """What is under a name, loaded now."""
    module, _, attribute = _PROVIDED[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
