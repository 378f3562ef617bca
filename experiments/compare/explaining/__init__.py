"""Why a strategy won or failed: curves, symptoms and the words for them."""
