"""numpy, which arrays alone need: an extra of the package, so that commands run under any Python."""
try:
    import numpy as np
except ImportError as absent:
    raise ImportError("fp4sim: arrays need numpy 1.22 or later: python3 -m pip install 'fp4sim[numpy]'") from absent

__all__ = ["np"]
