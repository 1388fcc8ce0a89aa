"""Lines of progress for work of many like items."""

import time

from keras_bert_app.training.reporting import duration

_SECONDS = 10.0


def reported(items, total, unit, log):
    """Yields the items; every ten seconds `log` is called with how many are done, how fast, and the time that is left.

    Args:
        items: iterable of `total` items. unit: what they are, such as "sentences", with what is done to them.
    """
    started = shown = time.monotonic()
    for count, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - shown >= _SECONDS:
            shown, rate = now, count / (now - started)
            speed = f"{rate:,.1f}/s" if rate >= 1 else f"{1 / rate:,.1f} s each"
            log(f"{count:,}/{total:,} {unit}  {speed}  ETA {duration((total - count) / rate)}")
