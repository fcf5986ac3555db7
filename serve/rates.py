"""How often each key may ask: a bucket of tokens for each, filled evenly."""

import math
import time
from collections.abc import Callable

from lorikeet.serve.keys import Key


class Rates:
    """Counts requests by key. A key that has waited can spend a minute's worth at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # key's name → (tokens left, when that was)

    def wait_s(self, key: Key) -> int:
        """Take one request of the key's; 0 when it may go on, else the whole seconds to wait."""
        limit = key.requests_per_minute
        if limit is None:
            return 0
        now = self._clock()
        tokens, since = self._buckets.get(key.name, (float(limit), now))
        tokens = min(float(limit), tokens + (now - since) * limit / 60)
        if tokens < 1:
            self._buckets[key.name] = (tokens, now)
            return math.ceil((1 - tokens) * 60 / limit)
        self._buckets[key.name] = (tokens - 1, now)
        return 0
