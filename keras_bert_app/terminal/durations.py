"""Durations as people read them."""


def duration(seconds: float) -> str:
    """Formats a measured duration.

    Args:
        seconds: float. The duration.

    Returns:
        str, such as "1:02:03" or "2:03".
    """
    minutes, seconds = divmod(int(round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def rough_duration(seconds: float) -> str:
    """Formats an estimated duration in one unit.

    Args:
        seconds: float. The duration.

    Returns:
        str, such as "3.5 days" or "0.12 seconds".
    """
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.3g} seconds"
