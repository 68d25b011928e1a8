"""What every test with real clients starts from: the product, wrapped and unwrapped, and a site for it to reach."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from tests.fakes.product import Product
from tests.fakes.push_machine import PushMachine, at_work
from tests.fakes.site import Site, open_site

# Values of --sandbox. Other systems have no wrap yet.
SANDBOXES = {"wrapped": "on", "unwrapped": "off"} if sys.platform == "linux" else {"unwrapped": "off"}
# What there is nothing of without a wrap.
collect_ignore = [] if "wrapped" in SANDBOXES else ["test_wrap.py", "test_installed_programs.py"]
collect_ignore_glob = [] if "wrapped" in SANDBOXES else ["test_push*.py"]


@pytest.fixture(params=SANDBOXES.values(), ids=list(SANDBOXES))
def product(request: pytest.FixtureRequest, tmp_path: Path) -> Product:
    """The product, run with and without the wrap."""
    return Product(tmp_path / "machine", request.param)


@pytest.fixture
def wrapped(tmp_path: Path) -> Product:
    """The product, run with the wrap."""
    return Product(tmp_path / "machine", "on")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that clients are told to trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def site(product: Product, authority: Authority) -> Iterator[Site]:
    """The site, within the product's reach."""
    with open_site(product, authority) as opened:
        yield opened


@pytest.fixture
def machine(product: Product, tmp_path: Path) -> Iterator[PushMachine]:
    """The product with a forge, and a worktree of a repository there."""
    with at_work(product, tmp_path) as opened:
        yield opened


@pytest.fixture
def unwrapped_machine(tmp_path: Path) -> Iterator[PushMachine]:
    """The same, run without the wrap."""
    with at_work(Product(tmp_path / "machine", "off"), tmp_path) as opened:
        yield opened


@pytest.fixture
def wrapped_machine(wrapped: Product, tmp_path: Path) -> Iterator[PushMachine]:
    """The same, run with the wrap."""
    with at_work(wrapped, tmp_path) as opened:
        yield opened
