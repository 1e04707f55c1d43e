"""Avro payloads as columns."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from goqueue.schemas.avro import AvroSchema
from goqueue.schemas.avro.validation import AvroValidator
from goqueue.spark.values.assembly import Filled, assemble
from goqueue.spark.values.avro_columns import ColumnBuilder
from goqueue.spark.values.avro_program import Program
from goqueue.spark.values.avro_scan import Scanner
from goqueue.spark.values.layout import ROWS, Layout
from goqueue.spark.values.payloads import Bad, Payloads, Read

FIRST_ITEMS: Final = 1_024  # places of a list's items, until more are needed
REASONS_MAX: Final = 100  # of one column: to find one takes much longer than to read a value
UNTOLD: Final = "it is not what its schema says"
UNRESOLVED: Final = "it cannot be read with the reader's schema"


class AvroReader:
    """Reads with one schema what others wrote; these are compiled once."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._layout = Layout()
        self._root = ColumnBuilder(self._layout).build(schema.type, ROWS)
        self._programs: dict[int, Program] = {}
        self.type: Any = self._root.type

    def read(self, payloads: Payloads, writer: AvroSchema) -> Read:
        bad: dict[int, str] = {}
        found = self._scan(payloads, writer, bad)
        while found is None:  # a text that is not UTF-8, or a number with too many digits
            found = self._scan(payloads, writer, bad)
        return Read(found, Bad(bad))

    def _scan(self, payloads: Payloads, writer: AvroSchema, bad: dict[int, str]) -> Any:
        """The column; None if more rows were found bad, which are to be left out."""
        program = self._program(writer)
        starts, ends = payloads.starts.copy(), payloads.ends
        for row in bad:
            starts[row] = ends[row] + 1  # nothing can be read from there
        marks = np.zeros(len(starts), np.uint8)
        filled = self._fill(program, payloads.octets, starts, ends, marks)
        for row in np.flatnonzero(marks).tolist():
            if row not in bad:
                is_told = len(bad) < REASONS_MAX
                bad[row] = _reason(payloads, row, writer) if is_told else UNTOLD
        try:
            return assemble(self._root, filled)
        except pa.ArrowInvalid as error:
            self._find_bad(payloads, writer, program, bad, str(error))
            return None

    def _fill(self, program: Program, octets: Any, starts: Any, ends: Any, marks: Any) -> Filled:
        filled = Filled(octets, program.constants)
        filled.counts = np.zeros(self._layout.domain_count, np.int64)
        scanner = Scanner(
            np.array(program.code, np.int64).data,
            memoryview(octets).cast("B"),
            starts.data,
            ends.data,
            marks.data,
            self._layout.columns().data,
            self._layout.domains().data,
        )
        capacities = np.full(self._layout.domain_count, FIRST_ITEMS, np.int64)
        capacities[ROWS] = len(starts)
        row = 0
        while True:
            self._make_room(filled, capacities)
            scanner.give_room(
                filled.cells.data,
                filled.flags.data,
                filled.bases.data,
                filled.counts.data,
                capacities.data,
            )
            row = scanner.scan(row)
            if row == len(starts):
                return filled
            capacities[scanner.full] *= 4

    def _make_room(self, filled: Filled, capacities: Any) -> None:
        """For as many as the capacities say, with what is there already."""
        domains = self._layout.columns()[0::2]
        sizes = capacities[domains]
        bases = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64)
        cells, flags = np.empty(int(sizes.sum()), np.int64), np.zeros(int(sizes.sum()), np.uint8)
        for column, old in enumerate(filled.bases.tolist()):
            count = int(filled.counts[domains[column]])
            new = int(bases[column])
            cells[new : new + count] = filled.cells[old : old + count]
            flags[new : new + count] = filled.flags[old : old + count]
        filled.cells, filled.flags, filled.bases = cells, flags, bases

    def _find_bad(
        self,
        payloads: Payloads,
        writer: AvroSchema,
        program: Program,
        bad: dict[int, str],
        reason: str,
    ) -> None:
        """Row by row, which of them Arrow does not take."""
        before = len(bad)
        for row in range(len(payloads.starts)):
            if row in bad:
                continue
            starts, ends = payloads.starts[row : row + 1], payloads.ends[row : row + 1]
            marks = np.zeros(1, np.uint8)
            try:
                assemble(self._root, self._fill(program, payloads.octets, starts, ends, marks))
            except pa.ArrowInvalid as error:
                bad[row] = str(error)
        assert len(bad) > before, f"some row must be bad: {reason}"

    def _program(self, writer: AvroSchema) -> Program:
        program = self._programs.get(id(writer))
        if program is None:
            program = Program(writer.type, self._schema.type, self._root)
            self._programs[id(writer)] = program
        return program


def _reason(payloads: Payloads, row: int, writer: AvroSchema) -> str:
    problem = AvroValidator(writer.type).check(payloads.payload(row))
    return UNRESOLVED if problem is None else str(problem)
