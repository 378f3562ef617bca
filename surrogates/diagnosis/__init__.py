"""Why a gradient is None, zero or NaN: what `surrogates.diagnose` is made of."""
