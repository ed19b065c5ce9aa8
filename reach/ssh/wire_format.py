"""The data types of RFC 4251, section 5, read from bytes that a stranger may have sent. No I/O."""

from __future__ import annotations


class WireFormatError(ValueError):
    """The bytes end early or say what they can't mean."""


class Reader:
    """Takes one value after the other from the front of DATA."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self._data):
            raise WireFormatError("it ends too early")
        taken, self.position = self._data[self.position : end], end
        return taken

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def uint64(self) -> int:
        return int.from_bytes(self.take(8), "big")

    def byte(self) -> int:
        return self.take(1)[0]

    def boolean(self) -> bool:
        return self.byte() != 0

    def string(self) -> bytes:
        return self.take(self.uint32())

    def text(self) -> str:
        try:
            return self.string().decode("utf-8")
        except UnicodeDecodeError:
            raise WireFormatError("a name in it is not UTF-8") from None

    def names(self) -> tuple[str, ...]:
        """A name-list."""
        return tuple(name for name in self.string().decode("ascii", "replace").split(",") if name)

    @property
    def rest(self) -> bytes:
        return self._data[self.position :]


def uint32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def string(value: bytes | str) -> bytes:
    data = value.encode("utf-8") if isinstance(value, str) else value
    return uint32(len(data)) + data


def mpint(value: int) -> bytes:
    """A number that is not negative."""
    return string(value.to_bytes(value.bit_length() // 8 + 1, "big")) if value else string(b"")
