"""Record batches as Arrow columns, and back: what stands between the wire and Spark.

    decoder = Decoder("orders", 3, ("key", "value", "offset"))
    decoded = decoder.decode(raw, start=100, end=200, aborted=[], read_committed=True)
    decoded.batch                  a pyarrow.RecordBatch
    decoded.next_offset            where to go on

    encoder = Encoder("orders", partition_counts, compression="zstd")
    for topic, partition, records, raw in encoder.encode(batch):
        stamp(raw, producer_id=7, epoch=0, sequence=120, transactional=True)

No record ever becomes a Python object.  Nothing here does I/O.
"""

from goqueue.spark.columns.decoder import Decoded, Decoder, decode_batches
from goqueue.spark.columns.encoder import Encoded, Encoder, stamp
from goqueue.spark.columns.layout import BATCH_SCHEMA, COLUMN_TYPES
from goqueue.spark.columns.rows import check_columns

__all__ = [
    "BATCH_SCHEMA",
    "COLUMN_TYPES",
    "Decoded",
    "Decoder",
    "Encoded",
    "Encoder",
    "check_columns",
    "decode_batches",
    "stamp",
]
