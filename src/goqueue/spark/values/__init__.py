"""Values by their schemas as columns, and back: Avro, JSON and Protobuf.

    reader = ValueReader(text, schemas.find)       the schema to read with, and where others are
    found = reader.read(values, headers)           a pyarrow column of values
    found.column                                   what they are: mostly a struct
    found.bad                                      rows that are not what their schema says, and why

`framing.py` finds the schema that each value names.  No record becomes a Python object where that
can be helped: `avro_scan.py` is compiled, JSON goes through Arrow's parser.
"""
