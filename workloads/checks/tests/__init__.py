import sys
from pathlib import Path

# Modules that workloads share.
sys.path.append(str(Path(__file__).parent.parent.parent / "common"))
