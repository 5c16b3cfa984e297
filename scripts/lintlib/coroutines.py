# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
"""Refuses conditions that GCC 12 miscompiles in coroutines; core/net/task.hpp tells of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintlib.tree import Report, Tree

CONDITION = re.compile(r"\b(if|while)\s*(?:constexpr\s*)?\(")
# Comments, strings and characters: what stands in them is no code. A quote between digits
# separates thousands.
NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^\s()\\]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


def code_only(text: str) -> str:
    """The text with blanks in place of what is no code; lines stay where they are."""
    return NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def conditions(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, keyword and condition of every `if` and `while`, without what stands before its `;`."""
    code = code_only(text)
    for found in CONDITION.finditer(code):
        depth, start = 1, found.end()
        for position in range(found.end(), len(code)):
            letter = code[position]
            if letter in "([{":
                depth += 1
            elif letter in ")]}":
                depth -= 1
                if depth == 0:
                    line = code.count("\n", 0, found.start()) + 1
                    yield line, found[1], code[start:position]
                    break
            elif letter == ";" and depth == 1:
                start = position + 1


def check_awaits(tree: Tree) -> Report:
    """No condition begins with co_await, negated, in parentheses, or as it is."""
    report = Report("awaits", files=len(tree.cxx))
    for name in tree.cxx:
        text = tree.read(name)
        if "co_await" not in text:
            continue
        for line, keyword, condition in conditions(text):
            if re.match(r"co_await\b", condition.lstrip(" \t\n!(")):
                report.problems.append(
                    f"{name}:{line}: {keyword} (co_await …) hangs or traps when GCC 12 compiles "
                    f"it; write {keyword} (const auto done = co_await …; !done)"
                    if keyword == "if"
                    else f"{name}:{line}: while (co_await …) hangs or traps when GCC 12 compiles "
                    "it; await into a variable inside the loop"
                )
    return report
