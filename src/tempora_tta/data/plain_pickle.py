"""Reading a pickle of plain values and numpy arrays without unpickling it.

Unpickling calls what the file names, with arguments from the file. Even where only numpy's own functions are allowed,
a made-up state of a dtype lets numpy read and write memory that is not its own. Here the few opcodes that such a file
needs are followed one by one; nothing in it is called, and arrays are made from their bytes.
"""

from __future__ import annotations

import math
import pickletools
from dataclasses import dataclass
from typing import Any

import numpy as np

_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")  # it has moved between numpy's versions
_KNOWN = {
    **dict.fromkeys(((module, "_reconstruct") for module in _MODULES), "array"),
    ("numpy", "ndarray"): "array type",
    ("numpy", "dtype"): "dtype",
    ("_codecs", "encode"): "bytes",
}
_DTYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")
_ORDERS = ("|", "<", ">", "=")


class Refused(ValueError):
    """The file holds something that plain values and arrays do not need."""


@dataclass(frozen=True)
class _Named:
    """Something that the file names."""

    meaning: str


@dataclass(eq=False)
class _DType:
    """An integer type under construction."""

    code: str
    order: str = "="


@dataclass(eq=False)
class _Array:
    """An array under construction."""

    value: np.ndarray | None = None


def loads(content: bytes) -> Any:
    """The value in a pickle; a dict's arrays are numpy's. Raises whatever it trips over in a damaged one."""
    value = _Reader().read(content)
    if isinstance(value, dict):
        return {key: one.value if isinstance(one, _Array) else one for key, one in value.items()}
    return value


class _Reader:
    """A stack, marks in it and a memo: what an unpickler has, without the power to call anything."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def read(self, content: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(content):
            name = opcode.name
            if name == "STOP":
                return self._stack.pop()
            if name in ("PROTO", "FRAME"):
                continue
            if name in _VALUES:
                self._stack.append(argument)
            elif name in ("STRING", "BINSTRING", "SHORT_BINSTRING"):  # Python 2's, which are bytes
                self._stack.append(_text(argument).encode("latin-1"))
            elif name in _CONSTANTS:
                self._stack.append(_CONSTANTS[name]())
            elif hasattr(self, f"_{name.lower()}"):
                getattr(self, f"_{name.lower()}")(argument)
            else:
                raise Refused(f"it holds {name}, which no CIFAR batch needs")
        raise Refused("its end is missing")

    # -- the stack ---------------------------------------------------------------------------------------------

    def _mark(self, _: None) -> None:
        self._marks.append(len(self._stack))

    def _since_mark(self) -> list[Any]:
        begin = self._marks.pop()
        values = self._stack[begin:]
        del self._stack[begin:]
        return values

    def _put(self, key: Any) -> None:
        self._memo[int(key)] = self._stack[-1]

    _binput = _long_binput = _put

    def _memoize(self, _: None) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _get(self, key: Any) -> None:
        self._stack.append(self._memo[int(key)])

    _binget = _long_binget = _get

    # -- containers --------------------------------------------------------------------------------------------

    def _tuple(self, _: None) -> None:
        self._stack.append(tuple(self._since_mark()))

    def _tuple_of(self, length: int) -> None:
        values = tuple(self._stack[-length:])
        del self._stack[-length:]
        self._stack.append(values)

    def _tuple1(self, _: None) -> None:
        self._tuple_of(1)

    def _tuple2(self, _: None) -> None:
        self._tuple_of(2)

    def _tuple3(self, _: None) -> None:
        self._tuple_of(3)

    def _list(self, _: None) -> None:
        self._stack.append(self._since_mark())

    def _dict(self, _: None) -> None:
        self._stack.append(_pairs(self._since_mark()))

    def _append(self, _: None) -> None:
        value = self._stack.pop()
        _expect(self._stack[-1], list).append(value)

    def _appends(self, _: None) -> None:
        values = self._since_mark()
        _expect(self._stack[-1], list).extend(values)

    def _setitem(self, _: None) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        _expect(self._stack[-1], dict)[key] = value

    def _setitems(self, _: None) -> None:
        pairs = _pairs(self._since_mark())
        _expect(self._stack[-1], dict).update(pairs)

    # -- arrays ------------------------------------------------------------------------------------------------

    def _global(self, argument: str) -> None:
        self._name(*argument.split(" ", 1))

    def _stack_global(self, _: None) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._name(module, name)

    def _name(self, module: str, name: str) -> None:
        if (module, name) not in _KNOWN:
            raise Refused(f"it asks for {module}.{name}, which no CIFAR batch needs")
        self._stack.append(_Named(_KNOWN[module, name]))

    def _reduce(self, _: None) -> None:
        arguments, function = _expect(self._stack.pop(), tuple), _expect(self._stack.pop(), _Named)
        if function.meaning == "array":
            self._stack.append(_Array())
        elif function.meaning == "dtype" and _text(arguments[0]) in _DTYPES:
            self._stack.append(_DType(_text(arguments[0])))
        elif function.meaning == "bytes" and _text(arguments[1]) in ("latin1", "latin-1"):
            self._stack.append(_text(arguments[0]).encode("latin-1"))
        else:
            raise Refused(f"its {function.meaning} is of a kind that no CIFAR batch has")

    def _build(self, _: None) -> None:
        state = _expect(self._stack.pop(), tuple)
        if isinstance(self._stack[-1], _DType):
            self._stack[-1].order = _text(state[1])
            if self._stack[-1].order not in _ORDERS or any(part is not None for part in state[2:5]):
                raise Refused("its arrays have parts with names, which no CIFAR batch has")
        else:
            _expect(self._stack[-1], _Array).value = _array(*state)


def _array(version: object, shape: Any, dtype: Any, fortran: Any, content: Any) -> np.ndarray:
    kind = np.dtype(_expect(dtype, _DType).order + dtype.code)
    lengths = tuple(_expect(length, int) for length in _expect(shape, tuple))
    if min(lengths, default=0) < 0 or math.prod(lengths) * kind.itemsize != len(_expect(content, bytes)):
        raise Refused(f"its array of shape {lengths} holds {len(content)} bytes")
    return np.frombuffer(content, kind).reshape(lengths, order="F" if fortran else "C")


def _pairs(values: list[Any]) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else _expect(value, str)


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise Refused(f"a {type(value).__name__} stands where another thing belongs")
    return value


_VALUES = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    )
)
_CONSTANTS: dict[str, Any] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
