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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-examples", action="store_true", help="draw as many random examples as each test asks for")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let random tests draw a quarter of their examples, at least four, unless all are asked for."""
    if config.getoption("--all-examples"):
        return
    for test in {item.function for item in items if isinstance(item, pytest.Function)}:
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples > 4:
            test._hypothesis_internal_use_settings = settings(own, max_examples=max(own.max_examples // 4, 4))


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of input files that belong to the tests."""
    return Path(__file__).parent.parent / "fixtures"


@pytest.fixture(scope="session")
def corpus(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of files that others made, those that come with installed packages among them."""
    return corpus_index.gather(fixtures / "corpus", tmp_path_factory.mktemp("corpus", numbered=False))
