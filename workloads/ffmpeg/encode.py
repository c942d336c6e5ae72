# SPDX-License-Identifier: GPL-2.0-only
"""encode.py COMMAND...: has an encoder work until the time is over.

The encoder writes a line for each frame that it has finished. The clock begins with the first
of them, so that start-up does not count; the latency of a frame is the time since the one before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "common"))
import metrics
import repeat


def encode(command: list[str], seconds: float) -> tuple[list[int], float]:
    """Latencies of the frames in microseconds, and the seconds that all of them took."""
    environment = os.environ | {"AV_LOG_FORCE_NOCOLOR": "1"}
    try:
        encoder = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment
        )
    except OSError as error:
        repeat.stop(f"run '{command[0]}'", error.strerror or str(error), "stage the workload first")
    assert encoder.stdout is not None
    latencies: list[int] = []
    begin = last = None
    for line in encoder.stdout:
        # Lines that begin with # describe the stream.
        if line.startswith(b"#"):
            continue
        now = time.monotonic()
        if begin is not None:
            latencies.append(round((now - last) * 1e6))
        else:
            begin = now
        last = now
        if last - begin >= seconds:
            break
    encoder.kill()
    status = encoder.wait()
    if not latencies or last - begin < seconds:
        repeat.stop(
            "encode",
            f"ffmpeg ended with status {status} too early",
            "see its words in the load's log",
        )
    return latencies, last - begin


def main(command: list[str]) -> None:
    """Prints the figures."""
    latencies, took_s = encode(command, repeat.duration_s())
    print(metrics.line(latencies, 0, took_s))


if __name__ == "__main__":
    main(sys.argv[1:])
