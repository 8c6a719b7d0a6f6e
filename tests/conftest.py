"""Fixtures shared by all tests."""

import os
from pathlib import Path

import corpus_index
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


@pytest.fixture(scope="session")
def corpus(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of files that others made, those that come with installed packages among them."""
    return corpus_index.gather(fixtures / "corpus", tmp_path_factory.mktemp("corpus", numbered=False))
