"""Runs of components with parameters or wiring of their own: what is logged by readable name, and what comes back."""

import pytest

from experiments import load
from experiments.config.choices import choose
from experiments.training.scoring import score
from runs import SHORT, compose, lines, read, train

RUNS = {
    "quantized_weight": ("component.scale=learned", "component.grid=affine"),
    "spike": ("component.reset=zero",),
    "k_winners": ("component.k=2",),
    "learned_threshold": (),
    "lookup": (),
    "vector_quantizer": ("strategy=ste", "strategy.form=rotation", "component.entries=8"),
}


@pytest.mark.parametrize("component", RUNS)
def test_names_are_readable_and_complete_and_the_model_comes_back(tmp_path, component):
    folder = train(tmp_path / "run", f"component={component}", *RUNS[component], *SHORT).folder
    result = read(folder / "result.json")
    names = {key for key in result["metrics"] if key.startswith(("grad_norm/", "op/"))}
    assert not any("parametrizations" in name for name in names)
    assert len([name for name in names if name.startswith("grad_norm/")]) == 1 + len(list(load(folder).parameters()))
    assert len({name.split("/")[1] for name in names if name.startswith("op/")}) == 2
    assert result["never_trained"] == []
    model, last = load(folder, "last"), lines(folder)[-1]
    again = score(model, choose(compose(f"component={component}")).data.load().val)
    assert (again.accuracy, again.loss) == (last["accuracy/val"], last["loss/val"])
