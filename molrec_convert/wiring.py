"""Names under which a lower layer reaches functions that stand above it.

`molrec_convert/__init__.py` registers "module:function" under a name, so the names are known however a module of the
package is imported; a module behind a name is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["register", "resolve"]

_REGISTERED: dict[str, str] = {}


def register(name: str, where: str) -> None:
    """Register `"package.module:function"` under a name."""
    _REGISTERED[name] = where


def resolve(name: str) -> Any:
    """Load and return what is registered under a name."""
    module, _, attribute = _REGISTERED[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
