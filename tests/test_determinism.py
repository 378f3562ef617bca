"""The same configuration gives the same numbers, bit for bit, for every component under every strategy."""

import itertools

import pytest

from experiments.hyperparameters import options
from runs import CONF, command, read, train

SHORT = ("max_steps=6", "model.width=8", "log_every=2", "eval_every=3")
STRATEGIES = options(CONF, "strategy")


def numbers(folder):
    return [(folder / name).read_bytes() for name in ("metrics.jsonl", "result.json")]


@pytest.mark.slow
@pytest.mark.parametrize("component", options(CONF, "component"))
def test_run_twice_every_cell_has_the_same_numbers(tmp_path, component):
    done = 0
    for strategy in STRATEGIES:
        own = (f"component={component}", f"strategy={strategy}", *SHORT)
        own = (*own, "model=cnn") if component == "hard_max_pool" else own
        first = train(tmp_path / strategy / "first", *own)
        second = train(tmp_path / strategy / "second", *own)
        assert first.status == second.status
        if first.status == "DONE":
            assert numbers(first.folder) == numbers(second.folder), strategy
            done += 1
        else:
            assert first.status == "NOT_APPLICABLE" or first.reason == second.reason
    assert done >= 2


@pytest.mark.nightly
def test_processes_of_joblib_give_what_one_process_gives(tmp_path):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    components = [name for name in options(CONF, "component") if name != "hard_max_pool"]
    own = ("-m", f"component={','.join(components)}", f"strategy={','.join(STRATEGIES)}", *SHORT)
    for name, launcher in (("one", "basic"), ("many", "joblib")):
        command(*own, f"hydra/launcher={launcher}", f"hydra.sweep.dir={name}", "workers=2", cwd=tmp_path)
    folders = [path.parent for path in (tmp_path / "one").rglob("result.json")]
    assert len(folders) >= 60
    for folder in folders:
        assert numbers(folder) == numbers(tmp_path / "many" / folder.relative_to(tmp_path / "one"))
    statuses = [read(path)["status"] for path in tmp_path.rglob("status.json")]
    assert set(itertools.filterfalse({"DONE", "NOT_APPLICABLE"}.__contains__, statuses)) == set()
