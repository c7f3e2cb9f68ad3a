"""Files of CSV that readers take for others where they are careless, and their cells by Python's own reader."""

from __future__ import annotations

import csv
import io

FILES = {
    "quotes": b'id,note\n1,"a 24"" screen"\n2,"say ""hi, you"""\n3,back\\slash\n4,"ends \\"\n',
    "line breaks": b'id,note\n10,"two\nlines"\n11,"carriage\r\nreturn"\n12,after\n',
    "byte order mark and CRLF": b"\xef\xbb\xbfid,note\r\n1,a\r\n\r\n2,b\r\n",
    "no last line break": b"id,note\n1,a",
    "carriage returns": b"id,note\r1,a\r2,b\r",
    "separators in quotes": b'id,note\n"1,5","x,"",y"\n',
    "other letters": "id,note\n1,Zoë 😀\n".encode(),
    "blanks": b"id,note\n 1 , a b \n",
    "quote in a plain field": b'id,note\n1,5" pipe\n',
    "leading zeros": b"id,note\n007,0x1F\n1e3,+4\n",
}


def cells_of(data: bytes) -> list[dict[str, str]]:
    """The cells of each row by the names of the columns."""
    text = data.decode("utf-8-sig")
    names, *found = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    return [dict(zip(names, row, strict=True)) for row in found]
