"""What a run logs of components with parameters or wiring of their own: every parameter and op, by readable name."""

import pytest

from experiments import load
from runs import SHORT, read, train

RUNS = {
    "quantized_weight": ("component.scale=learned", "component.grid=affine"),
    "spike": ("component.reset=zero",),
    "k_winners": ("component.k=2",),
    "learned_threshold": (),
    "lookup": (),
}


@pytest.mark.parametrize("component", RUNS)
def test_names_are_readable_and_complete(tmp_path, component):
    folder = train(tmp_path / "run", f"component={component}", *RUNS[component], *SHORT).folder
    result = read(folder / "result.json")
    names = {key for key in result["metrics"] if key.startswith(("grad_norm/", "op/"))}
    assert not any("parametrizations" in name for name in names)
    assert len([name for name in names if name.startswith("grad_norm/")]) == 1 + len(list(load(folder).parameters()))
    assert len({name.split("/")[1] for name in names if name.startswith("op/")}) == 2
    assert result["never_trained"] == []
