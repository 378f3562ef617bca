"""The same configuration gives the same numbers, bit for bit, for every component under every strategy."""

import pytest

from experiments.config.keys import options
from runs import CONF, command, read, representative, train

nightly = pytest.mark.nightly
SHORT = ("max_steps=6", "model.width=8", "log_every=2", "eval_every=3")
STRATEGIES = options(CONF, "strategy")
IN_CNN = ["hard_max_pool"]  # it needs images
COMPONENTS = [name for name in options(CONF, "component") if name not in IN_CNN]


def numbers(folder):
    return [(folder / name).read_bytes() for name in ("metrics.jsonl", "result.json")]


@pytest.mark.parametrize("whole", [pytest.param(False, marks=pytest.mark.slow), pytest.param(True, marks=nightly)])
@pytest.mark.parametrize("component", options(CONF, "component"))
def test_run_twice_every_cell_has_the_same_numbers(tmp_path, component, whole):
    """Nightly all cells; in the slow part those that stand for the others."""
    done = 0
    for strategy in [name for name in STRATEGIES if whole or representative(component, name)]:
        own = (f"component={component}", f"strategy={strategy}", *SHORT)
        own = (*own, "model=cnn") if component in IN_CNN else own
        first = train(tmp_path / strategy / "first", *own)
        second = train(tmp_path / strategy / "second", *own)
        assert first.status == second.status
        if first.status == "DONE":
            assert numbers(first.folder) == numbers(second.folder), strategy
            done += 1
        else:
            assert first.status == "NOT_APPLICABLE" or first.reason == second.reason
    assert done >= (2 if whole else 1)


@nightly
def test_processes_of_joblib_give_what_one_process_gives(tmp_path, record_property):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    compared = 0
    for components, model in ((COMPONENTS, "mlp"), (IN_CNN, "cnn")):
        own = ("-m", f"component={','.join(components)}", f"strategy={','.join(STRATEGIES)}", f"model={model}", *SHORT)
        for name, launcher in (("one", "basic"), ("many", "joblib")):
            command(*own, f"hydra/launcher={launcher}", f"hydra.sweep.dir={model}/{name}", "workers=2", cwd=tmp_path)
        one, many = tmp_path / model / "one", tmp_path / model / "many"
        folders = [path.parent for path in one.rglob("status.json")]
        assert len(folders) == len(list(many.rglob("status.json"))) >= len(components)
        for folder in folders:
            status, other = read(folder / "status.json"), read(many / folder.relative_to(one) / "status.json")
            assert status["status"] == other["status"] in ("DONE", "NOT_APPLICABLE")
            if status["status"] == "DONE":
                assert numbers(folder) == numbers(many / folder.relative_to(one))
                compared += 1
    record_property("cells equal bit for bit", compared)
    assert compared >= 60
