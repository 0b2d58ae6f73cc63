"""A model's device time as a line over the tokens of a batch, learned from the batches it ran.

    seconds(tokens) = base_s + per_token_s * tokens

The fit is least squares with exponential forgetting, so it follows clocks, neighbours and traffic;
admission asks it what a queue will take. Seconds and tokens only; not thread-safe.
"""

from __future__ import annotations

__all__ = ["TimeCurve"]

MIN_SPREAD = 1e-3  # relative variance of token counts below which no slope can be told
MOST = 8.0  # times what it was expected to take: what a single batch may count for


class TimeCurve:
    """`decay`: weight of the past per new batch; 0.98 remembers about 50 batches.

    Nothing is assumed before the first batch: every estimate is 0.0, so nothing is refused on a
    guess. With batches of one size only, all time is laid on the tokens (larger requests then look
    dearer than they are, never cheaper). The line never falls: negative parts are set to zero.

    A machine put to sleep or a process stopped makes one batch endless and says nothing of the
    next, so none counts for more than `MOST` times its estimate. What stays slow is learned all the
    same: every such batch raises the next one's limit."""

    __slots__ = ("_decay", "_t", "_w", "_x", "_xt", "_xx")

    def __init__(self, decay: float = 0.98) -> None:
        self._decay = decay
        self._w = self._x = self._t = self._xx = self._xt = 0.0

    def observe(self, tokens: int, seconds: float) -> None:
        """One batch of `tokens` took `seconds` on the device."""
        if expected := self.estimate(tokens):
            seconds = min(seconds, MOST * expected)
        d, x = self._decay, float(tokens)
        self._w = self._w * d + 1.0
        self._x = self._x * d + x
        self._t = self._t * d + seconds
        self._xx = self._xx * d + x * x
        self._xt = self._xt * d + x * seconds

    def line(self) -> tuple[float, float]:
        """(base_s, per_token_s), both >= 0."""
        if self._w == 0.0:
            return 0.0, 0.0
        mean_x, mean_t = self._x / self._w, self._t / self._w
        spread = self._xx / self._w - mean_x * mean_x
        if mean_x == 0.0:
            return mean_t, 0.0
        if spread <= MIN_SPREAD * mean_x * mean_x:
            return 0.0, mean_t / mean_x
        slope = (self._xt / self._w - mean_x * mean_t) / spread
        if slope <= 0.0:
            return mean_t, 0.0
        base = mean_t - slope * mean_x
        if base < 0.0:
            return 0.0, mean_t / mean_x
        return base, slope

    def estimate(self, tokens: int, batches: int = 1) -> float:
        """Seconds that `tokens` in `batches` batches will take."""
        base_s, per_token_s = self.line()
        return base_s * batches + per_token_s * tokens
