"""Kernels of a computation, counted by torch's profiler: its operations that call no other, less those without work."""

from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile

# Views, memory without content, and questions.
NAMES = """
alias as_strided detach detach_ empty empty_like empty_strided expand expand_as flatten is_nonzero item lift_fresh
narrow new_empty permute promote_types reshape resize_ resolve_conj resolve_neg result_type select slice split squeeze
t to transpose unbind unflatten unfold unsqueeze view view_as _has_compatible_shallow_copy_type _reshape_alias
_unsafe_view
"""
WITHOUT_WORK = {f"aten::{name}" for name in NAMES.split()}


def kernels(work: Callable[[], object]) -> list[str]:
    """The names of the operations in which `work` spends its time, in order."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        work()
    return [
        event.name
        for event in found.events()
        if event.name.startswith("aten::")
        and event.name not in WITHOUT_WORK
        and not any(child.name.startswith("aten::") and child.name not in WITHOUT_WORK for child in event.cpu_children)
    ]
