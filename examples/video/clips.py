"""Clips of moving digits with captions."""

import random

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIDE, FRAMES = 32, 8
_DIGITS = "zero one two three four five six seven eight nine".split()
_MOVES = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
_SIZES = {"small": 12, "large": 20}
_SPEEDS = {"slowly": 1, "quickly": 2}  # cells of _CELL pixels
_CELL = 2


def two_parts(num_training, num_new):
    """Clips for training, and different ones that are not among them.

    Returns:
        (captions, videos, new captions, new videos); videos are float32 [clips, FRAMES, SIDE x SIDE].
    """
    draw = random.Random(0)
    training = [_drawn(draw) for _ in range(num_training)]
    draw, seen, new = random.Random(1), set(training), []
    while len(new) < num_new:
        clip = _drawn(draw)
        if clip not in seen:
            seen.add(clip)
            new.append(clip)
    parts = [zip(*map(_rendered, part), strict=True) for part in (training, new)]
    (captions, videos), (new_captions, new_videos) = parts
    return captions, np.array(videos), new_captions, np.array(new_videos)


def _drawn(draw):
    """(digit, move, size, speed, x, y); x and y are the cells where the digit begins."""
    digit, move, size, speed = (draw.choice(list(names)) for names in (_DIGITS, _MOVES, _SIZES, _SPEEDS))
    return digit, move, size, speed, draw.randrange(_cells(size)), draw.randrange(_cells(size))


def _cells(size):
    return (SIDE - _SIZES[size]) // _CELL + 1


def _rendered(clip):
    """(caption, frames float32 [FRAMES, SIDE x SIDE])."""
    digit, move, size, speed, x, y = clip
    frames, font = [], ImageFont.load_default(size=_SIZES[size])
    for number in range(FRAMES):
        image = Image.new("L", (SIDE, SIDE))
        # A digit that leaves on one side comes back on the other.
        moved = [start + number * _SPEEDS[speed] * way for start, way in zip((x, y), _MOVES[move], strict=True)]
        place = [_CELL * (cell % _cells(size)) for cell in moved]
        ImageDraw.Draw(image).text(place, str(_DIGITS.index(digit)), fill=255, font=font)
        frames.append(np.asarray(image, np.float32).ravel() / 255)
    return f"a {size} {digit} moves {move} {speed}", np.array(frames)
