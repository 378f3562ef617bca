"""A Hydra callback that leaves in each job's folder who ran it, and with how many threads."""

import json
import os
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback


class WorkerReport(Callback):
    """Writes `worker.json` from inside the process that ran the job."""

    def on_job_end(self, config: Any, job_return: Any, **_: Any) -> None:
        import torch

        told = {"pid": os.getpid(), "threads": torch.get_num_threads(), "parent": os.getppid()}
        Path(config.hydra.runtime.output_dir, "worker.json").write_text(json.dumps(told))
