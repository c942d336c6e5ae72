# SPDX-License-Identifier: GPL-2.0-only
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent
# Its own modules, and those that workloads share.
sys.path += [str(FOLDER), str(FOLDER.parent / "common")]
