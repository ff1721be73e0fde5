"""Formats of logs: Parquet files, text files and tables in memory, all read in blocks of rows."""

from aegis.logs.formats.base import LogFile
from aegis.logs.formats.csv import TextLog
from aegis.logs.formats.frames import FrameLog
from aegis.logs.formats.parquet import ParquetLog

__all__ = ["FrameLog", "LogFile", "ParquetLog", "TextLog"]
