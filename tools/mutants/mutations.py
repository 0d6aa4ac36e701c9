"""Mutations of a Python source: each replaces one expression or statement."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from typing_extensions import override

_SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


@dataclass(frozen=True, slots=True)
class Mutation:
    """Replaces the bytes [begin, end) of a source; they begin in a line, counted from 1."""

    line: int
    begin: int
    end: int
    old: str
    new: str

    @override
    def __str__(self) -> str:
        """The change in words, in one line; a claim of equivalence quotes it."""
        return f"{' '.join(self.old.split())} -> {' '.join(self.new.split())}"


def mutations_of(source: str) -> list[Mutation]:
    """All mutations of a source, in the order of its text."""
    content = source.encode()
    starts = [0]
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutation] = []
    for node, new in _changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        found.append(Mutation(node.lineno, begin, end, content[begin:end].decode(), new))
    return sorted(found, key=lambda one: (one.begin, one.end, one.new))


def mutated(source: str, mutation: Mutation) -> str:
    """The source after a mutation that was found in it."""
    content = source.encode()
    assert content[mutation.begin : mutation.end].decode() == mutation.old
    return (content[: mutation.begin] + mutation.new.encode() + content[mutation.end :]).decode()


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Nodes at and below a node, each with the text that replaces it."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield test, f"(not ({ast.unparse(test)}))"
        case ast.comprehension(ifs=conditions):
            yield from ((one, f"(not ({ast.unparse(one)}))") for one in conditions)
        case ast.Compare() | ast.BoolOp():
            yield from ((node, text) for text in _operators(node))
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield node, str(value + 1)
        case ast.Return(value=ast.expr() as value):
            yield node, f"return {_other_than(value)}"
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield node, "pass"
        case _:
            pass
    for child in _below(node):
        yield from _changes(child)


def _operators(node: ast.Compare | ast.BoolOp) -> Iterator[str]:
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
        return
    for number, operator in enumerate(node.ops):
        swapped = [*node.ops[:number], _SWAPS[type(operator)](), *node.ops[number + 1 :]]
        yield f"({ast.unparse(ast.Compare(node.left, swapped, node.comparators))})"


def _other_than(value: ast.expr) -> str:
    match value:
        case ast.Constant(value=bool(given)):
            return str(not given)
        case ast.Constant(value=None):
            return "1"
        case _:
            return "None"


def _below(node: ast.AST) -> list[ast.AST]:
    """The children of a node in which a mutation can change what a program does.

    An asserted condition cannot be false, annotations and decorators have no bounds that run, and
    Python 3.11 has no positions inside f-strings.
    """
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.arg():
            return []
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [node.args, *node.body]
        case ast.AnnAssign():
            return [] if node.value is None else [node.value]
        case _:
            return list(ast.iter_child_nodes(node))
