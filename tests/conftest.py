"""Fixtures shared by all tests."""

import os
from pathlib import Path

import corpus_index
import pytest
from hypothesis import HealthCheck, settings

# No example is at fault for being slow: the machine may be busy. The gate draws the same examples wherever it runs.
settings.register_profile(
    "tests",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tests")


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of input files that belong to the tests."""
    return Path(__file__).parent.parent / "fixtures"


@pytest.fixture(scope="session")
def corpus(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of files that others made, those that come with installed packages among them."""
    return corpus_index.gather(fixtures / "corpus", tmp_path_factory.mktemp("corpus", numbered=False))
