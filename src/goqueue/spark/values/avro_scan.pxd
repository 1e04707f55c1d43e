# The C types under avro_scan.py.
#
# Memory views are indexed unchecked: `avro_scan.py` compares every position with an end first, and
# programs come from `avro_program.py` alone.

cimport cython

cdef long long _LONG
cdef long long _BYTES
cdef long long _UNION
cdef long long _RECORD
cdef long long _NULL
cdef long long _DOUBLE
cdef long long _FLOAT
cdef long long _BOOLEAN
cdef long long _FIXED
cdef long long _ENUM
cdef long long _ARRAY
cdef long long _MAP
cdef long long _CONSTANT
cdef long long _CONSTANT_LIST
cdef long long _MEMBER
cdef long long _STEPS
cdef long long _SKIP_NUMBER
cdef long long _SKIP_BYTES
cdef long long _SKIP_FIXED
cdef long long _SKIP_ARRAY
cdef long long _SKIP_MAP
cdef long long _PLAIN
cdef long long _BAD
cdef long long _FULL
cdef long long _DEPTH_MAX
cdef long long _EMPTY_ITEMS_MAX
cdef long long _NO_DOMAIN
cdef unsigned long long _ALL_BITS

cdef class Scanner:
    cdef const long long[::1] code
    cdef const unsigned char[::1] octets
    cdef const long long[::1] starts
    cdef const long long[::1] ends
    cdef unsigned char[::1] bad
    cdef const long long[::1] columns
    cdef const long long[::1] domains
    cdef long long[::1] cells
    cdef unsigned char[::1] flags
    cdef const long long[::1] bases
    cdef long long[::1] counts
    cdef const long long[::1] capacities
    cdef readonly long long full
    cdef long long value
    cdef long long items_left

    @cython.locals(total=Py_ssize_t, position=Py_ssize_t)
    cpdef Py_ssize_t scan(self, Py_ssize_t row) except -9

    @cython.locals(domain=Py_ssize_t, index="long long", column="long long")
    cdef void _forget(self, Py_ssize_t row) noexcept

    @cython.locals(op="long long", place="long long", size=Py_ssize_t, index="long long",
                   child="long long", keys="long long")
    cdef Py_ssize_t _run(
        self, Py_ssize_t node, Py_ssize_t position, Py_ssize_t end, Py_ssize_t depth
    ) noexcept

    @cython.locals(place="long long", index="long long", child="long long", keys="long long")
    cdef Py_ssize_t _run_rare(
        self, long long op, Py_ssize_t node, Py_ssize_t position, Py_ssize_t end, Py_ssize_t depth
    ) noexcept

    @cython.locals(index="long long")
    cdef Py_ssize_t _steps(
        self, Py_ssize_t at, Py_ssize_t position, Py_ssize_t end, Py_ssize_t depth
    ) noexcept

    @cython.locals(count="long long", place="long long")
    cdef Py_ssize_t _blocks(
        self,
        Py_ssize_t item,
        long long child,
        long long keys,
        Py_ssize_t position,
        Py_ssize_t end,
        Py_ssize_t depth,
    ) noexcept

    @cython.locals(place="long long")
    cdef inline void _put(self, Py_ssize_t node, long long cell) noexcept

    @cython.locals(column="long long", place="long long", child="long long")
    cdef void _fill(self, Py_ssize_t first, Py_ssize_t last, long long domain) noexcept

    cdef inline Py_ssize_t _length(self, Py_ssize_t position, Py_ssize_t end) noexcept

    @cython.locals(byte="unsigned long long", folded="unsigned long long", shift=int)
    cdef inline Py_ssize_t _number(self, Py_ssize_t position, Py_ssize_t end) noexcept

    @cython.locals(word="unsigned long long", negative="long long")
    cdef inline long long _word(self, Py_ssize_t position, Py_ssize_t size) noexcept
