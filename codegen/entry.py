"""One entry of native_functions.yaml, read and checked. Each error names the file, the line and the
operator."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable
from typing import Any

import yaml

from . import model, paths
from .model import Op

FIELDS = (
    "func", "autogen", "variants", "dispatch", "device_check", "device_guard", "tags", "family",
    "factory", "loop", "dtypes", "derivatives", "node", "number_nodes", "replay", "activation",
    "autocast", "numbers", "python", "reads", "short", "shortcut", "signature", "doc",
    "python_module", "scalars", "aliases", "batch", "nn",
)  # fmt: skip
# Parameters of functions of gt.nn.functional that no operator has.
_OF_NN = {"inplace", "reduce", "return_indices", "size_average", "training"}
VARIANTS = ("function", "method", "property", "inplace")


class EntryError(Exception):
    """A mistake in native_functions.yaml."""

    def __init__(self, line: int, where: str, complaint: str) -> None:
        super().__init__(f"{paths.YAML.name}:{line}: {where}: {complaint}")


class Entry:
    """One entry of the YAML, with the line of each of its fields."""

    def __init__(self, node: yaml.Node) -> None:
        self.line = node.start_mark.line + 1
        self.where = "entry"
        self.nodes: dict[str, yaml.Node] = {}
        if not isinstance(node, yaml.MappingNode):
            raise EntryError(self.line, self.where, "must be a mapping that begins with 'func'")
        for key, value in node.value:
            if key.value == "func" and isinstance(value, yaml.ScalarNode):
                self.where = value.value.partition("(")[0].partition(".")[0]
        for key, value in self.pairs(node):
            if key not in FIELDS:
                raise self.error(f"unknown key '{key}'{_suggest(key, FIELDS)}", value)
            self.nodes[key] = value

    def error(self, complaint: str, node: yaml.Node | None = None) -> EntryError:
        line = self.line if node is None else node.start_mark.line + 1
        return EntryError(line, self.where, complaint)

    def pairs(self, node: yaml.MappingNode) -> list[tuple[str, yaml.Node]]:
        """Return keys and values. Raise an error for a duplicate key, which YAML loaders do not
        report."""
        seen: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if key.value in seen:
                raise EntryError(
                    line,
                    self.where,
                    f"key '{key.value}' is given twice, first at line {seen[key.value]}",
                )
            seen[key.value] = line
        return [(key.value, value) for key, value in node.value]

    # -- fields ---------------------------------------------------------------------------------

    def op(self) -> Op:
        for field in ("func", "family", "doc"):
            if field not in self.nodes:
                raise self.error(f"'{field}' is missing")
        schema = self.schema()
        op = Op(
            schema=schema,
            line=self.line,
            family=self.word("family"),
            doc=self.text("doc").strip(),
            variants=self.variants(schema),
            dispatch=self.dispatch(),
            autogen=self.words("autogen"),
            factory=self.word("factory"),
            loops=self.words("loop"),
            dtypes=self.choice("dtypes", tuple(model.DTYPES)),
            derivatives=self.derivatives(schema),
            autocast=self.autocast(schema),
            signature=self.signature(schema),
            numbers=self.numbers(schema),
            python=self.python(schema),
            short=self.text("short"),
            shortcut=self.text("shortcut"),
            tags=self.tags(),
            device_check=self.flag("device_check", {"ExactSame": True, "NoCheck": False}),
            device_guard=self.flag("device_guard", {"True": True, "False": False}),
            python_module=self.choice("python_module", (*model.BY_HAND, *model.MODULES)),
            node=self.word("node"),
            number_nodes=self.number_nodes(schema),
            scalars=tuple(map(self.parsed, self.nodes["scalars"].value))
            if "scalars" in self.nodes
            else (),
            aliases=self.words("aliases"),
            replay=not self.flag("replay", {"False": True, "True": False}),
            activation=self.word("activation"),
            batch=self.text("batch"),
            nn=self.nn(schema),
        )
        for field in ("node", "number_nodes", "replay", "activation"):
            if field in self.nodes and not op.derivatives:
                raise self.error(f"'{field}' is of a derivative", self.nodes[field])
        if op.replay and len(op.arguments) > 1:
            raise self.error("'replay' is of a view with one argument", self.nodes["replay"])
        if op.dispatch and any(key in ("CPU", "CUDA") for key in op.dispatch) and op.is_implicit:
            raise self.error(
                f"'dispatch' must not mix {model.IMPLICIT} with backends", self.nodes["dispatch"]
            )
        return op

    def nn(self, schema: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
        node = self.nodes.get("nn")
        if node is None:
            return ()
        found, known = [], {argument.name for argument in schema.arguments} | _OF_NN
        for text in self.words("nn") if isinstance(node, yaml.SequenceNode) else (self.text("nn"),):
            name, _, rest = text.removesuffix(")").partition("(")
            taken = tuple(rest.split(", ")) if rest else ()
            if not name.isidentifier() or not {t.partition("=")[0] for t in taken} <= known:
                raise self.error(
                    f"'nn' must hold NAME(parameters after input) (got {text!r})", node
                )
            found.append((name, taken))
        return tuple(found)

    def schema(self) -> Any:
        return self.parsed(self.nodes["func"])

    def parsed(self, node: yaml.Node) -> Any:
        text = self.scalar(node, "func")
        try:
            schema = model.schema.parse(text)
        except model.schema.errors.SchemaError as error:
            raise self.error(str(error), node) from error
        if str(schema) != text:
            raise self.error(f"'func' must be spelled {str(schema)!r}", node)
        complaint = schema.check_kind()
        # check only `aten`, because PyTorch's in-place operators in other namespaces write to
        # `input`
        if complaint is not None and not schema.name.namespace:
            raise self.error(f"'func' {complaint} (got {text!r})", node)
        if schema.name.namespace not in ("", *model.OTHERS):
            listed = ", ".join(model.OTHERS)
            raise self.error(f"'func' must not name a namespace other than {listed}", node)
        return schema

    def variants(self, schema: Any) -> tuple[str, ...]:
        found = self.words("variants") or ("function",)
        for variant in found:
            self.known(variant, VARIANTS, "variants")
        if "function" not in found and not (
            schema.arguments and schema.arguments[0].name == "self"
        ):
            named = any(argument.name == "self" for argument in schema.arguments)
            if not named:
                raise self.error("a method must have an argument 'self'", self.nodes["variants"])
        return found

    def dispatch(self) -> dict[str, str] | None:
        node = self.nodes.get("dispatch")
        if node is None:
            return None
        if not isinstance(node, yaml.MappingNode):
            raise self.error("'dispatch' must map keys to names in native/", node)
        known = _dispatch_keys()
        found: dict[str, str] = {}
        for keys, value in self.pairs(node):
            for key in keys.split(","):
                key = key.strip()
                if key not in known:
                    raise self.error(f"unknown dispatch key '{key}'{_suggest(key, known)}", value)
                if key in found:
                    raise self.error(f"dispatch key '{key}' is given twice", value)
                found[key] = self.kernel(key, value)
        if sum(key in model.COMPOSITE for key in found) > 1:
            raise self.error("'dispatch' must have at most one composite key", node)
        return found

    def kernel(self, key: str, node: yaml.Node) -> str:
        """Return the name of a kernel in native/, or the expression that a composite returns."""
        text = self.scalar(node, f"dispatch.{key}")
        if not text.isidentifier() and (key not in model.COMPOSITE or not _is_call(text)):
            rule = "must be a name in native/, or at a composite key a call of an operator"
            raise self.error(f"'dispatch.{key}' {rule} (got '{text}')", node)
        return text

    def derivatives(self, schema: Any) -> dict[str, str]:
        tensors = [argument.name for argument in schema.arguments if argument.type.has_tensor]
        found = {}
        for names, value in self.mapping("derivatives", "arguments to Python expressions"):
            formula = self.scalar(value, f"derivatives.{names}")
            for name in names.split(", "):
                if name not in tensors:
                    raise self.error(
                        f"'derivatives' has no Tensor argument '{name}'{_suggest(name, tensors)}",
                        value,
                    )
                found[name] = formula
            try:
                ast.parse(formula, mode="eval")
            except SyntaxError as error:
                complaint = f"derivative of '{names}' is not a Python expression: {formula!r}"
                raise self.error(complaint, value) from error
            if (model.MASK in formula) != (", " in names):
                rule = f"name several arguments where the formula takes '{model.MASK}', else one"
                raise self.error(f"a key of 'derivatives' must {rule} (got '{names}')", value)
        if len(set(found.values())) > 1 and any(model.MASK in x for x in found.values()):
            rule = "'derivatives' must have one formula, or one for each argument"
            raise self.error(rule, self.nodes["derivatives"])
        return found

    def autocast(self, schema: Any) -> dict[str, str]:
        """Return a dict from device type to policy. A single word in the YAML applies to all device
        types."""
        node = self.nodes.get("autocast")
        if node is None:
            return {}
        if isinstance(node, yaml.MappingNode):
            found = {}
            for device, value in self.pairs(node):
                if device not in model.AUTOCAST_DEVICES:
                    suggestion = _suggest(device, model.AUTOCAST_DEVICES)
                    raise self.error(f"'autocast' has no device '{device}'{suggestion}", value)
                found[device] = self.policy(value)
        else:
            found = dict.fromkeys(model.AUTOCAST_DEVICES, self.policy(node))
        if schema.kind != "functional" or not any(a.type.has_tensor for a in schema.arguments):
            raise self.error("'autocast' must stand at a functional operator of tensors", node)
        takes_dtype = any(
            a.name == "dtype" and str(a.type) == "ScalarType?" for a in schema.arguments
        )
        if "fp32_set_opt_dtype" in found.values() and not takes_dtype:
            raise self.error(
                "'autocast' fp32_set_opt_dtype needs an argument 'ScalarType? dtype'", node
            )
        return found

    def signature(self, schema: Any) -> Any:
        """Return the Python signature, which may lack arguments of the schema or have other
        defaults."""
        if "signature" not in self.nodes:
            return None
        text, node = self.text("signature"), self.nodes["signature"]
        try:
            found = model.schema.parse(f"{schema.name}{text} -> {schema.returns[0]}")
        except model.schema.errors.SchemaError as error:
            raise self.error(str(error), node) from error
        names = [argument.name for argument in schema.arguments]
        for argument in found.arguments:
            if argument.name not in names:
                suggestion = _suggest(argument.name, names)
                raise self.error(f"'signature' has no '{argument.name}'{suggestion}", node)
        return found

    def numbers(self, schema: Any) -> tuple[str, ...]:
        found = self.words("numbers")
        tensors = tuple(a.name for a in schema.arguments if a.type.has_tensor and not a.is_write)
        for name in found:
            self.known(name, tensors, "numbers")
        return found

    def number_nodes(self, schema: Any) -> dict[str, str]:
        """Return a dict from operand to the name of the node class that is used if this operand is
        a number."""
        pairs = self.mapping("number_nodes", "operands to node classes")
        found = {name: self.scalar(value, "number_nodes") for name, value in pairs}
        operands = tuple(a.name for a in schema.arguments if a.type.has_tensor)
        for name in found:
            self.known(name, operands, "number_nodes")
        return found

    def python(self, schema: Any) -> dict[str, str]:
        """Return a dict from special method to the arguments that it passes to the operator, such
        as `__rsub__: other, self`."""
        found = {}
        for name, value in self.mapping("python", "Python's operators to arguments"):
            if not re.fullmatch("__[a-z]+__", name):
                raise self.error(f"'python' must map names like '__add__' (got '{name}')", value)
            found[name] = self.scalar(value, f"python.{name}")
            first, _, rest = found[name].partition(",")
            second = rest.partition(",")[0].strip()
            if (first, second) not in (("self", ""), ("self", "other"), ("other", "self")):
                complaint = f"'python.{name}' must begin with self and other (got '{found[name]}')"
                raise self.error(complaint, value)
        return found

    def policy(self, node: yaml.Node) -> str:
        word = self.scalar(node, "autocast")
        if word not in model.AUTOCAST_POLICIES:
            suggestion = _suggest(word, model.AUTOCAST_POLICIES)
            raise self.error(f"'autocast' has no policy '{word}'{suggestion}", node)
        return word

    def tags(self) -> tuple[str, ...]:
        tags = self.words("tags")
        for tag in tags:
            self.known(tag, model.TAGS, "tags")
        if "reads" in self.nodes:
            tags += (f"reads_{self.choice('reads', model.READS)}",)
        return tags

    # -- values ---------------------------------------------------------------------------------

    def scalar(self, node: yaml.Node, field: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or not node.value:
            raise self.error(f"'{field}' must be a text", node)
        return str(node.value)

    def text(self, field: str) -> str:
        """Return the text of a field, or "" if the entry does not have the field."""
        return self.scalar(self.nodes[field], field) if field in self.nodes else ""

    def word(self, field: str) -> str:
        text = self.text(field)
        if text and not text.isidentifier():
            raise self.error(f"'{field}' must be a name (got {text!r})", self.nodes[field])
        return text

    def words(self, field: str) -> tuple[str, ...]:
        """Return the words of a field, which contains one word, several words separated by commas,
        or a list."""
        node = self.nodes.get(field)
        if node is None:
            return ()
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.scalar(item, field) for item in node.value)
        return tuple(word.strip() for word in self.scalar(node, field).split(","))

    def mapping(self, field: str, what: str) -> list[tuple[str, yaml.Node]]:
        """Return the keys and values of a field, or [] if the entry does not have the field. what:
        what the field maps, for messages."""
        node = self.nodes.get(field)
        if node is not None and not isinstance(node, yaml.MappingNode):
            raise self.error(f"'{field}' must map {what}", node)
        return [] if node is None else self.pairs(node)

    def known(self, word: str, choices: tuple[str, ...], field: str) -> None:
        if word not in choices:
            raise self.error(
                f"'{field}' has no '{word}'{_suggest(word, choices)}", self.nodes[field]
            )

    def choice(self, field: str, choices: tuple[str, ...]) -> str:
        word = self.text(field)
        if field in self.nodes:
            self.known(word, choices, field)
        return word

    def flag(self, field: str, values: dict[str, bool]) -> bool:
        return values[self.choice(field, tuple(values))] if field in self.nodes else True


def _is_call(text: str) -> bool:
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(tree.value if isinstance(tree, ast.Subscript) else tree, ast.Call)


def _suggest(word: str, choices: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'" if close else ""


def _dispatch_keys() -> tuple[str, ...]:
    keys = paths.load_module("dispatch.keys")
    return (*(key.name for key in keys.RUNTIME_KEYS), *(key.name for key in keys.ALIAS_KEYS))
