"""Reader of native_functions.yaml: the entries and the overloads that they imply, as one Model."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from . import forms, model, paths
from .entry import Entry, EntryError
from .model import Model, Op


def load(path: Path = paths.YAML) -> Model:
    return loads(path.read_text(encoding="utf-8"))


@cache
def loads(text: str) -> Model:
    """Return the model of a YAML text. The model is cached, so each text is parsed only once.
    Raises: EntryError for the first mistake."""
    try:
        root = _compose(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise EntryError(mark.line + 1 if mark else 1, "yaml", str(error.problem)) from error
    if not isinstance(root, yaml.SequenceNode):
        raise EntryError(1, "yaml", "the file must be a list of entries")
    known: dict[tuple[str, str], Op] = {}
    for node in root.value:
        entry = Entry(node).op()
        overloads = [entry, *forms.derived(entry)]
        for op in (*overloads, *forms.forwarded(entry, overloads)):
            other = known.setdefault((op.namespace, op.name), op)
            if other is not op:
                raise EntryError(op.line, op.name, f"is defined already, at line {other.line}")
    ours = tuple(op for op in known.values() if op.namespace == model.NAMESPACE)
    read = Model(ours, tuple(op for op in known.values() if op.namespace != model.NAMESPACE))
    for op in read.ops:
        if "fp32_append_dtype" in op.autocast.values() and read.with_dtype(op) is None:
            complaint = (
                "'autocast' fp32_append_dtype needs an overload that ends in 'ScalarType dtype'"
            )
            raise EntryError(op.line, op.name, complaint)
    return read


def _compose(text: str) -> yaml.Node | None:
    """Parse the text with libyaml if PyYAML has it. libyaml takes a tenth of the time of PyYAML's
    Python parser. If libyaml fails, the Python parser parses the text again and reports the
    error."""
    if hasattr(yaml, "CSafeLoader"):
        try:
            return yaml.compose(text, Loader=yaml.CSafeLoader)
        except yaml.MarkedYAMLError:
            pass
    return yaml.compose(text, Loader=yaml.SafeLoader)
