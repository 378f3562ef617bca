"""`CONF`, the folder of the configuration's options."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
# In a wheel conf/ lies inside the package, in a checkout beside it.
CONF = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"
