"""A writer of small GDF 1.25 files, after the public description of the format; for tests of the reader."""

import struct
from pathlib import Path

import numpy as np


def write_gdf(path: Path, signal: np.ndarray, rate: int, events: list[tuple[int, int]]) -> None:
    """Write float signals (channels x times, microvolts) and events (sample counted from 0, type)."""
    channels, times = signal.shape
    assert times % rate == 0  # one record a second
    header = 256 * (channels + 1)
    fixed = b"GDF 1.25" + b"P subject".ljust(80) + b"R".ljust(80) + b"2005010100000000"
    fixed += struct.pack("<q", header) + bytes(8 + 8 + 8 + 20)
    fixed += struct.pack("<qIII", times // rate, 1, 1, channels)
    assert len(fixed) == 256
    variable = b"".join(f"EEG{c}".encode().ljust(16) for c in range(channels))
    variable += b" " * (80 * channels) + b"uV".ljust(8) * channels
    for low, kind in ((-100.0, "d"), (100.0, "d"), (-100, "q"), (100, "q")):
        variable += struct.pack(f"<{channels}{kind}", *([low] * channels))
    variable += b" " * (80 * channels)
    variable += struct.pack(f"<{channels}i", *([rate] * channels))
    variable += struct.pack(f"<{channels}i", *([16] * channels))  # float32
    variable += bytes(32 * channels)
    assert len(variable) == 256 * channels
    records = signal.astype("<f4").reshape(channels, -1, rate).transpose(1, 0, 2)
    table = struct.pack("<B3BI", 1, rate & 255, rate >> 8, 0, len(events))
    table += np.array([at + 1 for at, _ in events], "<u4").tobytes()
    table += np.array([kind for _, kind in events], "<u2").tobytes()
    path.write_bytes(fixed + variable + records.tobytes() + table)
