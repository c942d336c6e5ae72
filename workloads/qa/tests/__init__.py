import sys
from pathlib import Path

# The service's folder of modules has the shared ones in it.
sys.path.append(str(Path(__file__).parent.parent.parent / "common"))
