# SPDX-License-Identifier: GPL-2.0-only
"""Where containers listen: as pods do, all on one port, and each at an address of its own."""

from __future__ import annotations

import json

# What is asked of each.
QUESTION = json.dumps({"inputs": [round(0.01 * at, 2) for at in range(64)]}).encode()


def address(container: int) -> str:
    """An address of this machine alone."""
    high, low = divmod(container, 250)
    return f"127.8.{high}.{low + 1}"
