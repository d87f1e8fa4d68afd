"""The items of a JSON array, one after the other, in memory for one: a trace may be larger than the memory.

The standard library's scanner reads each item (``JSONDecoder.raw_decode``); a part of the text is kept that holds it.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from fmha_cli.domain.reading import NotJson

CHUNK = 1 << 20
LARGEST = 64 << 20
"""Characters of the largest item."""
_NUMBER = ".eE+-"
"""What may follow in a number, as does the end of the text (an empty one)."""
_SPACE = re.compile(r"[\s,]*")


class JsonStream:
    """Reads JSON values from a stream of UTF-8.

    Args:
        stream: of bytes, at its start.

    Attributes:
        passed: the members of the object before the array.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.passed: dict[str, Any] = {}
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._scan = json.JSONDecoder().raw_decode
        self._text, self._place, self._before, self._over = "", 0, 0, False

    def items(self, key: str) -> Iterator[Any]:
        """The items of the array, or of the member ``key`` of the object, that the stream holds.

        Raises:
            NotJson: damaged or cut off; the message has the character.
            OSError, EOFError: from the stream.
        """
        if self._sign() == "{":
            self._take("{")
            while (found := self._value()) != key:
                if not isinstance(found, str):
                    raise self._fault("the name of a member is expected")
                self._take(":")
                self.passed[found] = self._value()
                if self._sign() == "}":
                    return
            self._take(":")
        self._take("[")
        while self._sign() != "]":
            yield self._value()

    def _fill(self) -> bool:
        """Read on; False at the end."""
        self._text, self._before, self._place = self._text[self._place :], self._before + self._place, 0
        while not self._over:
            data = self._stream.read(CHUNK)
            self._over = not data
            more = self._decode.decode(data, final=self._over)
            self._text += more
            if more:
                return True
        return False

    def _sign(self) -> str:
        """The next character that is neither space nor comma; empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._place)
            self._place = found.end() if found else self._place
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._fill():
                return ""

    def _take(self, sign: str) -> None:
        if self._sign() != sign:
            raise self._fault(f"{sign} is expected")
        self._place += 1

    def _value(self) -> Any:
        """The next value."""
        self._sign()
        while True:
            try:
                value, end = self._scan(self._text, self._place)
            except RecursionError:
                raise self._fault("nested too deeply") from None
            except ValueError as fault:
                if len(self._text) - self._place < LARGEST and self._fill():
                    continue
                why = "the file ends in the middle of a value" if self._over else str(fault).partition(":")[0]
                raise self._fault(why) from None
            cut = isinstance(value, int | float) and self._text[end : end + 1] in _NUMBER
            if cut and self._fill():
                continue  # a number at the end of the text may go on
            self._place = end
            return value

    def _fault(self, why: str) -> NotJson:
        return NotJson(f"{why}, character {self._before + self._place:,}")
