"""Whether measures of a gradient's truth predict how well training ends, over the runs of a study."""
