"""SPIR-V modules as lists of instructions: enough to put one function's body in the place of another's."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["Function", "Module", "instruction"]

NAME: Final = 5
TYPE_INT: Final = 21
TYPE_FLOAT: Final = 22
TYPE_POINTER: Final = 32
CONSTANT: Final = 43
FUNCTION: Final = 54
FUNCTION_PARAMETER: Final = 55
FUNCTION_END: Final = 56
FUNCTION_CALL: Final = 57
VARIABLE: Final = 59
LOAD: Final = 61
STORE: Final = 62
ACCESS_CHAIN: Final = 65
DECORATE: Final = 71
LABEL: Final = 248
RETURN: Final = 253
IN_FUNCTION: Final = 7  # the storage class of local variables
#: Instructions of function bodies without a result.
_NO_RESULT: Final = frozenset({STORE, FUNCTION_END, 246, 247, 249, 250, 251, 252, RETURN, 254, 255})

Instruction = tuple[int, tuple[int, ...]]


def instruction(opcode: int, *operands: int) -> Instruction:
    """Return an instruction."""
    return opcode, operands


def _result(item: Instruction) -> int | None:
    """Return the id that an instruction of a function defines."""
    opcode, operands = item
    if opcode in _NO_RESULT:
        return None
    return operands[0] if opcode == LABEL else operands[1]


@dataclass
class Function:
    """A function: its id and instructions, from ``OpFunction`` to ``OpFunctionEnd``."""

    id: int
    body: list[Instruction]

    def calls(self) -> set[int]:
        """Return the functions it calls."""
        return {operands[2] for opcode, operands in self.body if opcode == FUNCTION_CALL}

    def defined(self) -> set[int]:
        """Return the ids it defines."""
        return {found for item in self.body if (found := _result(item)) is not None}


class Module:
    """A module in parts: what comes before the functions, and the functions.

    Parameters
    ----------
    code : bytes

    Attributes
    ----------
    head : list of Instruction
    functions : dict of int to Function
    """

    def __init__(self, code: bytes) -> None:
        words = struct.unpack(f"<{len(code) // 4}I", code)
        self._header = list(words[:5])
        self.head: list[Instruction] = []
        self.functions: dict[int, Function] = {}
        place, current = 5, None
        while place < len(words):
            opcode, length = words[place] & 0xFFFF, words[place] >> 16
            item = (opcode, tuple(words[place + 1 : place + length]))
            place += length
            if opcode == FUNCTION:
                current = self.functions[item[1][1]] = Function(item[1][1], [])
            if current is None:
                self.head.append(item)
            else:
                current.body.append(item)
        self.names = {
            text: operands[0]
            for opcode, operands in self.head
            if opcode == NAME and (text := _text(operands))
        }

    def fresh(self) -> int:
        """Return a new id."""
        self._header[3] += 1
        return self._header[3] - 1

    def find(self, opcode: int, *operands: int) -> int:
        """Return the id of a declaration, making it if there is none; constants and types have it second or first."""
        for have, given in self.head:
            if have != opcode:
                continue
            if opcode == CONSTANT and (given[0], *given[2:]) == operands:
                return given[1]
            if opcode != CONSTANT and given[1:] == operands:
                return given[0]
        new = self.fresh()
        self.head.append(
            (opcode, (operands[0], new, *operands[1:]) if opcode == CONSTANT else (new, *operands))
        )
        return new

    def function(self, name: str) -> Function:
        """Return the function that the source calls `name`."""
        for text, target in self.names.items():
            if text.partition("(")[0] == name and target in self.functions:
                return self.functions[target]
        raise KeyError(name)

    def strip(self, entry: str) -> None:
        """Drop the functions that are not reached from `entry`, and what is said of ids that nothing defines."""
        wanted, todo = set(), [self.function(entry).id]
        while todo:
            found = todo.pop()
            if found not in wanted:
                wanted.add(found)
                todo += self.functions[found].calls()
        self.functions = {k: f for k, f in self.functions.items() if k in wanted}
        alive = {i for f in self.functions.values() for i in f.defined()} | _declared(self.head)
        self.head = [x for x in self.head if x[0] not in (NAME, DECORATE) or x[1][0] in alive]

    def code(self) -> bytes:
        """Return the module as bytes."""
        words = list(self._header)
        for opcode, operands in [*self.head, *(x for f in self.functions.values() for x in f.body)]:
            words += [(len(operands) + 1) << 16 | opcode, *operands]
        return struct.pack(f"<{len(words)}I", *words)


def _text(operands: tuple[int, ...]) -> str:
    return struct.pack(f"<{len(operands) - 1}I", *operands[1:]).partition(b"\0")[0].decode("utf-8", "replace")


def _declared(head: Iterable[Instruction]) -> set[int]:
    """Return the ids of types (defined first) and of constants and variables (second)."""
    found = set()
    for opcode, operands in head:
        if 19 <= opcode <= 39 or opcode == 11:  # types; imports of instruction sets
            found.add(operands[0])
        elif 41 <= opcode <= 52 or opcode in (1, VARIABLE):  # constants, also specialised; variables
            found.add(operands[1])
    return found
