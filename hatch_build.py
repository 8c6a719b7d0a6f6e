"""Put the native kernel into wheels and editable installs; called by the build backend, see pyproject.toml.

`MOLREC_CONVERT_TARGET` names another platform to build for, as in `molrec_convert/_kernel/build.py`.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNEL = Path(__file__).parent / "molrec_convert" / "_kernel"


def kernel_build() -> Any:
    """Return the module that builds the kernel, which nothing of the package has to be installed for."""
    spec = importlib.util.spec_from_file_location("molrec_kernel_build", KERNEL / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class KernelHook(BuildHookInterface[Any]):
    """Compile the kernel where there is a compiler; without one the package is plain Python."""

    def dependencies(self) -> list[str]:
        """Return what has to be installed for the build: a compiler from PyPI where the machine has none."""
        return kernel_build().requirements(os.environ.get("MOLREC_CONVERT_TARGET"))  # type: ignore[no-any-return]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernel, in place for an editable install, else into the wheel, which gets the platform's tag."""
        kernel = kernel_build()
        target = os.environ.get("MOLREC_CONVERT_TARGET")
        name = kernel.library_name(target)
        if version == "editable":
            kernel.build(KERNEL / name)
            return
        self._scratch = tempfile.TemporaryDirectory()
        made = kernel.build(Path(self._scratch.name) / name, target)
        if made is None:
            if target:
                raise RuntimeError(f"the kernel was not built for {target}")
            return
        build_data["force_include"][str(made)] = f"molrec_convert/_kernel/{name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{kernel.platform_tag(target)}"
