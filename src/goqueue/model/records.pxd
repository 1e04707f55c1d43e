# The C types under records.py.
#
# `octets` and the readers' `data` are bare pointers: each position is compared with `end` before
# it is read.  Arithmetic agrees with Python's, because every sum is checked to fit 64 bits first.

cimport cython

cdef long long _RECORD_BYTES_MIN
cdef long long _HEADER_BYTES_MIN
cdef long long _HEADERS_MAX
cdef long long _OFFSET_DELTA_MAX
cdef long long _INT64_MIN
cdef long long _INT64_MAX

cpdef list decode_records(
    object data,
    long long count,
    long long base_offset,
    long long base_timestamp,
    long long append_timestamp,
    frozenset wanted=*,
    long long last_offset_delta=*,
)

@cython.locals(
    raw=bytes,
    octets="const unsigned char *",
    end=Py_ssize_t,
    at=Py_ssize_t,
    record_end=Py_ssize_t,
    length="long long",
    offset="long long",
    timestamp_delta="long long",
    offset_delta="long long",
    delta_min="long long",
    delta_max="long long",
    timestamp="long long",
    header_count="long long",
    objects="long long",
    records=list,
)
cpdef tuple decode_slice(
    object data,
    long long count,
    long long base_offset,
    long long base_timestamp,
    long long append_timestamp,
    long long last_offset_delta,
    Py_ssize_t position=*,
    long long index=*,
    long long previous_delta=*,
    long long start_offset=*,
    long long objects_max=*,
    frozenset wanted=*,
)

@cython.locals(
    raw=bytes,
    octets="const unsigned char *",
    end=Py_ssize_t,
    position=Py_ssize_t,
    record_start=Py_ssize_t,
    record_end=Py_ssize_t,
    length="long long",
    _timestamp_delta="long long",
    offset_delta="long long",
    previous_delta="long long",
    entries=list,
    index="long long",
)
cpdef list scan_keys(object data, long long count, long long last_offset_delta=*)

@cython.locals(
    raw=bytes,
    array=bytearray,
    octets="const unsigned char *",
    position=Py_ssize_t,
    record_end=Py_ssize_t,
    length="long long",
    _timestamp_delta="long long",
    previous_delta="long long",
    runs=list,
    run_at=Py_ssize_t,
    run_length="long long",
    run_count="long long",
    index="long long",
)
cpdef list scan_prefixes(
    object data,
    long long count,
    long long size,
    bint of_keys,
    long long last_offset_delta=*,
    Py_ssize_t start=*,
    Py_ssize_t end=*,
)

@cython.locals(
    raw=bytes,
    octets="const unsigned char *",
    end=Py_ssize_t,
    position=Py_ssize_t,
    record_end=Py_ssize_t,
    length="long long",
    _timestamp_delta="long long",
    previous_delta="long long",
    indexes=list,
    index="long long",
)
cpdef list null_keys(
    object data, long long count, long long indexes_max, long long last_offset_delta=*
)

@cython.locals(output=bytearray, offset_delta="long long", previous_delta="long long")
cpdef bytes encode_records(object records, object base_offset=*, object base_timestamp=*)

@cython.locals(raw=bytes)
cpdef (long long, Py_ssize_t) read_varlong(object data, Py_ssize_t position) except *

@cython.locals(output=bytearray)
cpdef bytes write_varlong(long long value)

@cython.locals(byte="unsigned long long", folded="unsigned long long", shift=int)
cdef (long long, Py_ssize_t) _read_varlong(
    const unsigned char *data, Py_ssize_t position, Py_ssize_t end
) except *

@cython.locals(length="long long")
cdef (long long, Py_ssize_t) _read_length(
    const unsigned char *data, Py_ssize_t position, Py_ssize_t end
) except *

@cython.locals(
    length="long long",
    record_end=Py_ssize_t,
    timestamp_delta="long long",
    offset_delta="long long",
)
cdef (Py_ssize_t, long long, long long, Py_ssize_t, long long) _read_head(
    const unsigned char *data,
    Py_ssize_t position,
    Py_ssize_t end,
    long long previous_delta,
    long long delta_max,
) except *

@cython.locals(length="long long", headers=list, _="long long")
cdef tuple _read_headers(
    const unsigned char *data, Py_ssize_t position, Py_ssize_t end, long long count
)

@cython.locals(step="long long")
cdef bint _is_same(
    const unsigned char *data, Py_ssize_t first, Py_ssize_t second, long long length
) noexcept

cdef object _prefix(object data, Py_ssize_t position, long long length)

cdef void _check_count(long long count, Py_ssize_t size) except *
cdef void _check_base_offset(long long base_offset) except *
cdef void _check_filled(Py_ssize_t position, Py_ssize_t end) except *

cdef void _append_record(
    bytearray output,
    long long timestamp_delta,
    long long offset_delta,
    bytes key,
    bytes value,
    object headers,
) except *
cdef bytes _encode_headers(object headers)
cdef void _append_nullable(bytearray output, bytes data) except *

@cython.locals(folded="unsigned long long")
cdef void _append_varlong(bytearray output, long long value) except *

cdef long long _nullable_size(bytes data) except -1

@cython.locals(folded="unsigned long long", size="long long")
cdef long long _varlong_size(long long value)

@cython.locals(folded="unsigned long long")
cdef unsigned long long _fold(long long value)
