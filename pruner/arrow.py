"""Arrow's functions as they are: the stubs of pyarrow know too few argument types of these, and too few functions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

arrow: Any = pa
compute: Any = pc
