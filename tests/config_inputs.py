"""Command lines that a careless, unlucky or hostile user could type: any option with any value for any key."""

from __future__ import annotations

from hypothesis import strategies as st

from experiments.config.keys import option_keys, options, settable_keys
from experiments.config.settings import GROUPS
from runs import CONF

NUMBERS = ["0", "1", "2", "3", "7", "16", "17", "-1", "0.5", "1e-3", "-0.0", "1e-310", "1e39", "1e400", "1" + "0" * 30]
ODD = ["nan", "inf", "-inf", "null", "true", "off", "abc", "''", "[]", "[1,2]", "{}", "{a:1}", "???", "${seed}", "${x}"]
TEXT = ["'<script>alert(1)</script>'", "'; rm -rf /'", "os.system", "../../etc/passwd", "\"'ä μ'\"", "'a,b'", "$(id)"]
NAMES = {
    "schedule": ["constant", "linear", "exponential", "cosine", "sigmoid"],
    "kernel": ["logistic", "normal", "uniform", "triangular", "cauchy", "fast_sigmoid"],
    "carrier": ["identity", "clipped", "sine", "power", "smooth_peak"],
    "range": ["fixed", "learned_step", "learned_clip"],
    "precision": ["float32", "float64", "bfloat16", "float16"],
}
LARGE = {"model.width", "model.depth", "data.size", "data.side", "data.channels", "data.classes", "component.k"}
OFFLINE = [name for name in options(CONF, "data") if name in ("digits", "fake", "mnist1d")]


def chosen(group: str) -> st.SearchStrategy[str]:
    return st.sampled_from(OFFLINE if group == "data" else options(CONF, group))


def keys_of(choice: dict[str, str]) -> list[str]:
    """What can be set where these options are chosen, and now and then what can't."""
    own = [key for group, option in choice.items() for key in option_keys(CONF, group, option)]
    root = [key for key in settable_keys(CONF) if "." not in key and key not in (*GROUPS, "experiment", "debug")]
    return [*own, *root]


def values_of(key: str) -> st.SearchStrategy[str]:
    named = NAMES.get(key.rpartition(".")[2], [])
    numbers = [number for number in NUMBERS if key not in LARGE or len(number) < 3]  # no gigabytes of weights
    kinds = [st.sampled_from(numbers), st.sampled_from(ODD), st.sampled_from(TEXT)]
    return st.one_of(st.sampled_from(named), *kinds) if named else st.one_of(kinds[0], kinds[0], *kinds)


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[str, ...]:
    """A choice of every group, and up to five overrides."""
    choice = {group: draw(chosen(group)) for group in GROUPS}
    keys = draw(st.lists(st.sampled_from(keys_of(choice)), max_size=5, unique=True))
    prefix = st.sampled_from(["", "", "", "+", "++", "~"])
    made = [draw(prefix) + key + "=" + draw(values_of(key)) for key in keys]
    return (*(f"{group}={option}" for group, option in choice.items()), *made)
