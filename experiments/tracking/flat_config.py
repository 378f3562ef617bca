"""Flattens and compares nested configurations by dotted keys."""

from collections.abc import Collection, Mapping

_ABSENT = object()


def flatten(config: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Turns `{"a": {"b": 1}}` into `{"a.b": 1}`, in the order of the configuration; an empty mapping stays a value."""
    flat: dict[str, object] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{name}."))
        else:
            flat[name] = value
    return flat


def differences(old: Mapping[str, object], new: Mapping[str, object], leave_out: Collection[str] = ()) -> list[str]:
    """Describes the differences, one sentence a dotted key, except the keys in `leave_out` and all keys below them."""
    before, after = flatten(old), flatten(new)
    keys = [key for key in {**before, **after} if not _within(key, leave_out)]
    sentences = (_difference(key, before.get(key, _ABSENT), after.get(key, _ABSENT)) for key in keys)
    return [sentence for sentence in sentences if sentence]


def _within(key: str, names: Collection[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in names)


def _difference(key: str, old: object, new: object) -> str:
    if old is _ABSENT:
        return f"{key} was not set, now {new!r}"
    if new is _ABSENT:
        return f"{key} was {old!r}, now not set"
    if _comparable(old) == _comparable(new):
        return ""
    return f"{key} was {old!r}, now {new!r}"


def _comparable(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_comparable(item) for item in value]
    if isinstance(value, float) and value != value:
        return "nan"
    # 1 == True, but bits=1 and bits=true are two configurations
    return (type(value) is bool, value)
