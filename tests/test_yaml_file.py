"""Configurations as files."""

from pathlib import Path

from omegaconf import OmegaConf

from experiments.tracking.yaml_file import save_yaml

CONTENT = {
    "words": ["yes", "1", "1e3", "null", "", "a: b", "é\u2028", "x" * 200, "two\nlines"],
    "numbers": [1, 1e-20, float("inf"), float("nan"), True, None],
    "reference": "${words}",
    "empty": {},
    "long": " ".join(["word"] * 60),
}


def test_the_text_is_the_one_of_omegaconf(tmp_path: Path) -> None:
    save_yaml(tmp_path / "ours.yaml", OmegaConf.create(CONTENT))
    OmegaConf.save(OmegaConf.create(CONTENT), tmp_path / "theirs.yaml")
    assert (tmp_path / "ours.yaml").read_bytes() == (tmp_path / "theirs.yaml").read_bytes()
    save_yaml(tmp_path / "plain.yaml", CONTENT)
    assert (tmp_path / "plain.yaml").read_bytes() == (tmp_path / "theirs.yaml").read_bytes()
