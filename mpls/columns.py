"""Formats tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["columns"]


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, its columns two spaces apart."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in lines]
