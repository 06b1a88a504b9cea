"""What the tests of budgets share: `tests/guard` is on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
