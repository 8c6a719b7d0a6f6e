"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference files and right values; tests that need it are skipped where it is absent."""
    where = os.environ.get("MOLREC_SHARED")
    if not where or not Path(where).is_dir():
        pytest.skip("MOLREC_SHARED does not name the folder of reference files")
    return Path(where)


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of input files that belong to the tests."""
    return Path(__file__).parent.parent / "fixtures"
