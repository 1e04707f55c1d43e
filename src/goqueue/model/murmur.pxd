# The C types under murmur.py.  `octets` is a bare pointer; every position comes from `len(key)`.

cimport cython

cdef unsigned long long _MASK
cdef unsigned long long _MURMUR2_SEED
cdef unsigned long long _MURMUR2_FACTOR
cdef unsigned long long _MURMUR3_FACTOR_1
cdef unsigned long long _MURMUR3_FACTOR_2
cdef unsigned long long _MURMUR3_ADDEND
cdef unsigned long long _MURMUR3_FINAL_1
cdef unsigned long long _MURMUR3_FINAL_2

@cython.locals(
    octets="const unsigned char *",
    size=Py_ssize_t,
    whole=Py_ssize_t,
    position=Py_ssize_t,
    word="unsigned long long",
    hashed="unsigned long long",
)
cpdef unsigned long long murmur2(bytes key) except? 0

@cython.locals(
    octets="const unsigned char *",
    size=Py_ssize_t,
    whole=Py_ssize_t,
    position=Py_ssize_t,
    hashed="unsigned long long",
)
cpdef unsigned long long murmur3(bytes key) except? 0

cdef unsigned long long _murmur3_scramble(unsigned long long word) noexcept
cdef unsigned long long _rotate_left(unsigned long long word, int bits) noexcept

@cython.locals(word="unsigned long long")
cdef unsigned long long _word(
    const unsigned char *octets, Py_ssize_t position, Py_ssize_t size
) noexcept
