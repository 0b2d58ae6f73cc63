"""Every number `systone-mini` depends on: published limits and the constants of its read-outs.

The read-out constants were chosen on `evaluation/mini/dev.jsonl` alone. Similarities are cosines.
"""

from typing import Final

NAME: Final = "systone-mini"
RELEASE_DATE: Final = "2026-11-29"

# The encoder was trained on windows of this many pieces, [CLS] and [SEP] included.
WINDOW_PIECES: Final = 256
WINDOW_OVERLAP: Final = 32
MAX_TEXT_PIECES: Final = 8192  # of a state, or of one instruction, option, side or level text
MAX_REQUEST_PIECES: Final = 32768  # of a whole request, counted as usage is
MAX_SENTENCES: Final = 640  # above it, neighbouring sentences are read together

# Background of a text: mean of its largest cosines with the reference texts.
BACKGROUND_NEAREST: Final = 8

# Choice: score = CHOICE_SLOPE * softplus over the background, of this width.
CHOICE_SLOPE: Final = 24.0
EVIDENCE_WIDTH: Final = 0.08

# Noul: log-odds = NOUL_SLOPE * evidence; small, because only the ranking is real.
NOUL_SLOPE: Final = 1.0
SIDES_SLOPE: Final = 8.0
CONTRAST_GAIN: Final = 4.0
CONTRAST_THRESHOLD: Final = 0.2  # cosine of a question's key phrase with a contrast's own name
CONTRAST_NEAREST: Final = 3

# Score: as Choice, then smoothed over neighbouring levels.
SCORE_SLOPE: Final = 15.0
LEVEL_BLUR: Final = 0.15

# Questions of degree: the share of the contrast rises from 0 to 1 between these two nearnesses.
DEGREE_THRESHOLD: Final = 0.3
DEGREE_FULL: Final = 0.5
DEGREE_SLOPE: Final = 1.0
DEGREE_SPREAD: Final = 0.02  # standard deviation of the options' positions that still tells them

CACHE_TEXTS: Final = 4096
CACHE_BYTES: Final = 16 * 1024 * 1024
