"""Puts conf/ into the wheel, as experiments/conf; an editable install uses the folder beside the packages."""

from pathlib import Path

from setuptools.command.build_py import build_py


class BuildPy(build_py):
    """The build of the packages, and the options."""

    def run(self) -> None:
        """Copies the packages, then conf/."""
        super().run()
        if not self.editable_mode:
            for source in sorted(Path("conf").rglob("*.yaml")):
                target = Path(self.build_lib, "experiments", source)
                self.mkpath(str(target.parent))
                self.copy_file(str(source), str(target))
