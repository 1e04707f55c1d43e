# The C types under bodies.py.  `block` stays a bytes object: each index into it is checked.

cimport cython

@cython.locals(
    end=Py_ssize_t,
    position=Py_ssize_t,
    length="long long",
    record_end=Py_ssize_t,
    timestamp_delta="long long",
    offset_delta="long long",
    times=list,
    _="long long",
)
cpdef list scan_times(bytes block, long long count)

@cython.locals(
    end=Py_ssize_t,
    position=Py_ssize_t,
    length="long long",
    record_end=Py_ssize_t,
    _timestamp_delta="long long",
    offset_delta="long long",
    bodies=dict,
    _="long long",
)
cpdef dict take_bodies(bytes block, long long count, long long base_offset, frozenset wanted)

@cython.locals(
    output=bytearray,
    body=bytes,
    offset_delta="long long",
    folded="unsigned long long",
    size=int,
)
cpdef bytes join_bodies(object bodies)

@cython.locals(
    folded="unsigned long long", octet="unsigned long long", shift=int, value="long long"
)
cdef (long long, Py_ssize_t) _read(bytes block, Py_ssize_t position, Py_ssize_t end) except *

@cython.locals(folded="unsigned long long")
cdef void _append(bytearray output, long long value) except *
