"""Output directories that appear whole or not at all. Knows nothing of what is in them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from systone.errors import ConfigError

__all__ = ["new_directory", "refuse_filled"]


def refuse_filled(out: Path) -> None:
    """Raises ConfigError when `out` exists and isn't an empty directory."""
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ConfigError(f"{out}: already there and not an empty directory")
    except OSError as error:
        raise ConfigError(f"{out}: can't be read ({error.strerror})") from None


@contextmanager
def new_directory(out: Path) -> Iterator[Path]:
    """A temporary directory beside `out` that becomes `out` when the block succeeds.

    Raises ConfigError when `out` exists and isn't an empty directory, or can't be made. On any
    failure nothing is left behind.
    """
    refuse_filled(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise ConfigError(f"{out}: can't be made ({error.strerror})") from None
    try:
        yield made
        made.chmod(0o755)  # mkdtemp's own mode shuts out every other user
        made.rename(out)  # replaces an empty directory, fails on one filled meanwhile
    except OSError as error:
        raise ConfigError(f"{out}: can't be written ({error.strerror})") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)  # gone already after the rename
