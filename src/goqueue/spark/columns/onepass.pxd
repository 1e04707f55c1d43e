# The C types under onepass.py.
#
# Memory views are indexed unchecked: `onepass.py` compares every position with an end first.
# Sums stay within 64 bits: positions are those of a buffer, and timestamps are checked.
# The small functions are inline, though Cython warns that a `.pxd` is not the place to say so:
# a memory view is handed over by value, which takes longer than what is done with it.

cimport cython

cdef Py_ssize_t _HEADER_BYTES_MIN
cdef long long _HEADERS_MAX
cdef long long _INT64_MAX
cdef long long _INT64_MIN
cdef Py_ssize_t _VECTOR_BYTES
cdef unsigned long long _HASH_MASK
cdef unsigned long long _HASH_SEED
cdef unsigned long long _HASH_FACTOR
cdef int _KEYS
cdef int _VALUES
cdef int _HEADERS
cdef Py_ssize_t _WIDTH

@cython.locals(
    rows=Py_ssize_t,
    row=Py_ssize_t,
    header_total=Py_ssize_t,
    block=Py_ssize_t,
    position=Py_ssize_t,
    end=Py_ssize_t,
    record_end=Py_ssize_t,
    count="long long",
    base_offset="long long",
    last_delta="long long",
    base_timestamp="long long",
    append_timestamp="long long",
    delta_min="long long",
    delta_max="long long",
    previous_delta="long long",
    _="long long",
    length="long long",
    timestamp_delta="long long",
    offset_delta="long long",
)
cpdef void scan(
    const unsigned char[::1] octets,
    const long long[::1] table,
    int depth,
    long long[::1] offsets,
    long long[::1] timestamps,
    int[::1] slots,
    int[::1] lists,
) except *

@cython.locals(
    total=Py_ssize_t,
    row=Py_ssize_t,
    position=Py_ssize_t,
    end=Py_ssize_t,
    header=Py_ssize_t,
    length="long long",
)
cpdef void scan_headers(
    const unsigned char[::1] octets,
    const int[::1] lists,
    const int[::1] starts,
    const int[::1] ends,
    int[::1] slots,
) except *

@cython.locals(position=Py_ssize_t, row=Py_ssize_t, length=Py_ssize_t)
cpdef void gather(
    const unsigned char[::1] octets,
    const int[::1] starts,
    const int[::1] lengths,
    int[::1] ends,
    unsigned char[::1] data,
) except *

@cython.locals(
    position=Py_ssize_t,
    batch=Py_ssize_t,
    first=Py_ssize_t,
    index=Py_ssize_t,
    row=Py_ssize_t,
    base_timestamp="long long",
    timestamp_delta="long long",
    key_start=Py_ssize_t,
    key_length=Py_ssize_t,
    value_start=Py_ssize_t,
    value_length=Py_ssize_t,
    header_start=Py_ssize_t,
    header_length=Py_ssize_t,
    size=Py_ssize_t,
)
cpdef void pack(
    const long long[::1] order,
    const long long[::1] bounds,
    const long long[::1] timestamps,
    const int[::1] key_offsets,
    const unsigned char[::1] keys,
    const unsigned char[::1] key_nulls,
    const int[::1] value_offsets,
    const unsigned char[::1] values,
    const unsigned char[::1] value_nulls,
    const int[::1] header_offsets,
    const unsigned char[::1] headers,
    unsigned char[::1] output,
    long long[::1] edges,
) except *

@cython.locals(
    row=Py_ssize_t,
    position=Py_ssize_t,
    end=Py_ssize_t,
    hashed="unsigned long long",
    word="unsigned long long",
    tail="unsigned long long",
)
cpdef void hash_keys(
    const int[::1] offsets, const unsigned char[::1] keys, unsigned int[::1] hashes
) except *

@cython.locals(word="unsigned long long")
cdef inline unsigned long long _word(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t size
) noexcept

@cython.locals(rounded=Py_ssize_t, index=Py_ssize_t)
cdef inline void _copy(
    unsigned char[::1] target,
    Py_ssize_t position,
    const unsigned char[::1] source,
    Py_ssize_t start,
    Py_ssize_t length,
) noexcept

@cython.locals(byte="unsigned long long", folded="unsigned long long", shift=int)
cdef inline (long long, Py_ssize_t) _read(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end
) noexcept

@cython.locals(folded="unsigned long long")
cdef inline Py_ssize_t _write(
    unsigned char[::1] output, Py_ssize_t position, long long value
) noexcept

@cython.locals(folded="unsigned long long", size=Py_ssize_t)
cdef inline Py_ssize_t _varint_size(long long value) noexcept

@cython.locals(folded="unsigned long long")
cdef inline unsigned long long _fold(long long value) noexcept
